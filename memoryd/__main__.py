"""The `memoryd` command: arguments, configuration, exit codes.

Exit codes: 0 stopped on request, 1 crashed (`doctor`: found errors), 2 bad command line, 3 another
memoryd holds the socket or the index, 78 the configuration is invalid (EX_CONFIG of sysexits.h). A
service manager need not restart memoryd after the last two.
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
from memoryd.config.load import AgentConfig, default_agent, load, usable
from memoryd.config.validate import ConfigError
from memoryd.daemon.log_writer import FLUSH_S, flushed, log_to
from memoryd.daemon.malloc import keep_heaps_few
from memoryd.daemon.process import Signals, leave, occupy_standard_streams, run_until_stopped
from memoryd.fs.core_dumps import protect_memory
from memoryd.fs.hang import DISK_LIMIT_S, within
from memoryd_client.shared import paths
from memoryd_client.shared.log_line import escaped
from memoryd_client.shared.style import printable_json, printable_name

GC_THRESHOLDS = (2_000, 5, 400)
"""Thresholds of Python's garbage collector, which stops all threads: a collection of 10,000 young
objects takes 3 ms, a full one 50 ms with 10,000 indexed files, so it is rare."""
SWITCH_INTERVAL_S = 0.0005
"""Seconds that a thread may block the event loop. Python's default of 5 ms makes up most of a
ping's p99 while memoryd indexes files."""

MEGABYTE = 1_000_000
EXIT_STOPPED = 0
EXIT_CRASHED = 1
EXIT_USAGE = 2
EXIT_LOCKED = 3
EXIT_CONFIG = 78
EXIT_UNWELL = 1


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    occupy_standard_streams()
    keep_heaps_few()
    arguments = _parser().parse_args(argv)
    # Only the owner may read the files that memoryd creates.
    os.umask(0o077)
    try:
        log_to(arguments.log_file, arguments.log_level)
    except OSError as error:
        return _complain(f"can't open the log {arguments.log_file}: {error.strerror}", EXIT_CONFIG)
    if arguments.command == "config":
        return _config(arguments)
    if arguments.command == "download-model":
        return _download_model(arguments.source, arguments.sha256)
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
    # OpenBLAS threads spin while they wait for each other: on a busy machine two are slower than
    # one, and one searches 100,000 vectors in 6 ms. numpy reads the variable when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported late, so that memoryd reports an invalid configuration at once.
    from memoryd.app import RunOptions, run
    from memoryd.daemon.agents import EXPLAINED
    from memoryd.errors import AlreadyRunningError, IndexRefusedError, SocketError
    from memoryd.supervisor import ActorFailedError

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()  # loaded modules stay
    gc.set_threshold(*GC_THRESHOLDS)
    _raise_descriptor_limit()
    protect_memory()
    named = (arguments.config, arguments.agent, arguments.workspace)
    options = RunOptions(
        socket_path, *named, log_path=arguments.log_file, log_level=arguments.log_level
    )
    try:
        run_until_stopped(partial(run, options), signals, _loop_factory())
    except AlreadyRunningError as error:
        return _complain(f"{error}; stop it first or choose another --socket", EXIT_LOCKED)
    except (ConfigError, SocketError, IndexRefusedError) as error:
        return _complain(str(error), EXIT_CONFIG)
    except (ActorFailedError, *EXPLAINED) as error:
        logging.getLogger(__name__).debug("cause", exc_info=error)
        reason = error.__cause__ or error
        return _complain(f"{error}: {reason}" if reason is not error else str(error), EXIT_CRASHED)
    return EXIT_STOPPED


def _may_be_there(path: Path) -> bool:
    """Return whether a file exists, or may exist because its disk does not answer."""
    try:
        return within(DISK_LIMIT_S, path.exists)
    except TimeoutError:
        return True


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop if it is installed, else None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit, as systemd recommends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _config(arguments: argparse.Namespace) -> int:
    """Print the settings of the agent that clients in the current folder use."""
    try:
        configs = load(arguments.config, agent=arguments.agent, workspace=arguments.workspace)
        config = usable(default_agent(configs, Path.cwd()) or configs[0])
    except ConfigError as error:
        return _complain(str(error), EXIT_CONFIG)
    others = [other.agent for other in configs if other is not config]
    with _broken_pipe_ignored():
        _print_config(config, others, as_json=arguments.json)
    return EXIT_STOPPED


