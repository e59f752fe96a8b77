"""The identities of a run, and how two of them compare."""

import uuid
from dataclasses import dataclass

MAXIMUM_63 = 2**63 - 1
"""The largest attempt number, generation, revision or epoch: a signed 63-bit integer."""

IDENTIFIER_CHARACTERS = 128
"""The longest run or invocation id, in characters. Contract 1."""


def is_positive_63(value: object) -> bool:
    """Claim that `value` is an integer of 1 to 2⁶³-1; a bool never is. Contract 1."""
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 1 <= value <= MAXIMUM_63
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """The one outer execution that may publish durable state now. Contract 1.

    Four fields, compared as a whole: the fence accepts a writer only when all four equal
    the task row's. `run_id` is a UUID in its canonical lower-case form.
    """

    task_execution_pk: int
    attempt_number: int
    execution_generation: int
    run_id: str

    def __post_init__(self) -> None:
        for name in ("task_execution_pk", "attempt_number", "execution_generation"):
            if not is_positive_63(getattr(self, name)):
                raise ValueError(f"{name} is not a positive 63-bit integer")
        if not is_run_id(self.run_id):
            raise ValueError("run_id is not a UUID in canonical form")


def is_run_id(value: object) -> bool:
    """Claim that `value` is a UUID in canonical lower-case form."""
    if not isinstance(value, str) or len(value) != 36:
        return False
    try:
        return str(uuid.UUID(value)) == value
    except ValueError:
        return False
