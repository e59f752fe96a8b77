"""Makes what a leaf says of itself a record: within bounds, without secrets, or refused.

A refusal never reaches the user's code: its reason stands once in the log and among the
run's events.
"""

import itertools
import logging
from collections.abc import Mapping
from typing import cast

from actors.reports import Reports, host, now_ms
from django_ray.errors import LimitExceeded, ProtocolError
from django_ray.protocol import frames, values
from django_ray.protocol.limits import V1

COUNTER_BITS = 40

logger = logging.getLogger(__name__)

_sequence = itertools.count(1)


class Voice:
    """One execution of a node, as it reports: known by its ordinal, or by its Ray task."""

    __slots__ = (
        "_attempt",
        "_refused",
        "_reports",
        "_target",
        "_try",
        "said",
    )

    def __init__(
        self, way: Reports, target: int | bytes, try_: int, attempt: int
    ) -> None:
        self._reports = way
        self._target = target
        self._try = try_
        self._attempt = attempt
        self._refused: set[str] = set()
        self.said: frames.Progress | None = None

    def report(
        self,
        current: object,
        total: object,
        message: object,
        metrics: Mapping[str, values.Metric] | None,
    ) -> None:
        """Report progress; what cannot be reported is refused by name, never raised.

        What a report leaves out is said again as it was: a later one replaces an earlier
        one wherever they meet on their way.
        """
        try:
            done, whole = values.progress(current, total)
        except ProtocolError as exc:
            self._refuse(exc.reason)
            return
        except Exception:
            # The numbers are of the user's classes, and so is what converting them raises.
            self._refuse("malformed")
            return
        before = self.said
        if before is not None:
            done, whole = _kept(done, whole, before)
        self.said = frames.Progress(
            target=self._target,
            invocation=0,
            try_=self._try,
            # Another attempt of Ray's runs in another process and must not be older.
            sequence=(self._attempt << COUNTER_BITS) + next(_sequence),
            at_ms=now_ms(),
            current=done,
            total=whole,
            message=self._message(message, before),
            metrics=self._metrics(metrics, before),
            host=host(),
        )
        self._reports.producer.progress(self.said)

    def _message(self, message: object, before: frames.Progress | None) -> str | None:
        known = None if before is None else before.message
        if message is None:
            return known
        # Its true type: a lazy object passes for text, and runs its own code when asked.
        if not issubclass(type(message), str):
            self._refuse("message_not_text")
            return known
        plain = str.__str__(cast(str, message))
        return self._reports.redactor.fit(plain, V1.message)

    def _metrics(
        self, metrics: object, before: frames.Progress | None
    ) -> dict[str, values.Metric] | None:
        known = None if before is None else before.metrics
        if metrics is None:
            return known
        try:
            redacted = self._reports.redactor.mapping(values.metrics(metrics))
            values.require_metrics(redacted)
        except LimitExceeded as exc:
            self._refuse(exc.boundary, str(exc))
            return known
        except ProtocolError as exc:
            self._refuse(exc.reason)
            return known
        except Exception:
            # The mapping is of the user's class.
            self._refuse("malformed")
            return known
        return redacted

    def _refuse(self, reason: str, text: str = "") -> None:
        """Tell once of each reason: in the log here, and as an event of the run."""
        if reason in self._refused:
            return
        self._refused.add(reason)
        text = text or reason
        logger.warning("A progress report is refused: %s", text)
        target = self._target
        self._reports.producer.event(
            frames.Event(
                at_ms=now_ms(),
                kind="report_refused",
                ordinal=target if isinstance(target, int) else None,
                text=text,
            )
        )


def _kept(
    done: values.Amount | None, whole: values.Amount | None, before: frames.Progress
) -> tuple[values.Amount | None, values.Amount | None]:
    """Return both amounts, the one not given as it was, unless that contradicts the other."""
    current = before.current if done is None else done
    total = before.total if whole is None else whole
    if current is not None and total is not None and current > total:
        return done, whole
    return current, total
