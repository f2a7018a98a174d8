"""`python -m bench soak`: a daemon under load for a long time, to find leaks and losses.

50 changes and 20 searches a second, with a provider that fails in every known way. See `run.py`.
"""

from bench.soak.cli import main

__all__ = ["main"]
