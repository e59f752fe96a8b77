"""What the reducer answers: a transition, or a rejection that changes nothing."""

from dataclasses import dataclass

from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.state import CompiledGraphSessionState
from django_ray.lifecycle.vocabulary import RejectionCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The next state, and the action to dispatch now.

    `action` is None when nothing is to be dispatched, also while an earlier action is
    still being performed.
    """

    state: CompiledGraphSessionState
    action: Action | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why an event changed nothing. `message` is fixed text of at most 256 characters."""

    code: RejectionCode
    message: str


_MESSAGES = {
    RejectionCode.INVALID_STATE: "This is not a well-formed session state.",
    RejectionCode.INVALID_EVENT: "The event's kind is unknown, or a field is not its own.",
    RejectionCode.INVALID_IDENTITY: "An identity is malformed, or has no place here.",
    RejectionCode.STALE_SESSION_IDENTITY: "The event is about another session.",
    RejectionCode.MISSING_INVOCATION_IDENTITY: "The event must name its invocation.",
    RejectionCode.STALE_INVOCATION_IDENTITY: "The event is about another invocation.",
    RejectionCode.DUPLICATE_INVOCATION: "The invocation's number or id was used before.",
    RejectionCode.INVALID_CLOCK: "The observed time is not a time in milliseconds.",
    RejectionCode.CLOCK_REGRESSION: "The observed time is before the last one.",
    RejectionCode.INVALID_TRANSITION: "The event does not fit the present state.",
    RejectionCode.ACTION_IN_PROGRESS: "Another action is being performed.",
    RejectionCode.ACTION_TOKEN_REQUIRED: "A callback must echo its action's token.",
    RejectionCode.UNEXPECTED_ACTION_TOKEN: "A command carries no token.",
    RejectionCode.STALE_ACTION_TOKEN: "The token is not the pending action's.",
    RejectionCode.DUPLICATE_ACTION: "The action was completed already.",
    RejectionCode.ACTION_SEQUENCE_EXHAUSTED: "Too few action tokens are left.",
    RejectionCode.DEADLINE_NOT_EXPIRED: "The deadline has not passed yet.",
    RejectionCode.OUTPUT_CARDINALITY_INVALID: "An invocation declares 1 to 64 outputs.",
    RejectionCode.OUTPUT_INDEX_INVALID: "No output of this index was declared.",
    RejectionCode.OUTPUT_ALREADY_CLAIMED: "The output was claimed before.",
    RejectionCode.ACTION_PAYLOAD_MISMATCH: "The output is not the pending action's.",
}

REJECTIONS = {
    code: Rejection(code=code, message=message) for code, message in _MESSAGES.items()
}
"""The one rejection of each code: nothing that came from outside is in any."""
