"""A census of the Python source files of the standard library and of `.venv`, as one Django task."""
