"""Transcripts of conversations as a source: where they are, their formats, reading by delta."""
