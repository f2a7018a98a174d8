"""All checks of one agent, and of the files beside its index."""

import os
import shlex
from importlib.util import find_spec
from pathlib import Path

from memoryd.agent.facts import LANCEDB_SUFFIX as LANCEDB
from memoryd.agent.session_notes import SUFFIX as SESSION_NOTES
from memoryd.config.load import AgentConfig
from memoryd.doctor import limits, permissions
from memoryd.doctor.finding import NAMED, Finding, Tally, Topic
from memoryd.doctor.index import IndexDoctor
from memoryd.doctor.model import key_files
from memoryd.doctor.reading import ChangedError, opened
from memoryd.doctor.running import RunningDaemon
from memoryd.doctor.serving import check_open_file, check_others, check_serving, is_rebuilding
from memoryd.facts import FILE_SUFFIX as FACTS
from memoryd.facts.builtin import copies as copies_of_facts
from memoryd.fs.atomic_replace import SIDE_FILES
from memoryd.index.driver import Error, one_value
from memoryd.index.rebuild.leftovers import unfinished
from memoryd.index.repair.recover import copies
from memoryd.index.tombstone_key import SUFFIX as KEY_SUFFIX
from memoryd.source.notes.journal import SUFFIX as JOURNAL
from memoryd.source.transcripts.kept import FOLDER
from memoryd_client.shared import paths
from memoryd_client.shared.humanize import counted

_OWN = (
    "",
    "-wal",
    "-shm",
    "-journal",
    ".lock",
    KEY_SUFFIX,
    FOLDER,
    FACTS,
    f"{FACTS}-journal",
    LANCEDB,
    JOURNAL,
    SESSION_NOTES,
)


def check_agent(config: AgentConfig, daemon: RunningDaemon | None) -> tuple[list[Finding], int]:
    """Make all checks of one agent, next to the running `daemon` if there is one.

    Also returns the number of folders to watch.
    """
    agent, index = config.agent, config.db_path
    summary = None if daemon is None else daemon.agents.get(agent)
    # The daemon, if it has this index open.
    serves = summary is not None and summary.state != "failed" and summary.db_path == str(index)
    serving = daemon if serves else None
    workspace = Topic("configuration", agent)
    if config.settings.backend != "builtin" and config.settings.qmd.server:
        workspace.warning(
            "every user of this machine can search memory through the server of QMD",
            "set qmd.server = false on a shared machine",
        )
    if config.problem is not None:
        workspace.error(config.problem, "the indexed files stay searchable meanwhile")
    findings = workspace.fine(f"workspace {config.workspace}") + _check_backend(config)
    findings += _check_permissions(config)
    doctor = IndexDoctor(config, serving)
    findings += doctor.run()
    findings += _check_facts(config)
    room = Topic("limits", agent)
    for check in (limits.check_room, limits.check_log, limits.check_name):
        check(room, index)
    findings += room.fine(f"there is room in {index.parent}")
    topic = Topic("daemon", agent)
    if daemon is not None:
        check_serving(topic, daemon, agent, index)
    if serving is None:
        check_others(topic, index)
    else:
        check_open_file(topic, serving, agent, index)
    rebuilding = serving is not None and is_rebuilding(serving, agent, index)
    check_leftovers(topic, index, running=serving is not None, rebuilding=rebuilding)
    fine = "memoryd is not running" if serving is None else "memoryd reports no problems"
    return findings + topic.fine(fine), doctor.folders


def _check_backend(config: AgentConfig) -> list[Finding]:
    topic, settings = Topic("backend", config.agent), config.settings.qmd
    if config.settings.backend == "builtin":
        return topic.findings
    from memoryd.backends.backend import BackendError  # these import the search
    from memoryd.backends.qmd.installation import find_installation

    try:
        found = find_installation(settings.command, settings.node)
    except BackendError as error:
        topic.error(f"{error.message}; the built-in index answers", error.hint)
        return topic.findings
    return topic.fine(f"qmd {found.version} at {found.script}, run by {found.node}")


def _check_permissions(config: AgentConfig) -> list[Finding]:
    topic, index = Topic("permissions", config.agent), config.db_path
    if str(index.parent) != paths.state_dir():  # checked for all agents
        permissions.check_folder(topic, index.parent, private=False)
    permissions.check_private(topic, [path for path in beside(index) if not path.is_dir()])
    kept = Path(f"{index}{FOLDER}")
    if kept.is_dir():
        permissions.check_folder(topic, kept, private=True)
    for path in key_files(config.settings, os.environ):
        permissions.check_readable(topic, path, secret=True, what="the key file")
    return topic.fine(f"only its owner can read {index}")


def _check_facts(config: AgentConfig) -> list[Finding]:
    """Have SQLite check every page of the facts beside the index, if there are any."""
    topic, path = Topic("facts", config.agent), Path(f"{config.db_path}{FACTS}")
    if config.settings.facts.store == "lancedb" and find_spec("lancedb") is None:
        fix = "install requirements/lancedb.txt, as docs/facts.md shows"
        topic.error("facts.store is lancedb, and the package lancedb is not installed", fix)
    if not path.exists():
        return topic.findings
    try:
        with opened(path, None) as connection:
            problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            number = int(one_value(connection, "SELECT count(*) FROM facts"))
    except (Error, OSError) as error:
        problems, number = [str(error)], 0
    except ChangedError:
        return topic.fine("the facts are in use")
    if problems != ["ok"]:
        fix = "the next use keeps the readable ones and moves the file aside; or restore a backup"
        topic.error(f"the facts in {path} are corrupt: {problems[0]}", fix)
    if number and config.settings.facts.store == "lancedb":
        topic.warning(
            f"{counted(number, 'fact')} in {path} can't be recalled: facts.store is lancedb",
            'set it to "builtin", export the facts, set it back, import them; or remove the file',
        )
    for copy in copies_of_facts(path):
        topic.warning(
            f"corrupt facts were moved to {copy}",
            f"when none is missing, remove it: rm {shlex.quote(str(copy))}",
        )
    return topic.fine(f"{counted(number, 'fact')} in {path}")


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
    known += [path.name for path in copies_of_facts(Path(f"{index}{FACTS}"))]
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
