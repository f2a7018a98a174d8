"""The `memoryd` command: arguments, configuration, exit codes.

Exit codes: 0 stopped as asked, 1 crashed, 3 another memoryd holds the socket or the index, 78 the
configuration can't be used (EX_CONFIG of sysexits.h). A service manager need not restart after the
last two.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from memoryd import __version__
from memoryd.config import AgentConfig, ConfigError, load
from memoryd_client import paths

Run = Callable[[AgentConfig, Path, asyncio.Event], Awaitable[None]]

GC_THRESHOLDS = (10_000, 20, 20)
SWITCH_INTERVAL_S = 0.0005
"""How long a thread that chunks or writes may keep the event loop from running: Python's own 5 ms
are most of a ping's p99 while files are indexed."""

EXIT_STOPPED = 0
EXIT_CRASHED = 1
EXIT_LOCKED = 3
EXIT_CONFIG = 78


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=arguments.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # Its debug mode tells of every process and slow callback; that is for developers.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    try:
        config = load(arguments.config, agent=arguments.agent, workspace=arguments.workspace)
    except ConfigError as error:
        return _complain(str(error), EXIT_CONFIG)
    if arguments.command == "config":
        try:
            return _print_config(config, as_json=arguments.json)
        except BrokenPipeError:
            # The reader (`| head`) has seen enough; nothing may be flushed to it at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_STOPPED
    return serve(config, arguments.socket or Path(paths.default_socket_path()))


def serve(config: AgentConfig, socket_path: Path) -> int:
    """Run the daemon in the foreground until SIGTERM or SIGINT; return the exit code."""
    # Threads of OpenBLAS spin while they wait for each other: on a busy machine two are slower
    # than one, and one searches 100,000 vectors in 6 ms. Read when numpy is imported, below.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Late, so that a bad configuration is told at once.
    from memoryd.app import run
    from memoryd.index.driver import Error
    from memoryd.index.schema import IndexRefusedError
    from memoryd.serve.socket import AlreadyRunningError, SocketError
    from memoryd.supervise import ActorFailedError

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # What is loaded by now stays; and a full collection, which stops all threads for 50 ms when
    # 10,000 files are known, is made less often.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    os.umask(0o077)
    _raise_descriptor_limit()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_until_signalled(config, socket_path.expanduser().absolute(), run))
    except AlreadyRunningError as error:
        return _complain(f"{error}; stop it first, or choose another --socket", EXIT_LOCKED)
    except SocketError as error:
        return _complain(str(error), EXIT_CONFIG)
    except IndexRefusedError as error:
        return _complain(f"the index {config.db_path} can't be used: {error}", EXIT_CONFIG)
    except (ActorFailedError, OSError, Error) as error:
        logging.getLogger(__name__).debug("the cause", exc_info=error)
        reason = error.__cause__ or error
        return _complain(f"{error}: {reason}" if reason is not error else str(error), EXIT_CRASHED)
    return EXIT_STOPPED


async def _until_signalled(config: AgentConfig, socket_path: Path, run: Run) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        # The second signal is for those who can't wait: it acts as if we had no handler.
        loop.remove_signal_handler(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await run(config, socket_path, stop)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop where the extra is installed, else None: asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one; systemd asks programs to do so."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _print_config(config: AgentConfig, *, as_json: bool) -> int:
    if as_json:
        document = {
            "agent": config.agent,
            "files": [str(file) for file in config.files],
            "values": [{"key": k, "value": v, "origin": o} for k, v, o in config.values()],
        }
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return EXIT_STOPPED
    for key, value, origin in config.values():
        print(f"{key} = {msgspec.json.encode(value).decode()}  # {origin}")
    sys.stdout.flush()
    return EXIT_STOPPED


def _complain(message: str, code: int) -> int:
    print(f"memoryd: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memoryd", description="A memory daemon for AI agents; memctl talks to it."
    )
    parser.add_argument("--version", action="version", version=f"memoryd {__version__}")
    parser.add_argument(
        "command",
        nargs="?",
        choices=("run", "config"),
        default="run",
        help="run (the default): serve in the foreground; config: print the effective settings",
    )
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="the agent's workspace")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration file")
    parser.add_argument("--agent", metavar="ID", help="which configured agent to serve")
    parser.add_argument("--socket", type=Path, metavar="PATH", help="where to listen")
    parser.add_argument("--json", action="store_true", help="print the settings as JSON")
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="what goes to standard error (default: info)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
