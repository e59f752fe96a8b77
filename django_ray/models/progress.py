"""Stored progress: run, manifest, page, node detail, stage row. Contract 2, 4.6, 4.8.

No changing column stands in an index, and the rows that change are filled to 80 %, so an
update of state stays on its heap page (HOT). Everything cascades from the execution.
"""

from django.db import models
from django.db.models import Q

from django_ray.models.executions import RayTaskExecution
from django_ray.protocol.limits import V1


class WorkflowRun(models.Model):
    """One run's revisions, totals and bounded extras: the second lock of a publication."""

    id = models.BigAutoField(primary_key=True)
    execution = models.ForeignKey(
        RayTaskExecution,
        on_delete=models.DB_CASCADE,
        related_name="runs",
        db_index=False,
    )
    attempt_number = models.BigIntegerField()
    execution_generation = models.BigIntegerField()
    run_id = models.UUIDField()
    writer_epoch = models.BigIntegerField(default=0)
    summary_revision = models.BigIntegerField(default=0)
    detail_revision = models.BigIntegerField(default=0)
    topology_version = models.BigIntegerField(default=0)
    detail_rows = models.IntegerField(default=0)
    detail_bytes = models.BigIntegerField(default=0)
    retention_days = models.SmallIntegerField()
    expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    events = models.BinaryField(null=True)
    session = models.BinaryField(null=True)
    bequest = models.BinaryField(null=True)

    class Meta:
        db_table = "django_ray_run"
        constraints = (
            models.UniqueConstraint(fields=["run_id"], name="django_ray_run_run_id"),
            models.UniqueConstraint(
                fields=["execution", "attempt_number", "execution_generation"],
                name="django_ray_run_identity",
            ),
            models.CheckConstraint(
                condition=Q(
                    attempt_number__gte=1,
                    execution_generation__gte=1,
                    writer_epoch__gte=0,
                    summary_revision__gte=0,
                    detail_revision__gte=0,
                    topology_version__gte=0,
                ),
                name="django_ray_run_counters",
            ),
            models.CheckConstraint(
                condition=Q(detail_rows__gte=0, detail_rows__lte=V1.retained_nodes),
                name="django_ray_run_detail_rows",
            ),
            models.CheckConstraint(
                condition=Q(detail_bytes__gte=0, detail_bytes__lte=V1.detail_encoded),
                name="django_ray_run_detail_bytes",
            ),
            models.CheckConstraint(
                condition=Q(
                    retention_days__gte=0, retention_days__lte=V1.retention_days
                ),
                name="django_ray_run_retention",
            ),
            models.CheckConstraint(
                condition=Q(events__isnull=True)
                | Q(events__octets__lte=V1.events * (V1.event_encoded + 1) + 2),
                name="django_ray_run_events_size",
            ),
            models.CheckConstraint(
                condition=Q(session__isnull=True)
                | Q(session__octets__lte=V1.session_snapshot),
                name="django_ray_run_session_size",
            ),
            models.CheckConstraint(
                condition=Q(bequest__isnull=True) | Q(bequest__octets__lte=V1.bequest),
                name="django_ray_run_bequest_size",
            ),
        )

    def __str__(self) -> str:
        return f"run {self.run_id}"


