"""Benchmarks: each prints one JSON line per figure and a table for people."""
