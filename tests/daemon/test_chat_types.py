"""Groups and channels: neither private notes nor private conversations are told there."""

import json
from pathlib import Path
from typing import Any

import pytest
from harness import Daemon
from mcp_session import McpSession

from bench.openclaw_store import OpenClawWriter
from memoryd_client import SessionStore, tools
from memoryd_client.errors import BadRequestError, DeniedError

WARNING = "in a group, MEMORY.md, USER.md and private conversations are left out"
CHATS = {
    "direct": "agent:main:telegram:direct:7",
    "group": "agent:main:telegram:group:-100",
    "channel": "agent:main:discord:channel:77",
    "unknown": "agent:main:subagent:x",
}


@pytest.fixture
def chats(hybrid: Daemon) -> Daemon:
    """A running daemon with notes, and with conversations of each kind."""
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    folder = hybrid.folder / "chats"
    folder.mkdir()
    for name in CHATS:
        write(folder, name, f"a {name} quince")
    keys = {key: {"sessionId": name} for name, key in CHATS.items()}
    (folder / "sessions.json").write_text(json.dumps(keys))
    for name in ("MEMORY.md", "USER.md", "memory/garden.md"):
        hybrid.write(name, f"# {name}\nthe quince of {name}\n")
    hybrid.start().sync()
    return hybrid


def write(folder: Path, name: str, *texts: str) -> None:
    records: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": name}]
    for text in texts:
        message = {"role": "user", "content": text}
        records.append({"type": "message", "parentId": None, "message": message})
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"{name}.jsonl").write_text(lines)


def paths(daemon: Daemon, query: str = "quince", **options: Any) -> set[str]:
    with daemon.client() as client:
        return {hit.path for hit in client.search(query, max_results=20, **options).results}


SHARED = {"memory/garden.md", "sessions/chats/group.jsonl", "sessions/chats/channel.jsonl"}
PRIVATE = {
    "MEMORY.md",
    "USER.md",
    "sessions/chats/direct.jsonl",
    "sessions/chats/unknown.jsonl",
}


@pytest.mark.parametrize("chat_type", ["group", "channel"])
def test_where_others_read_along_a_search_sees_nothing_private(
    chats: Daemon, chat_type: str
) -> None:
    assert paths(chats) == paths(chats, chat_type="direct") == SHARED | PRIVATE
    assert paths(chats, chat_type=chat_type) == SHARED
    for query in ("USER.md", "MEMORY.md#L1-L2", "quince path:MEMORY.md"):
        for mode in ("hybrid", "keyword", "vector"):
            assert paths(chats, query, chat_type=chat_type, mode=mode) <= SHARED
    with chats.client() as client:
        told = client.search("quince", chat_type=chat_type).warnings
        assert [warning.replace("channel", "group") for warning in told] == [WARNING]
        assert client.search("quince").warnings == []
        for path in SHARED:
            assert "quince" in client.get(path, chat_type=chat_type).text
        absolute = str(chats.workspace / "MEMORY.md")
        for path in (*PRIVATE, "./MEMORY.md", "memory/../USER.md", absolute, "MEMORY.md#L1-L2"):
            with pytest.raises(DeniedError, match=f"it is not for a {chat_type}"):
                client.get(path, chat_type=chat_type)
        for path in PRIVATE:
            assert "quince" in client.get(path, chat_type="direct").text


def test_the_kind_of_chat_is_one_of_three(chats: Daemon) -> None:
    with chats.client() as client:
        with pytest.raises(BadRequestError, match="chat_type must be one of direct, group, chan"):
            client.search("quince", chat_type="crowd")
        with pytest.raises(BadRequestError, match="chat_type must be one of direct, group, chan"):
            client.get("MEMORY.md", chat_type="crowd")


def test_memctl_and_the_tools_pass_it_on(chats: Daemon) -> None:
    found = chats.memctl_json("search", "quince", "--chat-type", "group", "--max-results", "20")
    assert {hit["path"] for hit in found["results"]} == SHARED
    assert WARNING in chats.memctl("search", "quince", "--chat-type", "group").stderr
    refused = chats.memctl("get", "MEMORY.md", "--chat-type", "group", code=1)
    assert "MEMORY.md is private: it is not for a group" in refused.stderr
    with chats.client() as client:
        call = {"query": "quince", "maxResults": 20}
        answer = tools.call_json(client, tools.SEARCH, call, chat_type="group")
        assert {hit["path"] for hit in answer["results"]} == SHARED
        assert answer["warning"] == WARNING
        answer = tools.call_json(client, tools.GET, {"path": "USER.md"}, chat_type="channel")
        assert answer["status"] == "error"
        assert "is private" in tools.call(client, tools.GET, {"path": "USER.md"}, chat_type="group")


def test_an_mcp_client_names_its_chat(chats: Daemon) -> None:
    def text(name: str, chat_type: str, **arguments: Any) -> str:
        meta = {"memoryd/chatType": chat_type}
        found = server.ask("tools/call", name=name, arguments=arguments, _meta=meta)
        return str(found["content"][0]["text"])

    with McpSession(environment=chats.environment, folder=chats.workspace) as server:
        answer = text(tools.SEARCH, "group", query="quince", maxResults=20)
        assert "memory/garden.md" in answer
        assert "USER.md:" not in answer
        assert WARNING in answer
        assert "is private" in text(tools.GET, "channel", path="MEMORY.md")
        assert "quince" in text(tools.GET, "direct", path="MEMORY.md")


