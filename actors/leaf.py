"""Wraps a user's function, and knows run and ordinal inside it.

A wrapped function gets one small argument in front, the leaf's place, and returns one more
value behind, its status: so a node's true times, host and attempt cost no call, and nobody
has to fetch a value to know that it is there. On failure every return holds the error, and
the error carries the status, as far as it can be pickled.

A leaf that reports nothing and ends within its producer's interval sends nothing. The
status also carries the leaf's last report, unless it is known committed, and the preview of
its output: neither depends on how long its process lives. Contract 6, architecture 5.7.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from typing import cast

import msgspec
import ray
from msgspec.structs import replace
from ray.remote_function import RemoteFunction

from actors import internals, projector, reports
from actors.internals import Body, Options
from actors.reports import Reports, host, now_ms
from actors.voice import Voice
from django_ray.errors import GraphRefused, ProtocolError
from django_ray.protocol import frames, preview, values

STREAMING = -1
"""Stands for the number of returns of a streaming generator."""

BACKPRESSURE = "_generator_backpressure_num_objects"
TAG = "django_ray_status"
"""The attribute by which an error carries the status of its leaf."""

_KEPT_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")

logger = logging.getLogger(__name__)


class Status(msgspec.Struct, frozen=True, array_like=True):
    """What a leaf says of itself when it has ended: mostly 20 bytes, at most 8 KiB."""

    started_ms: int
    ended_ms: int
    attempt: int
    host: str
    report: frames.Progress | None = None
    preview: bytes | None = None


_encoder = msgspec.msgpack.Encoder()
_status_decoder = msgspec.msgpack.Decoder(Status)


def place(run: bytes, ordinal: int, try_: int) -> bytes:
    """Return a leaf's first argument. Plain bytes are what Ray passes on fastest."""
    return run + ordinal.to_bytes(4) + try_.to_bytes(4)


def decode_status(data: bytes) -> Status:
    """Parse the status a leaf returned, without report and preview if either is over."""
    status = _status_decoder.decode(data)
    if status.report is None and status.preview is None:
        return status
    try:
        if status.report is not None:
            frames.require(status.report)
        if status.preview is not None:
            values.require_preview(status.preview)
    except ProtocolError:
        # One such record would have the collector refuse the frame with all others.
        return replace(status, report=None, preview=None)
    return status


def status_of(error: BaseException) -> Status | None:
    """Return the status that a leaf's error carries, None where it carries none."""
    try:
        data = getattr(error, TAG, None)
    except Exception:
        # The error is the user's class: so is what it says of its attributes.
        return None
    if not isinstance(data, bytes):
        return None
    try:
        return decode_status(data)
    except msgspec.MsgspecError:
        return None


def returns(body: Body, options: Options) -> int:
    """Return how many values a function returns by its options, or STREAMING."""
    told = options.get("num_returns")
    generates = told is None and inspect.isgeneratorfunction(body)
    return number("streaming" if generates else told)


def number(num_returns: object) -> int:
    """Return the meaning of Ray's option: how many values, or STREAMING."""
    if num_returns == "dynamic":
        raise GraphRefused("num_returns='dynamic' is not supported; use 'streaming'")
    if num_returns == "streaming":
        return STREAMING
    return num_returns if isinstance(num_returns, int) else 1


def wrap(body: Body, options: Options) -> RemoteFunction:
    """Return the remote function that runs `body` as a leaf.

    Its last return is the status; of a stream it is the last item. Make it once for a
    function and its options: Ray exports each by itself.
    """
    several = returns(body, options)
    shown = preview.marked(body)
    streams = several == STREAMING
    call = _stream(body, shown) if streams else _task(body, several, shown)
    functools.update_wrapper(call, body, assigned=_KEPT_NAMES)
    # With it Ray would check a call's arguments against the user's signature.
    del call.__wrapped__  # type: ignore[attr-defined]
    vars(call).pop("__signature__", None)
    wrapped = {**options, "num_returns": "streaming" if streams else several + 1}
    return _remote(call, wrapped)


