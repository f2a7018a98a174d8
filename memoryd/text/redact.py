"""Masks secrets in text before it is stored, embedded or shown. Pure.

Masked are vendors' tokens, headers, cookies, private keys, passwords in URLs, values of names that
sound secret, passwords in prose, and card numbers with a valid check digit. A mask tells the kind.
Of a vendor's token the first few characters stay, of everything else nothing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from memoryd.text.named_secrets import linear, named_secrets
from memoryd.text.secret_columns import secrets_in_columns
from memoryd.text.secret_rule import PASSWORD
from memoryd.text.vendor_tokens import KEPT_CHARS, Secret, vendor_tokens

RULES = 5
"""Number of the rules; a new one has all transcripts masked again."""
_PIECE_CHARS = 8_192
"""Minimum characters that are searched at once: one emoji makes a text several times slower."""
MASK = re.compile(r"…\[redacted(?:: [A-Za-z0-9 .]{1,40})?\]")
_BLANK = "…"

_KEY = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BEGIN = re.compile(rf"-----BEGIN {_KEY}(?!…)")
_KEY_END = re.compile(f"-----END {_KEY}")
_USER = re.compile(
    r"""(?ix)(?<=[a-z0-9]://) [^\s/:@\["'`<>\\]{0,256}: (?![0-9]{1,5}[/?\#])
    (?!(?:pass(?:word|wd)?|pwd|secret)@[a-z0-9.-]{0,3}(?:host|server|example)|\$\{?[a-z_]|\{|<|\*|%|\.{3}|x{3,80}@|your|…)"""
)
_ADDRESS_END = re.compile(r"[\s\"'`<>\\]|://")

_DIGITS = re.compile(r"[0-9](?<![0-9A-Za-z_].)(?<![0-9][.,].)(?:[ -]?[0-9]){12,}(?![0-9A-Za-z_])")
_CARD = re.compile(  # Visa, Mastercard, Amex, Diners, JCB, Maestro, Discover, UnionPay
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|(?:5[1-5]|2[2-7])[0-9]{14}|3[47][0-9]{13}"
    r"|3[0689][0-9]{12,17}|35[0-9]{14,17}|(?:50|5[6-8]|6[0-9])[0-9]{11,17}"
)
_CARD_GROUPS = re.compile(r"1[3-9]|4,4,4(?:,4)?(?:,[1-4])?|4,6,[45]|8,8")
_CARD_MAX_GROUPS = 5
_MANY_DIGITS = "[0-9](?:[ -]?[0-9]){12}"


class PatternError(ValueError):
    """Invalid custom pattern; the message names the setting and the pattern."""


class Redactor:
    """Masks the usual secrets and the matches of custom patterns (RE2 syntax, linear time)."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Compile the patterns. Raises `PatternError`."""
        self._custom = tuple(map(custom_pattern, patterns))

    def __call__(self, text: str) -> str:
        """Return the text with its secrets masked. Masking twice changes nothing."""
        if "PRIVATE KEY" in text:
            text = _without_key_blocks(text)
        if len(text) <= 2 * _PIECE_CHARS:
            return self._masked(text)
        return "".join(map(self._masked, _pieces(text)))

    def lines(self, lines: list[str]) -> list[str]:
        """Return the same number of lines with secrets masked.

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
            begins = [begin.end() for begin in _KEY_BEGIN.finditer(line)]
            inside = bool(begins) and _KEY_END.search(line, begins[-1]) is None
            masked.append(self(line))
        return masked

    def _masked(self, text: str) -> str:
        # A mask can expose another secret beside it. Each round leaves less to mask.
        while (masked := self._masked_once(text)) != text:
            text = masked
        return text

    def _masked_once(self, text: str) -> str:
        searched = text
        if "…[redacted" in text:
            searched = MASK.sub(lambda mask: _BLANK * len(mask[0]), text)
        plain = searched.encode("ascii", "replace")
        secrets: list[Secret] = [
            *vendor_tokens(searched, plain),
            *named_secrets(searched, plain.lower()),
            *_passwords_of_addresses(searched),
            *secrets_in_columns(searched, plain),
            *(_cards(searched) if linear(_MANY_DIGITS).search(plain) else ()),
        ]
        if self._custom:
            encodable = searched.encode(errors="replace").decode()
            secrets += (
                Secret(match.start(), match.end(), "custom pattern")
                for pattern in self._custom
                for match in pattern.finditer(encodable)
            )
        return _with_masks(text, secrets) if secrets else text


def custom_pattern(pattern: str) -> Any:
    """Return the compiled pattern. Raises `PatternError`."""
    import re2  # 3 MB that only users with custom patterns need

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)
        raise PatternError(
            f"redact.patterns: {pattern!r} is not a valid regular expression (RE2 syntax): {reason}"
        ) from None


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces that end with a line."""
    at = 0
    while at < len(text):
        end = text.find("\n", at + _PIECE_CHARS) + 1
        yield text[at : end or len(text)]
        at = end or len(text)


def _passwords_of_addresses(text: str) -> Iterator[Secret]:
    at = text.find("://")
    while at >= 0:
        if user := _USER.match(text, at + 3):
            end = _ADDRESS_END.search(text, user.end())
            host = text.rfind("@", user.end(), end.start() if end else len(text))
            if host > user.end():
                yield Secret(user.end(), host, PASSWORD)
        at = text.find("://", at + 3)


def _cards(text: str) -> Iterator[Secret]:
    for run in _DIGITS.finditer(text):
        groups = [group.span() for group in re.compile("[0-9]+").finditer(text, *run.span())]
        after = 0
        for first, (start, _) in enumerate(groups):
            if start < after or text[start] not in "23456":
                continue
            for last in range(min(first + _CARD_MAX_GROUPS, len(groups)) - 1, first - 1, -1):
                end = groups[last][1]
                if _is_card([text[s:e] for s, e in groups[first : last + 1]]):
                    yield Secret(start, end, "card number")
                    after = end
                    break


def _is_card(groups: list[str]) -> bool:
    """Return whether digits are a card number with a valid check digit (ISO/IEC 7812-1, Luhn)."""
    if not _CARD_GROUPS.fullmatch(",".join(str(len(group)) for group in groups)):
        return False
    number = "".join(groups)
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2]]
    return bool(_CARD.fullmatch(number)) and (sum(doubled) + sum(map(int, number[::-2]))) % 10 == 0


def _without_key_blocks(text: str) -> str:
    """Return the text with private keys masked; a key without an end extends to the end."""
    shown: list[str] = []
    at = 0
    while (begin := _KEY_BEGIN.search(text, at)) is not None:
        shown += (text[at : begin.end()], mask("private key"))
        end = _KEY_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
    return "".join((*shown, text[at:]))


def mask(kind: str) -> str:
    """Return the mask of a secret."""
    return f"…[redacted: {kind}]"


def _with_masks(text: str, secrets: list[Secret]) -> str:
    """Return the text with the secrets masked; they may overlap. Existing masks stay."""
    marks = bytearray(len(text))
    for secret in secrets:
        marks[secret.start : secret.end] = b"s" * (secret.end - secret.start)
    for found in MASK.finditer(text):
        start = max(0, found.start() - KEPT_CHARS)
        marks[start : found.end()] = b"m" * (found.end() - start)
    shown: list[str] = []
    at = 0
    # A short rest between masks is often just `;`. Half an escape would break JSON.
    ordered, following, within = sorted(secrets), 0, list[Secret]()
    for run in re.finditer(rb"(?<![ms])s++(?!m)|s{4,}", marks):
        within = [secret for secret in within if secret.end > run.start()]
        while following < len(ordered) and ordered[following].start < run.end():
            within.append(ordered[following])
            following += 1
        kind, kept = _shown(within, *run.span())
        prefix = text[run.start() : run.start() + kept].partition("\\")[0]
        shown += (text[at : run.start()], prefix, mask(kind))
        at = run.end()
    return "".join((*shown, text[at:]))


def _shown(secrets: list[Secret], start: int, end: int) -> tuple[str, int]:
    """Return the kind of a masked run, and the number of its characters that stay."""
    secrets = [secret for secret in secrets if secret.end > start]
    if any(secret.kind == PASSWORD for secret in secrets):
        return PASSWORD, 0
    for secret in secrets:
        if secret.kept and secret.start <= start and secret.end >= end:
            return secret.kind, min(secret.kept, (end - start) // 3)
    return secrets[0].kind, 0
