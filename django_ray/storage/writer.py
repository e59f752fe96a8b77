"""One run's writer: the storage functions over a pool that opens when first needed.

The collector must answer frames while PostgreSQL is away, so nothing here connects before
it is asked to write, and every call stands alone: it either did all of its work or raises
StorageUnavailable or IntegrityFault with nothing done, but for a commit whose answer was
lost, which the next publication learns as `Moved`.
"""

from collections.abc import Callable

from django_ray.errors import StorageUnavailable
from django_ray.progress.delta import Fenced, Moved, Outcome, Publication
from django_ray.progress.pages import Candidate
from django_ray.progress.standing import Standing
from django_ray.protocol.plan import RunSettings
from django_ray.protocol.vocabulary import ReportingPolicy
from django_ray.storage import load, pool, publish, stage, standing, summaries
from django_ray.storage.load import Begun
from django_ray.storage.stage import Staged


class Writer:
    """Writes for one run under one writer epoch; used by one thread."""

    def __init__(self, settings: RunSettings, dsn: Callable[[], str]) -> None:
        self._identity = settings.identity
        self._retention_days = settings.retention_days
        self._is_full = settings.policy is ReportingPolicy.full
        self._dsn = dsn
        self._pool: pool.Pool | None = None
        self._begun: Begun | None = None

    def begin(self) -> Begun | Fenced:
        """Open the run under a new writer epoch; called before anything else."""
        with pool.connection(self._opened()) as conn:
            begun = load.begin(conn, self._identity, self._retention_days)
        if isinstance(begun, Begun):
            self._begun = begun
        return begun

    def load(self) -> Standing:
        """Read back what earlier writers of the run have published."""
        run = self._open_run()
        with pool.connection(self._opened()) as conn:
            return standing.read(conn, self._identity, run)

    def stage(self, candidate: Candidate) -> Staged | Fenced | Moved:
        """Store a candidate topology; no reader sees it yet."""
        run = self._open_run()
        with pool.connection(self._opened()) as conn:
            return stage.stage(
                conn, self._identity, run.run_pk, run.writer_epoch, candidate
            )

    def publish(self, publication: Publication) -> Outcome:
        """Make a publication visible in full, or change nothing."""
        run = self._open_run()
        write = publish.publish if self._is_full else summaries.publish_summary
        with pool.connection(self._opened()) as conn:
            return write(
                conn, self._identity, run.run_pk, run.writer_epoch, publication
            )

    def discard(self) -> None:
        """Remove the candidate of a writer that was fenced off, if there is one."""
        if self._begun is not None:
            run = self._begun
            with pool.connection(self._opened()) as conn:
                stage.discard(conn, run.run_pk, run.writer_epoch)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _opened(self) -> pool.Pool:
        if self._pool is None:
            self._pool = pool.open_pool(self._dsn())
        return self._pool

    def _open_run(self) -> Begun:
        if self._begun is None:
            raise StorageUnavailable("The run is not begun.")
        return self._begun
