"""Fuzzing: each module of `targets` feeds bytes to one of the doors that foreign bytes come in by.

`make fuzz` looks for inputs that break a target; what was found once is in `corpus` and
`regressions`, and is tried again by `test_corpus.py`. README.md says more.
"""
