"""The durable execution, its attempts, and the lease of the worker that watches it.

`progress_summary` is the fence's neighbour: every publication locks the execution row,
compares the four identity fields, and writes the summary beside them. Contract 1, 4.6,
4.14.
"""

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length

from django_ray.lifecycle.vocabulary import RetryDisposition
from django_ray.protocol.limits import V1
from django_ray.protocol.vocabulary import ExecutionState

STATES = [(state.value, state.value) for state in ExecutionState]
DISPOSITIONS = [disposition.value for disposition in RetryDisposition]


class Octets(Length):
    """The size of a binary column in bytes: `octet_length`."""

    function = "OCTET_LENGTH"
    lookup_name = "octets"


models.BinaryField.register_lookup(Octets)


class RayTaskExecution(models.Model):
    """One enqueued task: queued, claimed by a worker, run, ended."""

    id = models.BigAutoField(primary_key=True)
    public_id = models.UUIDField(default=uuid.uuid4, editable=False)
    task_path = models.CharField(max_length=512)
    backend = models.CharField(max_length=64)
    queue_name = models.CharField(max_length=64)
    priority = models.SmallIntegerField(default=0)
    arguments = models.JSONField(default=dict)
    run_after = models.DateTimeField(null=True)
    state = models.CharField(max_length=16, choices=STATES, default="QUEUED")
    attempt_number = models.BigIntegerField(default=0)
    execution_generation = models.BigIntegerField(default=0)
    run_id = models.UUIDField(null=True)
    enqueued_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    options = models.JSONField(default=dict)
    plan = models.JSONField(null=True)
    plan_fingerprint = models.CharField(max_length=64, default="", blank=True)
    result = models.JSONField(null=True)
    progress_summary = models.BinaryField(null=True)
    progress_data = models.TextField(null=True)  # noqa: DJ001 (absent is not empty)

    class Meta:
        db_table = "django_ray_execution"
        permissions = ()
        constraints = (
            models.UniqueConstraint(
                fields=["public_id"], name="django_ray_execution_public_id"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in ExecutionState]),
                name="django_ray_execution_state",
            ),
            models.CheckConstraint(
                condition=Q(attempt_number__gte=0, execution_generation__gte=0),
                name="django_ray_execution_counters",
            ),
            models.CheckConstraint(
                condition=Q(run_id__isnull=True)
                | Q(attempt_number__gte=1, execution_generation__gte=1),
                name="django_ray_execution_identity",
            ),
            models.CheckConstraint(
                condition=Q(progress_summary__isnull=True)
                | Q(progress_summary__octets__lte=V1.summary),
                name="django_ray_execution_summary_size",
            ),
            models.CheckConstraint(
                condition=Q(priority__gte=-100, priority__lte=100),
                name="django_ray_execution_priority",
            ),
        )
        indexes = (
            models.Index(
                F("queue_name"),
                F("priority").desc(),
                F("enqueued_at"),
                F("id"),
                condition=Q(state__in=["QUEUED", "RETRY_WAIT"]),
                name="django_ray_execution_ready",
            ),
            models.Index(
                fields=["state"],
                condition=Q(state__in=["CLAIMED", "RUNNING", "RECONCILE"]),
                name="django_ray_execution_active",
            ),
            models.Index(
                F("enqueued_at").desc(), F("id").desc(), name="django_ray_execution_age"
            ),
        )

    def __str__(self) -> str:
        return f"{self.task_path} {self.public_id}"


class TaskAttempt(models.Model):
    """One durable try of an execution, kept after the next one begins.

    `retry_disposition` is empty where no compiled session was sent an input. While one is
    open it says what holds if the attempt is lost.
    """

    id = models.BigAutoField(primary_key=True)
    execution = models.ForeignKey(
        RayTaskExecution,
        on_delete=models.DB_CASCADE,
        related_name="attempts",
        db_index=False,
    )
    attempt_number = models.BigIntegerField()
    execution_generation = models.BigIntegerField()
    run_id = models.UUIDField()
    worker = models.CharField(max_length=128)
    state = models.CharField(max_length=16, choices=STATES)
    claimed_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    error_class = models.CharField(max_length=512, default="", blank=True)
    error_text = models.TextField(default="", blank=True)
    retry_disposition = models.CharField(
        max_length=40, default="", db_default="", blank=True
    )
    terminal_summary = models.BinaryField(null=True)

    class Meta:
        db_table = "django_ray_attempt"
        constraints = (
            models.UniqueConstraint(
                fields=["execution", "attempt_number"],
                name="django_ray_attempt_number",
            ),
            models.UniqueConstraint(fields=["run_id"], name="django_ray_attempt_run"),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in ExecutionState]),
                name="django_ray_attempt_state",
            ),
            models.CheckConstraint(
                condition=Q(retry_disposition__in=["", *DISPOSITIONS]),
                name="django_ray_attempt_disposition",
            ),
            models.CheckConstraint(
                condition=Q(terminal_summary__isnull=True)
                | Q(terminal_summary__octets__lte=V1.summary),
                name="django_ray_attempt_summary_size",
            ),
        )

    def __str__(self) -> str:
        return f"attempt {self.attempt_number} of {self.execution_id}"


class ExecutionLease(models.Model):
    """Who watches an execution, and until when on the database's clock.

    `cluster` names the Ray on which its run is looked for first; empty is any.
    """

    execution = models.OneToOneField(
        RayTaskExecution,
        on_delete=models.DB_CASCADE,
        primary_key=True,
        related_name="lease",
    )
    owner = models.CharField(max_length=128)
    cluster = models.CharField(max_length=128, default="", db_default="", blank=True)
    lease_epoch = models.BigIntegerField()
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "django_ray_lease"
        constraints = (
            models.CheckConstraint(
                condition=Q(lease_epoch__gte=1), name="django_ray_lease_epoch"
            ),
        )

    def __str__(self) -> str:
        return f"{self.owner} holds {self.execution_id}"
