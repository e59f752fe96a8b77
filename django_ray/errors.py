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


class LimitExceeded(ProtocolError):
    """A value crosses a boundary of the contract."""

    def __init__(self, boundary: str, limit: int, actual: int) -> None:
        super().__init__("limit_exceeded")
        self.boundary = boundary
        self.limit = limit
        self.actual = actual
        self.args = (f"{boundary} is {actual:,}; the limit is {limit:,}.",)


class GraphRefused(DjangoRayError):
    """The workflow's graph cannot be registered.

    The one error of progress reporting that reaches user code: raised before anything of
    the call is submitted, or for the one item of a fan-out. Contract 4.11.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The workflow's graph is refused: {reason}.")
        self.reason = reason


class IntegrityFault(DjangoRayError):
    """Stored bytes, counts or digests disagree.

    `availability` is what a reader says of the detail: MISSING or CORRUPT.
    """

    def __init__(self, message: str, availability: str) -> None:
        super().__init__(message)
        self.availability = availability


class StorageUnavailable(DjangoRayError):
    """PostgreSQL did not answer; worth another try."""


class ReadError(DjangoRayError):
    """A reader cannot answer."""


class InvalidCursor(ReadError):
    """A cursor is forged, foreign or outdated in shape."""
