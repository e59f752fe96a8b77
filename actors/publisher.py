"""When to publish, with how many tries, and when to leave. Contract 4.5 to 4.8, 4.12.

One thread beside the collector's. It takes what changed under the collector's lock, and
stages, composes and stores it without. Whatever storage says, it goes on: a publication
that failed is taken back and tried again after a pause. A run that another collector has
written is read back first, and published again once its coordinator has told it whole. It
ends in three ways: told to
stop, left alone by its coordinator after publishing what there was, or fenced off: then it
writes nothing more and stays until its producers have had the time to hear so.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from actors.clock import backoff_ms
from actors.collector import Collector, Taken
from django_ray.errors import ConfigurationError, IntegrityFault, StorageUnavailable
from django_ray.progress.delta import Fenced, Moved, Outcome, Publication, Published
from django_ray.progress.draft import Draft
from django_ray.progress.pace import Share
from django_ray.progress.pages import Candidate
from django_ray.progress.standing import Standing
from django_ray.storage.load import Begun
from django_ray.storage.stage import Staged

GRACE_LEAST_MS = 2_000
GRACE_MOST_MS = 30_000
"""How long FENCED is answered: twice the longest interval told, within these."""

WATCH_MS = 500
"""With nothing to publish, how often to look whether time alone has made something due."""

CHARGED_MS = 1_000
"""What a publication costs its share at most: a lock that was waited for is no work, and
would silence the page for nine times as long."""

FIRST_EPOCH = 1
"""The writer epoch of a run that nobody has written before."""

LOG_MS = 60_000
STOP_S = 10.0

logger = logging.getLogger(__name__)


STEPS = (
    "begun",
    "loaded",
    "resumed",
    "taken",
    "drafted",
    "staged",
    "composed",
    "published",
    "drafted_next",
    "settled",
)
"""What an observer is told after each step of opening a run and of a publication."""


class Storage(Protocol):
    """What a publisher needs of one run's writer; `begin` comes before the others."""

    def begin(self) -> Begun | Fenced:
        """Open the run under a new writer epoch."""

    def load(self) -> Standing:
        """Read back what earlier writers of the run have published."""

    def stage(self, candidate: Candidate) -> Staged | Fenced | Moved:
        """Store a candidate topology that no reader sees yet."""

    def publish(self, publication: Publication) -> Outcome:
        """Make a publication visible in full, or change nothing."""

    def discard(self) -> None:
        """Remove the candidate of a writer that was fenced off."""

    def close(self) -> None:
        """Give the connections back."""


class Rest(NamedTuple):
    """How long a publisher has nothing to do; with `watch` any frame ends it."""

    ms: int
    watch: bool = False


