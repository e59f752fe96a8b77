"""Every exception a caller may meet."""


class DjangoRayError(Exception):
    """Something in django_ray could not be done."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").partition("\n")[0])


class ConfigurationError(DjangoRayError):
    """A setting or capacity that can never work."""


class ProtocolError(DjangoRayError):
    """Bytes from another process do not parse.

    `reason` is a short fixed word; no text of the sender is kept.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"Bytes from another process do not parse: {reason}.")
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Travel between processes as what the error was made of."""
        return type(self), (self.reason,)


class LimitExceeded(ProtocolError):
    """A value crosses a boundary of the contract."""

    def __init__(self, boundary: str, limit: int, actual: int) -> None:
        super().__init__("limit_exceeded")
        self.boundary = boundary
        self.limit = limit
        self.actual = actual
        self.args = (f"{boundary} is {actual:,}; the limit is {limit:,}.",)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Travel between processes as what the error was made of."""
        return type(self), (self.boundary, self.limit, self.actual)


class GraphRefused(DjangoRayError):
    """The workflow's graph cannot be registered.

    The one error of progress reporting that reaches user code: raised before anything of
    the call is submitted, or for the one item of a fan-out. Contract 4.11.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The workflow's graph is refused: {reason}.")
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Travel between processes as what the error was made of."""
        return type(self), (self.reason,)


class InvocationFailed(DjangoRayError):
    """An invocation of a compiled session has no result, and no method raised.

    `outcome`, `effect` and `retry` are the words of the lifecycle: what ended it, whether
    its methods may have begun, and what may be done about it. `cleanup` are the codes of
    what went wrong in cleaning up. `__cause__` is what was observed, where there is one.
    """

    def __init__(
        self, outcome: str, effect: str, retry: str, cleanup: tuple[str, ...]
    ) -> None:
        super().__init__(f"The invocation ended as {outcome}: {effect}, {retry}.")
        self.outcome = outcome
        self.effect = effect
        self.retry = retry
        self.cleanup = cleanup

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Travel between processes as what the error was made of."""
        return type(self), (self.outcome, self.effect, self.retry, self.cleanup)


class IntegrityFault(DjangoRayError):
    """Stored bytes, counts or digests disagree.

    `availability` is what a reader says of the detail: MISSING or CORRUPT.
    """

    def __init__(self, message: str, availability: str) -> None:
        super().__init__(message)
        self.availability = availability


class StorageUnavailable(DjangoRayError):
    """PostgreSQL did not answer: is it up, and are the settings right?"""


class ReadError(DjangoRayError):
    """A reader cannot answer."""


class InvalidCursor(ReadError):
    """A cursor is forged, foreign or outdated in shape."""
