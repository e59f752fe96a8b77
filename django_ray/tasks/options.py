"""What a task author chooses for a task or for one call; the settings fill in the rest.

Settings come first, `@ray_options(…)` on the task's function over them, the options of an
`enqueue_with` over both. What is in force then is frozen into the execution's row: a later
change of settings or code leaves it alone. Contract 4.15.

    @task
    @ray_options(policy="summary", retention_days=2)
    def nightly_census(root): ...

    enqueue_with(nightly_census, {"policy": "full"}, "/srv/data")
"""

from collections.abc import Callable
from typing import Literal, TypedDict, Unpack

import msgspec
from django.tasks.base import Task, TaskResult
from msgspec import UNSET, UnsetType

from django_ray import conf
from django_ray.conf import (
    Attempts,
    BackoffSeconds,
    Options,
    Profile,
    RetentionDays,
    TimeoutSeconds,
)
from django_ray.errors import ConfigurationError
from django_ray.protocol.vocabulary import Effects, ReportingPolicy, SelectionPolicy

DECLARED = "__ray_options__"
"""The attribute in which a task's function carries what `ray_options` was told."""


class LimitsProfile(TypedDict, total=False):
    """Smaller limits under a name of their own, as in the setting LIMITS."""

    name: str
    values: dict[str, int]


class RayOptions(TypedDict, total=False):
    """Options of one task or one call; those left out come from the level below.

    `policy`: how much of a run is reported. `limits`: a smaller profile, as a whole.
    `strategy`: whether what `compiled()` is given is compiled; `automatic` where it can be.
    `effects`: `declared` where a compiled graph has effects outside of it.
    `retention_days`: how long detail is kept after the end, 0 to 30. `timeout_seconds`: how
    long one attempt may take from its start, 1 to 2,592,000; None is for ever.
    `max_attempts`: how often it runs at most, 1 to 100, when it fails, is lost or times out.
    `backoff_seconds`: the pause before the second attempt; it doubles up to
    `backoff_max_seconds`, both 0 to 86,400.
    `idempotent`: True is the author's word that an attempt may do again what the compiled
    graphs of an earlier one have done, or may have; False where nobody has said so.
    """

    policy: ReportingPolicy | Literal["full", "summary", "terminal_only", "disabled"]
    limits: LimitsProfile
    retention_days: int
    strategy: SelectionPolicy | Literal["dynamic", "compiled_graph", "automatic"]
    effects: Effects | Literal["read_only", "declared"]
    timeout_seconds: int | None
    max_attempts: int
    backoff_seconds: int
    backoff_max_seconds: int
    idempotent: bool


class _Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same, parsed."""

    policy: ReportingPolicy | UnsetType = UNSET
    limits: Profile | UnsetType = UNSET
    retention_days: RetentionDays | UnsetType = UNSET
    strategy: SelectionPolicy | UnsetType = UNSET
    effects: Effects | UnsetType = UNSET
    timeout_seconds: TimeoutSeconds | UnsetType | None = UNSET
    max_attempts: Attempts | UnsetType = UNSET
    backoff_seconds: BackoffSeconds | UnsetType = UNSET
    backoff_max_seconds: BackoffSeconds | UnsetType = UNSET
    idempotent: bool | UnsetType = UNSET

    def over(self, options: Options) -> Options:
        """Return `options` with what is chosen here in place."""
        chosen = {
            "policy": self.policy,
            "profile": self.limits,
            "retention_days": self.retention_days,
            "strategy": self.strategy,
            "effects": self.effects,
            "timeout_seconds": self.timeout_seconds,
            "max_attempts": self.max_attempts,
            "backoff_seconds": self.backoff_seconds,
            "backoff_max_seconds": self.backoff_max_seconds,
            "idempotent": self.idempotent,
        }
        changes = {name: value for name, value in chosen.items() if value is not UNSET}
        return msgspec.structs.replace(options, **changes)


_NOTHING = _Chosen()


def ray_options[**P, R](
    **options: Unpack[RayOptions],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Choose options for every call of a task; stands under `@task`.

    Raises ConfigurationError, when the module is imported, for what can never work.
    """
    chosen = _parse(options)

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        if isinstance(function, Task):
            raise ConfigurationError("@ray_options stands under @task, not above it.")
        setattr(function, DECLARED, chosen)
        return function

    return declare


def enqueue_with[**P, R](
    task: "Task[P, R]", options: RayOptions, *args: P.args, **kwargs: P.kwargs
) -> "TaskResult[P, R]":
    """Enqueue `task` with options for this one call.

    Under another backend than ours the options are checked and have no effect, like
    those of the task itself. Raises ConfigurationError for options that can never work.
    """
    # The module of a task may be imported before the models are.
    from django_ray.tasks.backend import RayBackend

    in_force(task, options)
    backend = task.get_backend()
    if isinstance(backend, RayBackend):
        return backend.enqueue_with(task, options, args, kwargs)
    return task.enqueue(*args, **kwargs)


def in_force[**P, R](task: "Task[P, R]", options: RayOptions) -> Options:
    """Return what is frozen into the row of one call; raise ConfigurationError."""
    declared: _Chosen = getattr(task.func, DECLARED, _NOTHING)
    return _parse(options).over(declared.over(conf.current().options))


def _parse(options: RayOptions) -> _Chosen:
    chosen = conf.convert(options, _Chosen, "Options of a task are refused")
    if chosen.limits is not UNSET:
        conf.limits_of(chosen.limits)
    return chosen
