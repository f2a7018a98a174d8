"""`memctl`: asks the daemon from a shell.

Data goes to stdout, everything else to stderr. What only some commands need is imported late: a
search takes less time than loading it.
"""

import gc
import os
import sys
from typing import TYPE_CHECKING

from memctl.arguments import Arguments, UsageError, help_text, parse
from memctl.output import OutputError, drop_stdout, on_terminal, progress_line, say, style, write
from memoryd_client import __version__
from memoryd_client.client import Client
from memoryd_client.errors import (
    DaemonNotRunningError,
    DeniedError,
    MemorydError,
    NotFoundError,
    UnavailableError,
    UnknownAgentError,
)
from memoryd_client.schema.agents import AddResult, AgentSummary, DropResult, ReloadResult
from memoryd_client.schema.memory import (
    GetResult,
    IndexResult,
    ProbeResult,
    SearchResult,
    SyncResult,
)
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared.paths import check_socket_path, default_socket_path
from memoryd_client.shared.style import one_line

if TYPE_CHECKING:
    from memctl.render import Renderable

OK, FAILED, USAGE, NO_DAEMON, NOT_FOUND, INTERRUPTED = 0, 1, 2, 3, 4, 130
USAGE_CODE = "usage"
TIMEOUT_S = 30.0
WAIT_S = 2.0

_ABOUT_WHAT_RUNS = ("config", "drop", "ping", "reload")
"""Commands that a daemon started for them would have nothing to tell to."""


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
        drop_stdout()
        return OK
    except OutputError as error:
        drop_stdout()
        say(f"memctl: {error}")
        return FAILED


def _run(words: list[str]) -> int:
    try:
        arguments = parse(words)
    except UsageError as error:
        return _refuse(error, as_json="--json" in words)
    if arguments.help:
        write(help_text(arguments.command))
        return OK
    if arguments.version:
        write(f"memctl {__version__}\n")
        return OK
    try:
        socket_path = check_socket_path(arguments.socket or default_socket_path())
    except ValueError as error:
        message, _, hint = str(error).partition("\n")
        return _fail(MemorydError(message, hint=hint, code=USAGE_CODE), arguments)
    try:
        return _do(arguments, socket_path)
    except MemorydError as error:
        return _fail(error, arguments)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(MemorydError(f"{where}{error.strerror or error}"), arguments)


def _do(arguments: Arguments, socket_path: str) -> int:
    if arguments.command in ("start", "stop", "restart", "logs"):
        from memctl import offline

        offline.run(arguments, socket_path)
        return OK
    if arguments.command == "doctor":
        from memctl import offline

        return offline.doctor(arguments, socket_path)
    client = _client(arguments, socket_path)
    try:
        result = _ask(client, arguments)
    except DaemonNotRunningError:
        if arguments.command != "config":
            raise
        from memctl import offline

        if (status := offline.config(arguments)) is None:
            raise
        return status
    finally:
        client.close()
    return OK if result is None else _show(result, arguments)


def _client(arguments: Arguments, socket_path: str) -> Client:
    # The settings can be had without a daemon: no need to wait for one.
    wait_s = 0.0 if arguments.command == "config" else WAIT_S
    return Client(
        socket_path,
        agent=arguments.agent,
        autostart=arguments.command not in _ABOUT_WHAT_RUNS,
        timeout_s=TIMEOUT_S if arguments.timeout_s is None else arguments.timeout_s,
        wait_s=wait_s if arguments.wait_s is None else arguments.wait_s,
        name=f"memctl/{__version__}",
    )


def _ask(client: Client, arguments: Arguments) -> "Renderable | None":
    """Return what the daemon answers; `None` if it has been shown already, as it came."""
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
                visibility=arguments.visibility,
                mode=arguments.mode,
                max_chars=arguments.max_chars,
                explain=arguments.explain,
                session=arguments.session,
            )
        case "get":
            return _get(client, arguments)
        case "status":
            return _statuses(client) if arguments.agent is None else [client.status()]
        case "index" | "sync":
            return _wait_for(client, arguments)
        case "config":
            return client.config()
        case "probe":
            return client.probe(timeout_s=timeout_s)
        case "agents":
            return client.agents()
        case "add":
            return client.add(arguments.words[0])
        case "drop":
            return _drop(client, arguments.words[0])
        case "reload":
            return client.reload()
        case "files":
            from memctl import streams

            streams.files(client, arguments)
            return None
        case "sessions":
            from memctl import render_transcripts

            render_transcripts.show(client, arguments)
            return None
        case "forget":
            from memctl import render_transcripts

            render_transcripts.forget(client, arguments)
            return None
        case "events":
            from memctl import streams

            streams.events(client, arguments)
            return None
        case _:
            return client.ping()


