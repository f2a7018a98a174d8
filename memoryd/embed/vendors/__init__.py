"""Providers over HTTP: one module per vendor, and what they have in common."""
