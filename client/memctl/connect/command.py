"""The commands `memctl connect` and `memctl disconnect`."""

import os
import sys
from collections.abc import Iterator
from shutil import which

from msgspec import Struct

from memctl import json_output
from memctl.arguments import Arguments
from memctl.connect import files, plan
from memctl.connect.agents import NAMES, HostAgent, Setup, agent
from memctl.connect.entries import ConnectError
from memctl.connect.plan import FileChange
from memctl.connect.standing import Standing, is_present, standing
from memctl.output import say, write
from memoryd_client.client import Client
from memoryd_client.errors import DaemonNotRunningError, MemorydError
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.paths import config_path, socket_suffix
from memoryd_client.shared.style import one_line, printable_name

_STATES = {
    "absent": "not installed",
    "connected": "connected",
    "disconnected": "not connected",
    "partial": "partly connected",
    "unreadable": "unknown",
}
_ASKS_S = 5.0
"""Seconds for a running daemon to name, or to reload, its configuration."""


class ConnectedFile(Struct):
    """One changed file, with a line for each entry."""

    path: str
    added: list[str]
    removed: list[str]


class ConnectResult(Struct):
    """The answer of `connect AGENT` and `disconnect AGENT`."""

    agent: str
    connected: bool
    dry_run: bool
    files: list[ConnectedFile]
    remarks: list[str]


def run(arguments: Arguments, socket_path: str) -> int:
    """Run one of the commands and return the exit status. Raises `MemorydError`."""
    name = arguments.words[0] if arguments.words else ""
    if name and name not in NAMES:
        message = f"{arguments.command} knows the agents {', '.join(NAMES)} (got {name!r})"
        raise ConnectError(message, code="usage")
    client = Client(
        socket_path, agent=arguments.agent, autostart=False, timeout_s=_ASKS_S, wait_s=0
    )
    try:
        setup = _setup(arguments, client, socket_path)
        if not name:
            return _list(setup, arguments)
        chosen = agent(name, setup)
        if arguments.command == "connect":
            _check_present(chosen)
            changes = plan.connect(chosen, dry_run=arguments.dry_run)
        else:
            changes = plan.disconnect(chosen, dry_run=arguments.dry_run)
        remarks = list(_remarks(chosen, changes, arguments, client))
    finally:
        client.close()
    _show(chosen, changes, remarks, arguments)
    return 0


def _setup(arguments: Arguments, client: Client, socket_path: str) -> Setup:
    options: list[str] = []
    if socket_suffix(socket_path):  # not the one that every client looks for
        options += ["--socket", os.path.abspath(socket_path)]
    if arguments.agent is not None:
        options += ["--agent", arguments.agent]
    return Setup(
        memctl=_memctl(),
        options=options,
        environ=os.environ,
        plugin=os.path.join(os.path.dirname(os.path.abspath(__file__)), "openclaw"),
        config=_config_file(client),
    )


def _memctl() -> str:
    """Return the path of this `memctl`. Raises `ConnectError`.

    Links stay as they are: they outlive the version that they lead to.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "memctl")
    called = sys.argv[0] if os.sep in sys.argv[0] else which(sys.argv[0]) or ""
    for path in (called, beside):
        if os.path.basename(path) == "memctl" and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise ConnectError("can't find the program memctl", hint="run it by its path")


def _config_file(client: Client) -> str:
    """Return the configuration file of the daemon, or that of the next one."""
    try:
        found = client.config().files
    except MemorydError:
        return config_path()
    return found[0] if found else config_path()


def _check_present(chosen: HostAgent) -> None:
    if not is_present(chosen):
        raise ConnectError(
            f"{chosen.title} is not here: there is no program {chosen.program!r} on the path,"
            f" and no folder {chosen.home}",
            hint="install and run it first",
        )


def _remarks(
    chosen: HostAgent, changes: list[FileChange], arguments: Arguments, client: Client
) -> Iterator[str]:
    connects, sessions = arguments.command == "connect", chosen.sessions
    if connects:
        yield from chosen.remarks
        if chosen.note_remarks and _are_notes_allowed(client):
            yield from chosen.note_remarks
    if sessions is None or arguments.dry_run:
        return
    if any(change.path == sessions.path for change in changes):
        try:
            client.reload()
        except DaemonNotRunningError:
            if connects:
                yield "memoryd is not running; `memctl start` starts it"
        except MemorydError as error:
            yield f"memoryd can't reload its configuration: {error}"
    text = plan.text_of(sessions, files.read(sessions.path))
    if connects and (remark := sessions.remark(text)) is not None:
        yield remark


def _are_notes_allowed(client: Client) -> bool:
    """Return whether agents may write notes; no if the daemon can't say."""
    from memctl.mcp.note_tool import SETTING, allowed

    return SETTING in allowed(client, _ASKS_S)


def _show(
    chosen: HostAgent, changes: list[FileChange], remarks: list[str], arguments: Arguments
) -> None:
    if arguments.json:
        shown = [ConnectedFile(c.path, c.added, c.removed) for c in changes]
        result = ConnectResult(
            chosen.name, arguments.command == "connect", arguments.dry_run, shown, remarks
        )
        write(json_output.text(json_output.answer(result)))
        return
    lines: list[str] = []
    for change in changes:
        end = "" if change.before is not None else " (new)"
        lines.append(printable_name(change.path) + (" (removed)" if change.after is None else end))
        lines += [f"  + {printable_name(line)}" for line in change.added]
        lines += [f"  - {printable_name(line)}" for line in change.removed]
    lines.append(_summary(chosen, changes, arguments))
    write("\n".join(lines) + "\n")
    for remark in remarks:
        say(f"note: {one_line(remark)}")


def _summary(chosen: HostAgent, changes: list[FileChange], arguments: Arguments) -> str:
    verb = "connected" if arguments.command == "connect" else "disconnected"
    amount = counted(len(changes), "file")
    if not changes:
        state = "is already connected" if verb == "connected" else "is not connected"
        return f"{chosen.title} {state}: no change"
    if arguments.dry_run:
        return f"{chosen.title} would be {verb}: {amount} to change"
    return f"{chosen.title} is {verb}: {amount} changed"


def _list(setup: Setup, arguments: Arguments) -> int:
    found = [standing(agent(name, setup), setup.environ) for name in NAMES]
    if arguments.json:
        write(json_output.text([json_output.answer(one) for one in found]))
    else:
        width = max(len(one.title) for one in found)
        write("".join(_lines(one, width) for one in found))
    return 1 if any(not proof.ok for one in found for proof in one.proofs) else 0


def _lines(found: Standing, width: int) -> str:
    """Return one line for an agent, and one for each thing that is not as it should be."""
    line = f"{found.title:<{width}}  {_STATES[found.state]}"
    if found.proofs and all(proof.ok for proof in found.proofs):
        slowest = max(proof.took_s for proof in found.proofs)
        line += f" · memory answers ({counted(len(found.proofs), 'proof')}, {slowest:.1f} s)"
    if found.state == "connected" and not found.transcripts:
        line += " · transcripts are not read"
    wrong = [proof.message for proof in found.proofs if not proof.ok]
    if found.state == "partial":
        names = ", ".join(found.missing)
        wrong.append(f"to correct {names}, run `memctl connect {found.agent}`")
    if found.state == "disconnected":
        line += f" · `memctl connect {found.agent}`"
    lines = [line, *(f"  {one_line(text)}" for text in (found.reason, *wrong) if text)]
    return "".join(f"{text}\n" for text in lines)
