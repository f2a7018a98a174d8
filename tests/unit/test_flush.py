"""When an agent saves notes before a compaction, and what it is told."""

from datetime import datetime

import pytest

from memoryd_client import should_flush
from memoryd_client.flush import flush_context, flush_text

MIDNIGHT = datetime.fromisoformat("2026-11-28T23:59:30+00:00")


def config(*, tool: bool = False, zone: str | None = None) -> dict[str, object]:
    return {"notes.tool": tool, "timezone": zone}


@pytest.mark.parametrize(
    ("used", "window", "size", "due"),
    [
        (195_999, 200_000, 0, False),
        (196_000, 200_000, 0, True),
        (250_000, 200_000, 0, True),
        (0, 200_000, 2 * 1024 * 1024 - 1, False),
        (0, 200_000, 2 * 1024 * 1024, True),
        (5, 1_000, 0, True),
        (5_000, 0, 0, False),
    ],
)
def test_a_flush_is_due_shortly_before_the_window_is_full(
    used: int, window: int, size: int, due: bool
) -> None:
    assert should_flush(used, window, size) is due


def test_a_flush_is_due_once_between_two_compactions() -> None:
    assert not should_flush(199_000, 200_000, 0, compactions=0, flushed_after=0)
    assert should_flush(199_000, 200_000, 0, compactions=1, flushed_after=0)
    assert not should_flush(199_000, 200_000, 0, compactions=1, flushed_after=1)


def test_the_file_is_that_of_the_local_day() -> None:
    for zone, day in (("UTC", "2026-11-28"), ("Pacific/Auckland", "2026-11-29")):
        text = flush_text(config(zone=zone), "", MIDNIGHT)
        assert f"Today is {day} ({zone}). Write to memory/{day}.md only" in text
        assert "`memctl note TEXT`" in text
        assert "Only append" in text
        assert "MEMORY.md, USER.md and all other files of memory are read-only" in text
        assert "answer NO_REPLY and nothing else" in text
    assert "2026-11-28 (local time)" in flush_text(config(), "", MIDNIGHT)


def test_the_notes_name_their_session_and_the_tool_that_is_allowed() -> None:
    text = flush_text(config(), "a b;`", MIDNIGHT)
    assert "`memctl note --conversation 'a b;`' TEXT`" in text
    assert "the tool memory_note" in flush_text(config(tool=True), "s", MIDNIGHT)


def test_an_instruction_that_joins_a_prompt_needs_consent_and_leaves_the_answer_alone() -> None:
    assert flush_context(config(), MIDNIGHT) == ""
    text = flush_context(config(tool=True, zone="Pacific/Auckland"), MIDNIGHT)
    assert "Write to memory/2026-11-29.md only, with the tool memory_note" in text
    assert "answer the message as usual" in text
    assert "NO_REPLY" not in text
