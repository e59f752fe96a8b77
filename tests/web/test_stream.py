import asyncio
import threading
import uuid
from contextlib import ExitStack, aclosing, nullcontext

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import InternalError, connection
from django.test import AsyncClient, AsyncRequestFactory
from django.urls import reverse

from django_ray.web import api, bell, stream
from django_ray.web.bell import BELL, Bell, Waiter
from tests.app.published import Published

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 60.0
SHORT = 0.02
LISTENERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query = 'LISTEN django_ray'
"""


@pytest.fixture
def run(conn):
    return Published(conn, 3)


@pytest.fixture(autouse=True)
def silence():
    """After each test nobody waits, and the listening thread has ended."""
    yield
    BELL.join()


def everybody(user, execution):
    return True


def nobody_at(address):
    request = AsyncRequestFactory().get("/")
    request.META["REMOTE_ADDR"] = address
    return request


def request_of(user):
    request = AsyncRequestFactory().get("/")
    request.user = user
    return request


def event(revision):
    return b"event: revision\ndata: %d\n\n" % revision


async def until(events, wanted):
    """Wait for an event; others before it do not matter."""
    async with asyncio.timeout(LONG):
        async for said in events:
            if said == wanted:
                return
    raise AssertionError("It ended before.")


async def to_its_end(events):
    async with asyncio.timeout(LONG):
        return [said async for said in events]


@sync_to_async
def publish(run, ordinal):
    run.move([ordinal], "RUNNING")


def test_a_stream_begins_with_the_current_revision_and_rings_each_new_one(run, root):
    public_id = run.public_id

    async def scenario():
        asked = stream.rings(request_of(root), public_id, LONG, LONG)
        async with aclosing(asked) as events:
            assert await anext(events) == event(1)
            for revision in (2, 3):
                await publish(run, revision - 1)
                await until(events, event(revision))

    async_to_sync(scenario)()


def test_another_runs_publication_rings_nobody_here(conn, run, root):
    other = Published(conn, 3)
    public_id = run.public_id

    async def scenario():
        asked = stream.rings(request_of(root), public_id, LONG, LONG)
        async with aclosing(asked) as events:
            assert await anext(events) == event(1)
            await publish(other, 0)
            await publish(other, 1)
            await publish(run, 0)
            said = []
            while event(2) not in said:
                said.append(await anext(events))
            # The other run came to revision 3 meanwhile.
            assert event(3) not in said

    async_to_sync(scenario)()


def revoke(user):
    user.is_superuser = False
    user.save()


def close_account(user):
    user.is_active = False
    user.save()


def remove(user):
    User.objects.filter(pk=user.pk).delete()


@pytest.mark.parametrize("end", [revoke, close_account, remove])
def test_a_stream_ends_when_the_right_is_gone(run, root, end):
    public_id = run.public_id

    async def scenario():
        asked = stream.rings(request_of(root), public_id, SHORT, LONG)
        async with aclosing(asked) as events:
            assert await anext(events) == event(1)
            await sync_to_async(end)(root)
            said = await to_its_end(events)
            assert set(said) <= {stream.QUIET}

    async_to_sync(scenario)()


def test_a_stream_ends_with_the_session_it_was_opened_in(run, root, settings):
    # One that is all in its cookie lasts as long as its cookie.
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    address = reverse("stream", args=[run.public_id])

    async def scenario():
        client = AsyncClient()
        await client.aforce_login(root)
        answer = await client.get(address)
        assert answer.status_code == 200
        assert answer["Content-Type"] == "text/event-stream"
        request = answer.asgi_request
        asked = stream.rings(request, run_id, SHORT, LONG)
        async with aclosing(asked) as events:
            assert await anext(events) == event(1)
            await client.alogout()
            await to_its_end(events)

    run_id = run.public_id
    async_to_sync(scenario)()


def test_a_stream_ends_after_its_life(run, root):
    public_id = run.public_id

    async def scenario():
        asked = stream.rings(request_of(root), public_id, LONG, SHORT)
        assert (await to_its_end(asked))[0] == event(1)

    async_to_sync(scenario)()


def test_before_the_first_report_there_is_no_event(run, root):
    public_id = run.public_id
    run.retry()

    async def scenario():
        asked = stream.rings(request_of(root), public_id, LONG, SHORT)
        assert set(await to_its_end(asked)) == {stream.QUIET}

    async_to_sync(scenario)()


def test_who_may_not_see_the_run_gets_what_is_not_there(run, root):
    address = reverse("stream", args=[run.public_id])
    absent = reverse("stream", args=[uuid.uuid4()])

    async def scenario():
        refused = await AsyncClient().get(address)
        client = AsyncClient()
        await client.aforce_login(root)
        nowhere = await client.get(absent)
        assert refused.status_code == nowhere.status_code == 404
        assert refused.content == nowhere.content
        assert refused.headers == nowhere.headers

    async_to_sync(scenario)()


def test_head_opens_no_stream(run, root):
    address = reverse("stream", args=[run.public_id])

    async def scenario():
        client = AsyncClient()
        await client.aforce_login(root)
        answer = await client.head(address)
        assert (answer.status_code, answer.streaming) == (200, False)

    async_to_sync(scenario)()


def test_one_viewer_has_a_bounded_number_of_streams(run, root):
    address = reverse("stream", args=[run.public_id])
    public_id = run.public_id

    async def scenario():
        client = AsyncClient()
        await client.aforce_login(root)
        with ExitStack() as stack:
            for _ in range(stream.STREAMS):
                waiter = Waiter(public_id, str(root.pk))
                last = stack.enter_context(ExitStack())
                last.enter_context(BELL.waiting(waiter))
            assert (await client.get(address)).status_code == 429
            last.close()
            assert (await client.get(address)).status_code == 200

    async_to_sync(scenario)()


def test_those_who_are_nobody_are_told_apart_by_their_address(run, settings):
    settings.DJANGO_RAY = {"ACCESS_POLICY": "tests.web.test_stream.everybody"}
    public_id = run.public_id

    async def scenario():
        with ExitStack() as stack:
            for _ in range(stream.STREAMS):
                waiter = Waiter(public_id, api.asker_of(nobody_at("10.0.0.1")))
                stack.enter_context(BELL.waiting(waiter))
            for where, status in (("10.0.0.1", 429), ("10.0.0.2", 200)):
                answer = await stream.stream(nobody_at(where), public_id)
                assert answer.status_code == status

    async_to_sync(scenario)()


@sync_to_async
def listeners():
    with connection.cursor() as cursor:
        cursor.execute(LISTENERS)
        return [pid for (pid,) in cursor.fetchall()]


async def listening():
    async with asyncio.timeout(LONG):
        while not (found := await listeners()):
            await asyncio.sleep(0)
    return found


def test_a_process_listens_once_for_everybody_and_not_for_nobody(conn, root):
    runs = [Published(conn, 2) for _ in range(3)]
    ids = [run.public_id for run in runs]

    async def scenario():
        streams = [stream.rings(request_of(root), one, LONG, LONG) for one in ids]
        for events in streams:
            await anext(events)
        assert len(await listening()) == 1
        for run, events in zip(runs, streams, strict=True):
            await publish(run, 0)
            await until(events, event(2))
            await events.aclose()
        await sync_to_async(BELL.join)()
        assert await listeners() == []

    async_to_sync(scenario)()


def test_a_stream_that_waits_holds_no_connection(run, root):
    public_id = run.public_id

    async def scenario():
        asked = stream.rings(request_of(root), public_id, LONG, LONG)
        async with aclosing(asked) as events:
            assert await anext(events) == event(1)
            assert await sync_to_async(lambda: connection.connection)() is None

    async_to_sync(scenario)()


def test_a_run_that_rings_without_a_pause_does_not_outlast_the_right(run):
    async def scenario():
        waiter = Waiter(run_id, "somebody")
        waiter._wake(7)
        over = asyncio.get_running_loop().time()
        assert await stream._rung(waiter, over) is None
        assert await stream._rung(waiter, over + LONG) == 7

    run_id = run.public_id
    async_to_sync(scenario)()


def test_whatever_listening_raises_it_is_tried_again(run, root, monkeypatch, caplog):
    public_id = run.public_id
    hear, faults = BELL._hear, [InternalError("read-only")]

    def fail_once():
        if faults:
            raise faults.pop()
        hear()

    monkeypatch.setattr(BELL, "_hear", fail_once)
    monkeypatch.setattr(bell, "WAIT_SECONDS", SHORT)

    async def scenario():
        asked = stream.rings(request_of(root), public_id, LONG, LONG)
        async with aclosing(asked) as events:
            await anext(events)
            await publish(run, 0)
            await until(events, event(2))

    async_to_sync(scenario)()
    assert "Listening for publications failed" in caplog.text


def test_a_lost_connection_is_made_good(run, root):
    public_id = run.public_id

    async def scenario():
        asked = stream.rings(request_of(root), public_id, LONG, LONG)
        async with aclosing(asked) as events:
            await anext(events)
            (pid,) = await listening()
            await terminate(pid)
            await publish(run, 0)
            await until(events, event(2))
            assert await listening() != [pid]

    async_to_sync(scenario)()


@sync_to_async
def terminate(pid):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


@pytest.fixture
def pooled():
    """Django's own pool, of one connection that everybody gets in turn."""
    connection.close()
    options = connection.settings_dict["OPTIONS"]
    options["pool"] = {"min_size": 1, "max_size": 1}
    yield
    connection.close()
    connection.close_pool()
    del options["pool"]