def _doctor(arguments: argparse.Namespace, socket_path: Path) -> int:
    """Print the findings of the doctor; return `EXIT_UNWELL` if there are errors."""
    from memoryd.doctor.examine import DoctorOptions, examine
    from memoryd.doctor.finding import as_json, as_text

    # The doctor reports the same problems.
    logging.disable(logging.WARNING)
    found = examine(
        DoctorOptions(socket_path, arguments.config, arguments.agent, arguments.workspace)
    )
    with _broken_pipe_ignored():
        print(as_json(found) if arguments.json else as_text(found), end="", flush=True)
    if not found.usable:
        return EXIT_CONFIG
    return EXIT_STOPPED if found.ok else EXIT_UNWELL


@contextlib.contextmanager
def _broken_pipe_ignored() -> Iterator[None]:
    """Stop printing when the reader (`| head`) has closed the pipe."""
    try:
        yield
    except BrokenPipeError:
        # Python would fail when it flushes the stream at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_config(config: AgentConfig, others: list[str], *, as_json: bool) -> None:
    if as_json:
        document = {
            "agent": config.agent,
            "files": [str(file) for file in config.files],
            "values": [{"key": k, "value": v, "origin": o} for k, v, o in config.values()],
        }
        print(printable_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()))
    else:
        for key, value, origin in config.values():
            shown = printable_json(msgspec.json.encode(value).decode())
            print(f"{key} = {shown}  # {printable_name(origin)}")
        if others:
            print(f"# agent {config.agent}; other agents (--agent): {', '.join(others)}")
    sys.stdout.flush()


def _download_model(url: str | None, sha256: str | None) -> int:
    """Download a GGUF model file and print how to use it."""
    from memoryd.embed.download import MODEL_PAGE, MODEL_URL, DownloadError, download

    if sha256 is None:
        where = f": {MODEL_PAGE}" if url is None else ""
        return _complain(
            "download-model needs --sha256, the SHA-256 of the file; the publisher's page of the"
            f" file shows it{where}",
            EXIT_USAGE,
        )

    def show(done: int, total: int | None) -> None:
        if sys.stderr.isatty():
            of = "" if total is None else f" of {total / MEGABYTE:.0f}"
            print(f"\r{done / MEGABYTE:.0f}{of} MB", end="", file=sys.stderr, flush=True)

    folder = Path(paths.state_dir()) / "models"
    try:
        file = asyncio.run(download(url or MODEL_URL, folder, sha256=sha256, progress=show))
    except DownloadError as error:
        return _complain(str(error), EXIT_CRASHED)
    except KeyboardInterrupt:
        return _complain("stopped; run it again to continue the download", EXIT_CRASHED)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    shown = msgspec.json.encode(str(file)).decode()
    print(f"{file}\nTo use it, add this to the configuration, then run `memctl reload`:\n")
    print(f"[defaults.local]\nmodel_path = {shown}")
    return EXIT_STOPPED


def _complain(message: str, code: int) -> int:
    if flushed(FLUSH_S):  # otherwise nobody reads this either
        with contextlib.suppress(OSError):  # a file on a full disk
            print(f"memoryd: {escaped(message)}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memoryd", description="Memory daemon for AI agents. Use memctl to talk to it."
    )
    parser.add_argument("--version", action="version", version=f"memoryd {__version__}")
    parser.add_argument(
        "command",
        nargs="?",
        choices=("run", "config", "doctor", "download-model"),
        default="run",
        help="run (default): serve in the foreground; config: print the effective settings;"
        " doctor: diagnose problems; download-model: download a model for local.model_path",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="URL",
        help="GGUF file to download (default: embeddinggemma-300m)",
    )
    parser.add_argument(
        "--sha256", metavar="HASH", help="SHA-256 that the downloaded file must have"
    )
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="serve this workspace only")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file")
    parser.add_argument("--agent", metavar="ID", help="serve this configured agent only")
    parser.add_argument("--socket", type=Path, metavar="PATH", help="path of the socket")
    parser.add_argument("--json", action="store_true", help="print settings or findings as JSON")
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="least severe level to log (default: info)",
    )
    parser.add_argument(
        "--log-file", type=Path, metavar="FILE", help="log to a file instead of standard error"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
