"""The output of `memctl` for answers that are invalid or contain control characters."""

import math

import pytest

from memctl import render
from memctl.render_agents import agents
from memctl.streams import event_line
from memoryd_client.schema.agents import AgentsResult, AgentSummary
from memoryd_client.schema.memory import ConfigResult, ConfigValue, Event, PingResult
from memoryd_client.shared.humanize import duration, minutes, moment
from memoryd_client.shared.style import Style

PLAIN = Style(colour=False)
CLEAR = "\x1b[2J"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_time_is_a_question_mark(value: float) -> None:
    assert (duration(value), minutes(value), moment(value)) == ("?", "?", "?")


@pytest.mark.parametrize("at", [1e18, -1e300, 1e300])
def test_a_time_that_no_clock_shows_is_a_question_mark(at: float) -> None:
    assert moment(at) == "?"
    assert event_line(Event(at=at, kind="indexed", agent="")) == "?  indexed  \n"


def test_no_control_character_gets_to_the_terminal() -> None:
    summary = AgentSummary(
        agent=CLEAR,
        workspace_dir=CLEAR,
        db_path=CLEAR,
        state=CLEAR,
        origin=CLEAR,
        reason=CLEAR,
    )
    shown = [
        event_line(Event(at=0.0, kind=CLEAR, agent=CLEAR, path=CLEAR, text=CLEAR)),
        render.ping(PingResult(pid=1, version=CLEAR, uptime_s=1.0)),
        render.config(ConfigResult(CLEAR, [CLEAR], [ConfigValue(CLEAR, CLEAR, CLEAR)]), PLAIN),
        agents(AgentsResult([summary], CLEAR), PLAIN),
    ]
    assert not any("\x1b" in text for text in shown), shown
