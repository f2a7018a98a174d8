"""Start and stop of a daemon in the background."""
