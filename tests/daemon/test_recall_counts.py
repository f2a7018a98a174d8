"""Recalls of dated notes: whose searches are counted, what is kept of them, and for how long."""

import hashlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import restricting
from harness import Daemon
from mcp_session import McpSession
from waiting import PATIENCE_S, eventually

from memoryd_client import Client

NOTE = """\
# 2026-11-20

- Wout of the Nieuwpoort marina wants phone calls.
- The Calda boiler shows F28 without pressure.
"""
WOUT, BOILER = "Nieuwpoort marina Wout", "Calda boiler F28"
ON = "promotion.tracking = true"


@pytest.fixture
def tracking(daemon: Daemon) -> Daemon:
    """A daemon that counts, not started yet, with one dated note and others."""
    daemon.settings += f"\n{ON}"
    fill(daemon)
    return daemon


def fill(daemon: Daemon) -> None:
    daemon.write("memory/2026-11-20.md", NOTE)
    daemon.write("MEMORY.md", "- Wout of the Nieuwpoort marina has a grey boat.\n")
    for number in range(12):
        daemon.write(f"memory/other{number}.md", f"Subject {number} is something else.\n")


def agent_of(daemon: Daemon, kind: str = "agent", path: Path | None = None) -> Client:
    socket = str(daemon.socket if path is None else path)
    return Client(socket, wait_s=PATIENCE_S, timeout_s=PATIENCE_S, kind=kind)


def ask(daemon: Daemon, *questions: str, kind: str = "agent", **options: Any) -> None:
    with agent_of(daemon, kind) as client:
        for question in questions:
            assert client.search(question, **options).results


def rows(daemon: Daemon) -> list[dict[str, Any]]:
    """Return what the index of a stopped daemon has counted, in the order of the lines."""
    with sqlite3.connect(daemon.database) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute("SELECT * FROM recalls ORDER BY path, first_line").fetchall()
    connection.close()
    return [dict(row) for row in found]


def counted(daemon: Daemon) -> list[tuple[str, int, int]]:
    """Return (path, first line, recalls) of each entry."""
    return [(row["path"], row["first_line"], row["recalls"]) for row in rows(daemon)]


def test_searches_of_agents_are_counted_by_entry(tracking: Daemon) -> None:
    tracking.start().sync()
    ask(tracking, WOUT, WOUT, BOILER)
    assert tracking.stop() == 0
    assert counted(tracking) == [("memory/2026-11-20.md", 3, 2), ("memory/2026-11-20.md", 4, 1)]
    first = rows(tracking)[0]
    assert len(json.loads(first["questions"])) == 1  # the same question twice
    assert len(json.loads(first["days"])) in (1, 2)  # it may be midnight
    assert 1.0 <= first["total"] <= 2.0
    tracking.start().assert_healthy()


def test_nothing_is_counted_unless_it_is_configured(daemon: Daemon) -> None:
    fill(daemon)
    daemon.start().sync()
    ask(daemon, WOUT)
    daemon.stop()
    assert rows(daemon) == []
    assert not Path(f"{daemon.database}.tombstone-key").exists()


@pytest.mark.parametrize("kind", ["", "tool", "bench", "Agent"])
def test_other_kinds_of_clients_are_not_counted(tracking: Daemon, kind: str) -> None:
    tracking.start().sync()
    ask(tracking, WOUT, kind=kind)
    tracking.memctl("search", WOUT)
    tracking.memctl("recall", f"call {WOUT}")
    tracking.stop()
    assert rows(tracking) == []


def test_recall_is_counted_and_get_and_groups_are_not(tracking: Daemon) -> None:
    tracking.start().sync()
    with agent_of(tracking) as client:
        assert client.recall(f"Tell Wout of the {WOUT} that I am late").entries
        client.get("memory/2026-11-20.md")
    ask(tracking, BOILER, chat_type="group")
    tracking.stop()
    assert counted(tracking) == [("memory/2026-11-20.md", 3, 1)]


def test_the_restricted_socket_counts_nothing(tracking: Daemon) -> None:
    table = '[socket]\nrestricted = true\nallow = ["search", "recall"]\n'
    tracking.write_config()
    tracking.start(config=table + tracking.config.read_text())
    tracking.sync()
    with agent_of(tracking, path=restricting.restricted_of(tracking)) as client:
        assert client.search(WOUT).results
        assert client.recall(f"Tell Wout of the {WOUT} that I am late").entries
    tracking.stop()
    assert rows(tracking) == []


def test_mcp_servers_and_hooks_are_agents(tracking: Daemon) -> None:
    tracking.start().sync()
    with McpSession(environment=tracking.environment, folder=tracking.workspace) as session:
        session.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})
        found = session.ask("tools/call", name="memory_search", arguments={"query": WOUT})
        assert "Wout" in found["content"][0]["text"]
    event = {
        "session_id": "s1",
        "cwd": str(tracking.workspace),
        "hook_event_name": "UserPromptSubmit",
        "prompt": f"Tell Wout of the {WOUT} that I am late",
    }
    done = subprocess.run(
        [sys.executable, "-m", "memctl", "hook", "claude", "UserPromptSubmit", "--timeout", "60"],
        input=json.dumps(event).encode(),
        capture_output=True,
        env=tracking.environment,
        check=True,
    )
    assert b"Wout" in done.stdout
    tracking.stop()
    assert counted(tracking) == [("memory/2026-11-20.md", 3, 2)]


