"""`python -m bench quality`: search quality on public sets and on our own."""

from bench.quality.cli import main

__all__ = ["main"]
