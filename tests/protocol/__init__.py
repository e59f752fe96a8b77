"""Tests of what may cross a process or reach a row."""
