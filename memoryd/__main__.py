"""The `memoryd` command: arguments, configuration, exit codes.

Exit codes: 0 stopped as asked, 1 crashed (`doctor`: found errors), 3 another memoryd holds the
socket or the index, 78 the configuration can't be used (EX_CONFIG of sysexits.h). A service manager
need not restart after the last two.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import resource
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from memoryd import __version__
from memoryd.config.load import AgentConfig, ConfigError, load, meant, usable
from memoryd.daemon.log_writer import FLUSH_S, flushed, log_to
from memoryd.daemon.malloc import keep_heaps_few
from memoryd.daemon.process import Signals, leave, occupy_standard_streams, run_until_stopped
from memoryd.fs.hang import LOOK_S, within
from memoryd_client.shared import paths

GC_THRESHOLDS = (2_000, 5, 400)
"""Python's collector stops all threads while it looks at what was made lately: 10,000 objects here,
which takes 3 ms. A full collection, 50 ms when 10,000 files are known, is made rarely."""
SWITCH_INTERVAL_S = 0.0005
"""How long a thread that chunks or writes may keep the event loop from running: Python's own 5 ms
are most of a ping's p99 while files are indexed."""

MEGABYTE = 1_000_000
EXIT_STOPPED = 0
EXIT_CRASHED = 1
EXIT_LOCKED = 3
EXIT_CONFIG = 78
EXIT_UNWELL = 1


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    occupy_standard_streams()
    keep_heaps_few()
    arguments = _parser().parse_args(argv)
    # What is made from here on is for its owner alone.
    os.umask(0o077)
    try:
        log_to(arguments.log_file, arguments.log_level)
    except OSError as error:
        return _complain(f"the log {arguments.log_file}: {error.strerror}", EXIT_CONFIG)
    if arguments.command == "config":
        return _config(arguments)
    if arguments.command == "download-model":
        return _download_model(arguments.source)
    socket_path = (arguments.socket or Path(paths.default_socket_path())).expanduser().absolute()
    if arguments.command == "doctor":
        return _doctor(arguments, socket_path)
    return leave(serve(arguments, socket_path))


def serve(arguments: argparse.Namespace, socket_path: Path) -> int:
    """Run the daemon in the foreground until SIGTERM or SIGINT; return the exit code."""
    signals = Signals()
    try:
        configs = load(arguments.config, agent=arguments.agent, workspace=arguments.workspace)
        if len(configs) == 1 and not _may_be_there(configs[0].db_path):
            usable(configs[0])
    except ConfigError as error:
        return _complain(str(error), EXIT_CONFIG)
    # Threads of OpenBLAS spin while they wait for each other: on a busy machine two are slower
    # than one, and one searches 100,000 vectors in 6 ms. Read when numpy is imported, below.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Late, so that a bad configuration is told at once.
    from memoryd.app import RunOptions, run
    from memoryd.fs.directories import SocketError
    from memoryd.fs.lockfile import AlreadyRunningError
    from memoryd.index.driver import Error
    from memoryd.index.schema import IndexRefusedError
    from memoryd.supervisor import ActorFailedError

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()  # what is loaded by now stays
    gc.set_threshold(*GC_THRESHOLDS)
    _raise_descriptor_limit()
    # A core would have keys and notes in it, and lie where others may look.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    options = RunOptions(
        socket_path,
        arguments.config,
        arguments.agent,
        arguments.workspace,
        arguments.log_file,
    )
    try:
        run_until_stopped(partial(run, options), signals, _loop_factory())
    except AlreadyRunningError as error:
        return _complain(f"{error}; stop it first, or choose another --socket", EXIT_LOCKED)
    except (ConfigError, SocketError, IndexRefusedError) as error:
        return _complain(str(error), EXIT_CONFIG)
    except (ActorFailedError, OSError, Error) as error:
        logging.getLogger(__name__).debug("the cause", exc_info=error)
        reason = error.__cause__ or error
        return _complain(f"{error}: {reason}" if reason is not error else str(error), EXIT_CRASHED)
    return EXIT_STOPPED


