"""The whole examination: what all agents share, then each agent."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from memoryd.config.load import AgentConfig, ConfigError, load, load_added
from memoryd.config.registered import AddedError, read_added
from memoryd.doctor import limits, permissions, running
from memoryd.doctor.agent import AgentDoctor
from memoryd.doctor.driver import check_driver
from memoryd.doctor.finding import Finding, Topic
from memoryd.doctor.running import RunningDaemon, StartOptions
from memoryd_client.launcher import logs
from memoryd_client.shared import paths
from memoryd_client.shared.humanize import counted


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What the command line says; None: as the daemon was told that runs, or ran last."""

    socket_path: Path
    config_file: Path | None = None
    agent: str | None = None
    workspace: Path | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found. `usable` is false when memoryd could not start with the configuration."""

    findings: list[Finding]
    usable: bool

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; there may be warnings."""
        return not any(finding.level == "error" for finding in self.findings)


def examine(options: DoctorOptions) -> Examination:
    """Look at everything and change nothing."""
    socket, path = Topic("socket"), options.socket_path
    permissions.check_folder(socket, path.parent, private=True)
    with running.found(path, socket) as daemon:
        return _examine(options, daemon, socket)


def _examine(options: DoctorOptions, daemon: RunningDaemon | None, socket: Topic) -> Examination:
    path = options.socket_path
    findings = socket.fine(
        f"no memoryd runs at {path}"
        if daemon is None
        else f"memoryd answers at {path}: process {daemon.pid}"
    )
    told = _told(options, daemon)
    configs = _configs(options, told, daemon, configuration := Topic("configuration"))
    named = configs[0].files[0] if configs and configs[0].files else told.config_file
    _check_file(configuration, named, configs)
    findings += configuration.fine(", ".join(f"agent {config.agent}" for config in configs))
    findings += _shared_files(path, daemon)
    findings += check_driver()
    folders = 0
    for config in configs:
        doctor = AgentDoctor(config, daemon)
        findings += doctor.run()
        folders += doctor.folders
    machine = Topic("limits")
    limits.check_descriptors(machine)
    limits.check_watches(machine, folders, len(configs))
    if configs:  # else nothing is known of what there has to be room for
        machine.fine(f"there is room for {counted(folders, 'watched folder')}")
    findings += machine.findings
    # Without its workspace an agent is served from its index.
    usable = len(configs) > 1 or any(
        config.problem is None or config.db_path.exists() for config in configs
    )
    return Examination(findings, usable)


def _told(options: DoctorOptions, daemon: RunningDaemon | None) -> StartOptions:
    """Return what the daemon that runs was told, or what the next one is to be told."""
    if options.config_file is None and options.workspace is None:
        owner = running.last_holder(options.socket_path) if daemon is None else daemon.holder
        if owner is not None and Path(owner.cwd).is_dir():
            return running.started(owner)
    return StartOptions(options.config_file, None, options.workspace)


def _configs(
    options: DoctorOptions, told: StartOptions, daemon: RunningDaemon | None, topic: Topic
) -> list[AgentConfig]:
    """Load the agents that are, or would be, served; all of them, or the one that is asked for."""
    try:
        with contextlib.chdir(told.cwd or Path()):
            configs = load(told.config_file, agent=told.agent, workspace=told.workspace)
            if daemon is not None:
                have = {config.agent for config in configs}
                added = [a for a in daemon.agents.values() if a.origin == "added"]
                configs += [
                    load_added(told.config_file, Path(summary.workspace_dir))
                    for summary in added
                    if summary.agent not in have
                ]
    except (ConfigError, OSError) as error:
        topic.error(str(error), "correct it; docs/configuration.md has all keys")
        return []
    if options.agent is None:
        return configs
    known = ", ".join(config.agent for config in configs)
    configs = [config for config in configs if config.agent == options.agent]
    if not configs:
        topic.error(f"there is no agent {options.agent}", f"these are configured: {known}")
    return configs


def _check_file(topic: Topic, named: Path | None, configs: list[AgentConfig]) -> None:
    """Check who gets at the configuration file. Values of headers are often secrets."""
    secret = any(config.settings.remote.headers for config in configs)
    file = Path(paths.config_path()) if named is None else named
    permissions.check_readable(topic, file, secret=secret, what="the configuration")


def _shared_files(socket_path: Path, daemon: RunningDaemon | None) -> list[Finding]:
    """Check who gets at what all agents share."""
    topic, state = Topic("permissions"), Path(paths.state_dir())
    permissions.check_folder(topic, state, private=True)
    log = None if daemon is None or daemon.holder is None else daemon.holder.log_path
    log_path = log or logs.log_path(str(socket_path))
    suffix = paths.socket_suffix(str(socket_path))
    files = [Path(paths.lock_path(str(socket_path))), Path(log_path), Path(f"{log_path}.1")]
    added = state / f"added{suffix}.json"
    permissions.check_private(topic, [*files, added])
    try:
        read_added(added)
    except AddedError as error:
        message, _, fix = str(error).partition("; ")
        topic.error(message, fix)
    return topic.fine(f"what is in {state} is for its owner alone")
