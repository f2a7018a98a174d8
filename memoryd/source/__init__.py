"""Stage 1: which files are memory, and which of them changed."""