class Publisher:
    """Publishes one collector's run until it ends."""

    def __init__(
        self,
        collector: Collector,
        storage: Storage,
        *,
        share: Share,
        clock: Callable[[], int],
        silence_ms: int,
        after_commit: Callable[[Publication], None] | None,
        leave: Callable[[], None],
        observe: Callable[[str], None] | None,
    ) -> None:
        self.finished = threading.Event()
        self.tallies: Counter[str] = Counter()
        self._collector = collector
        self._storage = storage
        self._share = share
        self._clock = clock
        self._silence_ms = silence_ms
        self._after_commit = after_commit
        self._leave = leave
        self._observe = observe
        self._draft = Draft(collector.settings)
        self._begun: Begun | None = None
        self._is_open = False
        self._failures = 0
        self._retry_ms = 0
        self._logged_ms: int | None = None
        self._leave_ms: int | None = None
        self._is_closed = False
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Publish from a daemon thread until the run ends or `stop`."""
        self._thread = threading.Thread(
            target=self.run, name="django-ray-publisher", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, and wait a bounded time for the statement it is in."""
        self._stopping = True
        self._collector.rouse()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def run(self) -> None:
        """Publish until the run is another's, the coordinator is gone, or `stop`."""
        while not self._stopping:
            rest = self.step()
            if rest is None:
                break
            self._collector.wait(rest.ms, watch=rest.watch)
        left = not self._stopping
        self.finished.set()
        self._close()
        if left:
            self._leave()

    def step(self) -> Rest | None:
        """Do what is due, one publication at the most; None: there is no more to do."""
        try:
            return self._advance(self._clock())
        except (StorageUnavailable, ConfigurationError) as exc:
            return self._pause("unavailable", exc)
        except IntegrityFault as exc:
            return self._pause("integrity", exc)
        except Exception as exc:
            # Nothing that storage or a draft does may end the reporting of a run.
            return self._pause("fault", exc)

    def _advance(self, now_ms: int) -> Rest | None:
        collector = self._collector
        silence = collector.silence_ms(now_ms)
        if silence >= 2 * self._silence_ms:
            return None
        if self._leave_ms is not None:
            left = self._leave_ms - now_ms
            return Rest(left) if left > 0 else None
        if now_ms < self._retry_ms:
            return Rest(self._retry_ms - now_ms)
        if not self._is_open:
            return self._open()
        if collector.is_over or not collector.has_ended:
            due = self._share.due_ms(collector.changed_rows)
            if due > now_ms:
                return Rest(due - now_ms)
        taken = collector.take(now_ms)
        if taken is not None:
            return self._publish(taken)
        return None if silence >= self._silence_ms else Rest(WATCH_MS, watch=True)

    def _open(self) -> Rest:
        if self._begun is None:
            begun = self._storage.begin()
            if isinstance(begun, Fenced):
                return self._fence(begun)
            self._begun = begun
            self._passed("begun")
        epoch, draft = self._begun.writer_epoch, Draft(self._collector.settings)
        draft.opened(self._begun.revisions)
        if epoch == FIRST_EPOCH:
            self._collector.opened(epoch)
        else:
            standing = self._storage.load()
            self._passed("loaded")
            draft.resume(standing)
            self._collector.resume(standing, epoch, self._clock())
            self._passed("resumed")
        self._draft = draft
        self._is_open = True
        self._failures = 0
        return Rest(0)

    def _passed(self, step: str) -> None:
        if self._observe is not None:
            self._observe(step)

    def _publish(self, taken: Taken) -> Rest:
        """Write what was taken, or give it back whatever happens."""
        began = self._clock()
        publication: Publication | None = None
        try:
            outcome = self._write(taken)
            if isinstance(outcome, Publication):
                publication = outcome
        finally:
            if publication is None:
                self._collector.restore(taken)
        now = self._clock()
        cost = min(now - began, CHARGED_MS)
        self._share.finished(now, cost)
        if isinstance(outcome, Fenced):
            return self._fence(outcome)
        if isinstance(outcome, Moved):
            self._draft.moved(outcome.revisions)
            self._failures = 0
            return self._pause("moved", None)
        self._draft.committed(outcome)
        self._passed("drafted_next")
        self._collector.settle(taken)
        self._passed("settled")
        self._committed(outcome)
        return Rest(0)

    def _write(self, taken: Taken) -> Publication | Fenced | Moved:
        """Stage, compose and store; return the publication once it is committed."""
        manifest_id: int | None = None
        self._passed("taken")
        candidate = self._draft.candidate(taken.delta)
        self._passed("drafted")
        if candidate is not None:
            staged = self._storage.stage(candidate)
            if not isinstance(staged, Staged):
                return staged
            manifest_id = staged.manifest_id
            self._passed("staged")
        publication = self._draft.publication(
            taken.delta, manifest_id, taken.delta.taken_ms
        )
        self._passed("composed")
        outcome = self._storage.publish(publication)
        self._passed("published")
        return publication if isinstance(outcome, Published) else outcome

    def _committed(self, publication: Publication) -> None:
        self.tallies["published"] += 1
        if self._failures:
            logger.info("Publishing goes on after %d failures.", self._failures)
        self._failures = 0
        if self._collector.is_over:
            self.finished.set()
        if self._after_commit is None:
            return
        try:
            self._after_commit(publication)
        except Exception:
            # The hook is its owner's code; what is committed stays committed.
            logger.exception("The hook after a commit failed.")

    def _fence(self, fenced: Fenced) -> Rest:
        """Give the storage back, and say how long FENCED is answered until leaving."""
        logger.info("The run is another's now (%s).", fenced.reason)
        self._collector.fence(fenced.reason)
        grace = min(
            max(2 * self._collector.longest_interval_ms, GRACE_LEAST_MS), GRACE_MOST_MS
        )
        self._leave_ms = self._clock() + grace
        self._close()
        return Rest(grace)

    def _pause(self, reason: str, exc: Exception | None) -> Rest:
        """Count a failure and say after which pause to try again."""
        now = self._clock()
        self.tallies[reason] += 1
        self._failures += 1
        delay = backoff_ms(self._failures)
        self._retry_ms = now + delay
        if self._logged_ms is None or now - self._logged_ms >= LOG_MS:
            self._logged_ms = now
            trace = exc if reason == "fault" else None
            logger.warning(
                "Publishing failed (%s), and is tried again: %s",
                reason,
                exc,
                exc_info=trace,
            )
        return Rest(delay)

    def _close(self) -> None:
        """Leave nothing behind, as far as PostgreSQL answers; once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._collector.is_fenced:
                self._storage.discard()
            self._storage.close()
        except Exception:
            # Cleanup finds what is left; the process ends either way.
            logger.debug("Closing the storage failed.", exc_info=True)
