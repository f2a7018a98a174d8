"""Hooks of agents: `memctl hook AGENT EVENT` reads an event on stdin and prints the agent's JSON.

A slow or failing hook harms the agent: it blocks a prompt or a compaction, or the agent drops it.
So a hook answers in `LIMIT_S`, counted from the start of its process, or says nothing; its exit
status is always 0, and it writes nothing to stderr. It imports next to nothing for that reason.
"""

import json
import os
import signal
import sys
import time

from memctl.hook_call import CallError, HookCall
from memoryd_client.shared.paths import default_socket_path

LIMIT_S = 0.2
"""Seconds from the start of the process to its end."""
END_S = 0.015
"""Seconds of it that the end of the process takes."""
MAX_BYTES = 4 * 1024 * 1024
CONTEXT_CHARS, RECALL_CHARS = 8_000, 1_500
AGENTS = ("claude", "codex", "gemini")
EVENTS = {
    "sessionstart": "context",
    "userpromptsubmit": "recall",
    "beforeagent": "recall",
    "stop": "transcript_updated",
    "afteragent": "transcript_updated",
    "precompact": "transcript_updated",
    "precompress": "transcript_updated",
    "sessionend": "transcript_updated",
}
"""Operation for each event, by its name in lower case."""
_OPTIONS = ("--agent", "--socket", "--timeout")


def run(words: list[str]) -> int:
    """Answer one event, or say nothing; return the exit status, which is 0.

    `words` are those behind `hook`. `--timeout` sets another limit, in seconds.
    """
    started = _started()
    _be_silent()
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        names, options = _read(words)
        limit_s = float(options.get("--timeout", LIMIT_S))
        left_s = started + limit_s - END_S - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(0.001, left_s))
        if len(names) == 2 and names[0].lower() in AGENTS:
            _answer(names[0].lower(), names[1], options)
    except Exception:  # noqa: S110 - whatever it is, the agent goes on without it
        pass
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return 0


def _read(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the names and the options of a command line, whose other words are ignored."""
    names: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in _OPTIONS:
            options[flag] = value if equals else next(rest, "")
        elif not word.startswith("-"):
            names.append(word)
    return names, options


def _answer(agent: str, name: str, options: dict[str, str]) -> None:
    if (op := EVENTS.get(name.lower())) is None:
        return
    event = json.loads(sys.stdin.buffer.read(MAX_BYTES + 1))
    said = {key: value for key, value in event.items() if isinstance(value, str)}
    folder = said.get("cwd") or os.getcwd()
    path = options.get("--socket") or default_socket_path()
    try:
        call = HookCall(path, name="memctl-hook", folder=folder, agent=options.get("--agent"))
    except CallError as error:
        if error.not_running:
            _start_daemon(path)
        return
    try:
        _ask(call, op, agent, name, said)
    finally:
        call.close()


def _ask(call: HookCall, op: str, agent: str, name: str, said: dict[str, str]) -> None:
    name = said.get("hook_event_name") or name
    if op == "context":
        session = said.get("session_id", "")
        _say(name, call.ask(op, session=session, max_chars=CONTEXT_CHARS, now=_now()).get("text"))
        call.ask("session_start", session=session)
    elif op == "recall":
        if message := said.get("prompt", "").strip():
            result = call.ask(op, message=message, max_chars=RECALL_CHARS, now=_now())
            recalled = result.get("text")
            asks = _flush(call, agent, said.get("transcript_path", ""))
            _say(name, f"{recalled}{asks}" if isinstance(recalled, str) else asks)
            call.ask("fact_capture", text=message)
    elif transcript := said.get("transcript_path"):
        call.ask(op, path=os.path.abspath(transcript))


def _flush(call: HookCall, agent: str, transcript: str) -> str:
    """Return the instruction to save notes if a compaction is near, else ""."""
    from memctl.hook_flush import is_due

    try:
        if not transcript or not is_due(agent, transcript):
            return ""
    except OSError:
        return ""
    from datetime import datetime

    from memoryd_client.flush import flush_context

    values = call.ask("config").get("values")
    found = (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )
    settings = {str(value.get("key")): value.get("value") for value in found}
    return flush_context(settings, datetime.now().astimezone())


def _say(name: str, text: object) -> None:
    """Print a text for the agent, in the form that all three agents take."""
    if not isinstance(text, str) or not text:
        return
    output = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
    data = json.dumps(output).encode()
    # One write, which a pipe takes at once: half an answer would be worse than none.
    os.write(1, data)


def _start_daemon(path: str) -> None:
    """Start memoryd for the next event, if the user's configuration allows it; don't wait."""
    from memoryd_client.launcher.autostart import may_start

    if not may_start(path):
        return
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    command = [sys.executable, "-m", "memctl", "start", "--socket", path]
    os.posix_spawn(command[0], command, os.environ, file_actions=quiet, setsid=True)


def _be_silent() -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    os.close(devnull)


def _now() -> str:
    """Return the time here with its offset from UTC, in RFC 3339."""
    shown = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return f"{shown[:-2]}:{shown[-2:]}"


def _started() -> float:
    """Return when this process started, by `time.monotonic`; an estimate without /proc."""
    now = time.monotonic()
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError, AttributeError):
        return now - time.process_time()
    return now - max(0.0, since_boot - ticks / os.sysconf("SC_CLK_TCK"))
