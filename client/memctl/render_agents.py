"""Text output of `memctl agents`, `add`, `drop` and `reload`. Pure."""

from memoryd_client.schema.agents import (
    AddResult,
    AgentsResult,
    AgentSummary,
    DropResult,
    ReloadResult,
)
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import Style, printable_name
from memoryd_client.shared.text_width import table

_HEADINGS = (" ", "agent", "state", "files", "chunks", "pending", "workspace")
_NUMBERS = frozenset({3, 4})
"""Columns that hold only numbers."""


def answer(result: AgentsResult | AddResult | DropResult | ReloadResult, style: Style) -> str:
    """Return the text of a result."""
    match result:
        case AgentsResult():
            return agents(result, style)
        case AddResult():
            return _added(result)
        case DropResult():
            name, place = printable_name(result.agent), printable_name(result.workspace_dir)
            kept = printable_name(result.db_path)
            return f"Agent {name} no longer serves {place}\nIndex kept: {kept}\n"
        case ReloadResult():
            return _reloaded(result)


def agents(result: AgentsResult, style: Style) -> str:
    """Return a table of the agents; `*` marks the one that this client uses."""
    if not result.agents:
        return "No agents.\n"
    rows = [_row(agent, current=agent.agent == result.current) for agent in result.agents]
    head, *lines = table([_HEADINGS, *rows], right=_NUMBERS)
    return "\n".join([style.dim(head), *lines]) + "\n"


def _row(agent: AgentSummary, *, current: bool) -> tuple[str, ...]:
    place = printable_name(agent.workspace_dir)
    if agent.reason:
        place += f"  ({printable_name(agent.reason)})"
    return (
        "*" if current else "",
        printable_name(agent.agent),
        printable_name(agent.state),
        str(agent.files),
        str(agent.chunks),
        _pending(agent),
        place,
    )


def _pending(agent: AgentSummary) -> str:
    parts = ((agent.pending_files, "file"), (agent.pending_vectors, "vector"))
    return ", ".join(counted(number, noun) for number, noun in parts if number) or "none"


def _added(result: AddResult) -> str:
    agent = result.agent
    name, place = printable_name(agent.agent), printable_name(agent.workspace_dir)
    if agent.state == "failed":
        return f"Agent {name} can't serve {place}: {printable_name(agent.reason or 'no reason')}\n"
    already = "" if result.added else " already"
    return f"Agent {name} serves {place}{already}\nIndex: {printable_name(agent.db_path)}\n"


def _reloaded(result: ReloadResult) -> str:
    changes = [
        ("Settings", result.changed),
        ("Started", result.started),
        ("Stopped", result.stopped),
        ("Restarted", result.restarted),
        ("Failed", result.failed),
    ]
    files = printable_name(", ".join(result.files)) or "no file"
    lines = [f"Configuration reloaded: {files}"]
    lines += [f"{change}: {printable_name(', '.join(ids))}" for change, ids in changes if ids]
    if len(lines) == 1:
        lines.append("No changes")
    return "\n".join(lines) + "\n"