def plain(body: Body, options: Options) -> RemoteFunction:
    """Return the remote function that runs `body` unobserved, as its author made it.

    One that returns nothing has a return here all the same: without one nobody could tell
    that it has ended.
    """
    several = returns(body, options)
    told = {**options, "num_returns": "streaming" if several < 0 else max(1, several)}
    return _remote(body, told)


def _remote(body: Body, options: Options) -> RemoteFunction:
    # Nobody consumes a stream before its task has ended: it must not wait for that.
    kept = {key: options[key] for key in options if key != BACKPRESSURE}
    make = cast("Callable[..., Callable[[Body], RemoteFunction]]", ray.remote)
    return make(**kept)(body)


def _task(body: Body, returns: int, shown: str | None) -> Callable[..., object]:
    def call(place: bytes, /, *args: object, **kwargs: object) -> object:
        leaf = enter(place)
        try:
            return leaf.answer(body(*args, **kwargs), returns, shown)
        except BaseException as exc:
            leaf.mark(exc)
            raise
        finally:
            leaf.leave()

    return call


def _stream(body: Body, shown: str | None) -> Callable[..., object]:
    def call(
        place: bytes, /, *args: object, **kwargs: object
    ) -> Generator[object, None, None]:
        leaf = enter(place)
        try:
            returned = yield from leaf.iterate(body(*args, **kwargs))
        except BaseException as exc:
            leaf.mark(exc)
            raise
        finally:
            leaf.leave()
        yield leaf.status(shown, returned)

    return call


class Leaf(Voice):
    """One execution of a node in this process."""

    __slots__ = ("_ordinal", "_started_ms")

    def __init__(self, way: Reports, ordinal: int, try_: int) -> None:
        super().__init__(way, ordinal, try_, internals.attempt())
        self._ordinal = ordinal
        self._started_ms = now_ms()
        way.producer.running(ordinal, try_, self._started_ms, host())
        _current.set(self)

    def leave(self) -> None:
        """End the leaf in its process."""
        _current.set(None)
        self._reports.producer.ended(self._ordinal)

    def status(self, shown: str | None = None, output: object = None) -> bytes:
        """Return what the coordinator is told: the leaf ends now.

        `shown` is the path of the projector of its output, if there is one.
        """
        ended_ms = now_ms()
        way, said, seen = self._reports, None, None
        if self._ordinal < way.detailed_nodes:
            if self.said is not None and way.producer.holds_progress(self._ordinal):
                said = self.said
            if shown is not None:
                seen = projector.of(shown).preview(output, way.redactor)
        return _encoder.encode(
            Status(self._started_ms, ended_ms, self._attempt, host(), said, seen)
        )

    def mark(self, error: BaseException) -> None:
        """Let a leaf's error carry its status; an error that cannot goes without."""
        try:
            setattr(error, TAG, self.status())
        except Exception:
            # The error is the user's class: what it refuses must not take its place.
            logger.debug("An error does not take the status of its leaf.")

    def answer(self, value: object, returns: int, shown: str | None) -> object:
        """Return a function's values with its status behind them."""
        if returns == 1:
            return value, self.status(shown, value)
        if returns == 0:
            return self.status(shown, value)
        several = tuple(cast(Sequence[object], value))
        if len(several) != returns:
            raise ValueError(
                f"The task returned {len(several)} values, and num_returns is {returns}."
            )
        return *several, self.status(shown, several)

    def iterate(self, value: object) -> Generator[object, None, object]:
        """Yield a generator's items, with the leaf current while each is made.

        Return what the generator returns.
        """
        items = iter(cast(Generator[object, None, None], value))
        while True:
            _current.set(self)
            try:
                item = next(items)
            except StopIteration as end:
                return end.value
            finally:
                _current.set(None)
            yield item


_current: ContextVar[Leaf | None] = ContextVar("django_ray_leaf", default=None)


def current() -> Leaf | None:
    """Return the leaf of this thread; a helper thread of a leaf has none."""
    return _current.get()


def enter(place: bytes) -> Leaf:
    """Begin a leaf in this process. Its wrapper calls this, nobody else."""
    return Leaf(
        reports.of(place[:-8]),
        int.from_bytes(place[-8:-4]),
        int.from_bytes(place[-4:]),
    )
