"""Entry point of `memctl`: parses the command line, asks the daemon and shows the answer.

Data goes to stdout, everything else to stderr. Modules that only some commands need are imported
late, because loading them takes longer than a search.
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from memctl.arguments import Arguments, UsageError, help_text, parse
from memctl.output import OutputError, drop_stdout, on_terminal, say, style, write
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
from memoryd_client.schema.facts import FactForgetResult
from memoryd_client.schema.memory import GetResult, ProbeResult
from memoryd_client.schema.promotion import PromoteResult
from memoryd_client.schema.search import SearchResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared.paths import SocketPathError, check_socket_path, default_socket_path
from memoryd_client.shared.style import one_line

if TYPE_CHECKING:
    from memctl.render import Renderable

OK, FAILED, USAGE, NO_DAEMON, NOT_FOUND, INTERRUPTED = 0, 1, 2, 3, 4, 130
USAGE_CODE = "usage"
TIMEOUT_S = 30.0
WAIT_S = 2.0
CONTEXT_CHARS, RECALL_CHARS = 8_000, 1_500

_NEVER_AUTOSTART = ("config", "drop", "ping", "reload")
"""Commands about a running daemon, which therefore never start one."""


def main(argv: list[str] | None = None) -> int:
    """Run one command line, by default that of the process, and return the exit status."""
    if argv is not None:
        return _guarded(argv)
    status = _guarded(sys.argv[1:])
    # The process ends here; a final garbage collection would cost 4 ms.
    gc.freeze()
    return status


def _guarded(words: list[str]) -> int:
    try:
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe.
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
    if arguments.command == "hook":
        from memctl import hook

        return hook.run([word for word in words if word != "hook"])
    try:
        socket_path = check_socket_path(arguments.socket or default_socket_path())
    except SocketPathError as error:
        failure = MemorydError(error.message, hint=error.hint, code=USAGE_CODE)
        return _fail(failure, arguments)
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
    if arguments.command in ("start", "stop", "restart", "logs", "doctor"):
        from memctl import offline

        return offline.run(arguments, socket_path)
    if arguments.command == "mcp":
        from memctl.mcp.server import serve

        return serve(
            socket_path,
            agent=arguments.agent,
            deadline_s=arguments.timeout_s,
            wait_s=arguments.wait_s,
        )
    if arguments.command in ("connect", "disconnect"):
        from memctl.connect import command

        return command.run(arguments, socket_path)
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
    # The settings are available without a daemon, so there is no need to wait for one.
    wait_s = 0.0 if arguments.command == "config" else WAIT_S
    return Client(
        socket_path,
        agent=arguments.agent,
        autostart=arguments.command not in _NEVER_AUTOSTART,
        timeout_s=TIMEOUT_S if arguments.timeout_s is None else arguments.timeout_s,
        wait_s=wait_s if arguments.wait_s is None else arguments.wait_s,
        name=f"memctl/{__version__}",
        kind="tool",
    )


def _now() -> str:
    """Return the time here with its offset from UTC, in RFC 3339."""
    from datetime import datetime

    return datetime.now().astimezone().isoformat(timespec="seconds")


def _ask(client: Client, arguments: Arguments) -> "Renderable | None":
    """Return the daemon's answer; None if the command has already printed it."""
    timeout_s = arguments.timeout_s
    match arguments.command:
        case "search":
            return client.search(
                " ".join(arguments.words),
                max_results=arguments.max_results,
                min_score=arguments.min_score,
                min_confidence=arguments.min_confidence,
                sources=arguments.sources,
                path_glob=arguments.path_glob,
                since=arguments.since,
                until=arguments.until,
                visibility=arguments.visibility,
                mode=arguments.mode,
                max_chars=arguments.max_chars,
                explain=arguments.explain,
                highlight=not arguments.json,
                trusted=arguments.trusted,
                now=_now(),
                session=arguments.session,
                chat_type=arguments.chat_type,
                origins=arguments.origins,
                conversation=arguments.conversation,
            )
        case "get":
            return _get(client, arguments)
        case "context":
            return client.context(
                arguments.session or "",
                chat_type=arguments.chat_type or "direct",
                max_chars=arguments.max_chars or CONTEXT_CHARS,
                now=_now(),
            )
        case "recall":
            message, most = " ".join(arguments.words), arguments.max_chars or RECALL_CHARS
            chat_type = arguments.chat_type or "direct"
            return client.recall(message, max_chars=most, now=_now(), chat_type=chat_type)
        case "note":
            from memctl import note

            return note.ask(client, arguments)
        case "promote":
            from memctl import promotion

            return promotion.ask(client, arguments)
        case "stale":
            return client.stale(timeout_s=timeout_s)
        case "facts":
            from memctl import facts

            return facts.ask(client, arguments)
        case "flush-prompt":
            from memctl import note

            note.print_flush(client, arguments)
            return None
        case "status":
            return _statuses(client) if arguments.agent is None else [client.status()]
        case "index" | "sync":
            from memctl import indexing

            return indexing.wait_for(client, arguments)
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
        case "files" | "events":
            from memctl import streams

            show = streams.files if arguments.command == "files" else streams.events
            show(client, arguments)
            return None
        case "sessions" | "forget":
            from memctl import render_transcripts as transcripts

            show = transcripts.show if arguments.command == "sessions" else transcripts.forget
            show(client, arguments)
            return None
        case "export" | "import":
            from memctl import transfer

            work = transfer.export if arguments.command == "export" else transfer.import_
            work(client, arguments)
            return None
        case _:
            return client.ping()


