from collections.abc import Iterator

import pytest
from real_agents import INSTALLED
from scripted_model import ScriptedModel, serving


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of agents that are not installed."""
    if INSTALLED.exists():
        return
    for item in items:
        if item.get_closest_marker("agents") is not None:
            item.add_marker(pytest.mark.skip(reason="run `make check-agents`"))


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    with serving() as served:
        yield served
