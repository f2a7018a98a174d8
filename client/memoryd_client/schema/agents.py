"""Bodies of requests about the agents of a daemon."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class AgentSummary(Body):
    """One agent of the daemon. `state` is `starting`, `ready`, `stopping` or `failed`.

    `reason` is the reason for a failure, or the disk that delays its start; `origin` is
    `configuration`, `command line` or `added`.
    """

    agent: str
    state: str
    workspace_dir: str
    db_path: str
    origin: str
    reason: str | None = None
    files: int = 0
    chunks: int = 0
    pending_files: int = 0
    pending_vectors: int = 0
    degraded: list[str] = field(default_factory=list)


class AgentsResult(Body):
    """All agents of the daemon; `current` is the agent of requests that name none."""

    agents: list[AgentSummary]
    current: str | None = None


class AddBody(Body):
    """Serve another workspace, given its absolute path."""

    workspace: str


class AddResult(Body):
    """The agent of the workspace; `added` is false if it was already served."""

    agent: AgentSummary
    added: bool


class DropBody(Body):
    """Stop serving an added workspace, given its agent's id or absolute path."""

    agent: str


class DropResult(Body):
    """The agent that is no longer served. Its index stays at `db_path`."""

    agent: str
    workspace_dir: str
    db_path: str


class ReloadResult(Body):
    """Changes of a reload, by agent. `changed` are settings of the daemon as a whole."""

    files: list[str]
    started: list[str]
    stopped: list[str]
    restarted: list[str]
    unchanged: list[str]
    failed: list[str]
    changed: list[str] = field(default_factory=list)
