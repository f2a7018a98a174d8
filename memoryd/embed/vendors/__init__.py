"""Providers over HTTP: one module per vendor, and their common code."""
