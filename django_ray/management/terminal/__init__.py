"""What `watch_run` prints: pure rendering of a picture, apart from reading it."""
