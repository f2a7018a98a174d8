"""Hooks against a real daemon: what a session gets, and what of it is in memory afterwards."""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from harness import Daemon
from waiting import eventually

from memoryd_client.flush import flush_context

FACT = "The Calda boiler in the pantry shows F28 without pressure."
ASKED = "Listen, the Calda boiler in the pantry shows F28 and the zebra is cold"


def hook(daemon: Daemon, agent: str, name: str, **event: object) -> str:
    """Run a hook as an agent does; return the text that it adds to the session."""
    payload = {"session_id": "s1", "cwd": str(daemon.workspace), "hook_event_name": name, **event}
    done = subprocess.run(
        [sys.executable, "-m", "memctl", "hook", agent, name, "--timeout", "60"],
        input=json.dumps(payload).encode(),
        capture_output=True,
        env=daemon.environment,
        check=True,
    )
    assert done.stderr == b""
    if not done.stdout:
        return ""
    output: dict[str, Any] = json.loads(done.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == name
    return str(output["additionalContext"])


def append(file: Path, role: str, text: str) -> None:
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    record = {"type": role, "uuid": "u", "sessionId": "s1", "message": message}
    with file.open("a", encoding="utf-8") as transcript:
        transcript.write(json.dumps(record) + "\n")


def test_a_session_with_hooks_is_found_without_what_they_added(daemon: Daemon) -> None:
    folder = daemon.folder / "chats"
    folder.mkdir()
    daemon.settings = "sync = { watch_debounce_ms = 20, sessions = { idle_seconds = 3600 } }\n"
    daemon.settings += 'sessions = { enabled = true, paths = ["~/chats"] }'
    daemon.write("MEMORY.md", f"# Home\n- {FACT}\n- Something else entirely.\n")
    daemon.start().sync()
    begin = hook(daemon, "claude", "SessionStart", source="startup")
    assert FACT in begin
    assert "Something else" in begin
    fits = hook(daemon, "claude", "UserPromptSubmit", prompt=ASKED)
    assert FACT in fits
    assert "Something else" not in fits
    assert hook(daemon, "claude", "UserPromptSubmit", prompt="fix the failing test") == ""
    added = f"<hook_context>{begin}{fits}</hook_context>\n\nfix the failing test"
    assert hook(daemon, "gemini", "BeforeAgent", prompt=added) == ""
    transcript = folder / "s1.jsonl"
    append(transcript, "user", f"{begin}\n{fits}\n{ASKED}")
    append(transcript, "assistant", "Fill it up at the tap, giraffe.")
    assert hook(daemon, "claude", "Stop", transcript_path=str(transcript)) == ""
    eventually(lambda: bool(daemon.paths("giraffe", sources=["sessions"])))
    (hit,) = daemon.search("zebra", sources=["sessions"]).results
    assert ASKED in hit.snippet
    assert "Something else" not in hit.snippet
    assert "memoryd-context" not in hit.snippet


def test_each_agent_has_its_own_names(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", f"- {FACT}\n")
    daemon.start().sync()
    assert FACT in hook(daemon, "codex", "SessionStart", source="resume", model="m")
    assert FACT in hook(daemon, "gemini", "BeforeAgent", prompt=ASKED, timestamp="2026-11-28")
    assert FACT in hook(daemon, "codex", "UserPromptSubmit", prompt=ASKED, turn_id="1")
    assert hook(daemon, "gemini", "PreCompress", trigger="auto") == ""


@pytest.mark.parametrize("allowed", [False, True])
def test_a_prompt_before_a_compaction_asks_for_notes_once(daemon: Daemon, allowed: bool) -> None:
    daemon.settings += '\ntimezone = "Pacific/Auckland"\nsessions = { enabled = true }'
    daemon.settings += f"\nnotes = {{ tool = {str(allowed).lower()} }}"
    daemon.write("MEMORY.md", f"- {FACT}\n")
    daemon.start().sync()
    transcript = daemon.folder / "s1.jsonl"
    append(transcript, "user", "hello there")
    usage = {"input_tokens": 150_000, "output_tokens": 9}
    record = {"type": "assistant", "message": {"role": "assistant", "content": [], "usage": usage}}
    with transcript.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")

    def ask(agent: str = "claude") -> str:
        payload = {"prompt": ASKED, "transcript_path": str(transcript)}
        return hook(daemon, agent, "UserPromptSubmit", **payload)

    day = datetime.now(ZoneInfo("Pacific/Auckland")).date().isoformat()
    text = ask()
    assert FACT in text
    assert (f"Write to memory/{day}.md only, with the tool memory_note" in text) is allowed
    assert "memory_note" not in ask("codex")  # it finds no counts of its own
    append(transcript, "user", f"{text}\n{ASKED}")
    assert "memory_note" not in ask()
    transcript.unlink()
    assert FACT in ask()


def test_what_a_hook_asks_for_is_not_memory(daemon: Daemon) -> None:
    folder = daemon.folder / "chats"
    folder.mkdir()
    daemon.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    daemon.start()
    asks = flush_context({"notes.tool": True}, datetime.now().astimezone())
    append(folder / "s1.jsonl", "user", f"{asks}\nthe zebra is cold")
    daemon.sync()
    assert daemon.paths("zebra", sources=["sessions"])
    assert not daemon.paths("outlast preference", sources=["sessions"], min_score=0.0)
