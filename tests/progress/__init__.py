"""Tests of the collector's mind."""
