"""A worker process's way to the collectors of the runs it serves.

One producer a process and run, made at the run's first leaf here and given up when the
leaves of many other runs have come, or its collector is gone. The collector is looked up in
the producer's own thread, when there is something to send: a leaf waits for neither.
"""

import functools
import socket
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from actors import clock
from actors.link import CollectorHandle
from actors.producer import Producer
from django_ray.protocol import frames, text
from django_ray.protocol.frames import ProducerKind
from django_ray.protocol.limits import V1
from django_ray.protocol.redaction import Redactor

RUNS = 8
"""Producers a worker process keeps: past it that of the run unused longest is ended."""


FIRST_TRY = frames.FIRST_TRY
"""The try of every leaf."""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """What a leaf's process is told of its run."""

    run_id: str
    generation: int
    redact: tuple[str, ...]
    detailed_nodes: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Run)


def encode(run: Run) -> bytes:
    """Encode what every leaf of a run is given."""
    return _encoder.encode(run)


class Reports:
    """How this process reports to one run's collector."""

    def __init__(self, run: Run) -> None:
        self.detailed_nodes = run.detailed_nodes
        self._redact = run.redact
        self.producer = Producer(
            run_id=run.run_id,
            generation=run.generation,
            kind=ProducerKind.worker,
            producer=uuid.uuid4().bytes,
            handle=LateHandle(run.run_id, run.generation),
            limits=V1,
            clock=now_ms,
            tell=LateTeller(),
        )
        self.producer.start()

    @functools.cached_property
    def redactor(self) -> Redactor:
        """Return what takes secrets out, made for the first text that needs it."""
        return Redactor(self._redact)


Find = Callable[[str, int], CollectorHandle | None]


def _find(run_id: str, generation: int) -> CollectorHandle | None:
    # Here, because a leaf that reports nothing needs no handles.
    from actors import remote

    return remote.find_collector(run_id, generation)


class LateTeller:
    """Tells metrics, which are loaded in the producer's thread: a leaf waits for nothing."""

    def __init__(self) -> None:
        self._tell: Callable[[Mapping[str, int]], None] | None = None

    def __call__(self, counts: Mapping[str, int]) -> None:
        """Tell what a producer has counted."""
        if self._tell is None:
            from actors import metrics

            self._tell = metrics.of_producer()
        self._tell(counts)


class LateHandle:
    """Finds the collector when there is something to send, in the producer's thread."""

    def __init__(self, run_id: str, generation: int, find: Find = _find) -> None:
        self._run_id = run_id
        self._generation = generation
        self._find = find
        self._found = False
        self._handle: CollectorHandle | None = None

    def send(self, frame: bytes) -> object | None:
        """Start the call; without a collector it has failed already.

        None when there was one and is none any more.
        """
        if self._handle is None:
            self._handle = self._find(self._run_id, self._generation)
        if self._handle is not None:
            self._found = True
            return self._handle.send(frame)
        return None if self._found else _Lost()

    def poll(
        self, tickets: Sequence[object], timeout_s: float
    ) -> list[tuple[object, bytes | None]]:
        """Return the finished tickets with their answers."""
        lost = [ticket for ticket in tickets if isinstance(ticket, _Lost)]
        if lost or self._handle is None:
            return [(ticket, None) for ticket in lost]
        done = self._handle.poll(tickets, timeout_s)
        if any(answer is None for _, answer in done):
            # The collector may have begun again, as another actor of the same name.
            self._handle = None
        return done


class _Lost:
    """The ticket of a frame for which no collector was found."""


_runs: OrderedDict[bytes, Reports] = OrderedDict()
"""In order of their last use."""

_lock = threading.Lock()


def of(run: bytes) -> Reports:
    """Return this process's reports of a run, made at the run's first leaf here.

    Those whose collector is gone are forgotten: a leaf that comes all the same looks anew.
    """
    with _lock:
        known = _runs.get(run)
        if known is not None and not known.producer.gone:
            _runs.move_to_end(run)
            return known
        for other in [key for key, each in _runs.items() if each.producer.gone]:
            del _runs[other]
        while len(_runs) >= RUNS:
            _, ended = _runs.popitem(last=False)
            # It may wait for an answer: this leaf does not wait with it.
            threading.Thread(target=ended.producer.stop, daemon=True).start()
        made = _runs[run] = Reports(_decoder.decode(run))
        return made


@functools.cache
def host() -> str:
    """Return this machine's name as rows carry it."""
    return text.label(socket.gethostname(), V1.host)


now_ms = clock.steady()
"""Return the milliseconds since the epoch: one clock for all of this process's leaves."""
