"""Answers of the memory tools, as a text for a model and as the reference's JSON. Pure."""

import re
from typing import Any

from memoryd_client.errors import (
    BadRequestError,
    DeniedError,
    MemorydError,
    NotFoundError,
    UnavailableError,
)
from memoryd_client.prompt import file_for_prompt, for_prompt
from memoryd_client.schema.memory import GetResult
from memoryd_client.schema.search import Confidence, Hit, SearchResult

MAX_CHARS = 4_000
"""Maximum length of the text of a search."""
NO_CLEAR_MATCH = "No clear match; nearest:"
_NO_MATCH = "No match in memory. Try other words, or say that you searched and found nothing."
_NO_MATCH_YET = "No match in memory yet. Ask again in a moment."
_BACKEND = "memoryd"
_WARNINGS_CHARS = 600
_ACTIONS = (
    (
        re.compile(r"(?i)quota|credit|billing|rate.?limit|\b429\b|too many requests"),
        "quota",
        "The quota of the embedding provider is used up.",
        "Top it up, or choose another provider with `memctl index --provider NAME`.",
    ),
    (
        re.compile(r"(?i)rebuil|re-?index|index identity"),
        "rebuild",
        "The index is being rebuilt, or has to be.",
        "Look at `memctl status`; if the rebuild has failed, run `memctl index --force`.",
    ),
    (
        re.compile(r"(?i)vector search is off|embedding is paused|provider|api.?key|\bmodel\b"),
        "provider",
        "The embedding provider does not work.",
        "Run `memctl probe`, which tests it and suggests fixes.",
    ),
)
"""Pattern of a problem, its kind, the warning and the action, in the order in which they apply."""


def text(result: SearchResult | GetResult, *, max_chars: int = MAX_CHARS) -> str:
    """Return a result as an agent reads it best.

    A search begins with its confidence, then come the results as `for_prompt` writes them, then
    their omission and the warnings, with at most `max_chars` characters in all. The lines of a file
    end with the next line to read.
    """
    if isinstance(result, GetResult):
        return _file_text(result)
    warnings = _warnings_text(result)
    if not result.results:
        return f"{_NO_MATCH_YET if result.first_index else _NO_MATCH}\n{warnings}"
    weak = result.confidence in (Confidence.LOW, Confidence.NONE)
    rating = f"Confidence: {result.confidence}.\n" if result.confidence else ""
    head = f"{NO_CLEAR_MATCH}\n" if weak else rating
    tail = _omission(len(result.results)) + warnings
    shown = for_prompt(result, max_chars=max_chars - len(head) - len(tail))
    # A result can't contain "<", so each end of an element is one of ours.
    omitted = len(result.results) - shown.count("\n</") + result.omitted
    return head + shown + (_omission(omitted) if omitted else "") + warnings


def _omission(count: int) -> str:
    more = "1 more result" if count == 1 else f"{count} more results"
    return f"\n{more} left out; ask more precisely, or read a file with memory_get.\n"


def _warnings_text(result: SearchResult) -> str:
    warnings = list(result.warnings)
    if result.stale and not warnings:
        warnings.append("the latest changes are not searchable yet")
    joined = "; ".join(" ".join(warning.split()) for warning in warnings)[:_WARNINGS_CHARS]
    return f"\nWarning: {joined}\n" if joined else ""


def _file_text(result: GetResult) -> str:
    if not result.text and result.next_from is None:
        return f"{result.path} has {result.total_lines} lines, none from {result.start_line} on.\n"
    more = "" if result.next_from is None else f"\n{_more(result.next_from)}\n"
    return file_for_prompt(result) + more


def _more(next_from: int) -> str:
    return f"[More content available. Use from={next_from} to continue.]"


def failure_text(error: MemorydError) -> str:
    """Return a failed call as a text for a model: the problem, and what to do."""
    hint = error.hint
    if isinstance(error, NotFoundError) and not hint:
        hint = "use a path that memory_search returned"
    fix = f" Hint: {hint}." if hint else ""
    if isinstance(error, BadRequestError | DeniedError | NotFoundError):
        return f"Error: {error.message}.{fix}"
    return (
        f"Memory is unavailable: {error.message}.{fix} Tell the user, and do not answer as if"
        " memory had nothing."
    )


