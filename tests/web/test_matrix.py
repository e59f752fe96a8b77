"""Who may read what: every role, object, endpoint and method, and every cell asserted.

The endpoints come from the URL map, so one that is added is in the matrix. What is refused
is refused with the same bytes, whether the run is not there or not the asker's.
"""

import uuid

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_ray import urls
from django_ray.readers import access
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = sorted(pattern.name for pattern in urls.urlpatterns)
OF_A_RUN = sorted(
    pattern.name
    for pattern in urls.urlpatterns
    if "<uuid:public_id>" in str(pattern.pattern)
)
SAFE = ("get", "head")
UNSAFE = ("post", "put", "patch", "delete", "options", "trace")
NEEDS = {"node": {"id": "1.layer0[part-000000]"}}
"""What an endpoint cannot be asked without."""


class OwnerBackend:
    """Grants the permission on executions of one queue to one name."""

    def authenticate(self, request, **credentials):
        return None

    def has_perm(self, user, perm, obj=None):
        return (
            perm == access.PERMISSION
            and obj is not None
            and user.is_active
            and user.username == "owner"
            and obj.queue_name == "owned"
        )


SEES = {
    "anonymous": (),
    "plain": (),
    "inactive root": (),
    "other permission": (),
    "owner": ("owned",),
    "holder": ("owned", "other"),
    "root": ("owned", "other"),
}
"""Which objects each role may see; `absent` is for nobody."""


@pytest.fixture
def clients(transactional_db, settings):
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.ModelBackend",
        "tests.web.test_matrix.OwnerBackend",
    ]
    users = {
        "plain": User.objects.create_user("plain"),
        "inactive root": User.objects.create_superuser("gone", is_active=False),
        "other permission": User.objects.create_user("changer"),
        "owner": User.objects.create_user("owner"),
        "holder": User.objects.create_user("holder"),
        "root": User.objects.create_superuser("root"),
    }
    for role, codename in (
        ("holder", "view_raytaskexecution"),
        ("other permission", "change_raytaskexecution"),
    ):
        permission = Permission.objects.get(codename=codename)
        users[role].user_permissions.add(permission)
    clients = {"anonymous": Client()}
    for role, user in users.items():
        clients[role] = Client()
        clients[role].force_login(user, "django.contrib.auth.backends.ModelBackend")
    return clients


@pytest.fixture
def objects(conn):
    """Public ids by what they are."""
    found = {"absent": uuid.uuid4()}
    for queue in ("owned", "other"):
        run = Published(conn, 3, 2)
        row = run.row
        row.queue_name = queue
        row.save(update_fields=["queue_name"])
        found[queue] = row.public_id
    return found


def said(answer):
    """Return all of an answer that anybody can see."""
    return answer.status_code, answer.content, sorted(answer.headers.items())


def test_the_matrix_covers_the_url_map():
    assert set(NAMES) - set(OF_A_RUN) == {"runs", "openapi", "list-page"}
    assert len(OF_A_RUN) == 12


@pytest.mark.parametrize("name", OF_A_RUN)
def test_who_may_not_see_a_run_gets_what_is_not_there(name, clients, objects):
    refusals = {method: set() for method in SAFE}
    for role, client in clients.items():
        for what, public_id in objects.items():
            address = reverse(name, args=[public_id])
            for method in SAFE:
                answer = getattr(client, method)(address, NEEDS.get(name))
                if what in SEES[role]:
                    # Under WSGI a stream is refused, so that the page polls.
                    expected = 204 if name == "stream" else 200
                    assert answer.status_code == expected, (role, what, method)
                    continue
                assert answer.status_code == 404, (role, what, method)
                refusals[method].add(str(said(answer)))
    assert {method: len(found) for method, found in refusals.items()} == {
        "get": 1,
        "head": 1,
    }


@pytest.mark.parametrize("name", NAMES)
def test_nothing_can_be_written_by_anybody_anywhere(name, clients, objects):
    answers = set()
    for client in clients.values():
        for public_id in objects.values() if name in OF_A_RUN else [None]:
            address = reverse(name, args=[public_id] if public_id else [])
            for method in UNSAFE:
                answer = getattr(client, method)(address)
                assert answer.status_code == 405
                answers.add(str(said(answer)))
    assert len(answers) == 1


def test_the_list_holds_what_a_role_may_see_and_nothing_else(clients, objects):
    for role, client in clients.items():
        answer = client.get(reverse("runs"))
        assert answer.status_code == 200
        listed = {row["execution"]["id"] for row in answer.json()["items"]}
        assert listed == {str(objects[what]) for what in SEES[role]}, role


def test_the_schema_is_for_everybody(clients):
    answers = {client.get(reverse("openapi")).content for client in clients.values()}
    assert len(answers) == 1


@pytest.mark.parametrize("name", OF_A_RUN)
def test_what_is_asked_tells_nothing_to_whom_it_is_refused(name, clients, objects):
    for asked in (
        {"cursor": "x"},
        {"attempt": 1},
        {"attempt": 9},
        {"limit": 0},
        {"unheard": "of"},
    ):
        answers = set()
        for role in ("anonymous", "plain"):
            for public_id in objects.values():
                address = reverse(name, args=[public_id])
                answer = clients[role].get(address, {**NEEDS.get(name, {}), **asked})
                answers.add(str(said(answer)))
        assert len(answers) == 1, asked
