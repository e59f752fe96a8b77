"""Every fault of every stored column, and what each is expected to be called.

A fault is one statement at a published run of four nodes: 0 SUCCEEDED, 1 FAILED, 2 RUNNING,
3 PENDING, every node joined to all before it. Beside it another run stands, which owns
nothing yet, so that anything may be moved to it. `read` is what the readers say once they
have read all there is, `live` what the terminal says, which looks at failed and running
nodes and the stages only; `audit` is every name the audit gives.
"""

from dataclasses import dataclass

AVAILABLE, MISSING, CORRUPT = "AVAILABLE", "MISSING", "CORRUPT"
NOT_REPORTED = "NOT_REPORTED"


@dataclass(frozen=True)
class Fault:
    table: str
    columns: tuple[str, ...]
    kind: str
    statement: str
    read: str
    live: str
    audit: frozenset[str]

    @property
    def name(self):
        return f"{self.table}.{'+'.join(self.columns)}: {self.kind}"


FAULTS = []


def fault(table, columns, kind, change, read, live, *audit):
    """Note a fault; `change` sets the columns, or is a whole statement."""
    where = {
        "execution": "id = {task}",
        "attempt": "run_id = {run_id}",
        "run": "id = {run}",
        "manifest": "run_id = {run}",
        "page": "run_id = {run} AND kind = 'nodes'",
        "node_detail": "run_id = {run} AND ordinal = 1",
        "stages": "run_id = {run}",
    }[table]
    statement = f"UPDATE django_ray_{table} SET {change} WHERE {where}"
    if change == "DELETE":
        statement = f"DELETE FROM django_ray_{table} WHERE {where}"
    names = tuple(columns.split())
    FAULTS.append(Fault(table, names, kind, statement, read, live, frozenset(audit)))


def flip(column, at=0):
    """Change one bit of the byte at `at`."""
    return f"{column} = set_byte({column}, {at}, get_byte({column}, {at}) # 1)"


def swap(column, old, new):
    """Replace ASCII bytes of a JSON column by as many others."""
    return (
        f"{column} = convert_to(replace(convert_from({column}, 'UTF8'),"
        f" '{old}', '{new}'), 'UTF8')"
    )


PAD = "{0} || repeat(' ', {1} + 1 - octet_length({0}))::bytea"

# The task row: the summary is all that readers of progress take from it.
for kind, change, said, found in (
    ("flipped byte", flip("progress_summary"), CORRUPT, "summary_corrupt"),
    ("no UTF-8", flip("progress_summary", 2) + "", CORRUPT, "summary_corrupt"),
    (
        "counts that do not add up",
        swap("progress_summary", '"RUNNING":1', '"RUNNING":2'),
        CORRUPT,
        "summary_corrupt",
    ),
    (
        "another task",
        swap("progress_summary", '"task_execution_pk":', '"task_execution_pk":9'),
        CORRUPT,
        "summary_foreign",
    ),
    (
        "another run",
        swap("progress_summary", "{run_text}", "{other_text}"),
        CORRUPT,
        "summary_foreign",
    ),
    (
        "oversized",
        f"progress_summary = {PAD.format('progress_summary', 16_384)}",
        CORRUPT,
        "summary_corrupt",
    ),
    ("gone", "progress_summary = NULL", NOT_REPORTED, "summary_missing"),
):
    fault("execution", "progress_summary", kind, change, said, said, found)
for kind, old, new, *found in (
    ("an older revision", '"revision":{revision},', '"revision":1,', "revision"),
    ("retained nodes", '"retained_nodes":4', '"retained_nodes":3', "retained"),
    ("retained edges", '"retained_edges":6', '"retained_edges":5', "retained"),
    ("detail revision", '"detail_revision":', '"detail_revision":9', "pointers"),
    ("topology", '"topology_version":', '"topology_version":9', "pointers"),
    ("retention", '"retention_days":7', '"retention_days":8', "retention"),
):
    ok = AVAILABLE if kind == "retention" else CORRUPT
    change = swap("progress_summary", old, new)
    names = [f"summary_{each}" for each in found]
    fault("execution", "progress_summary", kind, change, ok, ok, *names)
fault(
    "execution",
    "progress_summary",
    "manifest",
    swap("progress_summary", '"manifest_id":', '"manifest_id":9'),
    MISSING,
    MISSING,
    "summary_pointers",
)

# The attempt's copy is not read while its run is the current one.
for kind, change, found in (
    ("flipped byte", flip("terminal_summary"), "attempt_corrupt"),
    (
        "another run",
        swap("terminal_summary", "{run_text}", "{other_text}"),
        "attempt_foreign",
    ),
    (
        "oversized",
        f"terminal_summary = {PAD.format('terminal_summary', 16_384)}",
        "attempt_corrupt",
    ),
    ("gone", "terminal_summary = NULL", None),
):
    names = [found] if found else []
    fault("attempt", "terminal_summary", kind, change, AVAILABLE, AVAILABLE, *names)
