"""Masks secrets in text before it is stored, embedded or shown. Pure.

Masked are vendor keys, headers, cookies, private keys, passwords in URLs, values of names that
sound secret, JSON Web Tokens, and card numbers with a valid check digit. The first few characters
stay, so that people can identify the secret.

Each built-in pattern is anchored at a word that `str.find` locates first, which is fast; the
pattern then reads little more than the secret, so no call takes long.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

MASK = "…[redacted]"
KEPT_CHARS = 6
_SHORTEST_CHARS = 4

Span = tuple[int, int]
Rule = tuple[str, str]
"""Word to find first, and pattern to match there; its last group, or all of it, is the secret."""
_compiled = cache(re.compile)
"""Compiles a rule when its word first occurs. All rules together take a quarter of a start."""

_SOLID, _RUN = "[A-Za-z0-9]", "[A-Za-z0-9_-]"
_ALONE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
_PREFIXES = (
    (16, _SOLID, "whsec_"),
    (20, _SOLID, "ghp_ gho_ ghs_ ghu_ ghr_ hf_ npm_ gsk_ xai- pplx- lin_api_ shpat_ sbp_"),
    (20, _SOLID, "dop_v1_ doo_v1_ dor_v1_"),
    (16, _RUN, "glpat- gldt- glrt- glptt- glsoat- tskey- xapp-"),
    (20, _RUN, "github_pat_ dckr_pat_ nvapi- GOCSPX- figd_ glsa_"),
    (24, _RUN, "AIza ya29. hvs."),
    (40, _RUN, "pypi-"),
)
"""Vendor keys: minimum number and kind of the characters after each prefix."""
_SHAPES = (
    ("sk-", rf"sk-(?:proj|ant|svcacct|admin|or-v1)-{_RUN}{{16,}}+"),
    ("sk-", rf"sk-(?:{_SOLID}{{16}}|(?=[A-Za-z_-]{{0,99}}[0-9]){_RUN}{{20}}){_RUN}*+"),
    *((word, rf"{word}(?:live|test)_{_SOLID}{{16,}}+{_RUN}*+") for word in ("sk_", "rk_")),
    ("xox", rf"xox[abeoprs]-{_RUN}{{10,}}+"),
    ("pa-", rf"pa-(?=[a-z_-]{{0,99}}[0-9A-Z]){_RUN}{{30,}}+"),
    *((word, rf"{word}[A-Z0-9]{{16}}{_RUN}*+") for word in ("AKIA", "ASIA")),
    ("SG.", rf"SG\.{_RUN}{{16,99}}+\.{_RUN}{{16,}}+"),
    ("SK", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("hooks.slack.com/services/", r"hooks\.slack\.com/services/([A-Za-z0-9_/-]{20,}+)"),
    ("eyJ", rf"eyJ{_RUN}{{8,2048}}+\.(?:{_RUN}{{8,}}+|(?=\.))(?:\.{_RUN}*+){{0,3}}"),
)
_VENDORS: tuple[Rule, ...] = (
    *(
        (word, rf"{_ALONE}{re.escape(word)}{chars}{{{least},}}+{_RUN}*+")
        for least, chars, words in _PREFIXES
        for word in words.split()
    ),
    *((word, _ALONE + shape) for word, shape in _SHAPES),
    (":AA", rf"(?<=[0-9]{{6}}):(AA{_RUN}{{30,}}+)"),
)

_NAMES = (
    r"pass(?:word|wd|phrase)?|pwd|secret|(?:access|auth|refresh)?[_-]?token|credentials?"
    r"|(?:api|access|private|secret)?[_-]?key"
)


def _placeholder(end: str) -> str:
    """Return a pattern of placeholders for secrets: words, types, variables, paths."""
    return rf"""
        (?:true|false|null|none|nil|undefined|yes|no|on|off|empty|unset|unknown|required|optional
          |invalid|missing|expired|wrong|incorrect|must|should|please|never|always|await|new|return
          |auth|basic|bearer|digest|oauth2?|oidc|saml|ldap|jwt|authentication|the|this|that|your
          |with|from|what|change_?me|redacted|hidden){end}
        |(?:str|string|int|integer|bool|boolean|bytes|number|any|object|text|optional|secretstr
          |varchar)(?:{end}|[?(\[|])
        |\$?(?:{_NAMES}){end}
        |<[^<>\n]{{0,80}}>{end}|\$?\{{{{1,2}}[a-z0-9_.\ ]{{0,80}}\}}{{1,2}}{end}
        |\$(?-i:[A-Z_][A-Z0-9_]{{0,60}}){end}|%[a-z_]{{1,40}}%{end}|%(?:\([a-z_]{{1,40}}\))?[sdvqr]{end}
        |[*•x.…]{{3,80}}{end}|\[[a-z _-]{{1,30}}\]{end}|your[-_ ][a-z_ -]{{1,40}}{end}
        |https?://|(?:~|\.\.?)/|(?-i:(?:/[a-z0-9._-]{{1,40}}){{2,20}}{end})
        |[0-9]{{0,9}}\.[0-9]{{1,12}}{end}|-----BEGIN\ |\S{{0,6}}…\[redacted\]"""


_END = r"(?=[\s\"'`,;)\]}<>\\|]|[.:!?](?:\s|\Z)|\Z)"
_CODE = rf"""
    \$?(?:[a-z_]{{1,40}}(?:\.|->|::)){{1,4}}(?:{_NAMES}){_END}
    |(?:process\.env|os\.environ|import\.meta|env|secrets|self|this|settings|config|args)\.[a-z_]
    |[a-z_][a-z_.]{{0,80}}[(\[]|\$\("""
_SCHEME = r"(?:(?:bearer|basic|token|apikey)[ \t]{1,4})"
_END_OF_QUOTED = r"(?=[\"'`\\]|\Z)"
_OF_BARE = r"""(?:[^\s"'`&;,\\)\]}>.:]
       |(?![&;,][a-z_][\w.-]{0,40}[=:])(?![)\]}>.,;:]{1,8}(?:[\s"'`\\]|\Z))[&;,)\]}>.:]
       |\\(?!["'`])|["'`](?![\s,;:.)\]}]|\Z))"""
_VALUE = rf"""(?:
    (?:(?P<d>")|(?P<s>')|`) {_SCHEME}? (?!{_placeholder(_END_OF_QUOTED)})
    ((?(d)(?:[^"\\\r\n]|\\.)*+|(?(s)(?:[^'\\\r\n]|\\.)*+|(?:[^`\\\r\n]|\\.)*+)))
    |(?P<e>\\{{1,3}}["']) {_SCHEME}? (?!{_placeholder(_END_OF_QUOTED)})
    ([^\r\n]*?(?=(?P=e)|[\r\n]|\Z))
    |{_SCHEME}? (?!["'`]|\\{{1,3}}["']|{_CODE}|{_placeholder(_END)})
    ((?={_OF_BARE})\S+?(?!{_OF_BARE}))
    )"""
_WORD = rf"""[ \t]{{0,20}} (?!{_SCHEME})
    (?:(?-i:[A-Za-z][a-z]{{0,14}})(?:[.,;!?)|\]]|[ \t]{{1,20}}[A-Za-z=|])|[0-9]{{1,5}}{_END})"""


def _named(word: str, name: str, *, prose: bool) -> Rule:
    """Return the rule for values of a name; with `prose`, an ordinary word is no value."""
    no_word = f"(?!{_WORD})" if prose else ""
    return (
        word,
        rf"""(?ix)(?:{name})
        (?![_.-]?(?:count|type|limit|budget|usage|name|ur[il]|endpoint|path|file|dir|len|length|size
          |version|ttl|expir\w{{0,6}}|policy|field|header|prefix|format|algorithm|min\w{{0,8}}
          |max\w{{0,8}}|ref|enabled|required)(?![a-z0-9]))
        (?>(?:[_.-][a-z0-9]{{1,40}}){{0,2}}) \\{{0,3}}["'`*\]]{{0,3}} [ \t]{{0,20}}+
        (?:={{1,3}}>?|＝|[:：]=?{no_word}) \*{{0,2}} [ \t]{{0,20}}+ {_VALUE}""",
    )


_APART = r"(?:(?<![A-Za-z])|(?-i:(?<=[a-z])(?=[A-Z])))"
_KEYS = "api access private secret signing encryption master account auth client shared"
_BEFORE_KEY = "|".join(f"(?<={of}{gap})" for of in _KEYS.split() for gap in ("", "[ _-]"))
_CREDENTIALS = r"[ \t]{1,4}(?-i:(?=[A-Z]?[a-z._~+/=-]{0,200}[0-9A-Z]))([A-Za-z0-9+/=._~-]{12,}+)"
_OF_COOKIE = r"(?:[^\s;\"'`\\]|\\(?![\"'`rn])|[\"'`](?![\s,:)\]}]|\Z))"
_COOKIES = (
    r"(?i)cookie2?\\{0,3}[\"']?[ \t]{0,20}[:=][ \t]{0,20}\\{0,3}[\"']?"
    rf"(?=[^\s=;\"'…]{{1,200}}=)((?={_OF_COOKIE})[^\r\n]+?"
    rf"(?!{_OF_COOKIE}|;[ \t]{{0,4}}{_OF_COOKIE}|(?<=[; \t])[ \t]))"
)
_NAMED: tuple[Rule, ...] = (
    _named("pass", "pass(?:word|wd|phrase|code)", prose=False),
    _named("pass", rf"{_APART}pass", prose=False),
    _named("pwd", rf"{_APART}pwd", prose=False),
    _named("secret", "secret", prose=True),
    _named("token", "token", prose=True),
    _named("credential", "credentials?", prose=True),
    _named("auth", r"(?<![A-Za-z])auth(?:orization)?", prose=True),
    _named("key", rf"(?:{_BEFORE_KEY})key", prose=True),
    ("bearer", rf"(?i)(?<![A-Za-z])bearer{_CREDENTIALS}"),
    ("basic", rf"(?i)(?<![A-Za-z])basic{_CREDENTIALS}"),
    ("cookie", _COOKIES),
)
"""Rules whose word is searched in lowercase text."""

_KEY = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BEGIN = re.compile(rf"-----BEGIN {_KEY}(?!…\[redacted\])")
_KEY_END = re.compile(f"-----END {_KEY}")
_USER = rf"""(?ix)(?<=[a-z0-9]://) [^\s/:@\["'`<>\\]{{0,256}}: (?![0-9]{{1,5}}[/?\#])
    (?!{_placeholder("(?=@)")})"""
_ADDRESS_END = re.compile(r"[\s\"'`<>\\]|://")

_DIGITS = re.compile(r"[0-9](?<![0-9A-Za-z_].)(?<![0-9][.,].)(?:[ -]?[0-9]){12,}(?![0-9A-Za-z_])")
_CARD = re.compile(  # Visa, Mastercard, Amex, Diners, JCB, Maestro, Discover, UnionPay
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|(?:5[1-5]|2[2-7])[0-9]{14}|3[47][0-9]{13}"
    r"|3[0689][0-9]{12,17}|35[0-9]{14,17}|(?:50|5[6-8]|6[0-9])[0-9]{11,17}"
)
_CARD_GROUPS = re.compile(r"1[3-9]|4,4,4(?:,4)?(?:,[1-4])?|4,6,[45]|8,8")
_CARD_MAX_GROUPS = 5


class PatternError(ValueError):
    """Invalid custom pattern; the message names the setting and the pattern."""


class Redactor:
    """Masks the usual secrets and the matches of custom patterns (RE2 syntax, linear time)."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Compile the patterns. Raises `PatternError`."""
        self._custom = tuple(map(custom_pattern, patterns))

    def __call__(self, text: str) -> str:
        """Return the text with its secrets masked. Masking twice changes nothing."""
        # A mask can expose another secret beside it. Each round leaves less to mask.
        while (masked := self._masked_once(text)) != text:
            text = masked
        return text

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

    def _masked_once(self, text: str) -> str:
        if "PRIVATE KEY" in text:
            text = _without_key_blocks(text)
        lowered = text.lower()
        if len(lowered) != len(text):  # a letter that becomes two shifts the rest
            lowered = "".join(char.lower()[0] for char in text)
        encodable = text.encode(errors="replace").decode() if self._custom else ""
        spans = [
            *_at_words(text, text, _VENDORS),
            *_at_words(text, lowered, _NAMED),
            *_passwords_of_addresses(text),
            *_cards(text),
            *(match.span() for pattern in self._custom for match in pattern.finditer(encodable)),
        ]
        return _with_masks(text, spans) if spans else text


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


def _at_words(text: str, searched: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    for word, pattern in rules:
        at = searched.find(word)
        while at >= 0:
            if match := _compiled(pattern).match(text, at):
                start, end = match.span(match.lastindex or 0)
                if end - start >= _SHORTEST_CHARS:
                    yield start, end
            at = searched.find(word, match.end() if match else at + len(word))


def _passwords_of_addresses(text: str) -> Iterator[Span]:
    at = text.find("://")
    while at >= 0:
        if user := _compiled(_USER).match(text, at + 3):
            end = _ADDRESS_END.search(text, user.end())
            host = text.rfind("@", user.end(), end.start() if end else len(text))
            if host > user.end():
                yield user.end(), host
        at = text.find("://", at + 3)


def _cards(text: str) -> Iterator[Span]:
    for run in _DIGITS.finditer(text):
        groups = [group.span() for group in re.compile("[0-9]+").finditer(text, *run.span())]
        after = 0
        for first, (start, _) in enumerate(groups):
            if start < after or text[start] not in "23456":
                continue
            for last in range(min(first + _CARD_MAX_GROUPS, len(groups)) - 1, first - 1, -1):
                end = groups[last][1]
                if _is_card([text[s:e] for s, e in groups[first : last + 1]]):
                    yield start, end
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
        shown += (text[at : begin.end()], MASK)
        end = _KEY_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
    return "".join((*shown, text[at:]))


def _with_masks(text: str, spans: list[Span]) -> str:
    """Return the text with the spans masked; they may overlap. Existing masks stay."""
    marks = bytearray(len(text))
    for start, end in spans:
        marks[start:end] = b"s" * (end - start)
    for mask in re.finditer(re.escape(MASK), text):
        start = max(0, mask.start() - KEPT_CHARS)
        marks[start : mask.end()] = b"m" * (mask.end() - start)
    shown: list[str] = []
    at = 0
    # A short rest between masks is often just `;`. Half an escape would break JSON.
    for secret in re.finditer(rb"(?<![ms])s++(?!m)|s{4,}", marks):
        kept = text[secret.start() : secret.start() + min(KEPT_CHARS, len(secret[0]) // 3)]
        shown += (text[at : secret.start()], kept.partition("\\")[0], MASK)
        at = secret.end()
    return "".join((*shown, text[at:]))
