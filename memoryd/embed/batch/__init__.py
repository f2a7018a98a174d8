"""Batch APIs of vendors: jobs that are made, written down, polled and brought home."""
