"""The real OpenClaw writes its store, with a compaction, a reset, a rewind and a deletion."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from real_agents import OPENCLAW, TIMEOUT_S, ScratchHome
from scripted_model import ScriptedModel
from waiting import eventually

pytestmark = pytest.mark.agents

TOKEN = "token"
KEY = "agent:main:main"


@contextmanager
def gateway(
    home: ScratchHome, model: ScriptedModel, *, with_memoryd: bool = False
) -> Iterator[Callable[..., Any]]:
    """Run OpenClaw's gateway; yield a function that calls one of its methods."""
    OPENCLAW.prepare(home, model.url)
    if with_memoryd:
        home.memctl("connect", "openclaw")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = home.folder / ".openclaw/openclaw.json"
    settings = json.loads(path.read_text())
    auth = {"mode": "token", "token": TOKEN}
    settings["gateway"] = {"mode": "local", "port": port, "auth": auth}
    path.write_text(json.dumps(settings))
    home.variables |= {"OPENCLAW_GATEWAY_TOKEN": TOKEN, "OPENCLAW_GATEWAY_PORT": str(port)}

    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    def call(method: str, **parameters: str) -> Any:
        shown = home.run(
            *("openclaw", "gateway", "call", method, "--json", "--token", TOKEN),
            *("--timeout", str(TIMEOUT_S * 1000)),
            *("--params", json.dumps(parameters)),
        )
        return json.loads(shown)

    with (home.folder / "gateway.log").open("w") as log:
        process = subprocess.Popen(
            ("openclaw", "gateway", "run", "--port", str(port)),
            env=home.environment,
            cwd=home.project,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            eventually(answers)
            yield call
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def test_what_the_agent_does_to_its_store_is_followed(model: ScriptedModel) -> None:
    with ScratchHome({"MEMORY.md": "# Memory\n"}) as home:
        home.write(
            ".config/memoryd/config.toml",
            '[agents.main]\nworkspace = "~/notes"\nsessions = { enabled = true }\n',
        )
        home.memctl("reload")
        with gateway(home, model) as call:

            def say(text: str, answer: str, *options: str) -> None:
                model.follow(answer)
                home.run("openclaw", "agent", *options, "--message", text)

            def conversations() -> dict[str, Any]:
                home.memctl("sync")
                listed = json.loads(home.memctl("sessions", "--json"))["sessions"]
                return {entry["path"]: entry for entry in listed}

            def texts(name: str) -> list[str]:
                return home.memctl("get", name).splitlines()

            say("Where is the heron lake?", "Behind the mill.")
            say("And the otter pond?", "Near the weir.")
            ((name, entry),) = conversations().items()
            lines = [
                *("User: Where is the heron lake?", "Assistant: Behind the mill."),
                *("User: And the otter pond?", "Assistant: Near the weir."),
            ]
            assert texts(name) == lines
            assert (entry["format"], entry["messages"]) == ("openclaw", 4)

            assert call("sessions.compact", key=KEY)["compacted"]
            assert call("sessions.reset", key=KEY)["ok"]
            say("Where do gooseberries grow?", "In the old garden.")
            lines += ["User: Where do gooseberries grow?", "Assistant: In the old garden."]
            assert conversations()[name]["messages"] == 6
            assert texts(name) == lines

            (event,) = (
                json.loads(line)
                for line in home.memctl("get", name, "--raw").splitlines()
                if "Where do gooseberries grow?" in line and '"role":"user"' in line
            )
            call("sessions.rewind", sessionKey=KEY, entryId=event["id"])
            say("Where do elderberries grow?", "Along the railway.")
            entries = conversations()
            old = entries.pop(name)
            ((copy, _),) = entries.items()
            assert old["state"] == "left out"
            assert old["reason"] == f"rewound; it continues as {copy.rpartition('/')[2]}"
            lines[4:] = ["User: Where do elderberries grow?", "Assistant: Along the railway."]
            assert texts(copy) == lines
            found = home.search("gooseberries", "--source", "sessions")
            assert not any("gooseberries" in hit["snippet"] for hit in found)

            say("Who mends clocks?", "The baker.", "--session-id", "other")
            other = "sessions/openclaw/other"
            assert conversations()[other]["messages"] == 2
            assert call("sessions.delete", key="agent:main:explicit:other")["deleted"]
            assert conversations()[other]["state"] == "indexed"
            assert texts(other) == ["User: Who mends clocks?", "Assistant: The baker."]


def test_a_silent_turn_saves_notes_before_a_compaction(model: ScriptedModel) -> None:
    with (
        ScratchHome({"MEMORY.md": "# Memory\n"}) as home,
        gateway(home, model, with_memoryd=True) as call,
    ):

        def say(text: str, tokens: int) -> None:
            model.tokens = tokens
            model.follow("Behind the mill.")
            call("chat.send", sessionKey="main", message=text, idempotencyKey=text)
            eventually(lambda: any(text in json.dumps(request) for request in model.requests))

        def flushes() -> list[dict[str, Any]]:
            words = "Pre-compaction memory flush. Today is "
            return [request for request in model.requests if words in json.dumps(request)]

        try:
            say("Where is the heron lake?", 190_000)
            eventually(lambda: len(flushes()) == 1)
        finally:
            model.tokens = 9
        (turn,) = flushes()
        assert {tool["name"] for tool in turn["tools"]} == {"read", "write"}
        assert "Only append: change and delete nothing in it" in json.dumps(turn)
