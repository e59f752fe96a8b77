"""The collector's picture of one run: records in, what changed out. Contract 4.1 to 4.10.

One lock of the collector guards every method. A publication takes a `Delta`, which holds
frozen values and lists of its own, so it is read without the lock; at most one is out at a
time, and it comes back by `settle` or by `restore`.
"""

from collections.abc import Sequence
from typing import assert_never

from django_ray.progress import session
from django_ray.progress.bequest import SCHEMA, Bequest
from django_ray.progress.delta import Delta
from django_ray.progress.growth import Batch, Declared
from django_ray.progress.overview import Overview
from django_ray.progress.population import Handed, Population
from django_ray.progress.standing import Standing
from django_ray.protocol import frames
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.records import EventItem
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import ReportingPolicy

HEARTBEAT_MS = 5_000
"""With nothing changed, how often a summary says that the collector lives."""

TALLIES = (
    "applied",
    "duplicate",
    "stale",
    "resent",
    "gap",
    "early",
    "unknown_node",
    "unknown_task",
    "retry_limit",
    "omitted",
    "ended",
    "unsupported",
)
"""The keys of `Model.tallies`: what became of each record, counted once. An `early` one
is kept until its node is registered, and applied then."""

_OfRun = frames.Declare | frames.Event | frames.Session | frames.End


