"""Answers of a daemon, as the client reads them and `memctl` displays them."""

import contextlib
import io
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from memctl import json_output, render, render_transcripts, streams
from memctl.progress import progress_text
from memoryd_client.errors import MemorydError
from memoryd_client.schema.facts import FactForgetBody, FactRecallBody, FactStoreBody
from memoryd_client.schema.memory import FilesResult, GetBody
from memoryd_client.schema.search import SearchBody, SearchResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.schema.transcripts import ForgetBody, ForgetResult, SessionsResult
from memoryd_client.shared.style import Style, one_line
from memoryd_client.transport.blocking_link import BlockingLink
from memoryd_client.transport.dial import Target
from memoryd_client.wire import requests
from memoryd_client.wire.framing import pack
from memoryd_client.wire.protocol import Error, Item, Op, Progress, Result, Welcome
from memoryd_client.wire.requests import Call, ProgressReport, TimeLimit

CALLS: list[Callable[[], Call[Any]]] = [
    lambda: requests.PING,
    lambda: requests.STATUS,
    lambda: requests.CONFIG,
    lambda: requests.get(GetBody("x")),
    lambda: requests.sync(vectors=True),
    lambda: requests.index(force=False, provider=None),
    lambda: requests.sessions(after=None, limit=1),
    lambda: requests.forget(ForgetBody(match="x")),
    lambda: requests.files("indexed", after=None, limit=1),
    lambda: requests.PROBE,
    lambda: requests.AGENTS,
    lambda: requests.add("/x"),
    lambda: requests.drop("x"),
    lambda: requests.RELOAD,
    lambda: Call(Op.SEARCH, SearchBody("x"), SearchResult),
    lambda: requests.events(None),
    lambda: requests.context("", chat_type="direct", max_chars=9, now=None),
    lambda: requests.recall("x", max_chars=9, now=None),
    lambda: requests.STALE,
    lambda: requests.promote(apply=False, candidate=None, limit=None),
    lambda: requests.fact_store(FactStoreBody("x")),
    lambda: requests.fact_recall(FactRecallBody("x")),
    lambda: requests.fact_forget(FactForgetBody(query="x")),
]
_EVENTS = 15
_HIT = {
    "id": "i",
    "path": "a\u001b[2J.md",
    "start_line": 1,
    "end_line": 2,
    "snippet": "\u001b]0;x\u0007 \u202e",
    "snippet_start_line": 1,
    "snippet_end_line": 2,
    "score": 0.5,
    "source": "memory",
    "citation": "c",
    "vector_score": None,
    "text_score": 1e308,
}
_PING = {"version": "1\u001b[", "pid": 1, "uptime_s": 1e300, "boot_id": "b"}
_EVENT = {"kind": "\u001b[2J", "at": 1e18, "agent": "a", "path": "p", "count": -1, "text": "t\n"}
SEEDS = [
    b"\x0e" + json.dumps({"results": [_HIT], "mode": "hybrid"}).encode(),
    b"\x00" + json.dumps(_PING).encode(),
    b"\x0f" + json.dumps(_EVENT).encode(),
    b'\x06{"enabled":true,"sessions":[{"path":"\\u009b","real_path":"/x","state":"new"}],"total":1}',
    b'\x07{"paths":["\\u001b"],"messages":-1,"dry_run":true,"unread":["\\u0007"]}',
    b'\x08{"files":[{"path":"\\u001b","source":"\\u001b","state":"failed","size_bytes":-1}],"total":1}',
    b'\x02{"agent":"\\u001b","files":[],"values":[{"key":"\\u001b","value":"\\u0007","origin":"x"}]}',
    b'\x10{"text":"\\u001b","sections":[],"omitted":["\\u001b]0;x"],"warnings":["\\u009b"]}',
    b'\x11{"text":"\\u001b","entries":[{"citation":"c","text":"t","confidence":1e308}]}',
    b"\x8e" + pack(Error("busy\x1b", "no\x1b[2J", 1)),
    b"\x8e" + pack(Progress(1, 2**63, -1, "\x1b")) + pack(Result(1, msgspec.Raw(b"\x80"))),
    b"\x8f" + pack(Item(1, msgspec.Raw(b"\xc0"))) + pack(Error("shutting_down", "x", None)),
    b"\x80\xff\xff\xff\xff",
    b"\x80" + pack(Welcome(1, "x", 1, "b", [])),
]
DICTIONARY = [b"\\u001b[2J", b"\\u009b", b"\\ud800", b"null", b"1e308", b"-1", b"[]", b"{}", b"\n"]
DICTIONARY += [b'"at":', b'"path":"', b'"reason":"', b'"state":"', b'"agent":"', b"NaN", b"9" * 25]
MAX_BYTES = 2_048
_STYLE = Style(colour=False, columns=40)
_ALLOWED = {"\n", "\t"}


