"""Service managers: whether one runs this process, and what to type to it instead.

systemd.exec(5) and launchd.plist(5) tell of the variables. All of them are inherited, by every
shell of a desktop too, so that they count only for the process that the manager itself started.
"""

from collections.abc import Mapping

SYSTEMD, LAUNCHD = "systemd", "launchd"

_VARIABLES = frozenset(
    {
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LISTEN_FDNAMES",
        "LISTEN_FDS",
        "LISTEN_PID",
        "MANAGERPID",
        "NOTIFY_SOCKET",
        "SYSTEMD_EXEC_PID",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
        "XPC_SERVICE_NAME",
    }
)

_COMMANDS = {
    SYSTEMD: {
        "stop": "systemctl --user stop memoryd.socket memoryd.service",
        "restart": "systemctl --user restart memoryd",
        "logs": "journalctl --user -u memoryd",
    },
    LAUNCHD: {
        "stop": "launchctl bootout gui/$UID/org.memoryd.memoryd",
        "restart": "launchctl kickstart -k gui/$UID/org.memoryd.memoryd",
        "logs": "tail ~/Library/Logs/memoryd.log",
    },
}


def manager(environ: Mapping[str, str], *, pid: int, parent_pid: int) -> str:
    """Return `systemd` or `launchd` if it started the process with this environment, else ""."""
    if executed := environ.get("SYSTEMD_EXEC_PID"):
        return SYSTEMD if executed == str(pid) else ""
    # systemd before 248 does not say whom it started: its children are.
    if environ.get("INVOCATION_ID") or environ.get("NOTIFY_SOCKET"):
        return SYSTEMD if str(parent_pid) in ("1", environ.get("MANAGERPID")) else ""
    if environ.get("XPC_SERVICE_NAME", "0") != "0" and parent_pid == 1:
        return LAUNCHD
    return ""


def without_manager(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a process that no manager looks after."""
    return {name: value for name, value in environ.items() if name not in _VARIABLES}


def command(name: str, to: str) -> str:
    """Return the command that tells a manager to `stop`, `restart` or show `logs`; "" if unknown.

    The names are those of the files that come with memoryd.
    """
    return _COMMANDS.get(name, {}).get(to, "")
