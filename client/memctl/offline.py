"""Commands of `memctl` that work without a daemon: start, stop, restart, logs, doctor, config."""

import os
from subprocess import call
from subprocess import run as run_command
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memctl import json_output
from memctl.arguments import Arguments
from memctl.output import say, write
from memoryd_client.errors import MemorydError
from memoryd_client.shared.style import one_line, printable_name

if TYPE_CHECKING:
    from memoryd_client.launcher.control import Started, Stopped

START_S = 60.0
"""Seconds for a daemon to get ready: it first opens the indexes of all its agents."""
STOP_S = 60.0
"""Seconds for a daemon to stop; more than it gives its actors."""
NOTICES_S = 2.0
"""Seconds for a started daemon to say where texts go."""
LOG_LINES = 40


def run(arguments: Arguments, socket_path: str) -> int:
    """Run `start`, `stop`, `restart`, `logs` or `doctor`; print the outcome, return the status.

    Raises `StartFailedError` if memoryd is not installed.
    """
    from memoryd_client.launcher import control as background

    ready_s = START_S if arguments.wait_s is None else arguments.wait_s
    stop_s = STOP_S if arguments.timeout_s is None else arguments.timeout_s
    path = os.path.abspath(socket_path)
    match arguments.command:
        case "doctor":
            return _doctor(arguments, path)
        case "logs":
            _logs(path, arguments)
        case "start":
            options = _options(arguments)
            started = _noticed(background.start(path, options=options, ready_s=ready_s))
            _show(started, started_text(started), arguments)
            if started.already and options and not arguments.json:
                say("note: memoryd keeps its options; `memctl add DIR` adds a workspace")
        case "stop":
            stopped = background.stop(path, timeout_s=stop_s)
            _show(stopped, stopped_text(stopped), arguments)
        case _:
            started = _noticed(background.restart(path, timeout_s=stop_s, ready_s=ready_s))
            _show(started, started_text(started), arguments)
    return 0


def _options(arguments: Arguments) -> list[str]:
    """Return the daemon's options with absolute paths; its current directory may differ."""
    options = []
    for flag, path in (("--workspace", arguments.workspace), ("--config", arguments.config)):
        if path is not None:
            options += [flag, os.path.abspath(os.path.expanduser(path))]
    return options if arguments.agent is None else [*options, "--agent", arguments.agent]


def _show(result: Struct, text: str, arguments: Arguments) -> None:
    write(json_output.text(json_output.answer(result)) if arguments.json else text)


def started_text(started: "Started") -> str:
    """Return the text for a running daemon, with its log."""
    state = "is already running" if started.already else "is running"
    log = "" if started.log_path is None else f"log: {printable_name(started.log_path)}\n"
    place = printable_name(started.socket_path)
    notices = "".join(f"notice: {one_line(notice)}\n" for notice in started.notices)
    return f"memoryd {state}: pid {started.pid}, socket {place}\n{log}{notices}"


def _noticed(started: "Started") -> "Started":
    """Add what the daemon says about where texts go; it may be too busy to answer."""
    from memoryd_client.client import Client

    try:
        with Client(started.socket_path, autostart=False, timeout_s=NOTICES_S, wait_s=0) as client:
            return replace(started, notices=tuple(client.ping().notices))
    except MemorydError:
        return started


def stopped_text(stopped: "Stopped") -> str:
    """Return the text for a stopped daemon, with the removed files."""
    if stopped.pid is None:
        text = f"{one_line(stopped.reason) or 'no memoryd was running'}\n"
    else:
        odd = f" ({one_line(stopped.reason)})" if stopped.reason else ""
        text = f"memoryd is stopped: pid {stopped.pid}{odd}\n"
    return text + "".join(f"removed: {printable_name(path)}\n" for path in stopped.removed)


def _logs(socket_path: str, arguments: Arguments) -> None:
    from memoryd_client.launcher import logs

    path = logs.current(socket_path)
    count = LOG_LINES if arguments.lines is None else arguments.lines
    if arguments.follow:
        for line in logs.follow(path, lines=count):
            write(json_output.line({"line": line}) if arguments.json else f"{line}\n")
        return
    lines = logs.tail(path, count)
    if arguments.json:
        write(json_output.text({"logPath": path, "lines": lines}))
    else:
        write("".join(f"{line}\n" for line in lines))


def _doctor(arguments: Arguments, socket_path: str) -> int:
    from memoryd_client.launcher.launch import program

    command = [program(), "doctor", "--socket", socket_path, *_options(arguments)]
    return call([*command, "--json"] if arguments.json else command)


def config(arguments: Arguments) -> int | None:
    """Run `memoryd config` and return its exit code; None if memoryd is not installed."""
    from memoryd_client.launcher.errors import StartFailedError
    from memoryd_client.launcher.launch import program

    try:
        command = [program(), "config", *_options(arguments)]
    except StartFailedError:
        return None
    if not arguments.json:
        return call(command)
    done = run_command([*command, "--json"], capture_output=True, check=False)
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode == 0:
        write(done.stdout.decode())
    else:
        message = said.rpartition("\n")[2].removeprefix("memoryd: ")
        error = MemorydError(message or "`memoryd config` failed", code="configuration")
        write(json_output.text(json_output.failure(error)))
    return done.returncode
