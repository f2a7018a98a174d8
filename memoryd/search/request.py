"""Values of a search request within their limits. Pure."""

import datetime
from typing import TypeVar

from memoryd.search.query import MAX_GLOB_CHARS, MAX_GLOB_STARS, Filters, conversation_of
from memoryd_client.schema.search import Origin, SearchBody

Number = TypeVar("Number", int, float)

MODES = ("hybrid", "keyword", "vector")
MAX_RESULTS = 200
MAX_CHARS = 1_000_000
MAX_QUERY_CHARS = 8_000
"""More than any model reads; the rest of a longer query is ignored."""


class BadQueryError(ValueError):
    """The request is invalid; the message says what to change."""


def checked(value: Number | None, default: Number, name: str, low: float, high: float) -> Number:
    """Return a value of a request within its bounds. Raises `BadQueryError`."""
    if value is None:
        return default
    if not low <= value <= high:  # NaN too
        raise BadQueryError(f"{name} must be from {low} to {high} (got {value})")
    return value


def day_of(now: str | None, zone: datetime.tzinfo | None = None) -> datetime.date | None:
    """Return the day of who asks, in a time zone (None: the asker's); None without a time.

    Raises `BadQueryError`.
    """
    try:
        moment = None if now is None else datetime.datetime.fromisoformat(now)
    except ValueError:
        moment = datetime.datetime.min
    if moment is not None and moment.tzinfo is None:
        raise BadQueryError(f"now must be a time like 2026-11-28T09:30:00+01:00 (got {now!r})")
    return None if moment is None else (moment.astimezone(zone) if zone else moment).date()


def filters_of(body: SearchBody) -> Filters:
    """Return the filters of a request. Raises `BadQueryError`."""
    glob = body.path_glob or ""
    if len(glob) > MAX_GLOB_CHARS or glob.count("*") > MAX_GLOB_STARS:
        raise BadQueryError(
            f"path_glob must have at most {MAX_GLOB_CHARS} characters and {MAX_GLOB_STARS} stars"
        )
    return Filters(
        sources=None if body.sources is None else frozenset(body.sources),
        path_glob=body.path_glob,
        since=_date(body.since, "since"),
        until=_date(body.until, "until"),
        origins=_origins(body.origins),
        conversation=conversation_of(body.conversation or "") or None,
    )


def _origins(names: list[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    if unknown := sorted(set(names) - set(Origin)):
        raise BadQueryError(f"unknown origin {unknown[0]!r}: use {', '.join(Origin)}")
    return frozenset(names)


def _date(text: str | None, name: str) -> datetime.date | None:
    try:
        return None if text is None else datetime.date.fromisoformat(text)
    except ValueError:
        raise BadQueryError(f"{name} must be a date like 2026-11-28 (got {text!r})") from None
