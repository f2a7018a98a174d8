"""Readers of the output and the answers of QMD, in which noise around the data is usual. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from memoryd.backends.backend import BackendError

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_NONE = re.compile(r"(?i)^(?:\[?\w{1,20}\]?:? ){0,3}no results found\.?$")
_COUNT = re.compile(r"^[ \t]+(Total|Vectors):\s+(\d[\d,]{0,19}) (?:files indexed|embedded)", re.M)
_SHOWN_CHARS = 120
_MAX_FAILURES = 20
"""Maximum lines of noise that begin like an array, because each may be read to the end."""
_MAX_LINE = 2**31
"""A number that SQLite takes."""


class FoundPlace(NamedTuple):
    """A place that QMD found: the file in its own way (`qmd://…`), a line if it tells one."""

    file: str
    line: int | None
    score: float


class Counts(NamedTuple):
    """Documents and vectors of QMD's index, None if it does not say."""

    documents: int | None
    vectors: int | None


def read_printed(stdout: str, stderr: str) -> list[FoundPlace]:
    """Return the results that a command printed as JSON. Raises `BackendError` for anything else.

    Takes the last array of objects, or the empty one. Programs print their own lines before it.
    """
    text = _ESCAPES.sub("", stdout)
    arrays = list(_arrays(text))
    full = [array for array in arrays if array]
    if arrays:
        return [place for found in (full or arrays)[-1] if (place := _place(found)) is not None]
    lines = [line.strip() for line in f"{text}\n{stderr}".splitlines() if line.strip()]
    if lines and all(map(_NONE.match, lines)):
        return []
    said = (stderr.strip() or text.strip())[-_SHOWN_CHARS:]
    raise BackendError(f"qmd printed no results{f': {said}' if said else ' and nothing else'}")


def read_answer(body: bytes) -> list[FoundPlace]:
    """Return the results of an answer over HTTP. Raises `BackendError` for anything else."""
    try:
        results = json.loads(body)["results"]
    except (ValueError, TypeError, KeyError, RecursionError):
        results = None
    if not isinstance(results, list):
        shown = body[:_SHOWN_CHARS].decode(errors="replace").strip()
        raise BackendError(f"qmd answered without results: {shown}")
    places = [place for found in results if (place := _place(found)) is not None]
    return [place._replace(file=unquote(place.file)) for place in places]


def read_counts(printed: str) -> Counts:
    """Return the counts in the output of `qmd status`."""
    found = {name: int(number.replace(",", "")) for name, number in _COUNT.findall(printed)}
    return Counts(found.get("Total"), found.get("Vectors"))


def _arrays(text: str) -> Iterator[list[Any]]:
    """Yield the JSON arrays of objects that begin a line, in order."""
    decoder, at, failures = json.JSONDecoder(), 0, 0
    for line in re.finditer(r"^\[", text, re.M):
        if failures == _MAX_FAILURES:
            return
        if line.start() < at:
            continue  # within the one before
        try:
            value, at = decoder.raw_decode(text, line.start())
        except (ValueError, RecursionError):
            failures += 1
            continue
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            yield value


def _place(found: Any) -> FoundPlace | None:
    """Return the place of one result, None if it names no file."""
    if not isinstance(found, dict) or not isinstance(file := found.get("file"), str):
        return None
    line, score = found.get("line"), found.get("score")
    if not isinstance(line, int) or isinstance(line, bool) or not 0 < line <= _MAX_LINE:
        line = None
    known = score if isinstance(score, int | float) else 0
    return FoundPlace(file, line, float(min(1, max(0, known))))  # NaN is not above 0
