"""One module for each target.

It has `check(data)` and `SEEDS`, and may have a `DICTIONARY`, `MAX_BYTES` and `close()`: see
`fuzz.target`.
"""
