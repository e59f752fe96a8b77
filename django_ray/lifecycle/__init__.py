"""The lifecycle of compiled invocations: a total reducer over plain values, nothing else."""
