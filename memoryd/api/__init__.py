"""Handlers of the requests to one agent, one module per operation."""
