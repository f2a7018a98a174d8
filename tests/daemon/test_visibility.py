"""Visibility of transcripts: by session, by what a session spawned, and by agent."""

import json
from typing import Any

import pytest
from harness import Daemon

from bench.openclaw_store import OpenClawWriter
from memoryd_client.errors import DeniedError

STORE: dict[str, dict[str, Any]] = {
    "agent:main:main": {"sessionId": "top"},
    "agent:main:subagent:a": {"sessionId": "child", "spawnedBy": "agent:main:main"},
    "agent:main:subagent:b": {
        "sessionId": "grandchild",
        "parentSessionKey": "agent:main:subagent:a",
    },
    "agent:main:telegram:direct:7": {"sessionId": "other"},
}
NAMES = ("top", "child", "grandchild", "other")


def start(daemon: Daemon, visibility: str) -> None:
    """Start a daemon with OpenClaw's sessions and one of another agent."""
    for agent in ("main", "else"):
        folder = daemon.folder / f"state/agents/{agent}/sessions"
        folder.mkdir(parents=True)
        for name in NAMES if agent == "main" else ("foreign",):
            message = {"role": "user", "content": f"the {name} quince"}
            records: list[dict[str, Any]] = [
                {"type": "session", "version": 3, "id": name},
                {"type": "message", "parentId": None, "message": message},
            ]
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"{name}.jsonl").write_text(lines)
    (daemon.folder / "state/agents/main/sessions/sessions.json").write_text(json.dumps(STORE))
    daemon.settings += (
        '\nsessions = { enabled = true, paths = ["~/state/agents/*/sessions"],'
        f' visibility = "{visibility}" }}'
    )
    daemon.start().sync()


def seen(daemon: Daemon, **options: Any) -> set[str]:
    """Return the sessions that a search finds, all of which `get` must show too."""
    with daemon.client() as client:
        hits = client.search("quince", max_results=20, **options).results
    return {hit.path.rpartition("/")[2].removesuffix(".jsonl") for hit in hits}


def shown(daemon: Daemon, **options: Any) -> set[str]:
    """Return the sessions that `get` shows; the others are refused."""
    found = set()
    with daemon.client() as client:
        for entry in client.sessions():
            try:
                assert "quince" in client.get(entry.path, **options).text
            except DeniedError as error:
                assert "sessions.visibility is" in str(error)  # noqa: PT017 - some are shown
            else:
                found.add(entry.path.rpartition("/")[2].removesuffix(".jsonl"))
    return found


@pytest.mark.parametrize(
    ("visibility", "of_top", "of_child", "of_nobody"),
    [
        ("self", {"top"}, {"child"}, set()),
        ("tree", {"top", "child", "grandchild"}, {"child", "grandchild"}, set()),
        ("agent", set(NAMES), set(NAMES), set(NAMES)),
        ("all", {*NAMES, "foreign"}, {*NAMES, "foreign"}, {*NAMES, "foreign"}),
    ],
)
def test_get_shows_what_a_search_sees(
    hybrid: Daemon, visibility: str, of_top: set[str], of_child: set[str], of_nobody: set[str]
) -> None:
    start(hybrid, visibility)
    for options, expected in (
        ({"session": "top"}, of_top),
        ({"session": "child"}, of_child),
        ({"session": "unknown"}, of_nobody),
        ({}, of_nobody),
    ):
        assert seen(hybrid, **options) == shown(hybrid, **options) == expected
    hybrid.assert_healthy()


def test_a_search_may_ask_for_less(hybrid: Daemon) -> None:
    start(hybrid, "agent")
    assert seen(hybrid, visibility="tree", session="top") == {"top", "child", "grandchild"}
    assert seen(hybrid, visibility="self", session="top") == {"top"}
    found = hybrid.memctl_json("search", "quince", "--visibility", "tree", "--session", "child")
    assert {hit["path"].rpartition("/")[2] for hit in found["results"]} == {
        "child.jsonl",
        "grandchild.jsonl",
    }


def test_memctl_get_names_the_session_that_asks(hybrid: Daemon) -> None:
    start(hybrid, "tree")
    with hybrid.client() as client:
        (name,) = [entry.path for entry in client.sessions() if entry.session == "grandchild"]
    assert "quince" in hybrid.memctl("get", name, "--session", "top").stdout
    refused = hybrid.memctl("get", name, "--session", "other", code=1)
    assert f"{name} can't be seen: sessions.visibility is tree" in refused.stderr
    assert "hint: name the session that asks" in refused.stderr


def test_sessions_of_a_store_see_those_below_them(hybrid: Daemon) -> None:
    hybrid.settings += '\nsessions = { enabled = true, visibility = "tree" }'
    store = OpenClawWriter(hybrid.folder / ".openclaw/agents/main/agent/openclaw-agent.sqlite")
    keys = {name: f"agent:main:thread:{name}" for name in ("top", "child", "grandchild", "other")}
    for name, above in (("top", ""), ("child", "top"), ("grandchild", "child"), ("other", "")):
        store.begin(name, keys[name], parent_session_key=keys.get(above))
        store.say(name, f"the {name} quince")
    hybrid.start().sync()
    of_top = {"top", "child", "grandchild"}
    assert seen(hybrid, session="top") == shown(hybrid, session="top") == of_top
    assert seen(hybrid, session="child") == {"child", "grandchild"}
    assert seen(hybrid, session=keys["top"]) == {"child", "grandchild"}
    store.db.execute("UPDATE session_windows SET parent_session_key = NULL")
    hybrid.sync()
    assert seen(hybrid, session="top") == {"top"}
    store.close()


def test_a_resumed_session_sees_the_messages_that_it_repeats(hybrid: Daemon) -> None:
    (hybrid.folder / "chats").mkdir()
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"], visibility = "self" }'
    for session in ("old", "new"):
        records = [
            {
                "type": "user",
                "uuid": uuid,
                "sessionId": session if uuid == session else "old",
                "message": {"role": "user", "content": f"the {uuid} quince"},
            }
            for uuid in dict.fromkeys(("old", session))
        ]
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (hybrid.folder / "chats" / f"{session}.jsonl").write_text(lines)
    hybrid.start().sync()
    assert seen(hybrid, session="new") == shown(hybrid, session="new") == {"old", "new"}
    assert seen(hybrid, session="old") == {"old"}
