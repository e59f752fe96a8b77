"""How many examples a property is tried on: few in each run, many when asked."""

from hypothesis import settings

settings.register_profile("ci", deadline=None, max_examples=100)
settings.register_profile("deep", deadline=None, max_examples=2_000)
settings.load_profile("ci")
