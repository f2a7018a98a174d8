"""For all tests: neither how busy the machine is nor what its user has set is for them.

An example that takes long is no failure. Nor are others drawn each time, so that what passes on one
machine passes on all: new ones are for the fuzzer, and for whoever has just changed something
(`--hypothesis-profile=explore`).
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Servers of tests are on this machine, whatever proxy leads away from it.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"
os.environ.setdefault("HOME", "/nonexistent")  # `~` is then the same for tests and what they test
# An agent or a socket of the user's own is not to be talked to.
for name in [name for name in os.environ if name.startswith("MEMORYD_")]:
    del os.environ[name]

# A shell ignores SIGINT for all that it starts with `&`, and programs inherit that from the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("memoryd", settings.get_profile("explore"), derandomize=True)
settings.load_profile("memoryd")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those that take longest: none of them is then what everybody waits for."""
    items.sort(key=lambda item: item.get_closest_marker("minute") is None)