def json(result: SearchResult | GetResult, *, citations: str, cited: bool) -> dict[str, Any]:
    """Return the reference's JSON of a result.

    With `cited`, each snippet ends with a line `Source: path#L3-L7`. `warning` and `action` are
    there if something is degraded; `disabled` and `unavailable` if nothing could be searched.
    """
    return _file_json(result) if isinstance(result, GetResult) else _found(result, citations, cited)


def _found(result: SearchResult, citations: str, cited: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "results": [_hit_json(hit, cited=cited) for hit in result.results],
        "provider": result.provider,
        "model": result.model,
        "fallback": result.fallback,
        "citations": citations,
        "mode": result.mode,
        "confidence": result.confidence,
        "debug": {
            "backend": _BACKEND,
            "searchMs": round(result.took_ms, 1),
            "hits": len(result.results),
        },
    }
    if result.stale:
        answer["stale"] = True
    if result.warnings:
        answer |= _trouble("; ".join(result.warnings))
    if result.mode == "none" and result.warnings:
        answer |= {"disabled": True, "unavailable": True, "error": result.warnings[0]}
    return answer


def _hit_json(hit: Hit, *, cited: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "path": hit.path,
        "startLine": hit.snippet_start_line,
        "endLine": hit.snippet_end_line,
        "score": hit.score,
        "snippet": f"{hit.snippet}\n\nSource: {hit.citation}" if cited else hit.snippet,
        "source": hit.source,
        "corpus": hit.source,
        "origin": hit.origin or "unknown",
    }
    optional = {
        "vectorScore": hit.vector_score,
        "textScore": hit.text_score,
        "confidence": hit.confidence,
        "citation": hit.citation if cited else None,
        "title": (hit.title or None) if hit.source == "sessions" else None,
        "date": hit.date or None,
        "goneAt": hit.gone_at,
    }
    return found | {name: value for name, value in optional.items() if value is not None}


def _file_json(result: GetResult) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "text": result.text,
        "path": result.path,
        "from": result.start_line,
        "lines": result.lines,
        "status": "ok",
    }
    if result.truncated:
        answer["truncated"] = True
    if result.next_from is not None:
        answer["nextFrom"] = result.next_from
        answer["text"] += f"\n\n{_more(result.next_from)}"
    return answer


def failure_json(name: str, arguments: dict[str, Any], error: MemorydError) -> dict[str, Any]:
    """Return the reference's JSON of a failed call.

    A search that could not run is `disabled` and `unavailable`, not an empty result; one with wrong
    arguments has only `error` and `action`.
    """
    if name == "memory_get":
        status = "not_found" if isinstance(error, NotFoundError) else "error"
        path = arguments.get("path", "")
        failed = {"path": path, "text": "", "disabled": True, "error": error.message}
        return failed | {"status": status} | ({"action": error.hint} if error.hint else {})
    if isinstance(error, BadRequestError):
        return {"results": [], "error": error.message, "action": error.hint}
    is_known = isinstance(error, UnavailableError)
    trouble = _trouble(error.message) if is_known else {"warning": error.message}
    trouble["action"] = error.hint or trouble.get("action", "Run `memctl doctor`.")
    debug = {"backend": _BACKEND, "code": error.code, "hits": 0}
    unavailable = {"results": [], "disabled": True, "unavailable": True, "error": error.message}
    return unavailable | trouble | {"debug": debug}


def _trouble(problem: str) -> dict[str, Any]:
    """Return `warning` for a problem, and `kind` and `action` if it is one of a known kind."""
    for pattern, kind, warning, action in _ACTIONS:
        if pattern.search(problem):
            return {"warning": f"{warning} {problem}", "kind": kind, "action": action}
    return {"warning": problem}