fault(
    "attempt",
    "execution_id",
    "another task",
    "execution_id = {other_task}",
    AVAILABLE,
    AVAILABLE,
    "attempt_foreign",
)
for column in ("attempt_number", "execution_generation"):
    change = f"{column} = {column} + 7"
    fault(
        "attempt",
        column,
        "wrong",
        change,
        AVAILABLE,
        AVAILABLE,
        "attempt_foreign",
    )
fault("attempt", "run_id", "wrong", "run_id = {other_id}", AVAILABLE, AVAILABLE)
fault("attempt", "id", "gone", "DELETE", AVAILABLE, AVAILABLE)

# The run row.
fault("run", "id", "gone", "DELETE", MISSING, MISSING, "run_missing")
fault(
    "run",
    "execution_id",
    "another task",
    "execution_id = {other_task}, attempt_number = 8",
    CORRUPT,
    CORRUPT,
    # Its attempt is not that of the task it now belongs to, nor is there a summary.
    "attempt_foreign",
    "summary_foreign",
)
for column in ("attempt_number", "execution_generation"):
    fault(
        "run",
        column,
        "wrong",
        f"{column} = {column} + 7",
        CORRUPT,
        CORRUPT,
        "attempt_foreign",
        "summary_foreign",
    )
fault(
    "run",
    "run_id",
    "wrong",
    "run_id = 'eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee'",
    CORRUPT,
    CORRUPT,
    "run_missing",
)
for column, *found in (
    ("summary_revision", "summary_revision"),
    # Rows newer than the run they are of, too.
    ("detail_revision", "summary_pointers"),
    ("topology_version", "summary_pointers", "manifest_superseded"),
):
    change = f"{column} = {column} + 1"
    names = [*found]
    if column == "topology_version":
        names += ["manifest_missing", "row_without_node", "summary_retained"]
    fault("run", column, "ahead", change, CORRUPT, CORRUPT, *names)
fault(
    "run",
    "summary_revision",
    "behind",
    "summary_revision = 1",
    CORRUPT,
    CORRUPT,
    "summary_revision",
)
fault(
    "run",
    "detail_revision",
    "behind",
    "detail_revision = 0",
    CORRUPT,
    CORRUPT,
    "summary_pointers",
    "row_revision",
)
fault(
    "run", "detail_rows", "one fewer", "detail_rows = 3", CORRUPT, CORRUPT, "total_rows"
)
# No reader adds up bytes or judges what it does not use: the audit does.
for column, change, *found in (
    ("detail_bytes", "detail_bytes = 1", "total_bytes"),
    ("retention_days", "retention_days = 30", "summary_retention"),
    ("events", flip("events"), "events"),
    ("session", "session = '{{'", "session"),
    ("bequest", "bequest = '{{'", "bequest"),
    ("writer_epoch", "writer_epoch = 99"),
    ("expires_at", "expires_at = '-infinity'"),
    ("created_at", "created_at = 'infinity'"),
):
    fault("run", column, "wrong", change, AVAILABLE, AVAILABLE, *found)

fault(
    "run",
    "bequest",
    "a node fewer",
    swap("bequest", '"registered":4', '"registered":3'),
    AVAILABLE,
    AVAILABLE,
    "bequest_registered",
)

# The published manifest.
LOST = ("pages_orphaned", "row_without_node", "summary_pointers", "summary_retained")
fault("manifest", "id", "gone", "DELETE", MISSING, MISSING, "manifest_missing", *LOST)
fault(
    "manifest",
    "run_id",
    "another run",
    "run_id = {other}",
    CORRUPT,
    CORRUPT,
    "manifest_missing",
    *LOST,
)
fault(
    "manifest",
    "topology_version",
    "wrong",
    "topology_version = topology_version + 1",
    CORRUPT,
    CORRUPT,
    "manifest_missing",
    "manifest_superseded",
    *LOST[1:],
)
fault(
    "manifest",
    "published",
    "a candidate",
    "published = false",
    CORRUPT,
    CORRUPT,
    "candidate_version",
    "manifest_missing",
    *LOST[1:],
)
for column, change, *found in (
    ("node_count", "node_count = 5"),
    ("edge_count", "edge_count = 5", "summary_retained"),
    ("page_digests", flip("page_digests"), "pages_orphaned"),
    ("page_digests", "page_digests = substring(page_digests FROM 2)", "pages_orphaned"),
    ("digest", flip("digest")),
):
    names = ["topology_corrupt", "row_without_node", *found]
    fault("manifest", column, change[:24], change, CORRUPT, CORRUPT, *names)
fault(
    "manifest",
    "page_count",
    "wrong",
    "page_count = 3",
    CORRUPT,
    CORRUPT,
    "manifest_page_count",
)
for column in ("encoded_bytes", "decoded_bytes"):
    change = f"{column} = {column} + 1"
    fault("manifest", column, "wrong", change, AVAILABLE, AVAILABLE, "topology_corrupt")
