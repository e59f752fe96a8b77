"""The worker's process: joins a Ray, or starts one, and works until a signal.

The first SIGTERM or Ctrl-C drains: nothing more is claimed, what runs is watched to its
end. The second leaves at once, and other workers adopt what it leaves: on a cluster the runs
go on, of a local Ray they are LOST.
"""

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from types import FrameType
from urllib.parse import quote, urlencode

from django.conf import ENVIRONMENT_VARIABLE
from django.db import connection
from django.db.utils import Error
from django.tasks import task_backends
from django.utils import timezone
from psycopg import pq

from actors import remote
from actors.local import Address, LocalRay, node_environment
from django_ray import conf
from django_ray.away import is_away
from django_ray.errors import ConfigurationError
from django_ray.tasks import transitions
from django_ray.tasks.backend import RayBackend
from django_ray.tasks.fleet import RayFleet
from django_ray.tasks.reconcile import reconcile
from django_ray.tasks.waking import Listener
from django_ray.tasks.worker import Terms, Worker

POLL_S = 0.1
IDLE_S = 0.5
RECONCILE_S = 60.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger(__name__)


def serve(
    *,
    address: str | None,
    cpus: int,
    queues: Collection[str],
    concurrency: int,
    say: Callable[[str], object],
) -> None:
    """Work at the Ray at `address`, on one of this machine's own when it is None."""
    settings = conf.current()
    stop, me = _Stop(), owner()
    with _signals(stop) as install:
        with _joined(address, cpus, say) as found:
            install()
            terms = Terms(
                owner=me,
                cluster=cluster(found),
                backends=our_backends(),
                queues=queues,
                concurrency=concurrency,
                lease=timedelta(seconds=settings.lease_seconds),
                redact=settings.redact,
            )
            say(f"Worker {me} serves {', '.join(sorted(queues))}.")
            with _reconciling():
                listener = Listener(queues)
                worker = Worker(terms, RayFleet(), timezone.now)
                _work(worker, listener.wait, stop, say)
        # After a local Ray has ended: nothing of its runs goes on when they are adopted.
        _leave(me, is_over=address is None)
    say("Worker has ended.")


def _leave(owner: str, *, is_over: bool) -> None:
    """Let other workers have at once what this one leaves behind; else the leases end."""
    try:
        left = transitions.leave(owner, is_over=is_over)
    except Error as exc:
        if not is_away(exc):
            raise
        logger.warning("PostgreSQL is away: the leases end by themselves.")
    else:
        if left:
            logger.warning("Left %s runs to other workers.", left)


def _work(
    worker: Worker,
    wait: Callable[[float], bool],
    stop: "_Stop",
    say: Callable[[str], object],
) -> None:
    def wait_or_leave(seconds: float) -> bool:
        is_rung = wait(seconds)
        if stop.is_leaving:
            # The signal's own interrupt came where Python drops what is raised.
            raise KeyboardInterrupt
        return is_rung

    stop.may_leave = True
    try:
        worker.run(lambda: stop.is_set, wait_or_leave, poll_s=POLL_S, idle_s=IDLE_S)
    except KeyboardInterrupt:
        say("Leaving what runs.")
    finally:
        stop.may_leave = False


