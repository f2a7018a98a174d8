"""Flush for hooks: whether a compaction is near, by the end of an agent's transcript.

No hook can make the model take a turn of its own before a compaction without holding up the agent
or replacing its answer, so the instruction joins a prompt. An agent asks hooks only at prompts, so
it does so a tenth of the window earlier. All three agents keep what a hook adds in the transcript,
which is how the next hook knows that the instruction was given. Sources: transcripts of Claude
Code 2.1, Codex 0.171 and Gemini CLI 0.61.
"""

import json
import os
import re
from collections.abc import Mapping

from memoryd_client.flush import MARK, TRANSCRIPT_BYTES, should_flush

_COUNTS = {"claude": b'"usage":', "codex": b'"last_token_usage":', "gemini": b'"tokens":'}
"""Name of the object with the tokens of one answer."""
_FIELDS = {
    "claude": (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    ),
    "codex": ("total_tokens",),
    "gemini": ("input", "output"),
}
"""Fields of it whose sum is in the context afterwards."""
_COMPACTED = {"claude": b'"subtype":"compact_boundary"', "codex": b'"type":"compacted"'}
"""Part of the record of a compaction. Gemini CLI writes none that differs from others."""
_COUNT_BYTES = 4_096
"""Bytes that such an object takes at most."""
_WINDOW = re.compile(rb'"model_context_window":(\d{1,12})')
_CLAUDE_WINDOWS = (200_000, 1_000_000)
_CLAUDE_RESERVE = 33_000
"""Tokens of the window that Claude Code keeps free."""
_CODEX_SHARE = 0.9
_GEMINI_POINT = 1_048_576 // 2
"""Tokens at which Gemini CLI compresses a conversation, as it comes."""
_EARLIER = 0.1


def is_due(agent: str, path: str) -> bool:
    """Return whether the next prompt should come with the instruction. Raises `OSError`."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TRANSCRIPT_BYTES))
        return is_due_after(agent, file.read(TRANSCRIPT_BYTES))


def is_due_after(agent: str, end: bytes) -> bool:
    """Return whether it is due after a transcript with this end of at most `TRANSCRIPT_BYTES`."""
    if agent in _COMPACTED and (at := end.rfind(_COMPACTED[agent])) >= 0:
        end = end[at:].partition(b"\n")[2]
    used = _tokens(agent, end)
    point = _point(agent, end, used)
    marked = end.rfind(MARK.encode())
    is_given = marked >= 0 and not _is_again(agent, end[:marked], end[marked:], point)
    # A transcript with counts is as long as its agent makes it.
    length = 0 if used else len(end)
    window = point - int(point * _EARLIER)
    return should_flush(used, window, length, flushed_after=0 if is_given else None)


def _is_again(agent: str, before: bytes, after: bytes, point: int) -> bool:
    """Return whether an instruction given between two parts does not count any more."""
    used = _tokens(agent, before)
    if agent == "gemini":  # a compression shows only in the next count
        answers = (line for line in after.split(b"\n") if line.startswith(b'{"id":'))
        return any(0 < _tokens(agent, line) < used / 2 for line in answers)
    return _point(agent, before, used) < point


def _tokens(agent: str, end: bytes) -> int:
    """Return the tokens in the context by the last answer, 0 if unknown."""
    at = end.rfind(name := _COUNTS[agent])
    if at < 0:
        return 0
    text = end[at + len(name) :][:_COUNT_BYTES].decode("utf-8", "replace").lstrip()
    try:
        count, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return 0
    if not isinstance(count, Mapping):
        return 0
    found = (count.get(field) for field in _FIELDS[agent])
    return sum(value for value in found if isinstance(value, int))


def _point(agent: str, end: bytes, used: int) -> int:
    """Return the tokens at which the agent compacts a conversation by itself, 0 if unknown."""
    if agent == "claude":
        fits = (window for window in _CLAUDE_WINDOWS if used < window)
        return next(fits, _CLAUDE_WINDOWS[-1]) - _CLAUDE_RESERVE
    if agent == "gemini":
        return _GEMINI_POINT
    windows = _WINDOW.findall(end[max(0, end.rfind(_COUNTS[agent])) :][:_COUNT_BYTES])
    return int(int(windows[-1]) * _CODEX_SHARE) if windows else 0
