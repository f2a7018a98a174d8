"""The whole examination: checks shared by all agents, then each agent."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from memoryd.config.load import AgentConfig, load, load_added
from memoryd.config.registered import AddedError, read_added
from memoryd.config.validate import ConfigError
from memoryd.doctor import limits, permissions, running
from memoryd.doctor.agent import check_agent
from memoryd.doctor.finding import Examination, Finding, Topic
from memoryd.doctor.restricted import check_restricted
from memoryd.doctor.running import RunningDaemon, StartOptions
from memoryd_client.launcher import logs
from memoryd_client.shared import paths
from memoryd_client.shared.humanize import counted

_CORRECT = "correct it; docs/configuration.md lists all keys"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Options of the command line; None: the options of the running or last daemon."""

    socket_path: Path
    config_file: Path | None = None
    agent: str | None = None
    workspace: Path | None = None


def examine(options: DoctorOptions) -> Examination:
    """Run all checks without changing anything."""
    socket, path = Topic("socket"), options.socket_path
    permissions.check_folder(socket, path.parent, private=True)
    with running.found(path, socket) as daemon:
        return _examine(options, daemon, socket)


def _examine(options: DoctorOptions, daemon: RunningDaemon | None, socket: Topic) -> Examination:
    path = options.socket_path
    findings = socket.fine(
        f"memoryd is not running at {path}"
        if daemon is None
        else f"memoryd answers at {path}: process {daemon.pid}"
    )
    started = _start_options(options, daemon)
    configs = _configs(options, started, daemon, configuration := Topic("configuration"))
    named = configs[0].files[0] if configs and configs[0].files else started.config_file
    _check_file(configuration, named, configs)
    findings += configuration.fine(", ".join(f"agent {config.agent}" for config in configs))
    if configs:
        findings += check_restricted(configs[0].socket, path, runs=daemon is not None)
    findings += _shared_files(path, daemon)
    findings += limits.check_driver()
    folders = 0
    for config in configs:
        found, watched = check_agent(config, daemon)
        findings += found
        folders += watched
    machine = Topic("limits")
    limits.check_descriptors(machine)
    limits.check_watches(machine, folders, len(configs))
    if configs:  # else the number of folders is unknown
        machine.fine(f"the limits allow {counted(folders, 'watched folder')}")
    findings += machine.findings
    # Without its workspace an agent is served from its index.
    usable = len(configs) > 1 or any(
        config.problem is None or config.db_path.exists() for config in configs
    )
    return Examination(findings, usable)


def _start_options(options: DoctorOptions, daemon: RunningDaemon | None) -> StartOptions:
    """Return the options of the running or last daemon, else those of the command line."""
    if options.config_file is None and options.workspace is None:
        owner = running.last_holder(options.socket_path) if daemon is None else daemon.holder
        if owner is not None and Path(owner.cwd).is_dir():
            return running.started(owner)
    return StartOptions(options.config_file, None, options.workspace)


def _configs(
    options: DoctorOptions, started: StartOptions, daemon: RunningDaemon | None, topic: Topic
) -> list[AgentConfig]:
    """Load the agents that a daemon serves or would serve, or only `options.agent`."""
    try:
        with contextlib.chdir(started.cwd or Path()):
            configs = load(started.config_file, agent=started.agent, workspace=started.workspace)
            if daemon is not None:
                have = {config.agent for config in configs}
                added = [a for a in daemon.agents.values() if a.origin == "added"]
                configs += [
                    load_added(started.config_file, Path(summary.workspace_dir))
                    for summary in added
                    if summary.agent not in have
                ]
    except ConfigError as error:
        topic.error(error.message, error.hint or _CORRECT)
        return []
    except OSError as error:
        topic.error(str(error), _CORRECT)
        return []
    if options.agent is None:
        return configs
    known = ", ".join(config.agent for config in configs)
    configs = [config for config in configs if config.agent == options.agent]
    if not configs:
        topic.error(f"no such agent: {options.agent}", f"configured agents: {known}")
    return configs


def _check_file(topic: Topic, named: Path | None, configs: list[AgentConfig]) -> None:
    """Check who can access the configuration file. Header values are often secrets."""
    secret = any(config.settings.remote.headers for config in configs)
    file = Path(paths.config_path()) if named is None else named
    permissions.check_readable(topic, file, secret=secret, what="the configuration")


def _shared_files(socket_path: Path, daemon: RunningDaemon | None) -> list[Finding]:
    """Check who can access the files that all agents share."""
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
        topic.error(error.message, error.hint)
    return topic.fine(f"only its owner can read {state}")
