"""The durable execution around a workflow."""
