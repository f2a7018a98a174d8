"""Proofs that a connected agent reaches memoryd: its own commands, run as the agent runs them."""

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Timer
from time import monotonic
from typing import IO

import msgspec
from msgspec import Struct

DEADLINE_S = 20.0
"""Seconds for one proof; a daemon may have to start first."""
_PROTOCOL = "2025-06-18"
_QUERY = "memoryd"
_SESSION = "memctl-connect"


class Proof(Struct, frozen=True):
    """The outcome of one proof. `message` says what does not work, "" if all does."""

    what: str
    ok: bool
    took_s: float
    message: str = ""


def mcp(command: list[str], environ: Mapping[str, str]) -> Proof:
    """Start the MCP server of an agent and search memory with it."""
    begin = monotonic()
    try:
        message = _searched(command, environ)
    except FileNotFoundError:
        message = f"{command[0]} does not exist"
    except OSError as error:
        message = f"can't run {command[0]}: {error.strerror}"
    except ValueError as error:
        message = f"the answer makes no sense: {error}"
    return Proof("mcp", not message, monotonic() - begin, message)


def hook(event: str, command: str, environ: Mapping[str, str], folder: str) -> Proof:
    """Run the command of a hook with a made-up event."""
    payload = {
        "session_id": _SESSION,
        "transcript_path": "",
        "cwd": folder,
        "hook_event_name": event,
        "source": "startup",
        "prompt": _QUERY,
    }
    begin = monotonic()
    message = ""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=msgspec.json.encode(payload),
            capture_output=True,
            env=dict(environ),
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode != 0 or done.stderr:
            said = done.stderr.decode("utf-8", "replace").strip()
            message = f"the hook {event} fails: {said or f'exit status {done.returncode}'}"
        elif done.stdout.strip():
            msgspec.json.decode(done.stdout, type=dict)
    except subprocess.TimeoutExpired:
        message = f"the hook {event} does not answer within {DEADLINE_S:g} s"
    except ValueError:
        message = f"the hook {event} prints something else than JSON"
    return Proof("hook", not message, monotonic() - begin, message)


def _searched(command: list[str], environ: Mapping[str, str]) -> str:
    """Return why memory could not be searched, "" if it could."""
    with (
        TemporaryFile() as said,
        subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=dict(environ),
        ) as server,
    ):
        timer = Timer(DEADLINE_S, server.kill)
        timer.start()
        try:
            message = _converse(server)
        finally:
            timer.cancel()
            server.kill()
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").strip().splitlines()
        return f"{message}: {lines[-1]}" if message and lines else message


def _converse(server: "subprocess.Popen[bytes]") -> str:
    to, answers = server.stdin, server.stdout
    if to is None or answers is None:
        return "it has no input or output"
    with suppress(BrokenPipeError):
        me = {"name": "memctl", "version": "1"}
        hello = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": me}
        _send(to, {"id": 1, "method": "initialize", "params": hello})
        answer = _answer(answers, 1)
        if "error" in answer:
            return f"it refuses the connection: {_error(answer)}"
        _send(to, {"method": "notifications/initialized"})
        call = {"name": "memory_search", "arguments": {"query": _QUERY, "maxResults": 1}}
        _send(to, {"id": 2, "method": "tools/call", "params": call})
        answer = _answer(answers, 2)
        if "error" in answer:
            return f"memory_search fails: {_error(answer)}"
        result = answer["result"]
        if isinstance(result, dict) and not result.get("isError"):
            return ""
        return f"memory_search fails: {_text(result)}"
    return "it ended before it answered"


def _send(to: IO[bytes], message: dict[str, object]) -> None:
    to.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")


def _answer(lines: IO[bytes], number: int) -> dict[str, object]:
    """Return the answer to a request; skip notifications. Raises `BrokenPipeError` at the end."""
    for line in lines:
        message = msgspec.json.decode(line, type=dict)
        if message.get("id") == number and ("result" in message or "error" in message):
            return message
    raise BrokenPipeError


def _error(answer: dict[str, object]) -> str:
    error = answer["error"]
    return str(error.get("message")) if isinstance(error, dict) else str(error)


def _text(result: object) -> str:
    """Return the first line of a tool's text."""
    content = result.get("content") if isinstance(result, dict) else None
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            return str(part["text"].partition("\n")[0])
    return "no text"
