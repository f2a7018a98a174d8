"""`python -m bench soak`: a daemon under load for a long time, and whether anything grows.

50 changes and 20 searches a second, with a provider that fails in every way it knows. See `run.py`.
"""

from bench.soak.cli import main

__all__ = ["main"]
