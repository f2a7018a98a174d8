"""Sets made by programs: the same notes and questions at every run of one day."""

from bench.quality.made.sets import NAMES, load

__all__ = ["NAMES", "load"]
