"""Makes frozen values at the cost of open ones.

A frozen dataclass sets each field through `object.__setattr__`; for a session's seventeen
that was half the time of a transition. So a value is filled as one of an open class with
the same slots, and then is of the frozen class for good.
"""

from dataclasses import fields, make_dataclass
from typing import cast


def maker[T](kind: type[T]) -> type[T]:
    """Return a faster constructor of a frozen, slotted, keyword-only dataclass.

    It takes all fields; defaults are the frozen class's own affair.
    """

    def freeze(value: object) -> None:
        value.__class__ = kind

    made = make_dataclass(
        f"Open{kind.__name__}",
        [field.name for field in fields(kind)],  # type: ignore[arg-type]
        bases=kind.__bases__,
        namespace={"__post_init__": freeze},
        slots=True,
        kw_only=True,
    )
    return cast(type[T], made)
