"""Questions that name a date, through the socket."""

import re

import pytest
from harness import Daemon

from memoryd_client.errors import RequestError

NOW = "2026-11-29T10:00:00+01:00"
DAYS = ("2026-03-23", "2026-03-24", "2026-10-07", "2026-11-20", "2026-11-27", "2026-11-28")
LINES = ("Oiled the gate.", "Read the contract.", "Called the printer.", "Swept the yard.")


def diary(daemon: Daemon) -> Daemon:
    for number, day in enumerate(DAYS):
        daemon.write(f"memory/{day}.md", f"- {LINES[number % 4]}\n- see 2026-03-23 for more\n")
    daemon.write("memory/people.md", "# People\n- Ravi, born March 23, sits in Lisbon.\n")
    daemon.start().sync()
    return daemon


@pytest.fixture
def days(daemon: Daemon) -> Daemon:
    return diary(daemon)


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("2026-03-23", "2026-03-23"),
        ("what did we do on March 23?", "2026-03-23"),
        ("what did we do on 23.3.2026", "2026-03-23"),
        ("3月23日我们做了什么", "2026-03-23"),
        ("что мы делали 23 марта", "2026-03-23"),
        ("yesterday", "2026-11-28"),
        ("was haben wir letzten Freitag gemacht?", "2026-11-27"),
        ("what happened in October", "2026-10-07"),
        ("2026-W47", "2026-11-20"),
        ("contract on March 24", "2026-03-24"),
    ],
)
def test_a_question_about_a_day_finds_its_note_first(days: Daemon, query: str, day: str) -> None:
    found = days.search(query, now=NOW, min_score=0.0)
    assert (found.results[0].path, found.results[0].date) == (f"memory/{day}.md", day)


def test_the_day_is_that_of_who_asks(days: Daemon) -> None:
    for now, day in ((NOW, "2026-11-28"), ("2026-11-29T00:30:00+14:00", "2026-11-28")):
        assert days.paths("yesterday", now=now)[0] == f"memory/{day}.md"
    assert days.paths("yesterday", now="2026-11-28T23:30:00-11:00")[0] == "memory/2026-11-27.md"


@pytest.mark.parametrize("now", ["today", "2026-11-29", "2026-11-29T10:00:00", ""])
def test_a_time_without_offset_is_refused(daemon: Daemon, now: str) -> None:
    daemon.start()
    message = re.escape("now must be a time like 2026-11-28T09:30:00+01:00")
    with daemon.client() as client, pytest.raises(RequestError, match=message):
        client.search("yesterday", now=now)


def test_words_find_what_is_of_that_day_among_many(daemon: Daemon) -> None:
    for day in range(1, 29):
        daemon.write(f"memory/2026-05-{day:02}.md", "The boiler was noisy again.\n")
    daemon.write("memory/2026-03-23 standup.md", "Nobody had any news.\n")
    daemon.start().sync()
    assert daemon.paths("boiler news of March 23", now=NOW)[0] == "memory/2026-03-23 standup.md"


def test_a_heading_has_the_date_of_a_part(daemon: Daemon) -> None:
    parts = [f"## {day}\n{'Swept the yard and oiled the gate. ' * 40}\n" for day in DAYS]
    daemon.write("memory/log.md", "# Log\n" + "".join(parts))
    daemon.write("memory/other.md", "# March 23\nno year, but a heading\n")
    daemon.start().sync()
    first = daemon.search("what did we do on 2026-03-23?", now=NOW, min_score=0.0).results[0]
    assert (first.path, first.start_line) in {("memory/log.md", 1), ("memory/other.md", 1)}
    first = daemon.search("what did we do on October 7?", now=NOW, min_score=0.0).results[0]
    assert "2026-10-07" in first.snippet


def test_front_matter_dates_a_note(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "---\ncreated: 2026-03-23T08:00\n---\nOiled the gate.\n")
    daemon.write("memory/b.md", "Oiled the gate, oiled the gate.\n")
    daemon.start().sync()
    first = daemon.search("gate on March 23", now=NOW, min_score=0.0).results[0]
    assert (first.path, first.date) == ("memory/a.md", "2026-03-23")
    assert daemon.paths("gate", until="2026-03-23") == ["memory/a.md"]
