"""One agent: its parts, and the ways they start, recover and fall back."""
