"""Modules that the client, memctl and the daemon share."""
