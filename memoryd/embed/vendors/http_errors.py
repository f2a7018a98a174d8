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
_TYPE = re.compile(r'"(?:type|code|status|reason)"\s*:\s*"?([\w./-]+)')
"""Error types of every vendor's structure; works on a body that was cut off, too."""
_FIELD = re.compile(r'"(?:param|field)"\s*:\s*"([^"]+)"|"loc"\s*:\s*\[[^\]]*"([^"]+)"\s*\]')
_QUOTA_TYPES = frozenset(
    {
        "insufficient_quota",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
        "exceeded_current_quota_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_disabled",
        "payment_required",
        "arrearage",  # Alibaba
        "accountoverdueerror",  # Volcengine
        "1113",  # Zhipu
        "30001",  # SiliconFlow
    }
)
_RATE_TYPES = frozenset(
    {
        "rate_limit_exceeded",
        "rate_limit_error",
        "rate_limit_reached_error",
        "rate_limited",
        "too_many_requests",
        "throttling.ratequota",
        "requests",
        "tokens",
        "engine_overloaded_error",
        "1302",
        "1303",
        "1305",
    }
)
_KEY_TYPES = frozenset(
    {
        "invalid_api_key",
        "api_key_invalid",
        "invalid_authentication_error",
        "authentication_error",
        "unauthenticated",
    }
)
_MODEL_TYPES = frozenset({"model_not_found", "invalid_model", "unknown_model", "1211"})
_LENGTH_TYPES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}
)
_COUNT_TYPES = frozenset({"array_above_max_length"})
_OPTIONS = {
    "dimensions": "output_dimensionality",
    "output_dimension": "output_dimensionality",
    "output_dimensionality": "output_dimensionality",
    "outputdimensionality": "output_dimensionality",
    "input_type": "input_type",
    "tasktype": "input_type",
    "task_type": "input_type",
}
"""The setting behind each field of a request."""
_QUOTA = re.compile(
    r"(?i)exceeded your current quota|billing|payment|credit balance|out of credits"
    r"|insufficient.{0,12}(?:balance|funds|credits?|quota)|balance.{0,20}insufficient"
    r"|recharge|top.?up|arrears"
)
_BAD_KEY = re.compile(
    r"(?i)api[ _-]?key.{0,20}(?:not valid|invalid|expired|leaked)"
    r"|(?:invalid|incorrect).{0,20}api[ _-]?key|reported as leaked"
)
_NO_MODEL = re.compile(
    r"(?i)model.{0,80}(?:not found|does not exist|not exist|not supported|unknown|no such)"
    r"|(?:unknown|invalid|unsupported|no such) model|model_not_found"
)
_DIMENSIONS = re.compile(r"(?i)dimension|matryoshka")
_INPUT_TYPE = re.compile(r"\b(?:input|task)_type\b")
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

    The status code and the vendor's error type decide; words decide only where a vendor sends no
    type. `key` is the origin of the key, None if none was sent; `now_s` is the Unix time, for dates
    in `Retry-After`.
    """
    said = _message(body)
    told = f"{vendor} answered {status}" + (f": {said}" if said else "")
    after_s = retry_after_s(headers, body, now_s=now_s)
    types = {name.lower() for name in _TYPE.findall(body)}
    fields = {re.split(r"[.\]]", a or b)[-1].lower() for a, b in _FIELD.findall(body)}
    if status in range(300, 400):
        return PermanentError(f"{told} - it redirects requests; set remote.base_url.")
    if status == 402 or types & _QUOTA_TYPES:
        return _used_up(told, key)
    if status == 429:
        passes = types & _RATE_TYPES or after_s is not None or _PER_MINUTE.search(body)
        if not passes and _BAD_KEY.search(said):
            return _bad_key(told, key)
        if not passes and _QUOTA.search(said):
            return _used_up(told, key)
        return RetryableError(told, after_s=after_s, busy=True)
    if status == 401 or types & _KEY_TYPES:
        return _bad_key(told, key)
    if status == 404 or types & _MODEL_TYPES or "model" in fields:
        return _no_model(told, missing=status == 404)
    if options := {_OPTIONS[name] for name in fields & _OPTIONS.keys()}:
        return _bad_option(told, min(options))
    if status in _TRANSIENT or (status >= 500 and not _TOO_LONG.search(said)):
        answered = status >= 500 and after_s is None
        return RetryableError(told, after_s=after_s, answered=answered)
    if types & _LENGTH_TYPES:
        return BadTextError(told)
    many = status == 413 or types & _COUNT_TYPES or _TOO_MANY.search(said)
    if many and not _ONE_TEXT.search(said):
        return BatchTooLargeError(told, limit=_limit(said))
    return _suspected(told, said, status, key, after_s)


def _suspected(
    told: str, said: str, status: int, key: str | None, after_s: float | None
) -> ProviderError:
    """Return the error that the words of a refusal without a type suggest.

    The words may come from a text of ours. So the error names `refused`, and the caller sends a
    harmless text before it believes them.
    """
    if status in (400, 422):
        if _DIMENSIONS.search(said):
            return _bad_option(told, "output_dimensionality", refused=told)
        if _INPUT_TYPE.search(said):
            return _bad_option(told, "input_type", refused=told)
    if status in (400, 403) and _QUOTA.search(said):
        return _used_up(told, key, refused=told)
    if status == 403 or (status == 400 and _BAD_KEY.search(said)):
        return _bad_key(told, key, refused=told)
    if status in (400, 422) and _NO_MODEL.search(said):
        return _no_model(told, refused=told)
    if _BUSY.search(said) and not _ONE_TEXT.search(said):
        return RetryableError(told, after_s=after_s, answered=True, busy=True)
    return BadTextError(told)


def _used_up(told: str, key: str | None, *, refused: str | None = None) -> PermanentError:
    whose = "" if key is None else f" of the key from {key}"
    return PermanentError(
        f"{told} - the quota{whose} is used up. Top it up, or choose another provider; memoryd"
        " retries by itself.",
        for_good=False,
        refused=refused,
    )


def _bad_key(told: str, key: str | None, *, refused: str | None = None) -> PermanentError:
    fix = "a key is required. Set" if key is None else f"the key from {key} is refused. Replace"
    return PermanentError(f"{told} - {fix} it, then run `memctl probe`.", refused=refused)


def _no_model(told: str, *, missing: bool = False, refused: str | None = None) -> PermanentError:
    return PermanentError(
        f"{told} - no such model or address. Check `model` and `remote.base_url` in"
        " the configuration.",
        missing=missing,
        refused=refused,
    )


def _bad_option(told: str, option: str, *, refused: str | None = None) -> PermanentError:
    return PermanentError(
        f"{told} - the model does not take this. Change or remove `{option}` in the configuration.",
        refused=refused,
    )


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
