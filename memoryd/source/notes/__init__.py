"""Notes: discovery, watching, reconciliation and reading."""
