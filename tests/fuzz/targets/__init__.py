"""One module for each target.

A target has `check(data)` and `SEEDS`, and may have a `DICTIONARY`, `MAX_BYTES` and `close()`; see
`fuzz.target`.
"""
