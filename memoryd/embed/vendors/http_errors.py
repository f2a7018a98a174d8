"""Meaning of unsuccessful HTTP answers, the same for all vendors. Pure."""

import email.utils
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from memoryd.embed.provider import (
    BadTextError,
    BatchTooLargeError,
    PermanentError,
    ProviderError,
    RetryableError,
)

SHOWN_CHARS = 300

_TRANSIENT = frozenset({408, 409, 425, 429})
_QUOTA = re.compile(
    r"(?i)insufficient_quota|exceeded your current quota|billing|payment|credit balance"
    r"|out of credits"
)
_BAD_KEY = re.compile(
    r"(?i)api[ _-]?key.{0,20}(?:not valid|invalid|expired|leaked)"
    r"|(?:invalid|incorrect).{0,20}api[ _-]?key|API_KEY_INVALID|reported as leaked"
)
_NO_MODEL = re.compile(
    r"(?i)model.{0,80}(?:not found|does not exist|not exist|not supported|unknown|no such)"
    r"|(?:unknown|invalid|unsupported|no such) model|model_not_found"
)
_TOO_MANY = re.compile(
    r"(?i)batch ?size|(?:too many|number of|max(?:imum)?(?: of)?).{0,40}"
    r"(?:inputs?|items?|texts?|requests|documents|array)|max \d+, got \d+|array too long"
    r"|max(?:imum)? (?:allowed )?tokens per (?:request|batch|submitted)|at most \d+ requests"
)
_LIMITS = re.compile(
    r"(?i)(?:larger than|at most|max(?:imum)?(?: (?:length|batch size|number))?[^.\d]{0,40}?"
    r"(?:is|of|:)?|up to|limit(?: is| of)?|exceeds?|<=)\s*(\d{1,5})\b"
)
_TOO_LONG = re.compile(
    r"(?i)(?<!took )too (?:long|large)|context length|context window|input length|token limit"
    r"|maximum (?:input|sequence|context)|exceeds? the (?:max|model|context|physical batch)"
)
_ONE_TEXT = re.compile(
    r"(?i)context (?:length|window)|sequence length|physical batch|less than \d+ tokens"
)
_PER_MINUTE = re.compile(r"(?i)\b\d+ ?RPM\b|per minute")
_BUSY = re.compile(r"(?i)rate.?limit|resource.{0,10}exhausted|tokens per day|overloaded|cloudflare")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def refusal(
    vendor: str,
    status: int,
    headers: Mapping[str, str],
    body: str,
    *,
    key: str | None,
    now_s: float,
) -> ProviderError:
    """Return the error for an answer with this status, headers and (start of a) body.

    `key` is the origin of the key, None if none was sent; `now_s` is the Unix time, for dates in
    `Retry-After`.
    """
    said = _message(body)
    told = f"{vendor} answered {status}" + (f": {said}" if said else "")
    after_s = retry_after_s(headers, body, now_s=now_s)
    passes = status == 429 and "insufficient_quota" not in body
    if passes and (after_s is not None or _PER_MINUTE.search(body)):
        return RetryableError(told, after_s=after_s, busy=True)
    if status in range(300, 400):
        return PermanentError(f"{told} - it redirects requests; set remote.base_url.")
    poor = status == 403 and _QUOTA.search(body)
    if (status in (401, 403) and not poor) or (status in (400, 429) and _BAD_KEY.search(body)):
        fix = "a key is required. Set" if key is None else f"the key from {key} is refused. Replace"
        return PermanentError(f"{told} - {fix} it, then run `memctl probe`.")
    if status == 402 or (status in _TRANSIENT | {403, 400} and _QUOTA.search(body)):
        whose = "" if key is None else f" of the key from {key}"
        return PermanentError(
            f"{told} - the quota{whose} is used up. Top it up, or choose another provider; memoryd"
            " retries by itself.",
            for_good=False,
        )
    if status == 404 or (status in (400, 422) and _NO_MODEL.search(body)):
        return PermanentError(
            f"{told} - no such model or address. Check `model` and `remote.base_url` in"
            " the configuration.",
            missing=status == 404,
        )
    if status in _TRANSIENT or (status >= 500 and not _TOO_LONG.search(body)):
        answered = status >= 500 and after_s is None
        return RetryableError(told, after_s=after_s, answered=answered, busy=status == 429)
    if (status == 413 or _TOO_MANY.search(body)) and not _ONE_TEXT.search(body):
        return BatchTooLargeError(told, limit=_limit(said))
    if _BUSY.search(body):
        return RetryableError(told, after_s=after_s, busy=True)
    return BadTextError(told)


def retry_after_s(headers: Mapping[str, str], body: str, *, now_s: float) -> float | None:
    """Return the seconds to wait that an answer asks for, or None.

    `retry-after-ms`, `Retry-After` in seconds or as a date (RFC 9110, 10.2.3), or the `retryDelay`
    in a Google error's details. A date counts from the answer's own `Date`, because our clock may
    be wrong; a past date counts as none.
    """
    if _NUMBER.fullmatch(ms := headers.get("retry-after-ms", "").strip()):
        return float(ms) / 1000
    after = headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(after):
        return float(after)
    if after:
        try:
            until_s = email.utils.parsedate_to_datetime(after).timestamp()
            if said := headers.get("date"):
                now_s = email.utils.parsedate_to_datetime(said).timestamp()
        except (ValueError, OverflowError):
            return None
        return until_s - now_s if until_s > now_s else None
    delay = re.search(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"', body)
    return float(delay[1]) if delay else None


def _limit(message: str) -> int | None:
    """Return the maximum texts a batch that a message names; None if it counts tokens."""
    if "token" in message.lower():
        return None
    found = [int(number) for number in _LIMITS.findall(message) if int(number) > 0]
    return min(found) if found else None


def _message(body: str) -> str:
    """Return the message of a body in one line of at most `SHOWN_CHARS`; of HTML, the title."""
    text = body.strip()
    if text.startswith("<"):
        title = re.search(r"<title>([^<]{1,200})", text, re.IGNORECASE)
        return f"an HTML page ({' '.join(title[1].split())})" if title else "an HTML page"
    with suppress(msgspec.MsgspecError, RecursionError):  # cut off, or not JSON
        text = _inner(msgspec.json.decode(text)) or text
    return " ".join(text.split())[:SHOWN_CHARS]


def _inner(answer: Any) -> str | None:
    """Return the message inside one of the structures that vendors use for errors."""
    if isinstance(answer, dict):
        names = ("error", "message", "detail", "msg", "error_message")
        answer = [answer.get(name) for name in names]
    if isinstance(answer, list):
        return next((found for part in answer if (found := _inner(part))), None)
    return answer if isinstance(answer, str) else None
