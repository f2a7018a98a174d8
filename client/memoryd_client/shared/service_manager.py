"""Detection of the service manager that runs this process, and its commands.

systemd.exec(5) and launchd.plist(5) document the variables. Child processes inherit them, even all
shells of a desktop, so they count only for the process that the manager itself started.
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
    # systemd before 248 does not name the process; its direct children count.
    if environ.get("INVOCATION_ID") or environ.get("NOTIFY_SOCKET"):
        return SYSTEMD if str(parent_pid) in ("1", environ.get("MANAGERPID")) else ""
    if environ.get("XPC_SERVICE_NAME", "0") != "0" and parent_pid == 1:
        return LAUNCHD
    return ""


def without_manager(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a process without a manager."""
    return {name: value for name, value in environ.items() if name not in _VARIABLES}


def command(name: str, to: str) -> str:
    """Return a manager's command to `stop`, `restart` or show `logs`; "" if unknown.

    Its names are those of the service files of memoryd.
    """
    return _COMMANDS.get(name, {}).get(to, "")
