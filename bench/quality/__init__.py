"""`python -m bench quality`: search quality on public sets and on three of our own."""

from bench.quality.cli import main

__all__ = ["main"]
