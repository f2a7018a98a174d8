"""`memctl connect` beside a running daemon, whose configuration it changes."""

import json
from pathlib import Path

from harness import Daemon

RECORDS = [
    {"type": "user", "message": {"role": "user", "content": "Where is the zither?"}},
    {"type": "assistant", "message": {"role": "assistant", "content": "In the attic."}},
]


def converse(daemon: Daemon) -> Path:
    """Write a conversation with Claude Code."""
    path = daemon.folder / ".claude" / "projects" / "-work" / "a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(
        "".join(json.dumps({**r, "sessionId": "a", "cwd": "/work"}) + "\n" for r in RECORDS)
    )
    return path


def test_the_daemon_reads_the_agents_transcripts_from_now_on(daemon: Daemon) -> None:
    converse(daemon)
    daemon.start()
    before = daemon.config.read_text()
    assert daemon.paths("zither") == []
    done = daemon.memctl("connect", "claude")
    assert f"{daemon.config}\n  + defaults.sessions.formats" in done.stdout
    assert done.stderr == ""
    daemon.sync()
    assert daemon.paths("zither") == ["sessions/claude/-work/a.jsonl"]
    daemon.memctl("disconnect", "claude")
    assert daemon.config.read_text() == before
    daemon.sync()
    assert daemon.paths("zither") == []
    daemon.assert_healthy()


def test_who_lets_agents_write_notes_is_told_how_they_are_saved(daemon: Daemon) -> None:
    converse(daemon)
    daemon.settings += "\nnotes = { tool = true }"
    daemon.start()
    done = daemon.memctl("connect", "claude")
    assert "note: Claude Code asks you before each note; allow mcp__memoryd__memory_note" in (
        done.stderr
    )
    assert "note: the model is asked to save notes with a prompt of yours" in done.stderr


def test_a_configuration_that_can_not_be_loaded_is_reported(daemon: Daemon) -> None:
    converse(daemon)
    daemon.start()
    daemon.config.write_text(f"{daemon.config.read_text()}\n[agents.other]\nunknown = 1\n")
    done = daemon.memctl("connect", "claude")
    assert "note: memoryd can't reload its configuration: " in done.stderr
    assert "unknown key unknown" in done.stderr