def owner() -> str:
    """Return a name that no other worker process has or had."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(4)}"


def cluster(address: str) -> str:
    """Return by what name a lease knows the Ray at `address`, at most 128 characters.

    An address of the loop is each machine's own. Where workers spell one cluster's address
    differently, they adopt each other's runs later, and find them all the same.
    """
    host, _, _ = address.rpartition(":")
    is_own = host.startswith("127.") or host in ("localhost", "::1", "[::1]")
    return f"{socket.gethostname()}/{address}"[-128:] if is_own else address[-128:]


def our_backends() -> frozenset[str]:
    """Return the aliases of TASKS whose backend is ours."""
    return frozenset(
        alias
        for alias in task_backends.settings
        if isinstance(task_backends[alias], RayBackend)
    )


def database_url() -> str:
    """Return the default database as a URL, for the environment of a local node.

    Of OPTIONS it holds what libpq knows; the rest is for Django's own connections.
    """
    given = connection.settings_dict
    user, password = quote(given["USER"], safe=""), quote(given["PASSWORD"], safe="")
    own = {
        "dbname": given["NAME"],
        "user": given["USER"],
        "password": given["PASSWORD"],
    }
    own |= {"host": given["HOST"], "port": given["PORT"]}
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    # As in Django, what stands beside OPTIONS comes before what stands in it.
    where = {
        key: value
        for key, value in given["OPTIONS"].items()
        if key in known and not own.get(key) and isinstance(value, str | int)
    }
    where |= {key: own[key] for key in ("host", "port") if own[key]}
    # libpq takes a plus sign for itself.
    query = urlencode(where, quote_via=quote)
    login = f"{user}:{password}@" if password else f"{user}@"
    return f"postgresql://{login}/{quote(given['NAME'], safe='')}?{query}"


@contextlib.contextmanager
def _joined(
    address: str | None, cpus: int, say: Callable[[str], object]
) -> Iterator[str]:
    """Be a driver of the cluster, inside a local one where there is no other."""
    with contextlib.ExitStack() as stack:
        if address is None:
            say("Starting a Ray on this machine; this takes up to a minute.")
            local = LocalRay(num_cpus=cpus, environment=_node(), dashboard=True)
            started = stack.enter_context(local)
            stack.enter_context(authenticated(started))
            say(f"Ray dashboard: {started.dashboard}")
            if sys.stdout.isatty():
                # A credential: for who sits here, not for a log.
                say(f"    its token: {started.credentials['RAY_AUTH_TOKEN']}")
            address = started.ray
        found = _join(address)
        stack.callback(remote.disconnect)
        say(f"Joined Ray at {found}.")
        yield found


def _join(address: str) -> str:
    """Join a cluster and return where it answers; raise ConfigurationError when none does.

    The default, "auto", is Ray's own rule: RAY_ADDRESS, else the Ray on this machine.
    """
    settings_module = os.environ[ENVIRONMENT_VARIABLE]
    try:
        return remote.connect(
            address, settings_module=settings_module, log_to_driver=False
        )
    except ConnectionError as exc:
        raise ConfigurationError(
            f"{exc} Start one with --local, or name a cluster with --address or "
            "DJANGO_RAY['RAY_ADDRESS']; where it asks for a token, set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
        ) from exc


def _node() -> dict[str, str]:
    return node_environment(
        os.environ,
        database_url=database_url(),
        settings_module=os.environ[ENVIRONMENT_VARIABLE],
    )


@contextlib.contextmanager
def authenticated(started: Address) -> Iterator[None]:
    """Hold a local Ray's credentials in this process's environment."""
    before = {key: os.environ.get(key) for key in started.credentials}
    os.environ.update(started.credentials)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


class _Stop:
    """Flags that a signal may raise anywhere; an Event's lock may be held by then.

    Leaving is possible only while the worker works, so that no signal, however often it
    comes, keeps a local Ray from being stopped.
    """

    is_set = False
    is_leaving = False
    may_leave = False


@contextlib.contextmanager
def _signals(stop: _Stop) -> Iterator[Callable[[], None]]:
    """Let signals raise `stop`; what is yielded installs the handlers again.

    Ray installs a handler of its own for SIGTERM when it is joined.
    """

    def drain(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set and stop.may_leave:
            stop.may_leave = False
            stop.is_leaving = True
            raise KeyboardInterrupt
        stop.is_set = True

    def install() -> None:
        for number in SIGNALS:
            signal.signal(number, drain)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    install()
    try:
        yield install
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _reconciling() -> Iterator[None]:
    """End stray actors from a thread of its own, now and then, while inside."""
    done = threading.Event()

    def work() -> None:
        while True:
            _reconcile_once()
            if done.wait(RECONCILE_S):
                return

    thread = threading.Thread(target=work, name="django-ray-reconciler", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _reconcile_once() -> None:
    try:
        found = reconcile(RayFleet())
        if found.ended:
            logger.info("Ended %s actors of runs that are over.", found.ended)
    except Exception as exc:
        # The next pass sees the same actors again.
        if is_away(exc):
            logger.warning("PostgreSQL is away; reconciling later.")
        else:
            logger.exception("Reconciling failed.")
    finally:
        connection.close()
