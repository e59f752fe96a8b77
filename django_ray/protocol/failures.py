"""An error of the user's as it may be stored, whatever its class does when it is asked.

Known without Ray and without Django: the process that judges an error may have loaded
neither.
"""

from django_ray.protocol.frames import Failure
from django_ray.protocol.redaction import Redactor, compose

# Past a class's own idea of its names, which may raise.
_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__

RAYS = "ray.exceptions"


def names(kind: type[BaseException]) -> tuple[str, str]:
    """Return module and qualified name of an error's class."""
    return str(_module(kind)), _qualname(kind)


def own(error: BaseException) -> BaseException:
    """Return a leaf's own error where Ray has wrapped it in a class nobody can import."""
    if _module(type(error)) != RAYS:
        return error
    try:
        cause = getattr(error, "cause", None)
    except Exception:
        # Ray's class derives from the user's.
        return error
    return cause if isinstance(cause, BaseException) else error


def classified(error: BaseException, redactor: Redactor) -> Failure:
    """Return an error's class and its text, redacted and bounded."""
    error = own(error)
    message = ""
    try:
        message = str.__str__(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:
        # Its text is its own code, which may raise or exit.
        message = ""
    return compose(_qualname(type(error)).rpartition(".")[2], message, redactor)