def _get(client: Client, arguments: Arguments) -> GetResult:
    """Read a path relative to the workspace, or else to the current folder."""
    path = arguments.words[0]
    read = partial(
        client.get,
        start_line=arguments.start_line,
        lines=arguments.lines,
        raw=arguments.raw,
        session=arguments.session,
        chat_type=arguments.chat_type,
    )
    try:
        return read(path)
    except (NotFoundError, DeniedError):
        # DeniedError: no memory file of the workspace can have this name.
        from memoryd_client.shared.citation import read_citation

        absolute = os.path.abspath(path)
        cited = read_citation(absolute)
        file = absolute if cited is None else cited.path
        if absolute == path or not (os.path.isfile(absolute) or os.path.isfile(file)):
            raise
    return read(absolute)


def _drop(client: Client, word: str) -> DropResult:
    """Stop serving the agent, or the workspace folder, that a word names."""
    try:
        return client.drop(word)
    except UnknownAgentError:
        if not os.path.isdir(word):
            raise
    return client.drop(os.path.realpath(word))


def _statuses(client: Client) -> list[StatusResult | AgentSummary]:
    """Return the status of each agent; of an agent that can't answer, the daemon's summary."""
    found: list[StatusResult | AgentSummary] = []
    try:
        agents = client.agents().agents
    except DeniedError:
        first = client.status()  # a restricted socket may permit this alone
        return [first, *_others(client, first)]
    for agent in agents:
        client.agent = agent.agent
        try:
            found.append(client.status() if agent.state == "ready" else agent)
        except (UnknownAgentError, UnavailableError) as error:
            agent.state, agent.reason = "stopping", error.message
            found.append(agent)
    return found


def _others(client: Client, first: StatusResult) -> Iterator[StatusResult]:
    for client.agent in first.agents:
        if client.agent != first.agent_id:
            with suppress(UnknownAgentError, UnavailableError):
                yield client.status()


def _show(result: "Renderable", arguments: Arguments) -> int:
    if arguments.open_hit is not None and isinstance(result, SearchResult):
        from memctl import editor

        socket_path = arguments.socket or default_socket_path()
        editor.open_hit(result, arguments.open_hit, socket_path=socket_path)
        return OK
    if arguments.json:
        from memctl import json_output

        write(json_output.text(json_output.answer(result)))
    else:
        from memctl import render

        text = render.answer(result, style(), terminal=on_terminal(), full=arguments.full)
        write(text)
        for remark in render.remarks(result):
            say(remark)
    return FAILED if _reports_failure(result) else OK


def _reports_failure(result: "Renderable") -> bool:
    """Return whether a successful command reports that something does not work."""
    match result:
        case ProbeResult():
            return any(check.required and not check.ok for check in result.checks)
        case AddResult():
            return result.agent.state == "failed"
        case ReloadResult():
            return bool(result.failed)
        case PromoteResult():
            return bool(result.refused)
        case FactForgetResult():
            return not result.forgotten
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
        # Line-by-line output stays line by line to the end.
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