class TopologyManifest(models.Model):
    """An ordered list of page digests with aggregate counts; a candidate until published.

    `page_digests` is the concatenation of the 32-byte digests: node pages, then edge pages.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        WorkflowRun,
        on_delete=models.DB_CASCADE,
        related_name="manifests",
        db_index=False,
    )
    topology_version = models.BigIntegerField()
    published = models.BooleanField(default=False)
    node_count = models.IntegerField()
    edge_count = models.IntegerField()
    page_count = models.IntegerField()
    encoded_bytes = models.IntegerField()
    decoded_bytes = models.IntegerField()
    page_digests = models.BinaryField()
    digest = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        db_table = "django_ray_manifest"
        constraints = (
            models.UniqueConstraint(
                fields=["run", "topology_version"], name="django_ray_manifest_version"
            ),
            models.UniqueConstraint(
                fields=["run"],
                condition=Q(published=False),
                name="django_ray_manifest_one_candidate",
            ),
            models.CheckConstraint(
                condition=Q(
                    node_count__gte=0,
                    node_count__lte=V1.retained_nodes,
                    edge_count__gte=0,
                    edge_count__lte=V1.retained_edges,
                    encoded_bytes__gte=0,
                    encoded_bytes__lte=V1.topology_encoded,
                    decoded_bytes__gte=0,
                    decoded_bytes__lte=V1.topology_decoded,
                    topology_version__gte=1,
                ),
                name="django_ray_manifest_caps",
            ),
            models.CheckConstraint(
                condition=Q(page_digests__octets=32 * models.F("page_count")),
                name="django_ray_manifest_digests",
            ),
            models.CheckConstraint(
                condition=Q(digest__octets=32), name="django_ray_manifest_digest"
            ),
        )

    def __str__(self) -> str:
        return f"topology {self.topology_version} of {self.run_id}"


class TopologyPage(models.Model):
    """At most 256 nodes or edges, immutable, known within its run by its digest."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        WorkflowRun, on_delete=models.DB_CASCADE, related_name="pages", db_index=False
    )
    digest = models.BinaryField()
    kind = models.CharField(max_length=8)
    item_count = models.SmallIntegerField()
    encoding = models.CharField(max_length=8)
    encoded_size = models.IntegerField()
    decoded_size = models.IntegerField()
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        db_table = "django_ray_page"
        constraints = (
            models.UniqueConstraint(
                fields=["run", "digest"], name="django_ray_page_digest"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["nodes", "edges"]), name="django_ray_page_kind"
            ),
            models.CheckConstraint(
                condition=Q(encoding__in=["identity", "zlib"]),
                name="django_ray_page_encoding",
            ),
            models.CheckConstraint(
                condition=Q(
                    digest__octets=32,
                    item_count__gte=1,
                    item_count__lte=V1.page_items,
                    decoded_size__gte=1,
                    decoded_size__lte=V1.page_decoded,
                    encoded_size__lte=V1.page_encoded,
                    body__octets=models.F("encoded_size"),
                ),
                name="django_ray_page_caps",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} page of {self.run_id}"


class NodeDetail(models.Model):
    """The latest state of one retained node; its size is that of `record`.

    `state` and `stage` repeat what the record and the topology say, so that a filter needs
    neither; they are in no index.
    """

    pk = models.CompositePrimaryKey("run_id", "ordinal")
    run = models.ForeignKey(
        WorkflowRun, on_delete=models.DB_CASCADE, related_name="details", db_index=False
    )
    ordinal = models.IntegerField()
    node_key = models.BinaryField()
    node_id = models.TextField()
    stage = models.SmallIntegerField()
    state = models.SmallIntegerField()
    detail_revision = models.BigIntegerField()
    record = models.BinaryField()

    class Meta:
        db_table = "django_ray_node_detail"
        constraints = (
            models.UniqueConstraint(
                fields=["run", "node_key"], name="django_ray_node_detail_key"
            ),
            models.CheckConstraint(
                condition=Q(
                    ordinal__gte=0,
                    node_key__octets=32,
                    record__octets__lte=V1.record,
                    state__gte=0,
                    state__lte=6,
                    stage__gte=0,
                    stage__lt=V1.stages,
                ),
                name="django_ray_node_detail_caps",
            ),
        )

    def __str__(self) -> str:
        return f"node {self.ordinal} of {self.run_id}"


class RunStages(models.Model):
    """The bounded rollup by stage: one row a run, replaced as a whole."""

    run = models.OneToOneField(
        WorkflowRun,
        on_delete=models.DB_CASCADE,
        primary_key=True,
        related_name="stages",
    )
    body = models.BinaryField()

    class Meta:
        db_table = "django_ray_stages"
        constraints = (
            models.CheckConstraint(
                condition=Q(body__octets__lte=V1.stage_row),
                name="django_ray_stages_size",
            ),
        )

    def __str__(self) -> str:
        return f"stages of {self.run_id}"


class CleanupFailure(models.Model):
    """What cleanup could not remove of a run: it comes after all that never failed.

    `diagnostic` is an error's class and SQLSTATE, no text of it. The row goes with the
    first success, or with its run.
    """

    run = models.OneToOneField(
        WorkflowRun,
        on_delete=models.DB_CASCADE,
        primary_key=True,
        related_name="cleanup_failure",
    )
    kind = models.CharField(max_length=32)
    failures = models.IntegerField()
    failed_at = models.DateTimeField()
    diagnostic = models.CharField(max_length=200)

    class Meta:
        db_table = "django_ray_cleanup_failure"
        constraints = (
            models.CheckConstraint(
                condition=Q(failures__gte=1), name="django_ray_cleanup_failure_count"
            ),
        )

    def __str__(self) -> str:
        return f"cleanup of {self.run_id} failed {self.failures} times"