def test_senders_tell_what_a_chat_is(chats: Daemon) -> None:
    def said(text: str, **info: Any) -> str:
        block = json.dumps({"sender_id": "+49170", "sender": "Ana", **info})
        return f"Conversation info (untrusted metadata):\n```json\n{block}\n```\n\n{text}"

    group = {"group_subject": "Family", "is_group_chat": True}
    folder = chats.folder / "chats"
    write(folder, "family", said("a walnut in the group", **group))
    write(folder, "ana", said("a walnut of Ana"))
    write(folder, "mixed", said("a walnut", **group), said("a private walnut"))
    chats.sync()
    assert len(paths(chats, "walnut")) == 3
    assert paths(chats, "walnut", chat_type="group") == {"sessions/chats/family.jsonl"}


def test_what_the_client_writes_into_the_older_store_is_read(chats: Daemon) -> None:
    store = SessionStore(chats.folder / "chats/store")
    for chat in ("chats/c1", "chats/c2", "groups/g1"):
        store.append(chat, {"role": "user", "content": f"the walnut of {chat}"})
    store.append("chats/c1", {"role": "assistant", "content": "a hazel"})
    store.compact("chats/c1", "They found a walnut.", 1)
    store.register("chats/c1", channel="whatsapp")
    store.register("chats/c2", channel="whatsapp", group_id="1203@g.us")
    chats.sync()
    with chats.client() as client:
        assert client.get("sessions/chats/store/chats/c1.json5").text.split("\n") == [
            "Assistant: a hazel",
            "Assistant: They found a walnut.",
        ]
    assert paths(chats, "walnut") == {
        f"sessions/chats/store/{chat}.json5" for chat in ("chats/c1", "chats/c2", "groups/g1")
    }
    assert paths(chats, "walnut", chat_type="group") == {
        "sessions/chats/store/groups/g1.json5",
        "sessions/chats/store/chats/c2.json5",
    }


def test_the_newer_store_tells_what_a_chat_is(hybrid: Daemon) -> None:
    hybrid.settings += "\nsessions = { enabled = true }"
    store = OpenClawWriter(hybrid.folder / ".openclaw/agents/main/agent/openclaw-agent.sqlite")
    for name in ("MEMORY.md", "USER.md", "memory/garden.md"):
        hybrid.write(name, f"# {name}\nthe quince of {name}\n")
    for name, key, window in (
        ("family", "agent:main:telegram:group:-100", {"chat_type": "group", "channel": "telegram"}),
        ("team", "agent:main:discord:channel:7", {"chat_type": "channel", "channel": "discord"}),
        ("scoped", "agent:main:matrix:room:8", {"session_scope": "group"}),
        ("ana", "agent:main:telegram:direct:9", {"chat_type": "direct", "channel": "telegram"}),
        ("local", "", {}),
    ):
        store.begin(name, key, **window)
        store.say(name, f"the quince of {name}", owner=None)
    for name in ("family", "ana"):  # an archive has only the key
        store.delete(name)
    hybrid.start().sync()
    shared = {"memory/garden.md", *(f"sessions/openclaw/{n}" for n in ("family", "team", "scoped"))}
    private = {"MEMORY.md", "USER.md", "sessions/openclaw/ana", "sessions/openclaw/local"}
    assert paths(hybrid) == shared | private
    for chat_type in ("group", "channel"):
        assert paths(hybrid, chat_type=chat_type) == shared
        with hybrid.client() as client:
            told = client.search("quince", chat_type=chat_type).warnings
            assert [warning.replace("channel", "group") for warning in told] == [WARNING]
            for path in shared:
                assert "quince" in client.get(path, chat_type=chat_type).text
            for path in private:
                with pytest.raises(DeniedError, match=f"it is not for a {chat_type}"):
                    client.get(path, chat_type=chat_type)
    store.close()


def test_nothing_private_is_recalled_where_others_read_along(chats: Daemon) -> None:
    chats.write("MEMORY.md", "- The gate code of the greenhouse is 4711.\n")
    chats.write("memory/garden.md", "- The greenhouse gate is painted green.\n")
    chats.sync()
    message = "What is the gate code of the greenhouse?"
    with chats.client() as client:
        assert "4711" in client.recall(message).text
        for chat_type in ("group", "channel"):
            found = client.recall(message, chat_type=chat_type)
            assert "4711" not in found.text
            assert not any(entry.citation.startswith("MEMORY.md") for entry in found.entries)
            assert [told.replace("channel", "group") for told in found.warnings] == [WARNING]
        with pytest.raises(BadRequestError, match="chat_type must be one of"):
            client.recall(message, chat_type="crowd")
    told = chats.memctl("recall", message, "--chat-type", "group")
    assert "4711" not in told.stdout
    assert WARNING in told.stderr


def test_the_registry_of_the_older_store_tells_what_a_chat_is(chats: Daemon) -> None:
    store = chats.folder / "chats" / "store"
    for name in ("groups/g1", "chats/c1", "chats/c2", "x/x1"):
        file = store / f"{name}.json5"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = f"{{ role: 'user', content: 'the walnut of {file.stem}' }}"
        file.write_text(f"{{ id: '{file.stem}', messages: [{text}] }}")
    (store / "registry.json5").write_text("""{
      // written by OpenClaw
      sessions: {
        c2: { channel: 'whatsapp', groupId: '1203@g.us', updatedAt: 1771280820000 },
        c1: { channel: 'whatsapp' },
      },
    }""")
    chats.sync()
    assert len(paths(chats, "walnut")) == 4
    assert paths(chats, "walnut", chat_type="group") == {
        "sessions/chats/store/groups/g1.json5",
        "sessions/chats/store/chats/c2.json5",
    }
