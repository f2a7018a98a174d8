"""A broken target, for the test of the fuzzer itself."""

SEEDS = [b"door"]
DICTIONARY = [b"open sesame"]


def check(data: bytes) -> None:
    """Fail at one word."""
    if b"open sesame" in data:
        raise RuntimeError("it is open")
