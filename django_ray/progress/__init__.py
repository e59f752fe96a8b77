"""The collector's mind, without an actor."""
