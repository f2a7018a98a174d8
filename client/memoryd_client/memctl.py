"""`memctl`: asks the daemon from a shell.

Data goes to stdout, everything else to stderr. What only some commands need is imported late: a
search takes less time than loading it.
"""

import gc
import os
import sys

from memoryd_client import __version__
from memoryd_client.arguments import Arguments, UsageError, help_text, parse
from memoryd_client.bodies import GetResult, IndexResult
from memoryd_client.errors import DaemonNotRunningError, DeniedError, MemorydError, NotFoundError
from memoryd_client.protocol import Body
from memoryd_client.sync import Client

OK, FAILED, USAGE, NO_DAEMON, NOT_FOUND, INTERRUPTED = 0, 1, 2, 3, 4, 130
TIMEOUT_S = 30.0
WAIT_S = 2.0


def main(argv: list[str] | None = None) -> int:
    """Run one command line, by default the process's own, and return the exit status."""
    if argv is not None:
        return _guarded(argv)
    status = _guarded(sys.argv[1:])
    # The process ends here: collecting what is left would take 4 ms and serve nobody.
    gc.freeze()
    return status


def _guarded(words: list[str]) -> int:
    try:
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever reads has seen enough.
        _drop_stdout()
        return OK
    except OSError as error:
        _drop_stdout()
        _say(f"memctl: {error}")
        return FAILED


def _run(words: list[str]) -> int:
    try:
        arguments = parse(words)
    except UsageError as error:
        return _refuse(error, as_json="--json" in words)
    if arguments.help:
        return _print(help_text(arguments.command))
    if arguments.version:
        return _print(f"memctl {__version__}\n")
    try:
        client = Client(
            arguments.socket,
            timeout_s=TIMEOUT_S if arguments.timeout_s is None else arguments.timeout_s,
            wait_s=_wait_s(arguments),
            name=f"memctl/{__version__}",
        )
    except ValueError as error:
        return _refuse(UsageError(str(error)), as_json=arguments.json)
    try:
        with client:
            result = _ask(client, arguments)
    except MemorydError as error:
        if arguments.command == "config" and isinstance(error, DaemonNotRunningError):
            status = _config_without_daemon(arguments)
            if status is not None:
                return status
        return _fail(error, as_json=arguments.json)
    return _show(result, arguments)


def _wait_s(arguments: Arguments) -> float:
    if arguments.wait_s is not None:
        return arguments.wait_s
    # The settings can be had without a daemon: no need to wait for one.
    return 0.0 if arguments.command == "config" else WAIT_S


def _ask(client: Client, arguments: Arguments) -> Body:
    timeout_s = arguments.timeout_s
    match arguments.command:
        case "search":
            return client.search(
                " ".join(arguments.words),
                max_results=arguments.max_results,
                min_score=arguments.min_score,
                sources=arguments.sources,
                path_glob=arguments.path_glob,
                since=arguments.since,
                until=arguments.until,
            )
        case "get":
            return _get(client, arguments)
        case "status":
            return client.status()
        case "index":
            return _index(client, arguments)
        case "sync":
            return client.sync(vectors=not arguments.no_vectors, timeout_s=timeout_s)
        case "config":
            return client.config()
        case _:
            return client.ping()


def _get(client: Client, arguments: Arguments) -> GetResult:
    """Read a path of the workspace, or one that is relative to the current folder."""
    path = arguments.words[0]
    try:
        return client.get(path, start_line=arguments.start_line, lines=arguments.lines)
    except (NotFoundError, DeniedError):
        # Denied too: a name that no memory file of the workspace can have.
        absolute = os.path.abspath(path)
        if absolute == path or not os.path.isfile(absolute):
            raise
    return client.get(absolute, start_line=arguments.start_line, lines=arguments.lines)


def _index(client: Client, arguments: Arguments) -> IndexResult:
    from memoryd_client.progress import ProgressLine

    line = ProgressLine(sys.stderr, live=sys.stderr.isatty())
    try:
        return client.index(force=arguments.force, on_progress=line, timeout_s=arguments.timeout_s)
    finally:
        line.finish()


def _show(result: Body, arguments: Arguments) -> int:
    if arguments.json:
        from memoryd_client import jsonout

        return _print(jsonout.text(jsonout.answer(result)))
    from memoryd_client import render
    from memoryd_client.style import Style

    terminal = sys.stdout.isatty()
    plain = not terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    _print(render.answer(result, Style(colour=not plain), terminal=terminal))
    for remark in render.remarks(result):
        _say(remark)
    return OK


def _config_without_daemon(arguments: Arguments) -> int | None:
    """Let the daemon's own command print the settings; `None` if it isn't installed."""
    from shutil import which
    from subprocess import call

    beside = os.path.dirname(sys.executable)
    program = which("memoryd", path=beside) or which("memoryd")
    if program is None:
        return None
    return call([program, "config", *(["--json"] if arguments.json else [])])


def _refuse(error: UsageError, *, as_json: bool) -> int:
    if as_json:
        return _fail(MemorydError(str(error), code="usage"), as_json=True, status=USAGE)
    command = f" {error.command}" if error.command else ""
    _say(f"memctl: {error}\nTry `memctl{command} --help`.")
    return USAGE


def _fail(error: MemorydError, *, as_json: bool, status: int | None = None) -> int:
    if as_json:
        from memoryd_client import jsonout

        _print(jsonout.text(jsonout.failure(error)))
    else:
        _say(f"memctl: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
    if status is not None:
        return status
    if isinstance(error, DaemonNotRunningError):
        return NO_DAEMON
    return NOT_FOUND if isinstance(error, NotFoundError) else FAILED


def _print(text: str) -> int:
    """Write data. UTF-8 whatever the locale: it is what the notes are in, and JSON has to be."""
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(encoding="utf-8", errors="replace")
    sys.stdout.write(text)
    sys.stdout.flush()
    return OK


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _drop_stdout() -> None:
    """Keep the interpreter from complaining, at exit, about what stdout did not take."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


if __name__ == "__main__":
    sys.exit(main())
