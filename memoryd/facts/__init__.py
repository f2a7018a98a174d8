"""Facts: short statements beside the notes, found by their meaning."""

FILE_SUFFIX = ".facts"
"""The end of the name of the file beside the index that has the built-in facts."""