def test_untrusted_and_undated_notes_are_not_counted(tracking: Daemon) -> None:
    tracking.write("memory/2026-11-22.md", UNTRUSTED)
    tracking.write("memory/2026-13-45.md", "- The Zandvliet lock opens at seven.\n")
    tracking.write("memory/old/2026-11-01.md", "- The Lillo ferry leaves at nine.\n")
    tracking.write("memory/ferry-2026-11-01.md", "- The Kallo tunnel has a toll.\n")
    tracking.write("memory/2026-11-02-0915.md", "- The Hoboken shipyard sells tickets.\n")
    tracking.start().sync()
    ask(tracking, "Zwijndrecht password", "Zandvliet lock", "Lillo ferry", "Kallo tunnel")
    ask(tracking, "Perenboom crate", "Doel windmill", "Bazel castle", "Hoboken shipyard")
    tracking.stop()
    assert counted(tracking) == [("memory/2026-11-22.md", 11, 1)]


UNTRUSTED = """\
- The Zwijndrecht password is lost. <!-- memoryd: id=3f2a9c01d4e5; origin=untrusted -->

<<<EXTERNAL_UNTRUSTED_CONTENT id="a">>>
The Perenboom crate costs nothing.
<<<END_EXTERNAL_UNTRUSTED_CONTENT id="a">>>

<!-- openclaw:dreaming:light:start -->
- The Doel windmill turns.
<!-- openclaw:dreaming:light:end -->

- The Bazel castle is closed.
"""


def test_counts_survive_a_restart_and_another_chunking(tracking: Daemon) -> None:
    tracking.start().sync()
    ask(tracking, WOUT)
    tracking.stop()
    moved = NOTE.replace("# 2026-11-20\n\n", "# 2026-11-20\n\n- Something before it.\n")
    tracking.write("memory/2026-11-20.md", moved)
    tracking.settings += "\nchunking.tokens = 16\nchunking.overlap = 0"
    tracking.start().sync()
    ask(tracking, f"{WOUT} phone calls")
    tracking.stop()
    assert counted(tracking) == [("memory/2026-11-20.md", 4, 2)]
    assert len(json.loads(rows(tracking)[0]["questions"])) == 2


def test_a_changed_entry_begins_anew(tracking: Daemon) -> None:
    tracking.start().sync()
    ask(tracking, WOUT)
    tracking.stop()
    tracking.write("memory/2026-11-20.md", NOTE.replace("phone calls", "letters"))
    tracking.start().sync()
    ask(tracking, WOUT)
    tracking.stop()
    assert [row["recalls"] for row in rows(tracking)] == [1, 1]


def test_a_kill_loses_only_what_is_not_written(tracking: Daemon) -> None:
    tracking.start().sync()
    ask(tracking, WOUT)

    def is_written() -> bool:
        with sqlite3.connect(f"file:{tracking.database}?mode=ro", uri=True) as connection:
            found = connection.execute("SELECT count(*) FROM recalls").fetchone()[0]
        connection.close()
        return bool(found)

    eventually(is_written)
    ask(tracking, BOILER)
    tracking.kill()
    tracking.start().sync()
    ask(tracking, WOUT)
    tracking.stop()
    assert ("memory/2026-11-20.md", 3, 2) in counted(tracking)
    assert all(row["recalls"] <= 2 for row in rows(tracking))
    tracking.start().assert_healthy()


def test_a_rebuild_keeps_the_counts(tracking: Daemon) -> None:
    tracking.start().sync()
    ask(tracking, WOUT)
    tracking.stop()
    before = rows(tracking)
    assert before
    tracking.start()
    tracking.memctl("index", "--force")
    tracking.stop()
    assert rows(tracking) == before


def test_with_another_key_counting_begins_anew(tracking: Daemon) -> None:
    tracking.start().sync()
    ask(tracking, WOUT, BOILER)
    tracking.stop()
    Path(f"{tracking.database}.tombstone-key").unlink()
    tracking.start()
    ask(tracking, WOUT)
    tracking.stop()
    assert counted(tracking) == [("memory/2026-11-20.md", 3, 1)]
    tracking.start().assert_healthy()


def test_forgetting_removes_the_counts(tracking: Daemon) -> None:
    tracking.write("memory/2026-11-21.md", "- Karel keeps the Merksem key.\n")
    tracking.start().sync()
    ask(tracking, WOUT, BOILER, "Merksem key Karel")
    tracking.stop()
    assert len(rows(tracking)) == 3
    tracking.start()
    with tracking.client() as client:
        client.forget(path="memory/2026-11-21.md", delete_source=True)
        client.forget(match="the calda BOILER f28 ")  # a question, with other words before it
        client.forget(match=" calda  BOILER f28")
    tracking.stop()
    assert counted(tracking) == [("memory/2026-11-20.md", 3, 1)]
    tracking.start().assert_healthy()
    with tracking.client() as client:
        client.forget(match="phone calls")  # still in the note, so all that was counted of it goes
    tracking.stop()
    assert rows(tracking) == []


def test_neither_text_nor_question_is_kept_or_exported(tracking: Daemon) -> None:
    chats = tracking.folder / "chats"
    chats.mkdir()
    record = {"role": "user", "content": "hello there"}
    (chats / "s1.jsonl").write_text(json.dumps(record) + "\n")
    tracking.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    tracking.start().sync()
    ask(tracking, "Nieuwpoort qqzebra Wout marina")
    with agent_of(tracking) as client:
        exported = client.export()
    tracking.stop()
    (row,) = rows(tracking)
    assert "wout" not in json.dumps(row).lower()
    assert [each.name for each in exported.transcripts] == ["sessions/chats/s1.jsonl"]
    everything = b"".join(
        file.read_bytes() for file in tracking.database.parent.rglob("*") if file.is_file()
    )
    assert b"qqzebra" not in everything
    # Without the secret key, nobody can compare a guess with a hash.
    question = "recall question\nnieuwpoort qqzebra wout marina"
    assert hashlib.sha256(question.encode()).hexdigest()[:32] not in json.dumps(row)
