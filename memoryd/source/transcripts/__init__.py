"""Transcripts: locations, formats and the text added to them."""
