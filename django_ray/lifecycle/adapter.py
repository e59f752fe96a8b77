"""What performs actions: the adapter's protocol."""

from typing import Protocol

from django_ray.lifecycle.actions import Action
from django_ray.lifecycle.events import Callback


class CompiledGraphLifecycleAdapter(Protocol):
    """Performs one action at a time and decides nothing."""

    def dispatch(self, action: Action) -> Callback:
        """Perform `action` and return what was observed, with its token and identity.

        It returns when the action ended, or when its absolute `deadline` has passed, and
        never raises: an exception of the engine is an observation like any other.
        """
