"""Rebuild of an index beside the one that answers."""
