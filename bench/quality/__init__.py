"""`python -m bench quality`: how good the answers are, on public sets and on three of our own."""

from bench.quality.cli import main

__all__ = ["main"]
