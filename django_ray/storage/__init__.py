"""The fenced transactions that make progress visible."""
