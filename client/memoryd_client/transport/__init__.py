"""Connections to the daemon's socket, blocking and asyncio."""
