"""What `memctl` prints of the agents of a daemon: `agents`, `add`, `drop`, `reload`. Pure."""

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
"""The columns of numbers alone."""


def answer(result: AgentsResult | AddResult | DropResult | ReloadResult, style: Style) -> str:
    """Return the text for any of these."""
    match result:
        case AgentsResult():
            return agents(result, style)
        case AddResult():
            return add(result)
        case DropResult():
            return drop(result)
        case ReloadResult():
            return reload(result)


def agents(result: AgentsResult, style: Style) -> str:
    """Return a table of the agents; `*` marks the one that this client gets."""
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


def add(result: AddResult) -> str:
    """Return which agent serves the workspace now, or why it does not."""
    agent = result.agent
    name, place = printable_name(agent.agent), printable_name(agent.workspace_dir)
    if agent.state == "failed":
        return f"Agent {name} can't serve {place}: {printable_name(agent.reason or 'no reason')}\n"
    already = "" if result.added else " already"
    return f"Agent {name} serves {place}{already}\nIndex: {printable_name(agent.db_path)}\n"


def drop(result: DropResult) -> str:
    """Return what is served no more, and where its index is."""
    return (
        f"Agent {printable_name(result.agent)} no longer serves "
        f"{printable_name(result.workspace_dir)}\n"
        f"Index kept: {printable_name(result.db_path)}\n"
    )


def reload(result: ReloadResult) -> str:
    """Return what reading the configuration changed."""
    changes = [
        ("Started", result.started),
        ("Stopped", result.stopped),
        ("Restarted", result.restarted),
        ("Failed", result.failed),
    ]
    files = printable_name(", ".join(result.files)) or "no file"
    lines = [f"Configuration read: {files}"]
    lines += [f"{what}: {printable_name(', '.join(ids))}" for what, ids in changes if ids]
    if len(lines) == 1:
        lines.append("Nothing changed")
    return "\n".join(lines) + "\n"
