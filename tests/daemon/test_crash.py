"""`kill -9` at any point, then a restart: nothing lost, nothing duplicated, no leftovers."""

import importlib
from collections.abc import Iterator
from functools import reduce

import pytest
from crash_steps import STEPS, Step
from crash_world import World
from harness import Daemon

ROUNDS = 4
ROUNDS_LONG = 40
TRIES = 4
"""Number of tries for a step that is not always reached, like a search during a commit."""


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(request.param)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.minute
@pytest.mark.parametrize("world", [1, pytest.param(2, marks=pytest.mark.long)], indirect=True)
def test_killed_anywhere_it_equals_an_index_from_scratch(world: World) -> None:
    """Named steps and random moments alternate. `test_at_every_step` covers all steps."""
    steps = world.dice.sample(STEPS, ROUNDS // 2)
    for number in range(ROUNDS):
        step = steps[number // 2] if number % 2 else None
        assert world.crash(step, nth=1), step
        world.check()
    world.check(doctor=True, anew=True)


@pytest.mark.long
@pytest.mark.parametrize("world", range(10, 15), indirect=True)
def test_killed_anywhere_many_times(world: World) -> None:
    for number in range(ROUNDS_LONG):
        world.crash(world.dice.choice(STEPS) if number % 3 else None)
        world.check(doctor=number % 5 == 0, anew=number % 10 == 0)


@pytest.mark.long
@pytest.mark.parametrize("world", [20], indirect=True)
def test_killed_at_every_step(world: World) -> None:
    """A step that is never reached would make this test meaningless."""
    for step in STEPS:
        assert any(world.crash(step, nth=1) for _ in range(TRIES)), step
        world.check()
    world.check(doctor=True, anew=True)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.scenario}-{step.at}")
def test_the_step_is_there(step: Step) -> None:
    module, name, _ = step.at.split(":")
    function = reduce(getattr, name.split("."), importlib.import_module(module))
    assert callable(function)
    assert step.scenario in ("load", "restart", "migrate", "rechunk", "leftover") or hasattr(
        World, step.scenario
    )


def test_killed_while_embedding_it_goes_on_where_it_was(hybrid: Daemon) -> None:
    for number in range(400):
        hybrid.write(f"memory/{number}.md", f"text number {number}\n" * 20)
    hybrid.start()
    with hybrid.client() as client:
        while client.status().vector.in_memory < 100:
            pass
    hybrid.kill()
    hybrid.start().sync()
    texts = [text for text in hybrid.embedded() if "number" in text]
    assert len(set(texts)) == 400
    # The jobs in flight at the kill were unanswered; no committed text is repeated.
    assert len(texts) - len(set(texts)) <= 128
