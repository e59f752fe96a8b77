"""A census of the Python source files installed on this machine, as one Django task."""
