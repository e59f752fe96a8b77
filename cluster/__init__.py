"""Load and fault scenarios that prove the limits."""
