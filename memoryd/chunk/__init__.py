"""Stage 2: text to line-numbered chunks. Pure functions."""