def test_a_pooled_connection_no_longer_listens_when_it_is_given_back(
    run, pooled, monkeypatch
):
    monkeypatch.setattr(bell, "WAIT_SECONDS", SHORT)
    public_id = run.public_id
    connection.close()

    async def scenario():
        with BELL.waiting(waiter := Waiter(public_id, "somebody")):
            assert await waiter.wait() is None

    async_to_sync(scenario)()
    BELL.join()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_listening_channels()")
        assert cursor.fetchall() == []


def test_a_thread_that_ends_leaves_who_comes_then_to_the_next(monkeypatch):
    """Somebody comes just when the last one is gone and the connection is closed."""

    async def scenario():
        mine = Bell()
        late, ended = Waiter(uuid.uuid4(), "late"), []
        first, last = ExitStack(), ExitStack()

        def close():
            if not ended:
                ended.append(threading.current_thread())
                last.enter_context(mine.waiting(late))

        monkeypatch.setattr(bell, "connection", SilentConnection(close))
        early = Waiter(uuid.uuid4(), "early")
        first.enter_context(mine.waiting(early))
        await early.wait()
        first.close()
        await late.wait()
        await asyncio.to_thread(ended[0].join, LONG)
        assert not ended[0].is_alive()
        last.close()
        mine.join()

    async_to_sync(scenario)()


class SilentConnection:
    """A database connection on which nothing is ever said."""

    wrap_database_errors = nullcontext()

    def __init__(self, close):
        self.close = close
        self.connection = self

    def cursor(self):
        return nullcontext(self)

    def execute(self, statement):
        pass

    def notifies(self, timeout):
        return ()
