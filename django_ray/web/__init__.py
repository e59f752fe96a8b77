"""The readers over HTTP."""
