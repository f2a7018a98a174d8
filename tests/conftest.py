"""Settings for all tests, which make them independent of the machine's load and the user's set-up.

Hypothesis has no deadlines. It draws the same examples each time, so that a test that passes on one
machine passes on all: 30 for a property in `make test`, 200 in `make check-long`, unless the test
says otherwise. The fuzzer and `--hypothesis-profile=explore`, for use after a change, look for new
examples.
"""

import os
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# The tests' servers are on this machine, so no request may go through a proxy.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"
os.environ.setdefault("HOME", "/nonexistent")  # `~` then has the same value in tests and product
# The tests must not contact an agent or a socket of the user.
for name in {name for name in os.environ if name.startswith("MEMORYD_")} - {"MEMORYD_WRITE_GOLDEN"}:
    del os.environ[name]

# Nor may a state folder of the user, with the cache of a model, change what a test sees.
_STATE = tempfile.TemporaryDirectory(prefix="md-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

# A shell ignores SIGINT in programs that it starts with `&`, and the daemon would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "thorough", settings.get_profile("explore"), derandomize=True, max_examples=200
)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=30)
settings.load_profile("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("minute") is None)


def pytest_unconfigure() -> None:
    """Remove the state folder."""
    _STATE.cleanup()