def _may_be_there(path: Path) -> bool:
    """Say whether a file is there, or may be: its disk does not answer."""
    try:
        return within(LOOK_S, path.exists)
    except TimeoutError:
        return True


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


def _config(arguments: argparse.Namespace) -> int:
    """Print the settings of the agent that a client here would mean."""
    try:
        configs = load(arguments.config, agent=arguments.agent, workspace=arguments.workspace)
        config = usable(meant(configs, Path.cwd()) or configs[0])
    except ConfigError as error:
        return _complain(str(error), EXIT_CONFIG)
    others = [other.agent for other in configs if other is not config]
    with _until_seen_enough():
        _print_config(config, others, as_json=arguments.json)
    return EXIT_STOPPED


def _doctor(arguments: argparse.Namespace, socket_path: Path) -> int:
    """Look at everything, print what is found, and say by the exit code whether all is well."""
    from memoryd.doctor.examine import DoctorOptions, examine
    from memoryd.doctor.text import as_json, as_text

    # What would be logged is found too.
    logging.disable(logging.WARNING)
    found = examine(
        DoctorOptions(socket_path, arguments.config, arguments.agent, arguments.workspace)
    )
    with _until_seen_enough():
        print(as_json(found) if arguments.json else as_text(found), end="", flush=True)
    if not found.usable:
        return EXIT_CONFIG
    return EXIT_STOPPED if found.ok else EXIT_UNWELL


@contextlib.contextmanager
def _until_seen_enough() -> Iterator[None]:
    """Print as long as somebody reads."""
    try:
        yield
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; nothing may be flushed to it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_config(config: AgentConfig, others: list[str], *, as_json: bool) -> None:
    if as_json:
        document = {
            "agent": config.agent,
            "files": [str(file) for file in config.files],
            "values": [{"key": k, "value": v, "origin": o} for k, v, o in config.values()],
        }
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        for key, value, origin in config.values():
            print(f"{key} = {msgspec.json.encode(value).decode()}  # {origin}")
        if others:
            print(f"# agent {config.agent}; the others, by --agent: {', '.join(others)}")
    sys.stdout.flush()


def _download_model(url: str | None) -> int:
    """Fetch a GGUF model file, and say how to use it."""
    from memoryd.embed.download import MODEL_URL, DownloadError, download

    def show(done: int, total: int | None) -> None:
        if sys.stderr.isatty():
            of = "" if total is None else f" of {total / MEGABYTE:.0f}"
            print(f"\r{done / MEGABYTE:.0f}{of} MB", end="", file=sys.stderr, flush=True)

    folder = Path(paths.state_dir()) / "models"
    try:
        file = asyncio.run(download(url or MODEL_URL, folder, progress=show))
    except DownloadError as error:
        return _complain(str(error), EXIT_CRASHED)
    except KeyboardInterrupt:
        return _complain("stopped; the next call goes on where this one ended", EXIT_CRASHED)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    shown = msgspec.json.encode(str(file)).decode()
    print(f"{file}\nTo use it, put this into the configuration, then `memctl reload`:\n")
    print(f"[defaults.local]\nmodel_path = {shown}")
    return EXIT_STOPPED


def _complain(message: str, code: int) -> int:
    if flushed(FLUSH_S):  # else nobody would read this either
        with contextlib.suppress(OSError):  # a file on a full disk
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
        choices=("run", "config", "doctor", "download-model"),
        default="run",
        help="run (the default): serve in the foreground; config: print the effective settings;"
        " doctor: find out what is wrong; download-model: fetch a model file for local.model_path",
    )
    parser.add_argument(
        "--from", dest="source", metavar="URL", help="another GGUF file than embeddinggemma-300m"
    )
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="serve this workspace only")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration file")
    parser.add_argument("--agent", metavar="ID", help="serve this configured agent only")
    parser.add_argument("--socket", type=Path, metavar="PATH", help="where to listen")
    parser.add_argument(
        "--json", action="store_true", help="print the settings, or what the doctor finds, as JSON"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="what is logged (default: info)",
    )
    parser.add_argument(
        "--log-file", type=Path, metavar="FILE", help="log there, not to standard error"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
