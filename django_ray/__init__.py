"""Durable Django tasks on Ray whose workflows can be watched live."""
