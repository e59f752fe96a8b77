"""The processes of a run: Ray lives here and nowhere else."""
