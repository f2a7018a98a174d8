"""`memctl mcp` with a real daemon: a golden transcript, notes as resources, restarts, agents.

After a deliberate change, run this file with `MEMORYD_WRITE_GOLDEN=1` and read the difference.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from harness import Daemon
from mcp_session import MODERN, McpSession
from waiting import PATIENCE_S, eventually

from memoryd_client import __version__
from memoryd_client.prompt import PREFACE

GOLDEN = Path(__file__).parents[1] / "fixtures" / "mcp" / "transcript.jsonl"
DENTIST = "# Dentist\n\nThe dentist is Dr. Nakamura.\nShe is in on Mondays.\n"


@pytest.fixture
def started(daemon: Daemon) -> Daemon:
    daemon.write("MEMORY.md", DENTIST)
    daemon.write("memory/2026-11-28.md", "# Saturday\n\nGreen tea is out of stock & sold.\n")
    daemon.start().sync()
    return daemon


def session(daemon: Daemon, *options: str, folder: Path | None = None) -> McpSession:
    return McpSession(*options, environment=daemon.environment, folder=folder or daemon.workspace)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "golden", "version": "1"},
        },
    ),
    ("tools/list", {}),
    ("tools/call", call("memory_search", query="who is the dentist?")),
    ("tools/call", call("memory_search", query="green tea", since="2026-11-28", corpus="memory")),
    ("tools/call", call("memory_search", query="zebra crossing")),
    ("tools/call", call("memory_search", query="tea", since="soon")),
    ("tools/call", call("memory_search", query="tea", corpus="wiki")),
    ("tools/call", call("memory_get", path="MEMORY.md", **{"from": 3, "lines": 1})),
    ("tools/call", call("memory_get", path="memory/2026-11-28.md#L3")),
    ("tools/call", call("memory_get", path="memory/none.md")),
    ("tools/call", call("memory_get", path="/etc/passwd")),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "memory://note/memory/2026-11-28.md"}),
    ("resources/read", {"uri": "memory://note/memory/none.md"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "recall", "arguments": {"topic": "dentist"}}),
    ("logging/setLevel", {"level": "debug"}),
    ("server/discover", {"_meta": MODERN}),
    ("resources/read", {"uri": "memory://note/MEMORY.md", "_meta": MODERN}),
    ("tools/call", {**call("memory_search", query="green tea"), "_meta": MODERN}),
)


def test_the_transcript_is_as_recorded(started: Daemon) -> None:
    lines = []
    with session(started) as server:
        for method, params in REQUESTS:
            server.request(method, **params)
            answer = server.receive()
            lines += [{"method": method, "params": params}, answer]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    text = text.replace(__version__, "VERSION").replace(str(started.folder), "FOLDER")
    if "MEMORYD_WRITE_GOLDEN" in os.environ:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text, encoding="utf-8")
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_every_note_is_a_resource_whatever_its_name(started: Daemon) -> None:
    names = ("memory/a b#c?.md", "memory/50%25.md", "memory/茶.md", "memory/sub/x.md")
    for name in names:
        started.write(name, f"the note {name}\n")
    started.sync()
    with session(started) as server:
        listed = {note["name"]: note for note in server.ask("resources/list")["resources"]}
        assert set(listed) == {"context", *names, "MEMORY.md", "memory/2026-11-28.md"}
        for name in names:
            uri = listed[name]["uri"]
            assert uri.isascii()
            assert " " not in uri
            (content,) = server.ask("resources/read", uri=uri)["contents"]
            assert content == {
                "uri": uri,
                "mimeType": "text/markdown",
                "text": f"the note {name}",
            }


def test_a_long_note_is_read_whole_up_to_a_limit(started: Daemon) -> None:
    long = "\n".join(f"line {number} of a long note" for number in range(1, 2_001))
    started.write("memory/long.md", long)
    started.write("memory/longer.md", f"{long}\n{long}\n{long}\n{long}\n")
    started.sync()
    with session(started) as server:
        (content,) = server.ask("resources/read", uri="memory://note/memory/long.md")["contents"]
        assert content["text"] == long
        (content,) = server.ask("resources/read", uri="memory://note/memory/longer.md")["contents"]
        text, _, rest = content["text"].rpartition("\n\n[More content available. ")
        last = int(rest.removeprefix("Use memory_get with from=").removesuffix(".]")) - 1
        assert text == "\n".join(f"{long}\n{long}\n{long}\n{long}".split("\n")[:last])


def test_notes_are_listed_by_pages(started: Daemon) -> None:
    for number in range(205):
        started.write(f"memory/{number:03}.md", f"note {number}\n")
    started.sync()
    with session(started) as server:
        first = server.ask("resources/list")
        assert len(first["resources"]) == 1 + 200
        rest = server.ask("resources/list", cursor=first["nextCursor"])
        assert "nextCursor" not in rest
        uris = {note["uri"] for note in first["resources"] + rest["resources"]}
        assert len(uris) == 1 + 207


def test_context_and_recall_are_resources_for_clients_without_hooks(started: Daemon) -> None:
    started.write("MEMORY.md", "- The boiler's pin is 4471.\n")
    started.sync()
    with session(started) as server:

        def read(uri: str) -> str:
            (content,) = server.ask("resources/read", uri=uri)["contents"]
            return str(content["text"])

        for uri in ("memory://context", "memory://recall/what%20is%20the%20boiler%27s%20pin%3F"):
            assert read(uri).startswith("<memoryd-context>")
            assert "pin is 4471" in read(uri)
        assert read("memory://recall/write%20a%20poem%20about%20rain") == ""


def test_private_text_is_in_no_answer(started: Daemon) -> None:
    started.write("memory/keys.md", "The door\n<private>code is 4711</private>\nis blue.\n")
    started.sync()
    with session(started) as server:
        (content,) = server.ask("resources/read", uri="memory://note/memory/keys.md")["contents"]
        assert "is blue" in content["text"]
        assert "4711" not in content["text"]
        assert "4711" not in server.tool("memory_get", path="memory/keys.md")
        assert "4711" not in server.tool("memory_search", query="door code 4711")


def test_it_goes_on_after_a_restart_of_the_daemon(started: Daemon) -> None:
    with session(started, "--wait", "60") as server:
        assert "Nakamura" in server.tool("memory_search", query="dentist")
        started.stop()
        request_id = server.request("tools/call", **call("memory_search", query="dentist"))
        started.start()
        answer = server.receive()
        assert answer["id"] == request_id
        assert "Nakamura" in answer["result"]["content"][0]["text"]


def test_a_call_starts_a_daemon_if_the_configuration_says_so(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", DENTIST)
    config = Path(daemon.environment["XDG_CONFIG_HOME"]) / "memoryd" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'autostart = true\n[agents.main]\nprovider = "none"\nworkspace = "{daemon.workspace}"\n'
    )
    try:
        with session(daemon, "--timeout", str(PATIENCE_S)) as server:
            # The first scan may still be running.
            eventually(lambda: "Nakamura" in server.tool("memory_search", query="dentist"))
    finally:
        daemon.memctl("stop")


def test_conversations_that_are_not_indexed_are_no_empty_answer(started: Daemon) -> None:
    with session(started) as server:
        said = server.tool("memory_search", query="tea", corpus="sessions")
    assert "No match in memory." in said
    assert "transcripts are not enabled" in said


def test_the_folder_of_the_agent_chooses_the_memory(started: Daemon) -> None:
    started.stop()
    other = started.add_agent("other")
    started.start().sync()
    with started.client("other") as client:
        client.sync()
    (below := other / "src").mkdir()
    for folder, options, is_other in (
        (below, (), True),
        (started.workspace, (), False),
        (started.folder, (), False),
        (started.folder, ("--agent", "other"), True),
    ):
        with session(started, *options, folder=folder) as server:
            said = server.tool("memory_search", query="the note of other")
            assert ("the note of other" in said) is is_other, folder
    with session(started, "--agent", "none") as server:
        assert "none" in server.tool("memory_search", fails=True, query="tea")


def test_a_search_is_at_most_4000_characters(started: Daemon) -> None:
    for number in range(12):
        lines = [f"green tea & cup{number}x{line}" for line in range(60)]
        started.write(f"memory/tea-{number}.md", "\n".join(lines))
    started.sync()
    with session(started) as server:
        said = server.tool("memory_search", query="green tea", maxResults=12)
        assert len(said) <= 4_000
        assert PREFACE in said
        assert "more results left out" in said


def test_the_restricted_socket_permits_the_tools(started: Daemon) -> None:
    started.stop()
    config = started.config.read_text()
    folder = started.folder / "agent"
    folder.mkdir(mode=0o700)
    restricted = folder / "s"
    started.start(config=f'[socket]\nrestricted = "{restricted}"\n{config}').sync()
    with session(started, "--socket", str(restricted)) as server:
        assert "Nakamura" in server.tool("memory_search", query="dentist")
        code, message = server.refused("resources/list")
        assert (code, "files" in message) == (-32603, True)


def names(server: McpSession) -> list[str]:
    return [tool["name"] for tool in server.ask("tools/list")["tools"]]


def test_notes_are_written_only_if_the_configuration_allows_it(started: Daemon) -> None:
    with session(started) as server:
        assert names(server) == ["memory_search", "memory_get"]
        assert "notes.tool = true" in server.tool("memory_note", fails=True, text="figs")
        started.settings += "\nnotes.tool = true"
        started.write_config()
        started.memctl("reload")
        (*_, listed) = server.ask("tools/list")["tools"]
        assert (listed["name"], listed["annotations"]["readOnlyHint"]) == ("memory_note", False)
        said = server.tool("memory_note", text="Ben likes figs", kind="fact", file="MEMORY.md")
        assert said == "Noted: MEMORY.md#L6"
        again = server.tool("memory_note", text="Ben likes figs")
        assert again == "Already noted: MEMORY.md#L6"
        assert "Ben likes figs" in server.tool("memory_search", query="figs")
        wrong = server.tool("memory_note", fails=True, text="x", file="notes.md")
        assert "memoryd writes no notes into notes.md" in wrong
        assert "it takes text, kind" in server.tool("memory_note", fails=True, words="x")
        meta = {"memoryd/chatType": "group"}
        server.ask("tools/call", **call("memory_note", text="Ben hates plums"), _meta=meta)
    assert started.search("Ben figs").results[0].origin == "agent"
    assert started.search("plums").results[0].origin == "untrusted"


def test_the_restricted_socket_writes_no_note(started: Daemon) -> None:
    started.stop()
    started.settings += "\nnotes.tool = true"
    started.write_config()
    config = started.config.read_text()
    folder = started.folder / "agent"
    folder.mkdir(mode=0o700)
    restricted = folder / "s"
    allow = 'allow = ["search", "config"]'
    started.start(config=f'[socket]\nrestricted = "{restricted}"\n{allow}\n{config}').sync()
    with session(started, "--socket", str(restricted)) as server:
        assert "not permitted" in server.tool("memory_note", fails=True, text="figs")
    assert not started.search("figs").results