def _get(client: Client, arguments: Arguments) -> GetResult:
    """Read a path of the workspace, or one that is relative to the current folder."""
    path = arguments.words[0]
    start_line, lines, raw = arguments.start_line, arguments.lines, arguments.raw
    try:
        return client.get(path, start_line=start_line, lines=lines, raw=raw)
    except (NotFoundError, DeniedError):
        # Denied too: a name that no memory file of the workspace can have.
        absolute = os.path.abspath(path)
        if absolute == path or not os.path.isfile(absolute):
            raise
    return client.get(absolute, start_line=start_line, lines=lines, raw=raw)


def _drop(client: Client, word: str) -> DropResult:
    """Stop serving an agent, or the workspace that a word names as a folder."""
    try:
        return client.drop(word)
    except UnknownAgentError:
        if not os.path.isdir(word):
            raise
    return client.drop(os.path.realpath(word))


def _statuses(client: Client) -> list[StatusResult | AgentSummary]:
    """Ask how each agent is. One that can't tell, now or meanwhile, is told of by the daemon."""
    found: list[StatusResult | AgentSummary] = []
    for agent in client.agents().agents:
        client.agent = agent.agent
        try:
            found.append(client.status() if agent.state == "ready" else agent)
        except (UnknownAgentError, UnavailableError) as error:
            agent.state, agent.reason = "stopping", error.message
            found.append(agent)
    return found


def _wait_for(client: Client, arguments: Arguments) -> IndexResult | SyncResult:
    """Do what takes long, with progress on stderr."""
    timeout_s = arguments.timeout_s
    line = progress_line()
    try:
        if arguments.command == "index":
            return client.index(
                force=arguments.force,
                provider=arguments.provider,
                on_progress=line,
                timeout_s=timeout_s,
            )
        return client.sync(vectors=not arguments.no_vectors, on_progress=line, timeout_s=timeout_s)
    finally:
        line.finish()


def _show(result: "Renderable", arguments: Arguments) -> int:
    if arguments.open_hit is not None and isinstance(result, SearchResult):
        from memctl import editor

        editor.open_hit(result, arguments.open_hit)
        return OK
    if arguments.json:
        from memctl import json_output

        write(json_output.text(json_output.answer(result)))
    else:
        from memctl import render

        write(render.answer(result, style(), terminal=on_terminal()))
        for remark in render.remarks(result):
            say(remark)
    return FAILED if _is_bad_news(result) else OK


def _is_bad_news(result: "Renderable") -> bool:
    """Tell whether a command did what it had to, and found that something does not work."""
    match result:
        case ProbeResult():
            return any(check.required and not check.ok for check in result.checks)
        case AddResult():
            return result.agent.state == "failed"
        case ReloadResult():
            return bool(result.failed)
        case _:
            return False


def _refuse(error: UsageError, *, as_json: bool) -> int:
    command = f" {error.command}" if error.command else ""
    failure = MemorydError(str(error), code=USAGE_CODE, hint=f"try `memctl{command} --help`")
    return _fail(failure, Arguments(json=as_json, command=error.command))


def _fail(error: MemorydError, arguments: Arguments) -> int:
    if arguments.json:
        from memctl import json_output

        failure = json_output.failure(error)
        # What comes line by line stays so to the end.
        by_line = arguments.command == "events" or arguments.follow
        write(json_output.line(failure) if by_line else json_output.text(failure))
    else:
        say(f"memctl: {one_line(error.message)}")
        if error.hint:
            say(f"hint: {one_line(error.hint)}")
    match error:
        case DaemonNotRunningError():
            return NO_DAEMON
        case NotFoundError() | UnknownAgentError():
            return NOT_FOUND
        case _:
            return USAGE if error.code == USAGE_CODE else FAILED
