"""The DJANGO_RAY setting, read once into a frozen value, and what a row keeps of it."""

import functools
from dataclasses import fields, replace
from typing import Annotated

import msgspec
from django.conf import settings
from django.core.signals import setting_changed
from msgspec import Meta

from django_ray.errors import ConfigurationError
from django_ray.protocol import text
from django_ray.protocol.limits import LOWERABLE, V1, Limits
from django_ray.protocol.vocabulary import Effects, ReportingPolicy, SelectionPolicy

RetentionDays = Annotated[int, Meta(ge=0, le=V1.retention_days)]
DAY_SECONDS = 86_400
TimeoutSeconds = Annotated[int, Meta(ge=1, le=30 * DAY_SECONDS)]
Attempts = Annotated[int, Meta(ge=1, le=100)]
BackoffSeconds = Annotated[int, Meta(ge=0, le=DAY_SECONDS)]
Overrides = dict[str, Annotated[int, Meta(ge=1, le=2**31 - 1)]]
RedactEntry = Annotated[str, Meta(max_length=1_024)]

REDACT_CHARACTERS = 16_384
"""So many in all entries of REDACT: every process compiles them when it begins."""

SAID = 256
"""Bytes of what a refusal repeats of what it refuses."""


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Smaller limits than V1 under a name of their own; empty is V1 itself."""

    name: Annotated[str, Meta(min_length=1, max_length=64)] = V1.profile
    values: Overrides = {}


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is frozen into an execution's row when it is enqueued. Contract 4.15.

    What has a default here is missing in rows of earlier versions.
    """

    policy: ReportingPolicy
    strategy: SelectionPolicy
    retention_days: RetentionDays
    profile: Profile
    effects: Effects = Effects.read_only
    timeout_seconds: TimeoutSeconds | None = None
    max_attempts: Attempts = 1
    backoff_seconds: BackoffSeconds = 10
    backoff_max_seconds: BackoffSeconds = 600
    idempotent: bool = False


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="upper"):
    """The keys of DJANGO_RAY, each with its default.

    `progress_writer`: runs publish progress at all. Switched off where readers that know
    schema 3 are not deployed everywhere yet, or writers are drained.
    """

    progress_writer: bool = True
    reporting_policy: ReportingPolicy = ReportingPolicy.full
    strategy: SelectionPolicy = SelectionPolicy.dynamic
    retention_days: RetentionDays = V1.retention_days_default
    limits: Profile = Profile()
    redact: tuple[RedactEntry, ...] = ()
    ray_address: Annotated[str, Meta(min_length=1)] = "auto"
    timeout_seconds: TimeoutSeconds | None = None
    max_attempts: Attempts = 1
    backoff_seconds: BackoffSeconds = 10
    backoff_max_seconds: BackoffSeconds = 600
    lease_seconds: Annotated[int, Meta(ge=3, le=3_600)] = 60
    access_policy: Annotated[str, Meta(min_length=1)] = (
        "django_ray.readers.access.may_view"
    )
    read_seconds: Annotated[int, Meta(ge=1, le=60)] = 5
    requests_per_minute: Annotated[int, Meta(ge=1)] = 1_200

    @property
    def options(self) -> Options:
        """The options of a task that names none itself."""
        return Options(
            policy=self.reporting_policy,
            strategy=self.strategy,
            retention_days=self.retention_days,
            profile=self.limits,
            timeout_seconds=self.timeout_seconds,
            max_attempts=self.max_attempts,
            backoff_seconds=self.backoff_seconds,
            backoff_max_seconds=self.backoff_max_seconds,
        )


def applied(options: Options) -> Options:
    """Return a row's options as this process may follow them.

    With the writer switched off every run is `disabled`, whatever its row asks for: the
    switch belongs to the processes that write, not to those that enqueue.
    """
    if current().progress_writer:
        return options
    return msgspec.structs.replace(options, policy=ReportingPolicy.disabled)


@functools.cache
def current() -> Settings:
    """Return the settings of this process; raise ConfigurationError, which says which."""
    return parse(getattr(settings, "DJANGO_RAY", {}))


def parse(given: object) -> Settings:
    """Parse a value of DJANGO_RAY; raise ConfigurationError when it can never work."""
    parsed = read(given)
    limits_of(parsed.limits)
    return parsed


def read(given: object) -> Settings:
    """Parse a value of DJANGO_RAY by its types alone: the profile is not looked into."""
    parsed = convert(given, Settings, "DJANGO_RAY is refused")
    written = sum(map(len, parsed.redact))
    if written > REDACT_CHARACTERS:
        raise ConfigurationError(
            f"The entries of REDACT have {written:,} characters; "
            f"{REDACT_CHARACTERS:,} are allowed."
        )
    return parsed


def parse_options(given: object) -> Options:
    """Parse the options of a row."""
    return convert(given, Options, "An execution's options are refused")


def convert[T](given: object, kind: type[T], refused: str) -> T:
    """Parse what a project has written; raise ConfigurationError, bounded and printable."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as exc:
        # It repeats unknown keys and values, whatever their length.
        said = text.label(str(exc), SAID)
        raise ConfigurationError(f"{refused}: {said}.") from exc
    except UnicodeEncodeError as exc:
        raise ConfigurationError(
            f"{refused}: a key or a word holds an unpaired surrogate."
        ) from exc


def limits_of(profile: Profile) -> Limits:
    """Return V1 with a profile's smaller values; raise ConfigurationError on any others.

    A profile with values of its own is not `v1`: every summary names what applied.
    """
    if bool(profile.values) is (profile.name == V1.profile):
        raise ConfigurationError(
            "A limits profile needs both a name of its own and values."
        )
    if not text.is_line(profile.name):
        raise ConfigurationError(
            "The name of a limits profile holds a control character or a surrogate."
        )
    for name, value in profile.values.items():
        if name not in _NAMES:
            said = text.label(name, SAID)
            raise ConfigurationError(f"No limit is named {said!r}.")
        if name not in LOWERABLE:
            raise ConfigurationError(
                f"The limit {name} is the same for every run: a profile cannot lower it. "
                f"It can lower {', '.join(LOWERABLE)}."
            )
        cap = getattr(V1, name)
        if value > cap:
            raise ConfigurationError(
                f"The limit {name} is {value:,}; {V1.profile} allows at most {cap:,}, "
                "and a profile may lower it, not raise it."
            )
    return replace(V1, profile=profile.name, **profile.values)


_NAMES = frozenset(field.name for field in fields(Limits)) - {"profile"}


def _forget(*, setting: str, **_kwargs: object) -> None:
    if setting == "DJANGO_RAY":
        current.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_ray.conf")
