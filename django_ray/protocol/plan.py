"""The effective plan's identity and fingerprint, and what a run's processes are told.

Contract 4.15: the plan is canonical JSON under SHA-256, pinned in the row at first claim.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from django_ray.errors import ConfigurationError
from django_ray.identity import RunIdentity
from django_ray.protocol import canonical
from django_ray.protocol.limits import V1, Limits
from django_ray.protocol.vocabulary import Effects, ReportingPolicy, SelectionPolicy

PLAN_FORMAT_VERSION: Final = 1
LIFECYCLE_PROTOCOL_VERSION = 1
COMPILED_GRAPH = "compiled_graph"
VERSION_KEY = "lifecycle_protocol_version"


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly what would run: equal plans have equal fingerprints."""

    limits_profile: str
    plan_format_version: Literal[1]
    policy: ReportingPolicy
    strategy: SelectionPolicy
    strategy_requirements: dict[str, dict[str, int | str]]
    task_path: Annotated[str, Meta(max_length=512)]


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the coordinator and the collector of one run are told by the outer task."""

    identity: RunIdentity
    policy: ReportingPolicy
    strategy: SelectionPolicy
    plan_fingerprint: str
    started_at_ms: int
    retention_days: Annotated[int, Meta(ge=0, le=V1.retention_days)]
    limits: Limits
    redact: tuple[str, ...] = ()
    effects: Effects = Effects.read_only

    @property
    def detailed_nodes(self) -> int:
        """Return of how many nodes detail is kept: of none but under `full`."""
        full = self.policy is ReportingPolicy.full
        return self.limits.retained_nodes if full else 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RunSettings)


def make(
    task_path: str,
    *,
    policy: ReportingPolicy,
    strategy: SelectionPolicy,
    effects: Effects,
    limits_profile: str,
) -> Plan:
    """Return the plan of a task under its options.

    A run that may compile requires the lifecycle protocol; effects are named where the
    author has declared any.
    """
    requirements: dict[str, dict[str, int | str]] = {}
    if strategy is not SelectionPolicy.dynamic:
        compiled: dict[str, int | str] = {VERSION_KEY: LIFECYCLE_PROTOCOL_VERSION}
        if effects is not Effects.read_only:
            compiled["effects"] = str(effects)
        requirements[COMPILED_GRAPH] = compiled
    return Plan(
        limits_profile=limits_profile,
        plan_format_version=PLAN_FORMAT_VERSION,
        policy=policy,
        strategy=strategy,
        strategy_requirements=requirements,
        task_path=task_path,
    )


def materialize(pinned: object) -> Plan:
    """Parse a pinned plan; raise ConfigurationError for one this code cannot carry out.

    So nothing is submitted under a protocol whose meaning is another. ADR-0003.
    """
    try:
        plan = msgspec.convert(pinned, Plan)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(f"A pinned plan is refused: {exc}.") from exc
    required = plan.strategy_requirements.get(COMPILED_GRAPH, {})
    version = required.get(VERSION_KEY)
    dynamic = plan.strategy is SelectionPolicy.dynamic
    if version != (None if dynamic else LIFECYCLE_PROTOCOL_VERSION):
        raise ConfigurationError(
            "A pinned plan requires a lifecycle protocol that is not version "
            f"{LIFECYCLE_PROTOCOL_VERSION}."
        )
    return plan


def fingerprint(plan: Plan) -> str:
    """Return the plan's SHA-256 in hexadecimal."""
    return canonical.digest(canonical.encode(plan)).hex()


def encode_settings(settings: RunSettings) -> bytes:
    """Encode what travels to a run's actors; it holds no credential."""
    return _encoder.encode(settings)


def decode_settings(data: bytes) -> RunSettings:
    """Parse a run's settings; raise ConfigurationError when they do not fit."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise ConfigurationError("A run's settings do not parse.") from exc