def check(data: bytes) -> None:
    """Answer a request with the bytes: an error or text that is safe on a terminal results.

    The first byte selects the request. If its highest bit is set, the rest is the raw stream from
    the socket, otherwise the body of the answer in JSON.
    """
    which, rest = (data[0] if data else 0), data[1:]
    number = (which & 0x7F) % len(CALLS)
    sent = rest if which & 0x80 else _framed(rest, Item if number == _EVENTS else Result)
    shown: list[str] = []
    try:
        _ask(CALLS[number](), sent, shown, follows=number == _EVENTS)
    except MemorydError as error:
        shown += [one_line(error.message), one_line(error.hint or ""), one_line(error.code)]
        json_output.text(json_output.failure(error))
    for text in shown:
        assert not {c for c in text if ord(c) < 32 or 127 <= ord(c) < 160} - _ALLOWED, text
        text.encode()


def _framed(text: bytes, kind: type[Result] | type[Item]) -> bytes:
    try:
        body = msgspec.msgpack.encode(json.loads(text))
    except (ValueError, RecursionError, TypeError, OverflowError):
        body = text
    return pack(kind(1, msgspec.Raw(body or b"\x80")))


def _ask(call: Call[Any], sent: bytes, shown: list[str], *, follows: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(pack(Welcome(1, "fuzz", 1, "boot", [])) + sent)
        theirs.shutdown(socket.SHUT_WR)
        link = BlockingLink(ours, Target("/x", False, "fuzz", "/"), 1.0)
        if follows:
            for event in link.events(call, None):
                shown.append(streams.event_line(event))
                json_output.line(json_output.answer(event))
            return

        def progress(completed: int, total: int, label: str) -> None:
            shown.append(progress_text(completed, total, label, elapsed_s=1, label_elapsed_s=1))

        result = link.run(call, None, TimeLimit(10.0), ProgressReport(progress))
    shown += _show(result)


def _show(result: Any) -> list[str]:
    json_output.text(json_output.answer(result))
    if isinstance(result, FilesResult):
        return [streams.files_page(result.files, _STYLE, headed=True)]
    if isinstance(result, SessionsResult):
        result.next_after = None
        return _printed(render_transcripts.show, sessions_page=lambda **_: result)
    if isinstance(result, ForgetResult):
        return _printed(render_transcripts.forget, forget=lambda **_: result)
    if isinstance(result, StatusResult):
        return [render.answer([result], _STYLE, terminal=True)]
    return [render.answer(result, _STYLE, terminal=True), *render.remarks(result)]


def _printed(command: Callable[[Any, Any], None], **client: object) -> list[str]:
    arguments = SimpleNamespace(
        json=False,
        dry_run=False,
        delete_source=False,
        yes=False,
        session=None,
        path_glob=None,
        match="x",
        gone=False,
    )
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), suppress(MemorydError):
        command(cast(Any, SimpleNamespace(**client)), cast(Any, arguments))
    return [out.getvalue()]
