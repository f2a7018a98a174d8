"""The `memctl` command."""