class Model:
    """Everything known of one run, bounded whatever its size.

    Retained nodes keep their latest detail; all others two bytes. Under `summary` and
    `terminal_only` no node is retained and no stage kept.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._limits = settings.limits
        self._policy = settings.policy
        self._full = settings.policy is ReportingPolicy.full
        self._declared = Declared()
        self._overview = Overview(settings.limits, full=self._full)
        self._nodes = Population(settings.limits, self._overview, full=self._full)
        self._changed = False
        self._changed_ms = settings.started_at_ms
        self._observed_ms: int | None = None
        self._end: frames.End | None = None
        self._over = False
        self._snapshot: bytes | None = None
        self._session: bytes | None = None
        self._new_session = False
        self.tallies = dict.fromkeys(TALLIES, 0)

    def resume(self, standing: Standing) -> None:
        """Go on with a stored run, before the first record: see `standing`.

        Nothing is published until the coordinator's resync is complete. Of detail with a
        fault nothing is taken over: its nodes are counted, and what is stored of them stays.
        """
        if standing.fault is not None:
            self._full = False
            self._overview = Overview(self._limits, full=False)
            self._nodes = Population(self._limits, self._overview, full=False)
        self._overview.resume(standing)
        self._nodes.resume(standing)
        said = standing.summary
        if said is not None:
            self._changed_ms = said.changed_at_ms
            self._over = said.terminal is not None
            if said.session is not None:
                self._session = bytes(said.session)

    @property
    def ended(self) -> frames.End | None:
        """Return the end of the run once its coordinator has told it."""
        return self._end

    @property
    def is_over(self) -> bool:
        """Claim that the end is committed: nothing more will be published."""
        return self._over

    @property
    def changed_rows(self) -> int:
        """Count the rows the next delta holds at the most."""
        return self._nodes.changed_rows

    @property
    def counts(self) -> NodeCounts:
        """Return the seven counts of all nodes."""
        return self._nodes.counts

    @property
    def has_early(self) -> bool:
        """Claim that something is kept that was told of nodes not registered yet."""
        return self._nodes.has_early

    def apply_all(self, records: Sequence[frames.Record], now_ms: int) -> list[bytes]:
        """Apply the records of a frame; return the Ray tasks whose progress has no node yet.

        Each as by `apply`, reports of retained nodes at a fraction of its cost.
        """
        unknown: list[bytes] = []
        report, tallies, is_over = self._nodes.report, self.tallies, self._over
        applied = 0
        for record in records:
            if type(record) is frames.Progress and not is_over:
                target = record.target
                tally = report(target, record) if type(target) is int else None
                if tally == "applied":
                    applied += 1
                    continue
                if tally is not None:
                    tallies[tally] += 1
                    continue
            found = self.apply(record, now_ms)
            if found is not None:
                unknown.append(found)
        if applied:
            tallies["applied"] += applied
            self._changed = True
            self._changed_ms = now_ms
        return unknown

    def apply(self, record: frames.Record, now_ms: int) -> bytes | None:
        """Apply one record of a frame and count what became of it; never raise.

        Return the Ray task id of a progress whose node is not known yet: its producer has
        to send it again. All else is settled here, whatever its tally.
        """
        unknown: bytes | None = None
        if self._over:
            tally = "ended"
        elif isinstance(record, _OfRun):
            tally = self._apply_of_run(record)
        else:
            resumed = self._nodes.resumes
            tally = self._nodes.apply(record, now_ms)
            if tally == "unknown_task" and isinstance(record, frames.Progress):
                unknown = record.target if isinstance(record.target, bytes) else None
            if resumed and not self._nodes.resumes:
                # That the run is seen again is said at once.
                self._observed_ms = now_ms - HEARTBEAT_MS
        self.tallies[tally] += 1
        if tally == "applied":
            self._changed = True
            self._changed_ms = now_ms
        return unknown

    def changed(self, now_ms: int) -> bool:
        """Claim that a publication is due: a change, or five seconds without one.

        Before the first record there is nothing to say, after the committed end nothing
        more. Under `terminal_only` only the end is said.
        """
        only_end = self._policy is ReportingPolicy.terminal_only
        if self._over or self._nodes.resumes or (only_end and self._end is None):
            return False
        if self._changed or self._is_due(now_ms):
            return True
        seen = self._observed_ms
        return seen is not None and now_ms - seen >= HEARTBEAT_MS

    def take(self, now_ms: int) -> Delta | None:
        """Hand out what changed, in O(changed); None when no publication is due.

        What is applied from here on belongs to the next delta. `settle` or `restore` must
        follow before the next take.
        """
        if not self.changed(now_ms):
            return None
        # Whatever may fail comes before anything is handed out: then nothing is lost.
        overview = self._overview
        stages, events = overview.take()
        nodes = self._nodes
        (batch, ordinals, details) = nodes.take(now_ms, ended=self._end is not None)
        delta = Delta(
            taken_ms=now_ms,
            changed_ms=self._changed_ms,
            changed=self._changed,
            ordinals=ordinals,
            details=details,
            nodes=batch.nodes,
            stage_indexes=batch.stages,
            edges=batch.edges,
            waiting=nodes.waiting,
            counts=nodes.counts,
            declared=self._declared.total,
            discovered_edges=overview.edges,
            hosts=overview.hosts,
            ended_by_minute=overview.ended_by_minute(self._changed_ms),
            reasons=overview.reasons,
            stages=stages,
            events=events,
            end=self._end,
            bequest=self._bequest(),
            snapshot=self._snapshot if self._new_session else None,
            session=self._session,
        )
        self._changed = self._new_session = False
        return delta

    def _bequest(self) -> Bequest:
        """Return what a successor needs, as far as the model knows it."""
        overview, nodes = self._overview, self._nodes
        return Bequest(
            applied=0,
            edges_ended=None,
            hosts=overview.host_keys,
            nodes_ended=None,
            producer="",
            reasons=tuple(sorted(overview.reasons)),
            registered=nodes.registered,
            running=nodes.running,
            schema=SCHEMA,
            stages=overview.stage_keys,
        )

    def settle(self, delta: Delta) -> None:
        """Note that the publication of `delta` is committed."""
        self._observed_ms = delta.taken_ms
        if delta.nodes:
            self._nodes.settle(delta.taken_ms)
        self._over = delta.end is not None

    def restore(self, delta: Delta) -> None:
        """Take `delta` back: its publication failed, so all of it is due again."""
        self._changed |= delta.changed
        self._new_session |= delta.snapshot is not None
        self._overview.restore(
            stages=delta.stages is not None, events=delta.events is not None
        )
        batch = Batch(delta.nodes, delta.stage_indexes, delta.edges)
        self._nodes.restore(Handed(batch, delta.ordinals, delta.details))

    def _is_due(self, now_ms: int) -> bool:
        return self._nodes.is_due(now_ms, ended=self._end is not None)

    def _apply_of_run(self, record: _OfRun) -> str:
        match record:
            case frames.Declare():
                return self._apply_declare(record)
            case frames.Event():
                if not self._full:
                    return "omitted"
                at, kind, ordinal = record.at_ms, record.kind, record.ordinal
                event = EventItem(at, kind, ordinal, record.text)
                return "applied" if self._overview.tell(event) else "duplicate"
            case frames.End():
                if self._end is not None:
                    return "duplicate"
                self._end = record
                return "applied"
            case frames.Session():
                return self._apply_session(record)
            case _:
                assert_never(record)

    def _apply_session(self, record: frames.Session) -> str:
        """Keep the latest snapshot; of one that is none nothing is taken over."""
        if record.snapshot == self._snapshot:
            return "duplicate"
        told = session.compact(record.snapshot)
        if told is None:
            return "unsupported"
        self._snapshot, self._session = record.snapshot, told
        self._new_session = True
        return "applied"

    def _apply_declare(self, record: frames.Declare) -> str:
        if not record.call and not self._nodes.resumes:
            # The sum of calls long ago: only a successor has not heard of each.
            return "resent"
        added = self._declared.add(record.call, record.number)
        return "applied" if added else "resent"
