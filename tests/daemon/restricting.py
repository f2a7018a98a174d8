"""A daemon with a restricted socket, and requests that need no valid arguments."""

from pathlib import Path

import msgspec
from harness import Daemon
from peers import Peer

from memoryd_client import Client
from memoryd_client.schema.memory import BODY_OF_OP
from memoryd_client.wire.protocol import Body, Op, Request, Result, raw

NOT_TO_HAPPEN = {
    "message": "x",
    "query": "word",
    "path": "MEMORY.md",
    "session": "s",
    "match": "word",
    "text": "Ana likes tea",
    "delete_source": True,
    "workspace": "/etc",
    "agent": "main",
    "force": True,
}
"""Arguments that would change something."""


def restricted_of(daemon: Daemon) -> Path:
    """Return the default path of the daemon's restricted socket."""
    return daemon.folder / "s-agent" / "memoryd.sock"


def configure(daemon: Daemon, table: str) -> None:
    """Write the configuration with this table `[socket]`."""
    daemon.write_config()
    daemon.config.write_text(f"[socket]\n{table}\n{daemon.config.read_text()}")


def start(daemon: Daemon, table: str = "restricted = true") -> Path:
    """Start the daemon with this table `[socket]`; return the restricted socket's default path."""
    configure(daemon, table)
    daemon.start(config=daemon.config.read_text())
    return restricted_of(daemon)


def agent_of(daemon: Daemon, path: Path, agent: str | None = None) -> Client:
    """Return a client of the restricted socket."""
    return Client(str(path), agent=agent, wait_s=0.0, timeout_s=30.0)


def body_of(op: Op) -> Body:
    kind = BODY_OF_OP[op]
    names = {field.encode_name for field in msgspec.structs.fields(kind)}
    return msgspec.convert({k: v for k, v in NOT_TO_HAPPEN.items() if k in names}, kind)


def code_of(path: Path, op: str, body: Body | None = None) -> str:
    """Return "result", or the code of the error, for a request of a client that sends anything."""
    peer = Peer(str(path)).greet()
    try:
        peer.send(Request(1, op) if body is None else Request(1, op, raw(body)))
        answer = peer.answer()
        return "result" if isinstance(answer, Result) else answer.code
    finally:
        peer.close()