fault(
    "manifest", "created_at", "wrong", "created_at = 'infinity'", AVAILABLE, AVAILABLE
)

# A page: nothing of it is in the terminal's picture.
UNREAD = ("row_without_node",)
for columns, kind, change, said, *found in (
    ("id", "gone", "DELETE", MISSING, "topology_missing", *UNREAD),
    ("run_id", "another run", "run_id = {other}", MISSING, "topology_missing", *UNREAD),
    (
        "digest",
        "flipped byte",
        flip("digest"),
        MISSING,
        *("topology_missing", "pages_orphaned", *UNREAD),
    ),
    ("kind", "other", "kind = 'edges'", CORRUPT, "topology_corrupt", *UNREAD),
    ("kind", "unknown", "kind = 'arrows'", CORRUPT, "topology_corrupt", *UNREAD),
    ("item_count", "wrong", "item_count = 3", CORRUPT, "topology_corrupt"),
    (
        "encoding",
        "other",
        "encoding = CASE encoding WHEN 'zlib' THEN 'identity' ELSE 'zlib' END",
        CORRUPT,
        *("topology_corrupt", *UNREAD),
    ),
    ("encoding", "unknown", "encoding = 'zstd'", CORRUPT, "topology_corrupt", *UNREAD),
    ("encoded_size", "wrong", "encoded_size = 1", CORRUPT, "page_encoded_size"),
    (
        "decoded_size",
        "wrong",
        "decoded_size = 1048576",
        CORRUPT,
        *("page_decoded_size", "topology_corrupt"),
    ),
    ("body", "flipped byte", flip("body", 20), CORRUPT, "topology_corrupt", *UNREAD),
    (
        "body",
        "cut",
        "body = substring(body FOR 20)",
        CORRUPT,
        *("topology_corrupt", *UNREAD),
    ),
    (
        "body",
        "oversized",
        "body = decode(repeat('00', 262145), 'hex')",
        CORRUPT,
        *("topology_corrupt", *UNREAD),
    ),
    ("created_at", "wrong", "created_at = '-infinity'", AVAILABLE),
):
    fault("page", columns, kind, change, said, AVAILABLE, *found)

# The row of the failed node.
GONE = ("rows_missing", "total_rows", "total_bytes", "summary_retained")
for columns, kind, change, said, *found in (
    ("ordinal", "gone", "DELETE", MISSING, *GONE),
    ("run_id", "another run", "run_id = {other}", MISSING, *GONE),
    ("ordinal", "moved", "ordinal = 99", CORRUPT, "row_without_node"),
    ("node_key", "flipped byte", flip("node_key"), CORRUPT, "row_key"),
    ("node_id", "other", "node_id = 'x'", CORRUPT, "row_key", "row_without_node"),
    ("stage", "out of range", "stage = 64", CORRUPT, "row_stage"),
    ("state", "out of range", "state = 7", MISSING, "row_state"),
    ("state", "another", "state = 2", CORRUPT, "row_state"),
    (
        "detail_revision",
        "of no publication yet",
        "detail_revision = 99",
        CORRUPT,
        "row_revision",
    ),
    ("detail_revision", "none", "detail_revision = 0", CORRUPT, "row_revision"),
    ("record", "flipped byte", flip("record"), CORRUPT, "row_record"),
    (
        "record",
        "another state",
        swap("record", "FAILED", "CANCELLED"),
        CORRUPT,
        *("row_state", "total_bytes"),
    ),
    (
        "record",
        "a control character",
        swap("record", "gone", "g\\u001b"),
        CORRUPT,
        *("row_record", "total_bytes"),
    ),
    (
        "record",
        "oversized",
        f"record = {PAD.format('record', 16_384)}",
        CORRUPT,
        *("row_record", "total_bytes"),
    ),
):
    fault("node_detail", columns, kind, change, said, said, *found)
# Another stage of the same range: only its page can tell.
fault("node_detail", "stage", "another", "stage = 5", AVAILABLE, AVAILABLE, "row_stage")

# The stage row.
for columns, kind, change, said, *found in (
    ("run_id", "gone", "DELETE", MISSING, "stages_missing"),
    ("run_id", "another run", "run_id = {other}", MISSING, "stages_missing"),
    ("body", "flipped byte", flip("body"), CORRUPT, "stages"),
    ("body", "counts", swap("body", "[1,0,1,", "[1,0,2,"), CORRUPT, "stages_counts"),
    (
        "body",
        "oversized",
        f"body = {PAD.format('body', 65_536)}",
        CORRUPT,
        *("stages", "stages_size"),
    ),
):
    fault("stages", columns, kind, change, AVAILABLE, said, *found)

NOT_PROGRESS = {
    "execution": "The durable task's own facts: their constraints and transitions hold.",
    "attempt": "How the attempt went: no reader of progress takes them.",
}
"""Tables with columns that are no stored progress, and why they are left alone."""
