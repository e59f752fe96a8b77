"""What must hold of a race's execution after any order of its actors. Contract 5."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import OuterRef, Subquery

from cluster import runs
from cluster.races import MARKS, World
from django_ray.models.executions import RayTaskExecution, TaskAttempt
from django_ray.models.progress import NodeDetail, TopologyManifest, WorkflowRun
from django_ray.progress.delta import Fenced, Published
from django_ray.protocol import summary
from django_ray.protocol.vocabulary import NODE_STATES, WorkflowState
from django_ray.readers import context
from django_ray.readers import summary as reader
from django_ray.tasks.transitions import Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a reader found of the second attempt in one snapshot."""

    said: summary.Summary
    has_ended: bool
    run: WorkflowRun | None
    manifest_id: int | None
    rows: tuple[tuple[int, int, bytes], ...]

    def require_one_publication(self) -> None:
        """Fail where the summary, the run and the rows are not of one publication."""
        said, run = self.said, self.run
        if run is None:
            assert self.has_ended, "a run that goes on was removed"
            assert not self.rows, "rows without their run"
            return
        derived = said.terminal is not None
        assert said.revision == run.summary_revision + derived
        assert (said.detail_revision, said.topology_version) == (
            run.detail_revision,
            run.topology_version,
        )
        assert self.manifest_id == said.manifest_id
        assert len(self.rows) == run.detail_rows == said.retained_nodes
        assert sum(len(record) for *_, record in self.rows) == run.detail_bytes
        # Every publication of a race changes node 0.
        assert max(revision for _, revision, _ in self.rows) == run.detail_revision
        counts = dict.fromkeys(NODE_STATES, 0)
        for code, *_ in self.rows:
            counts[NODE_STATES[code]] += 1
        assert counts == {state: said.node_counts.of(state) for state in NODE_STATES}


def look(world: World) -> Seen:
    """Read the summary, the run with its topology, and its rows, in one snapshot."""
    run_id = world.held.identity.run_id
    published = TopologyManifest.objects.filter(run=OuterRef("pk"), published=True)
    runs_ = WorkflowRun.objects.annotate(manifest=Subquery(published.values("pk")))
    rows = NodeDetail.objects.filter(run__run_id=run_id).order_by("ordinal")
    with context.snapshot():
        reading = reader.read_trusted(world.public_id)
        assert reading is not None
        assert reading.summary is not None
        run = runs_.filter(run_id=run_id).first()
        return Seen(
            said=reading.summary,
            has_ended=reading.execution.has_ended,
            run=run,
            manifest_id=None if run is None else run.manifest,
            rows=tuple(
                (state, revision, bytes(record))
                for state, revision, record in rows.values_list(
                    "state", "detail_revision", "record"
                )
            ),
        )


class Judge:
    """Fails where an order of the actors left what must not be.

    Orders that left the same bytes after the same answers are judged once.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._earlier = _terminal_summary(world.earlier)
        self.judged: set[tuple[str, ...]] = set()

    def judge(self, outcomes: Mapping[str, object]) -> None:
        """Fail unless every invariant holds, and every actor was told the truth."""
        answers = {
            name: answer
            for name, answer in outcomes.items()
            if not isinstance(answer, Seen)
        }
        faults = [each for each in answers.values() if isinstance(each, Exception)]
        assert not faults, answers
        for mark in MARKS[:2]:
            assert isinstance(answers.get(mark, Fenced("")), Fenced), answers
        for seen in outcomes.values():
            if isinstance(seen, Seen):
                seen.require_one_publication()
        left = (self._world.fingerprint(), *map(repr, answers.items()))
        if left not in self.judged:
            self._judge_state(answers)
            self.judged.add(left)

    def _judge_state(self, answers: Mapping[str, object]) -> None:
        after = look(self._world)
        after.require_one_publication()
        if after.run is None:
            assert "removed" in answers.values(), "a run is gone and none was removed"
        self._judge_writers(answers, after)
        self._judge_end("lifecycle" in answers, after)
        for held in (self._world.earlier, self._world.held):
            if WorkflowRun.objects.filter(run_id=held.identity.run_id).exists():
                runs.require_sound(held.identity.run_id)
        assert _terminal_summary(self._world.earlier) == self._earlier

    def _judge_writers(self, answers: Mapping[str, object], after: Seen) -> None:
        """What was answered as published is there, and nothing else."""
        world, run = self._world, after.run
        published = [mark for mark in MARKS if isinstance(answers.get(mark), Published)]
        if run is None:
            return
        assert run.summary_revision == world.base.summary + len(published)
        assert run.writer_epoch == world.epoch + world.took_over
        said = [mark for mark in MARKS if f'"{mark}"'.encode() in after.rows[0][2]]
        assert said == published[-1:]

    def _judge_end(self, ended: bool, after: Seen) -> None:
        """Row, attempt, summary and run tell one end, or none."""
        row = RayTaskExecution.objects.get(pk=self._world.pk)
        attempt = TaskAttempt.objects.get(run_id=self._world.held.identity.run_id)
        if not ended:
            assert (row.state, attempt.terminal_summary) == ("RUNNING", None)
            assert after.said.terminal is None
            return
        assert row.state == attempt.state == after.said.state == WorkflowState.TIMED_OUT
        assert row.progress_summary == attempt.terminal_summary
        if after.run is not None:
            assert after.run.expires_at == self._world.due


def _terminal_summary(held: Held) -> bytes:
    attempt = TaskAttempt.objects.get(run_id=held.identity.run_id)
    assert attempt.terminal_summary is not None
    return bytes(attempt.terminal_summary)
