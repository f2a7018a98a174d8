"""The faults of a vendor: errors in its own words, corrupt answers, and no answer."""

import email.utils
import enum
import math
import time
from dataclasses import dataclass
from typing import Literal


class Fault(enum.Enum):
    """One fault. The double has the vendor's message for those that are errors."""

    BAD_REQUEST = "400, the request is not valid"
    NO_KEY = "401, no key"
    WRONG_KEY = "401, wrong key"
    FORBIDDEN = "403"
    NOT_FOUND = "404, no such path or object"
    UNKNOWN_MODEL = "404, no such model (some vendors: 400)"
    TOO_MANY = "400, more items than a request may have"
    TOO_LONG = "400, an item is too long"
    TOO_LARGE = "413"
    RATE_LIMIT = "429, without a word on how long"
    QUOTA = "429, the quota is used up"
    SERVER_ERROR = "500"
    OVERLOADED = "503"
    HTML_502 = "502 with an HTML page"
    HTML_200 = "200 with an HTML page"
    TRUNCATED = "200 with JSON that is cut off, as if that were all"
    EMPTY = "200 with an empty body"
    WRONG_COUNT = "200 with one vector too few"
    NAN = "200 with NaN in the first vector"
    NULL = "200 with null in the first vector"
    ZERO = "200 with nothing but zeros in the first vector"
    REORDERED = "200 with vectors in another order, `index` right; as usual where there is none"
    DROPPED = "the connection is reset before an answer"
    BROKEN_OFF = "the connection is closed in the middle of the answer"
    SLOW = "no answer until the client goes away"


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A 429 with a waiting time in seconds, in a header or in Gemini's error details."""

    after_s: float
    form: Literal["seconds", "date", "ms"] = "seconds"

    def headers(self) -> dict[str, str]:
        """Return `Retry-After`, as seconds or HTTP date, or OpenAI's `retry-after-ms`."""
        if self.form == "ms":
            return {"retry-after-ms": f"{self.after_s * 1000:g}"}
        if self.form == "date":
            at_s = math.ceil(time.time() + self.after_s)
            return {"Retry-After": email.utils.formatdate(at_s, usegmt=True)}
        return {"Retry-After": f"{self.after_s:g}"}


AnyFault = Fault | RateLimit

TRANSIENT: tuple[AnyFault, ...] = (
    Fault.RATE_LIMIT,
    RateLimit(0.02, form="ms"),
    RateLimit(0),
    Fault.SERVER_ERROR,
    Fault.OVERLOADED,
    Fault.HTML_502,
    Fault.HTML_200,
    Fault.TRUNCATED,
    Fault.EMPTY,
    Fault.WRONG_COUNT,
    Fault.NAN,
    Fault.NULL,
    Fault.ZERO,
    Fault.REORDERED,
    Fault.DROPPED,
    Fault.BROKEN_OFF,
)
"""All faults that may be temporary and do not make the client wait for its time limit."""

BY_STATUS = {
    400: Fault.BAD_REQUEST,
    401: Fault.WRONG_KEY,
    403: Fault.FORBIDDEN,
    404: Fault.NOT_FOUND,
    413: Fault.TOO_LARGE,
    429: Fault.RATE_LIMIT,
    500: Fault.SERVER_ERROR,
    503: Fault.OVERLOADED,
}

Row = tuple[int, list[float]]
"""A vector and its index."""


def spoiled(
    fault: AnyFault | None, rows: list[Row], *, indexed: bool
) -> tuple[list[Row], set[int]]:
    """Return the rows after the fault, and the indexes of the good ones.

    NaN also stands for null; the double decides its spelling.
    """
    every = {index for index, _ in rows}
    if not rows:
        return rows, every
    first, (index, vector) = rows[1:], rows[0]
    if fault is Fault.WRONG_COUNT:
        return rows[:-1], set()
    if fault in (Fault.NAN, Fault.NULL):
        return [(index, [math.nan, *vector[1:]]), *first], every - {index}
    if fault is Fault.ZERO:
        return [(index, [0.0] * len(vector)), *first], every - {index}
    if fault is Fault.REORDERED and indexed:
        return rows[::-1], every
    return rows, every
