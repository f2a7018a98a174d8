"""All that is looked at for one agent."""

import os

from memoryd.config.load import AgentConfig
from memoryd.doctor import leftovers, limits, permissions
from memoryd.doctor.finding import Finding, Topic
from memoryd.doctor.index import IndexDoctor
from memoryd.doctor.model import key_files
from memoryd.doctor.running import RunningDaemon
from memoryd.doctor.serving import check_open_file, check_others, check_serving, is_rebuilding
from memoryd_client.shared import paths


class AgentDoctor:
    """Examines one agent, beside the `daemon` that runs, if one does.

    `folders` counts those to watch, once it has run.
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
        return findings + self._told(serving)

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
            topic.error(self._config.problem, "what the index has of it stays meanwhile")
        return topic.fine(f"workspace {self._config.workspace}")

    def _permissions(self) -> list[Finding]:
        topic, index = self._topic("permissions"), self._config.db_path
        if str(index.parent) != paths.state_dir():  # told for all
            permissions.check_folder(topic, index.parent, private=False)
        files = [path for path in leftovers.beside(index) if not path.is_dir()]
        permissions.check_private(topic, files)
        for path in key_files(self._config.settings, os.environ):
            permissions.check_readable(topic, path, secret=True, what="the key file")
        return topic.fine(f"{index} is for its owner alone")

    def _limits(self) -> list[Finding]:
        topic = self._topic("limits")
        limits.check_room(topic, self._config.db_path)
        limits.check_log(topic, self._config.db_path)
        limits.check_name(topic, self._config.db_path)
        return topic.fine(f"there is room in {self._config.db_path.parent}")

    def _told(self, serving: RunningDaemon | None) -> list[Finding]:
        """Return what the daemon says, and what it has left lying about."""
        topic, agent, index = self._topic("daemon"), self._config.agent, self._config.db_path
        if self._daemon is not None:
            check_serving(topic, self._daemon, agent, index)
        if serving is None:
            check_others(topic, index)
        else:
            check_open_file(topic, serving, agent, index)
        rebuilding = serving is not None and is_rebuilding(serving, agent, index)
        leftovers.check_leftovers(topic, index, running=serving is not None, rebuilding=rebuilding)
        return topic.fine("it does not run" if serving is None else "it has nothing to complain of")
