"""`memctl hook` in a process of its own: an event on stdin, JSON on stdout, or nothing at all."""

import json
import os
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_daemon import FakeDaemon, Peer, answering
from golden_bodies import golden
from hypothesis import given
from hypothesis import strategies as st

import memoryd_client
from memctl import hook_call
from memoryd_client.schema.memory import (
    BODY_OF_OP,
    SessionStartBody,
    SessionStartResult,
    TranscriptUpdatedBody,
    TranscriptUpdatedResult,
)
from memoryd_client.schema.recall import ContextBody, ContextResult, RecallBody, RecallResult
from memoryd_client.wire.protocol import Body, Error, Hello, Op, Request

PATIENT = "--timeout=60"
"""The machine of a test may be too busy for the usual limit."""
RECALLED = golden("recall_result", RecallResult)
CONTEXT = golden("context_result", ContextResult)


def hook(
    socket: str, *words: str, event: object, variables: dict[str, str] | None = None
) -> tuple[str, str]:
    """Run a hook and return its output; its exit status must be 0, and its stderr empty."""
    folder = str(Path(memoryd_client.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": folder, **(variables or {})}
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    done = subprocess.run(
        [sys.executable, "-m", "memctl", "hook", *words, "--socket", socket],
        input=data,
        capture_output=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode(), done.stderr.decode()


def asked(request: Request) -> Body:
    return msgspec.msgpack.decode(request.body, type=BODY_OF_OP[Op(request.op)])


@pytest.mark.parametrize(
    ("agent", "event"),
    [
        ("claude", "UserPromptSubmit"),
        ("codex", "userpromptsubmit"),
        ("gemini", "BeforeAgent"),
        ("Gemini", "BEFOREAGENT"),
    ],
)
def test_a_prompt_gets_what_fits(agent: str, event: str, tmp_path: Path) -> None:
    seen: list[Any] = []

    def script(peer: Peer) -> None:
        seen.append(peer.greet().folder)
        request = peer.request()
        seen.append(asked(request))
        peer.answer(request, RECALLED)

    payload = {
        "session_id": "s1",
        "cwd": str(tmp_path),
        "hook_event_name": event,
        "prompt": "Tisch für zwei 🍷 \ud83d",
        "permission_mode": "default",
        "effort": {"level": 3},
    }
    with FakeDaemon(script) as daemon:
        out, _ = hook(daemon.path, PATIENT, agent, event, event=payload)
    assert json.loads(out) == {
        "hookSpecificOutput": {"hookEventName": event, "additionalContext": RECALLED.text}
    }
    folder, body = seen
    assert folder == str(tmp_path)
    assert isinstance(body, RecallBody)
    assert body.message.startswith("Tisch für zwei 🍷")
    assert body.now is not None


def test_a_session_begins_with_its_context_and_warms_the_search() -> None:
    seen: list[Body] = []

    def script(peer: Peer) -> None:
        peer.greet()
        for answer in (CONTEXT, SessionStartResult(syncing=True)):
            request = peer.request()
            seen.append(asked(request))
            peer.answer(request, answer)

    with FakeDaemon(script) as daemon:
        event = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "resume"}
        out, _ = hook(daemon.path, PATIENT, "claude", "SessionStart", event=event)
    assert json.loads(out)["hookSpecificOutput"]["additionalContext"] == CONTEXT.text
    context, start = seen
    assert isinstance(context, ContextBody)
    assert (context.session, context.chat_type) == ("s1", "direct")
    assert start == SessionStartBody("s1")


@pytest.mark.parametrize("event", ["Stop", "PreCompact", "SessionEnd", "AfterAgent", "PreCompress"])
def test_a_transcript_is_indexed_when_something_ends(event: str) -> None:
    seen: list[Body] = []

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        seen.append(asked(request))
        peer.answer(request, TranscriptUpdatedResult(accepted=True))

    with FakeDaemon(script) as daemon:
        payload = {"hook_event_name": event, "transcript_path": "/t/s.jsonl", "trigger": "auto"}
        assert hook(daemon.path, PATIENT, "gemini", event, event=payload)[0] == ""
    assert seen == [TranscriptUpdatedBody("/t/s.jsonl")]


PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt": "tea"}


def refusing(peer: Peer) -> None:
    peer.greet()
    peer.refuse(peer.request(), "unavailable")


def hanging_up(peer: Peer) -> None:
    peer.close()


def babbling(peer: Peer) -> None:
    peer.greet()
    peer.request()
    peer.connection.sendall(b"\x00\x00\x00\x02\xc1\xc1")


@pytest.mark.parametrize("script", [refusing, hanging_up, babbling])
def test_a_failing_daemon_leaves_the_agent_alone(script: Any) -> None:
    with FakeDaemon(script) as daemon:
        assert hook(daemon.path, PATIENT, "claude", "UserPromptSubmit", event=PROMPT)[0] == ""


def test_nothing_fits() -> None:
    with FakeDaemon(answering(RecallResult("", []))) as daemon:
        assert hook(daemon.path, PATIENT, "claude", "UserPromptSubmit", event=PROMPT)[0] == ""


def test_a_daemon_that_does_not_answer_is_not_waited_for() -> None:
    def script(peer: Peer) -> None:
        peer.next(Hello)
        peer.next(Request)
        assert peer.hung_up()

    with FakeDaemon(script) as daemon:
        assert hook(daemon.path, "--timeout=2", "claude", "UserPromptSubmit", event=PROMPT)[0] == ""


def test_an_agent_that_sends_nothing_is_not_waited_for() -> None:
    folder = str(Path(memoryd_client.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-m", "memctl", "hook", "claude", "Stop"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": folder},
    ) as waiting:
        assert waiting.wait() == 0  # its stdin is still open
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        assert waiting.stdout.read() == waiting.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "event"),
    [
        (["claude", "UserPromptSubmit"], b""),
        (["claude", "UserPromptSubmit"], b"[1, 2"),
        (["claude", "UserPromptSubmit"], b"[]"),
        (["claude", "UserPromptSubmit"], b'{"prompt": 7}'),
        (["claude", "UserPromptSubmit"], b"\xff\xfe"),
        (["claude", "PostToolUse"], b"{}"),
        (["cursor", "Stop"], b"{}"),
        (["claude"], b"{}"),
        ([], b"{}"),
        (["claude", "Stop", "--no-such-option"], b"{}"),
        (["--timeout", "x", "claude", "Stop"], b"{}"),
    ],
)
def test_what_a_hook_does_not_understand_it_leaves_alone(words: list[str], event: bytes) -> None:
    assert hook("/nonexistent/s", *words, event=event)[0] == ""


