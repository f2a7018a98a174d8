from collections.abc import Iterator

import forks
import pytest
from harness import Daemon
from patient import SETTINGS, Patient
from users import readable_client


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start daemons as processes of their own where a test needs that, and in all long tests."""
    own = any(map(item.get_closest_marker, ("own_process", "long")))
    Daemon.forked = forks.AVAILABLE and not own


@pytest.fixture(autouse=True)
def no_autostart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests' clients from the user's configuration."""
    monkeypatch.setenv("MEMORYD_NO_AUTOSTART", "1")


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A keyword-only daemon, not started yet: write files first, then `start()`."""
    made = Daemon(settings="sync = { watch_debounce_ms = 20 }")
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


@pytest.fixture
def hybrid() -> Iterator[Daemon]:
    """A daemon with the counting model, not started yet."""
    made = Daemon(provider="local", settings="sync = { watch_debounce_ms = 20 }")
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """The environment for a client of another user."""
    with readable_client() as found:
        yield found


@pytest.fixture(scope="module")
def built() -> Iterator[Patient]:
    """The base of `patient`, built once per module."""
    made = Patient(provider="local", settings=SETTINGS)
    try:
        made.build()
        yield made
    finally:
        made.__exit__(None, None, None)


@pytest.fixture
def patient(built: Patient) -> Patient:
    """An index that was built without errors, and whose daemon was stopped."""
    built.restore()
    return built
