"""The installed QMD and the Node.js that runs it, with their versions. Blocking."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec

from memoryd.backends.backend import BackendError

KNOWN = (2, 8)
"""The version of QMD, without its last number, whose commands and answers memoryd knows."""
LEAST_NODE = 22
"""The oldest Node.js. With version 20, QMD ends with a segmentation fault and prints nothing."""
_NODE_S = 10.0
_UNTIL_CLOSED = (
    'data:text/javascript,import{isMainThread}from"node:worker_threads";process.execArgv.length=0;'
    'if(isMainThread)process.stdin.on("end",()=>process.exit(0)).resume().unref()'
)
"""Ends a process of QMD when its standard input closes: when memoryd ends, however it does.

It is not passed on to the processes and threads of QMD, which have no input: the one that tests the
library of the models would end at once, and there would be no vectors.
"""
_SCRIPT = Path("dist/cli/qmd.js")
_INSTALL = "npm install -g @tobilu/qmd@2.8.3"


class Installation(NamedTuple):
    """The program `node`, the script of QMD, and QMD's version."""

    node: str
    script: Path
    version: str

    def command(self, *arguments: str) -> list[str]:
        """Return the command line. The launcher of QMD would leave a process behind when killed."""
        return [self.node, "--import", _UNTIL_CLOSED, str(self.script), *arguments]


def find_installation(command: str, node: str) -> Installation:
    """Return the installation that the settings name. Raises `BackendError`."""
    script = _script(command)
    version = version_of(script)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers != KNOWN:
        raise BackendError(
            f"qmd {version or 'of an unknown version'} is not known to memoryd, which knows"
            f" {'.'.join(map(str, KNOWN))}",
            _INSTALL,
        )
    found = shutil.which(os.path.expanduser(node))
    if found is None:
        raise BackendError(f"Node.js was not found: {node}", "set qmd.node to its path")
    major = _major(found)
    if major < LEAST_NODE:
        raise BackendError(
            f"qmd needs Node.js {LEAST_NODE}, and {found} is version {major or 'unknown'}",
            "set qmd.node to the path of a newer one",
        )
    return Installation(found, script, version)


def _script(command: str) -> Path:
    """Return the script of QMD, given as a name, or as the path of launcher, script or package."""
    found = shutil.which(os.path.expanduser(command)) or os.path.expanduser(command)
    path = Path(os.path.realpath(found))
    candidates = [path] if path.suffix == ".js" else [path / _SCRIPT, path.parents[1] / _SCRIPT]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    if not path.exists():
        raise BackendError(f"qmd was not found: {command}", _INSTALL)
    raise BackendError(
        f"{path} is not the launcher of qmd",
        f"set qmd.command to its {_SCRIPT} or to the folder of its package",
    )


def version_of(script: Path) -> str:
    """Return the version of QMD's package, "" if it does not say."""
    try:
        package = msgspec.json.decode((script.parents[2] / "package.json").read_bytes())
        return str(package["version"])
    except (OSError, LookupError, TypeError, msgspec.MsgspecError):
        return ""


def _major(node: str) -> int:
    """Return the first number of Node's version, 0 if it does not say."""
    try:
        answer = subprocess.run(
            [node, "--version"], capture_output=True, text=True, timeout=_NODE_S, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0
    number = re.match(r"v(\d+)\.", answer)
    return 0 if number is None else int(number[1])
