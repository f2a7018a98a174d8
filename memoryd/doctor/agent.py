"""All checks of one agent, and of the files beside its index."""

import os
import shlex
from pathlib import Path

from memoryd.config.load import AgentConfig
from memoryd.doctor import limits, permissions
from memoryd.doctor.finding import NAMED, Finding, Tally, Topic
from memoryd.doctor.index import IndexDoctor
from memoryd.doctor.model import key_files
from memoryd.doctor.running import RunningDaemon
from memoryd.doctor.serving import check_open_file, check_others, check_serving, is_rebuilding
from memoryd.fs.atomic_replace import SIDE_FILES
from memoryd.index.rebuild.leftovers import unfinished
from memoryd.index.repair.recover import copies
from memoryd_client.shared import paths

_OWN = ("", "-wal", "-shm", "-journal", ".lock")


class AgentDoctor:
    """Checks of one agent, next to the running `daemon` if there is one.

    `folders` counts the folders to watch; it is set by `run`.
    """

    def __init__(self, config: AgentConfig, daemon: RunningDaemon | None) -> None:
        self.folders = 0
        self._config = config
        self._daemon = daemon

    def run(self) -> list[Finding]:
        """Make all checks."""
        serving = self._serving()
        index = IndexDoctor(self._config, serving)
        findings = [*self._workspace(), *self._permissions(), *index.run(), *self._limits()]
        self.folders = index.folders
        return findings + self._daemon_findings(serving)

    def _topic(self, check: str) -> Topic:
        return Topic(check, self._config.agent)

    def _serving(self) -> RunningDaemon | None:
        """Return the daemon if it has this index open."""
        summary = None if self._daemon is None else self._daemon.agents.get(self._config.agent)
        if summary is None or summary.state == "failed":
            return None
        return self._daemon if summary.db_path == str(self._config.db_path) else None

    def _workspace(self) -> list[Finding]:
        topic = self._topic("configuration")
        if self._config.problem is not None:
            topic.error(self._config.problem, "the indexed files stay searchable meanwhile")
        return topic.fine(f"workspace {self._config.workspace}")

    def _permissions(self) -> list[Finding]:
        topic, index = self._topic("permissions"), self._config.db_path
        if str(index.parent) != paths.state_dir():  # checked for all agents
            permissions.check_folder(topic, index.parent, private=False)
        files = [path for path in beside(index) if not path.is_dir()]
        permissions.check_private(topic, files)
        for path in key_files(self._config.settings, os.environ):
            permissions.check_readable(topic, path, secret=True, what="the key file")
        return topic.fine(f"only its owner can read {index}")

    def _limits(self) -> list[Finding]:
        topic = self._topic("limits")
        limits.check_room(topic, self._config.db_path)
        limits.check_log(topic, self._config.db_path)
        limits.check_name(topic, self._config.db_path)
        return topic.fine(f"there is room in {self._config.db_path.parent}")

    def _daemon_findings(self, serving: RunningDaemon | None) -> list[Finding]:
        """Check the daemon's own report and its leftover files."""
        topic, agent, index = self._topic("daemon"), self._config.agent, self._config.db_path
        if self._daemon is not None:
            check_serving(topic, self._daemon, agent, index)
        if serving is None:
            check_others(topic, index)
        else:
            check_open_file(topic, serving, agent, index)
        rebuilding = serving is not None and is_rebuilding(serving, agent, index)
        check_leftovers(topic, index, running=serving is not None, rebuilding=rebuilding)
        return topic.fine(
            "memoryd is not running" if serving is None else "memoryd reports no problems"
        )


def beside(index: Path) -> list[Path]:
    """Return the index and the files beside it whose names begin like its own."""
    try:
        found = sorted(index.parent.iterdir())
    except OSError:
        return []  # reported with the permissions
    starts = f"{index.name}.", f"{index.name}-"
    return [path for path in found if path.name == index.name or path.name.startswith(starts)]


def check_leftovers(topic: Topic, index: Path, *, running: bool, rebuilding: bool) -> None:
    """Report leftovers of rebuilds and repairs, and files of others beside the index.

    While a daemon is `running`, only a rebuild in progress may have unfinished files.
    """
    rebuilds = unfinished(index)
    if rebuilds:
        left = Tally(path.name for path in rebuilds)
        if not running:
            topic.warning(
                f"an interrupted rebuild left {left} in {index.parent}",
                "the next start keeps its embeddings and removes it",
            )
        elif not rebuilding:
            topic.error(f"{left} belongs to no rebuild in progress", "memctl restart")
    names = [path.name for path in beside(index)]
    if aside := copies(index):
        topic.warning(
            f"beside the index are corrupt copies: {Tally(path.name for path in aside)}",
            "memoryd no longer reads them; when nothing is missing, remove them: "
            + "; ".join(f"rm {shlex.quote(str(path))}*" for path in aside[:NAMED]),
        )
    known = [f"{index.name}{suffix}" for suffix in _OWN]
    known += [
        f"{path.name}{suffix}" for path in (*rebuilds, *aside) for suffix in ("", *SIDE_FILES)
    ]
    if others := [name for name in names if name not in known]:
        topic.warning(
            f"beside the index are unknown files: {Tally(others)}",
            "the next start uses its own files; check who owns the others",
        )
    if index.name not in names and f"{index.name}-wal" in names:
        topic.error(f"{index.name}-wal exists without its index", "see `memctl logs`")
