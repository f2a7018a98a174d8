"""Fuzzing: each module of `targets` feeds bytes to one reader of foreign bytes.

`make fuzz` searches for inputs that break a target. `corpus` and `regressions` hold earlier
findings, which `test_corpus.py` repeats. README.md has the details.
"""
