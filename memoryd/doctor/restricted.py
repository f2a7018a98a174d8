"""The restricted socket: its folder, which a sandbox may have, and its files."""

import os
from contextlib import suppress
from pathlib import Path

from memoryd.config.settings import SocketSettings
from memoryd.doctor import permissions
from memoryd.doctor.finding import Finding, Tally, Topic
from memoryd.doctor.running import check_socket_file
from memoryd.errors import SocketError
from memoryd.server.unix_socket import check_apart, check_path
from memoryd_client.shared import paths


def check_restricted(settings: SocketSettings, main_path: Path, *, runs: bool) -> list[Finding]:
    """Check the restricted socket, if the configuration requests one.

    `runs`: a daemon answers at the main socket.
    """
    wanted = paths.restricted_socket_path(settings.restricted, str(main_path))
    if wanted is None:
        return []
    topic, path = Topic("restricted socket"), Path(wanted)
    try:
        check_path(path)
        check_apart(path, main_path)
    except SocketError as error:
        topic.error(error.message, error.hint)
        return topic.findings
    permissions.check_folder(topic, path.parent, private=True)
    permissions.check_private(topic, [Path(paths.restricted_lock_path(wanted))])
    there = check_socket_file(path, topic)
    if runs and not there:
        topic.warning(f"memoryd does not listen on {path}", "memctl reload")
    elif there and not runs:
        topic.warning(f"{path} is stale: its memoryd was killed", "the next start removes it")
    with suppress(OSError):
        if others := Tally(sorted(set(os.listdir(path.parent)) - {path.name})):
            topic.warning(
                f"a sandbox with {path.parent} also has {others}", "move them to another folder"
            )
    return topic.fine(f"agents may use {path} for: {', '.join(settings.allow) or 'nothing'}")
