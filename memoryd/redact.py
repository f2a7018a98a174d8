"""Masks secrets in text, before it is stored, embedded or shown. Pure.

What is looked for: keys that vendors give a shape of their own, headers and cookies, private key
blocks, passwords in addresses, values of names that say they are secret, tokens of JSON (JWT), and
card numbers with a valid check digit. Of each, the first few characters stay, so that people can
tell which it was.
"""

import re
from collections.abc import Callable, Iterable

MASK = "…[redacted]"
KEPT_CHARS = 6
WINDOW_CHARS = 32 * 1024
"""No call looks at more at once: one that takes a megabyte holds up every thread."""
OVERLAP_CHARS = 4 * 1024

Rule = tuple[re.Pattern[str], int]
"""A pattern, and the group that is the secret."""

_B64 = r"[A-Za-z0-9+/=_-]"
_VENDOR = (
    r"sk-(?:proj-|ant-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,}",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"pa-[A-Za-z0-9_-]{30,}",
    r"(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    r"hf_[A-Za-z0-9]{20,}",
    r"npm_[A-Za-z0-9]{20,}",
    r"pypi-[A-Za-z0-9_-]{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"do[opr]_v1_[a-f0-9]{32,}",
    r"(?:SK|AC)[0-9a-f]{32}",
    r"\d{8,10}:AA[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"gsk_[A-Za-z0-9]{20,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
)
_NAMES = (
    r"(?:[A-Za-z0-9]{0,40}[_.-]){0,6}"
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key"
    r"|client[_-]?secret|secret[_-]?key|auth[_-]?token|credentials?)(?:[_.-][A-Za-z0-9]{1,40}){0,2}"
)
_OBVIOUS = r"(?!(?:true|false|null|none|nil|undefined|yes|no)\b|[<${%\[*…]|\S{0,6}…\[redacted\])"

_RULES: tuple[Rule, ...] = (
    *((re.compile(rf"(?<![A-Za-z0-9])(?:{shape})"), 0) for shape in _VENDOR),
    (re.compile(rf"(?i)\b(?:bearer|basic)[ \t]+({_B64}[A-Za-z0-9+/=._~-]{{11,}})"), 1),
    (re.compile(r"(?i)\b(?:set-)?cookie[ \t]*:[ \t]*([^\r\n\"']{8,4096})"), 1),
    (re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:([^\s/@\"']{1,200})@"), 1),
    (
        re.compile(
            rf"(?i)(?<![A-Za-z0-9]){_NAMES}[\"']?[ \t]*(?:=|:|=>)[ \t]*[\"']?"
            rf"{_OBVIOUS}([^\s\"',;&|)}}\]]{{6,4096}})"
        ),
        1,
    ),
)
_KEY_BEGIN = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?!…\[redacted\])"
)
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_CARD = re.compile(r"(?<![\d.-])(?:[3-6]\d{3})(?:[ -]?\d){9,15}(?![\d-])")
_HINTS = (
    *("sk-", "_live_", "_test_", "aiza", "pa-", "ghp_", "gho_", "ghs_", "ghu_", "ghr_"),
    *("github_pat", "glpat", "xox", "xapp", "akia", "asia", "abia", "acca", "hf_", "npm_"),
    *("pypi-", "sg.", "o_v1", "p_v1", "r_v1", ":aa", "ya29", "gsk_", "eyj", "bearer", "basic"),
    *("cookie", "://", "pass", "pwd", "secret", "token", "key", "credential"),
)
_NUMBERS = re.compile(r"\d{4}[ -]?\d{4}|(?:SK|AC)[0-9a-f]{32}")
"""What every secret has something of: a text that has none is not looked at more closely. Finding
words takes a twentieth of the time of a pattern that says the same."""


class PatternError(ValueError):
    """A configured pattern can't be used; the message names it."""


class Redactor:
    """Masks the usual secrets, and what more patterns match."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Read the patterns. Raises `PatternError`."""
        self._more = tuple(map(_compiled, patterns))

    def __call__(self, text: str) -> str:
        """Return the text with its secrets masked. Masking twice changes nothing."""
        if "PRIVATE KEY" in text:
            text = _without_key_blocks(text)
        if len(text) <= WINDOW_CHARS:
            return self._mask(text)
        return "".join(map(self._mask, _windows(text)))

    def lines(self, lines: list[str]) -> list[str]:
        """Return the lines of a text with secrets masked, as many as there were.

        The lines of a private key become empty.
        """
        masked: list[str] = []
        inside = False
        for line in lines:
            if inside:
                end = _KEY_END.search(line)
                inside = end is None
                masked.append("" if end is None else self(line[end.end() :]))
                continue
            begins = [*_KEY_BEGIN.finditer(line)]
            inside = bool(begins) and _KEY_END.search(line, begins[-1].end()) is None
            masked.append(self(line))
        return masked

    def _mask(self, text: str) -> str:
        if not self._more and not _is_suspicious(text):
            return text
        for pattern, group in _RULES:
            text = pattern.sub(_masking(group), text)
        text = _CARD.sub(_masked_card, text)
        for pattern in self._more:
            text = pattern.sub(_masking(0), text)
        return text


def _is_suspicious(text: str) -> bool:
    lower = text.lower()
    return any(hint in lower for hint in _HINTS) or _NUMBERS.search(text) is not None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise PatternError(
            f"redact.patterns: {pattern!r} is no regular expression: {error}"
        ) from None


def _windows(text: str) -> Iterable[str]:
    """Yield parts of a long text, cut between words as far as there are any."""
    start = 0
    while start < len(text):
        end = start + WINDOW_CHARS
        if end < len(text):
            space = text.rfind(" ", end - OVERLAP_CHARS, end)
            # No secret has a space after its name but a header's or a card's.
            end = space if space > start else end
        yield text[start:end]
        start = end


def _masking(group: int) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        secret = match[group]
        if not secret or MASK in secret:
            return match[0]
        begin, end = match.start(group) - match.start(), match.end(group) - match.start()
        return f"{match[0][:begin]}{_kept(secret)}{MASK}{match[0][end:]}"

    return replace


def _without_key_blocks(text: str) -> str:
    """Return the text with private keys masked; one without an end takes all that follows."""
    shown: list[str] = []
    at = 0
    while (begin := _KEY_BEGIN.search(text, at)) is not None:
        shown += (text[at : begin.end()], MASK)
        end = _KEY_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
    return "".join((*shown, text[at:]))


def _masked_card(match: re.Match[str]) -> str:
    digits = [int(char) for char in match[0] if char.isdigit()]
    return f"{match[0][:4]}{MASK}" if is_card_number(digits) else match[0]


def is_card_number(digits: list[int]) -> bool:
    """Say whether digits have a valid check digit (ISO/IEC 7812-1, Luhn's formula)."""
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and (sum(doubled) + sum(digits[::-2])) % 10 == 0


def _kept(secret: str) -> str:
    return secret[: min(KEPT_CHARS, len(secret) // 3)]
