import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User

from django_ray.readers import access
from tests.app import stored

pytestmark = pytest.mark.django_db


class OwnerBackend:
    """Grants the permission on one object to one name, and nothing in general."""

    def authenticate(self, request, **credentials):
        return None

    def has_perm(self, user, perm, obj=None):
        return (
            perm == access.PERMISSION
            and obj is not None
            and user.username == "owner"
            and obj.queue_name == "default"
        )


def test_a_superuser_may_view():
    assert access.may_view(User.objects.create_superuser("root"), stored.make_row())


def test_an_inactive_superuser_may_not_view():
    user = User.objects.create_superuser("root", is_active=False)
    assert not access.may_view(user, stored.make_row())


def test_a_holder_of_the_model_permission_may_view():
    user = User.objects.create_user("reader")
    user.user_permissions.add(Permission.objects.get(codename="view_raytaskexecution"))
    assert access.may_view(user, stored.make_row())


@pytest.mark.parametrize("codename", ["change_raytaskexecution", "view_taskattempt"])
def test_another_permission_does_not_suffice(codename):
    user = User.objects.create_user("reader")
    user.user_permissions.add(Permission.objects.get(codename=codename))
    assert not access.may_view(user, stored.make_row())


def test_nobody_else_may_view():
    row = stored.make_row()
    assert not access.may_view(User.objects.create_user("someone"), row)
    assert not access.may_view(AnonymousUser(), row)


def test_a_backend_may_grant_one_object(settings):
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.ModelBackend",
        "tests.app.test_access.OwnerBackend",
    ]
    row = stored.make_row()
    owner = User.objects.create_user("owner")
    assert access.may_view(owner, row)
    row.queue_name = "other"
    assert not access.may_view(owner, row)
    assert not access.may_view(User.objects.create_user("someone"), row)
