"""`make demo`: starts memoryd on a workspace, with a state and socket of its own, and searches.

Usage: demo.py WORKSPACE [QUESTION]. What is shown is what the printed commands print.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from memoryd_client import Client, MemorydError

QUESTIONS = (
    "What Wi-Fi do we use in the office now?",
    "LEDGER_SKEW 7712",
    "Which restaurants should I avoid for a dinner with Minseo?",
    "千田さんへの手土産は何がいいですか？",
    "锅炉显示 F28，没有热水怎么办？",
)
READY_S = 30.0


def main(arguments: list[str]) -> int:
    """Run the demo and return its exit code."""
    workspace = Path(arguments[0] if arguments else "examples/workspace").expanduser()
    if not workspace.is_dir():
        print(f"{workspace} is not a folder; try: make demo WORKSPACE=~/notes", file=sys.stderr)
        return 2
    questions = tuple(arguments[1:2]) or QUESTIONS
    # A socket's path must be short, so this is not inside the workspace.
    with tempfile.TemporaryDirectory(prefix="memoryd-", dir="/tmp") as state:
        environment = os.environ | {
            "XDG_STATE_HOME": state,
            "XDG_CONFIG_HOME": state,
            "MEMORYD_SOCKET": f"{state}/memoryd.sock",
        }
        with _daemon(workspace, state, environment):
            with Client(environment["MEMORYD_SOCKET"], wait_s=READY_S) as client:
                client.ping()
            for command in (["index"], ["status"], *(["search", q] for q in questions)):
                _show(command, environment)
    print("That was the whole tour; the daemon is stopped and its state removed.")
    print("Next: README.md, 'A tour of 60 seconds'.")
    return 0


@contextlib.contextmanager
def _daemon(workspace: Path, state: str, environment: dict[str, str]) -> Iterator[None]:
    print(f"$ memoryd --workspace {workspace} &", flush=True)
    log_path = f"{state}/memoryd.log"
    with open(log_path, "w+b") as log:
        program = [str(Path(sys.executable).with_name("memoryd")), "--workspace", str(workspace)]
        daemon = subprocess.Popen(program, env=environment, stderr=log)
        try:
            yield
        except MemorydError:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            daemon.terminate()
            daemon.wait(timeout=30)


def _show(command: list[str], environment: dict[str, str]) -> None:
    quoted = " ".join(f'"{word}"' if " " in word else word for word in command)
    print(f"\n$ memctl {quoted}", flush=True)
    options = ["--max-results", "3"] if command[0] == "search" else []
    program = str(Path(sys.executable).with_name("memctl"))
    subprocess.run([program, *command, *options], env=environment, check=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (MemorydError, subprocess.SubprocessError, KeyboardInterrupt) as error:
        sys.exit(f"demo: {error or 'interrupted'}")
