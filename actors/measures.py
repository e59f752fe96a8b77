"""Every metric that is exported, as a table: name, kind, help, and the values of its label.

Ray puts `ray_` in front of each name, and labels of its own beside ours: the node's address
and the process. Ours are closed sets: what the table does not name is `other`, and neither
a run nor a node is ever a label.
"""

from dataclasses import dataclass
from enum import StrEnum

from actors.telling import COUNTED, FATES, PRODUCED, STATUSES
from django_ray.lifecycle.vocabulary import Outcome
from django_ray.protocol.vocabulary import NODE_STATES

OTHER = "other"

SECONDS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0)
"""What a publication's time is counted by; few, as each is a series of every process."""

REASONS = (
    *(key for key, fate in FATES.items() if fate == "rejected"),
    *("fault", "task", "writer_epoch", "frame", "worker_frame"),
    *("foreign_run", "foreign_generation", "foreign_record", "malformed_frame"),
    *("malformed_dependencies", "unpaired_states", "unknown_state", "unknown_stage"),
    *(
        "unsafe_text",
        "host",
        "event",
        "error",
        "node_id",
        "label",
        "metrics",
        "preview",
    ),
)


class Kind(StrEnum):
    """What a metric is in Prometheus."""

    counter = "counter"
    gauge = "gauge"
    histogram = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `values` are those of its label, beside `other`."""

    name: str
    kind: Kind
    help: str
    label: str = ""
    values: tuple[str, ...] = ()

    def closed(self, value: str) -> str:
        """Return the label's value, `other` for one that is not in the table."""
        return value if value in self.values or not self.label else OTHER


_FATES = tuple(dict.fromkeys((*FATES.values(), *PRODUCED)))
_STATUSES = ("applied", *STATUSES.values())
_PUBLISHED = (
    "published",
    "moved",
    "unavailable",
    "integrity",
    "fault",
    "fenced",
)
_C, _G, _H = Kind

METRICS = (
    Metric("django_ray_collectors", _G, "Collectors at work."),
    Metric("django_ray_owners", _G, "Owners of compiled sessions at work."),
    Metric(
        "django_ray_nodes",
        _G,
        "Nodes of the runs whose collector is at work.",
        "state",
        NODE_STATES,
    ),
    Metric("django_ray_producers", _G, "Producers that collectors have admitted."),
    Metric(
        "django_ray_lag_seconds",
        _G,
        "Age of the oldest frame that no publication has covered.",
    ),
    Metric(
        "django_ray_updates_total",
        _C,
        "Records by what became of them, at their producer or at the collector.",
        "fate",
        _FATES,
    ),
    Metric(
        "django_ray_rejects_total",
        _C,
        "Frames refused or fenced off, and records rejected.",
        "reason",
        REASONS,
    ),
    Metric(
        "django_ray_frames_total",
        _C,
        "Frames that came into a collector's mailbox, by its answer.",
        "status",
        _STATUSES,
    ),
    Metric("django_ray_frame_bytes_total", _C, "Bytes of those frames."),
    Metric(
        "django_ray_window_refusals_total",
        _C,
        "Times a producer had something to send and its window was full.",
    ),
    Metric("django_ray_publication_seconds", _H, "Time a committed publication took."),
    Metric(
        "django_ray_publications_total",
        _C,
        "Publications tried, by how they ended; `fenced` once a collector.",
        "outcome",
        _PUBLISHED,
    ),
    Metric("django_ray_published_rows_total", _C, "Detail rows of publications."),
    Metric(
        "django_ray_published_bytes_total",
        _C,
        "Bytes of the detail records and summaries of publications.",
    ),
    Metric(
        "django_ray_restarts_total",
        _C,
        "Collectors that went on with a run another one had written.",
    ),
    Metric(
        "django_ray_sessions_total",
        _C,
        "Compiled sessions that came into a state.",
        "state",
        COUNTED,
    ),
    Metric(
        "django_ray_invocations_total",
        _C,
        "Invocations of compiled sessions by outcome.",
        "outcome",
        tuple(Outcome),
    ),
    Metric(
        "django_ray_graph_reuses_total",
        _C,
        "Invocations of a compiled graph that had served one before.",
    ),
)
"""Every metric there is."""

BY_NAME = {metric.name: metric for metric in METRICS}
