"""Tells an absence of PostgreSQL from a fault, for what goes on when it is back."""

from django.db.utils import InterfaceError, OperationalError

READ_ONLY = "25006"
"""read_only_sql_transaction: what a standby, or a server just promoted, says to a write."""


def is_away(error: BaseException) -> bool:
    """Claim that PostgreSQL did not answer, or answers reads alone for the time being."""
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return getattr(error.__cause__, "sqlstate", None) == READ_ONLY
