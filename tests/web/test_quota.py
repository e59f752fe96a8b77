import pytest
from django.core.cache import cache

from django_ray.web import quota


@pytest.fixture(autouse=True)
def fresh(settings):
    cache.clear()
    settings.DJANGO_RAY = {"REQUESTS_PER_MINUTE": 2}
    yield
    cache.clear()


def test_so_many_are_answered_in_a_minute_and_no_more():
    now = 1_000 * quota.MINUTE
    assert [quota.wait("a", now + n) for n in range(4)] == [None, None, 58, 57]


def test_each_asker_is_counted_alone():
    now = 1_000 * quota.MINUTE
    assert [quota.wait(who, now) for who in "aabb"] == [None] * 4


def test_the_next_minute_begins_anew():
    now = 1_000 * quota.MINUTE + 59
    for _ in range(3):
        last = quota.wait("a", now)
    assert last == 1
    assert quota.wait("a", now + 1) is None


class Broken:
    """A cache whose server is down."""

    def add(self, *_arguments, **_words):
        raise ConnectionError("password=hunter2")


def test_a_cache_that_does_not_answer_refuses_nobody(monkeypatch, caplog):
    monkeypatch.setattr(quota, "cache", Broken())
    assert [quota.wait("a", 0) for _ in range(9)] == [None] * 9
    assert "ConnectionError" in caplog.text
    assert "hunter2" not in caplog.text


def test_an_asker_is_not_named_in_the_cache():
    quota.wait("somebody", 0)
    assert "somebody" not in str(cache._cache.keys())
