"""The bodies of requests about the agents that a daemon serves."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class AgentSummary(Body):
    """One agent of the daemon. `state` is `starting`, `ready`, `stopping` or `failed`.

    `reason` says why it has failed, or which disk it waits for to start, `origin` why it is served:
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
    """All agents of the daemon; `current` is the one this client gets when it names none."""

    agents: list[AgentSummary]
    current: str | None = None


class AddBody(Body):
    """Serve one more workspace: an absolute path."""

    workspace: str


class AddResult(Body):
    """The agent that serves the workspace; `added` is false when one did so already."""

    agent: AgentSummary
    added: bool


class DropBody(Body):
    """Stop serving a workspace that was added: its agent's id, or the absolute path."""

    agent: str


class DropResult(Body):
    """What is served no more. Its index stays at `db_path`."""

    agent: str
    workspace_dir: str
    db_path: str


class ReloadResult(Body):
    """What reading the configuration again changed, by agent."""

    files: list[str]
    started: list[str]
    stopped: list[str]
    restarted: list[str]
    unchanged: list[str]
    failed: list[str]