def test_help_is_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    folder = str(Path(memoryd_client.__file__).parents[1])
    command = [sys.executable, "-m", "memctl", "hook", "--help"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": folder}, check=True)
    assert "usage: memctl hook AGENT EVENT" in capfd.readouterr().out


@pytest.mark.parametrize(("enabled", "started"), [(True, True), (False, False)])
def test_a_missing_daemon_is_started_only_with_autostart(
    enabled: bool, started: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "config" / "memoryd"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "config.toml").write_text(f"autostart = {str(enabled).lower()}\n")
    code = (
        "import os, sys\n"
        "os.posix_spawn = lambda path, words, *a, **k: os.write(1, ' '.join(words).encode())\n"
        "from memctl import hook\n"
        f"hook.run(['{PATIENT}', '--socket', '{tmp_path}/s', 'claude', 'Stop'])\n"
    )
    root = str(Path(memoryd_client.__file__).parents[1])
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "PYTHONPATH": root}
    environment.pop("MEMORYD_NO_AUTOSTART", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=b"{}", capture_output=True, env=environment, check=True)
    said = f"{sys.executable} -m memctl start --socket {tmp_path}/s" if started else ""
    assert done.stdout.decode() == said


def test_a_hook_loads_no_other_command() -> None:
    root = str(Path(memoryd_client.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); import memctl.entry, memctl.hook\n"
    command = [sys.executable, "-I", "-c", f"{code}print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"msgspec", "socket", "memctl.main", "memoryd_client.client"} & set(loaded)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.text()
        | st.binary(max_size=300),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_messagepack_is_read_as_msgspec_writes_it(value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    assert hook_call.unpacked(data, 0) == (value, len(data))


@given(st.dictionaries(st.text(), st.none() | st.integers(0, 2**32 - 1) | st.text()))
def test_messagepack_is_written_as_msgspec_reads_it(value: dict[str, Any]) -> None:
    assert msgspec.msgpack.decode(hook_call.packed(value)) == value


@given(st.binary())
def test_no_bytes_are_more_than_a_value_error(data: bytes) -> None:
    with suppress(ValueError, RecursionError):
        hook_call.unpacked(data, 0)


@pytest.mark.parametrize("size", [15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_every_size_is_read(size: int) -> None:
    for value in ("x" * size, b"x" * size, [None] * size, {str(n): n for n in range(size)}):
        data = msgspec.msgpack.encode(value)
        assert hook_call.unpacked(data, 0) == (value, len(data))


def test_an_error_of_the_whole_connection_ends_the_call() -> None:
    def script(peer: Peer) -> None:
        peer.send(Error("busy", "too many clients"))

    with FakeDaemon(script) as daemon:
        call = hook_call.HookCall(daemon.path, name="t", folder="/", agent=None)
        with closing(call), pytest.raises(hook_call.CallError, match="too many clients"):
            call.ask("recall", message="x")
