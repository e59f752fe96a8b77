"""Tests of the compiled lifecycle."""
