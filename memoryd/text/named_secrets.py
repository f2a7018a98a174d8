"""Secrets that are recognized by what stands before them: names, flags, headers, commands, prose.

Each rule has a word. One search finds the words of all rules, because that costs most. The pattern
of a rule then reads little more than the secret, so no call takes long.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

from memoryd.text.command_secrets import COMMANDS, FLAG_VALUE
from memoryd.text.secret_rule import PASSWORD, Harmless, Rule, is_no_mix, is_word
from memoryd.text.secret_values import (
    END,
    KNOWN_WORD,
    SCHEME,
    VALUE,
    is_code,
    is_code_of_password,
    looks_secret,
)
from memoryd.text.secret_words import (
    ASCII_WORDS,
    MIXED,
    OTHER_WORDS,
    TOLD,
    TOLD_BESIDE,
    is_reference,
)
from memoryd.text.told_secrets import BEFORE_KEY, PAIRS, SENTENCES
from memoryd.text.vendor_tokens import Secret

_compiled = cache(re.compile)
"""Compiles a rule when its word first occurs. All rules together take a quarter of a start."""

_WORD = rf"""[ \t]{{0,20}} (?!{SCHEME})
    (?:(?-i:[A-Za-z][a-z]{{0,14}})
      (?:[.,;!?)\]](?![A-Za-z0-9])|\||[ \t]{{1,20}}[A-Za-z=|(])|[0-9]{{1,5}}{END})"""
_NO_VALUE = r"""(?![_.-]?(?:count|type|limit|budget|usage|name|ur[il]|endpoint|path|file|dir
          |len|length|size|version|ttl|expir\w{0,6}|policy|field|header|prefix|format|algorithm|min\w{0,8}
          |max\w{0,8}|ref|enabled|required|hint|ids?|hash|rate|stdin|reset|manager)(?![a-z0-9]))"""


def _named(word: str, kind: str, name: str, harmless: Harmless, *, prose: bool) -> Rule:
    """Return the rule for values of a name; with `prose`, an ordinary word is no value."""
    no_word = f"(?!{_WORD})" if prose else ""
    return Rule(
        word,
        kind,
        rf"""(?ix)(?:{name}) {_NO_VALUE}
        (?>(?:[_.-][a-z0-9]{{1,40}}){{0,2}}) \\{{0,3}}["'`*\]]{{0,3}} [ \t]{{0,20}}+
        (?:={{1,3}}>?|＝|[:：](?![-?+:])=?{no_word}) \*{{0,2}} [ \t]{{0,20}}+ {VALUE}""",
        harmless,
    )


def _apart(names: str) -> str:
    """Return a pattern of what stands before a name: no letter, a hump, or one of the names."""
    before = "|".join(f"(?<={name}{gap})" for name in names.split() for gap in ("", "[ _-]"))
    return rf"(?:(?<![A-Za-z])|(?-i:(?<=[a-z])(?=[A-Z]))|{before})"


_APART = r"(?:(?<![A-Za-z])|(?-i:(?<=[a-z])(?=[A-Z])))"
_DOCUMENTS = (
    "doc file obj object node wiki folder page next prev continuation cursor sync pad eos bos unk"
    " sep cls mask image start end stop special cancellation design csrf"
)
_NO_DOCUMENT = "".join(f"(?<!{of})(?<!{of}[ _-])" for of in _DOCUMENTS.split())
_TOKENS = "access auth refresh id bot api hook session bearer user app service personal payment"
_BARE_NAME = r"(?<![A-Za-z-])(?-i:pass|(?<=_)PASS|PASS(?==))"


def _no_pass(head: str, value: str) -> bool:
    if ":" in head or "：" in head:
        return not looks_secret(value)
    return (value.isdigit() and len(value) < 7) or is_code_of_password(head, value)


_SCHEME = re.compile(
    r"(?i)aws4-[\w-]+|digest|hawk|negotiate|ntlm|bot|signature|oauth|mac|sharedkey"
)


def _no_credentials(head: str, value: str) -> bool:
    return is_code(head, value) or bool(_SCHEME.fullmatch(value))


def _no_flag(head: str, value: str) -> bool:
    return value.isupper() and value.replace("_", "").isalpha()


def _no_cookie(head: str, value: str) -> bool:
    return "=" not in value and not any(char.isdigit() for char in value)


_CREDENTIALS = (
    r"(?:[ \t]{1,4}|\\t)(?-i:(?=[A-Z]?[a-z._~+/=-]{0,200}[0-9=]|[A-Za-z]{24}"
    r"|[A-Za-z]{0,200}[a-z][A-Z][A-Za-z]{0,200}[0-9=+/_-]))"
    r"([A-Za-z0-9+/=._~-]{12,}+)"
)
_HEADER = (
    r"authorization\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}"
    r"(?:\\[rnt]|\r?\n[ \t]{0,4}){0,3}\\{0,3}[\"']?"
)
_NAME_OF_SCHEME = "(?!(?:bearer|basic)(?![a-z0-9+._-]))[a-z][a-z0-9+._-]{1,24}"
_SCHEMES = _NAME_OF_SCHEME + "(?:[ \\t]{1,4}|\\\\t|[ \\t]{0,4}\\r?\\n[ \\t]{1,8})"
_DIGEST = (
    r"(?!…)((?:[^\s\"'\\;{}]"
    r"|(?<==)\"[^\"\r\n]{0,2000}\"|(?<==)'[^'\r\n]{0,2000}'|(?<=\w)['`](?=\w)"
    r"|(?<==)\\\"(?:[^\"\\\r\n]|\\{2,9}\"|\\(?![\"\\])){0,2000}\\\""
    r"|(?<==)\\{2,3}\"(?:[^\"\\\r\n]|\\{4,9}\"|\\(?![\"\\])){0,2000}\\{2,3}\""
    r"|;(?![ \t])|[ \t]{1,4}(?=[^\s;])|\r?\n[ \t]{1,8}(?=\S)|\\[rnt]){4,4000})"
)
_OF_COOKIE = r"(?:[^\s;\"'`\\]|\\(?![\"'`rn])|[\"'`](?![\s,:)\]}]|\Z))"
_COOKIES = (
    r"(?i)cookie2?\\{0,3}[\"']?[ \t]{0,20}[:=][ \t]{0,20}\\{0,3}[\"']?"
    rf"(?=[^\s=;\"'…]{{1,200}}=)((?={_OF_COOKIE})[^\r\n]+?"
    rf"(?!{_OF_COOKIE}|;[ \t]{{0,4}}{_OF_COOKIE}|(?<=[; \t])[ \t]))"
)
_QUOTED_COOKIE = (
    r"(?i)cookie2?\\{0,3}[\"']?[ \t]{0,20}[:=][ \t]{0,20}(?:\"([^\s\"\\]{8,}+)\"|'([^\s'\\]{8,}+)')"
)
_IN_QUERY = r"(?:(?<=[?&;])|(?<![A-Za-z0-9_.-])|(?<=amp;))"
_PARAMETER = r"(?![{$<%])([^\s&#\"'`<>=;]{4,}+={0,2})"
_FLAGS = (
    r"(?i)(?<![\w-])--(?:[a-z0-9]{1,20}[-_]?){0,4}?"
    r"(?:pass(?:word|wd|phrase)?|token|secret|(?:api|access|private|auth|account|master|signing)[-_]?key"
    r"|credentials?|pwd|auth)[ \t]{1,4}"
    r"(?!(?:or|and|is|are|to|for|flag|flags|option|options|from|in|on|if|with|when|reads?|sets?|overrides?"
    r"|argument|parameter|must|should|can|may|will|as|at|that|which|not|without|then|by|it|the|of)(?![\w-]))"
    + FLAG_VALUE
)


def _told_after(word: str) -> tuple[Rule, ...]:
    """Return the rules for values that a text tells after a word of another language."""
    return (
        Rule(word, PASSWORD, TOLD, is_word, ends_sentence=True),
        Rule(word, PASSWORD, TOLD_BESIDE, is_no_mix, ends_sentence=True),
    )


RULES = (
    _named("pass", PASSWORD, "pass(?:word|wd|phrase|code)s?", is_code_of_password, prose=False),
    _named("pass", PASSWORD, rf"{_APART}(?-i:(?<=[a-z])Pass)|{_BARE_NAME}", _no_pass, prose=False),
    _named("pwd", PASSWORD, rf"{_APART}pwd", is_code_of_password, prose=False),
    _named(
        "secret",
        "secret",
        rf"(?<![0-9]:){_apart('client app api shared session jwt webhook')}secret",
        is_code,
        prose=True,
    ),
    _named("token", "token", rf"{_NO_DOCUMENT}{_apart(_TOKENS)}token", is_code, prose=True),
    _named("credential", "credentials", "credentials?", is_code, prose=True),
    _named("auth", "credentials", r"(?<![A-Za-z])auth(?:orization)?", _no_credentials, prose=True),
    _named("key", "key", rf"(?:{BEFORE_KEY})key", is_code, prose=True),
    _named("jwt", "token", r"(?<![A-Za-z])jwt", is_code, prose=True),
    Rule(
        "cvc",
        "card code",
        r"(?i)cvc2?[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([0-9]{3,4})(?![0-9])",
        shortest_chars=3,
    ),
    Rule(
        "cvv",
        "card code",
        r"(?i)cvv2?[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([0-9]{3,4})(?![0-9])",
        shortest_chars=3,
    ),
    Rule(
        "security",
        "card code",
        r"(?i)security[_-]?code[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([0-9]{3,8})(?![0-9])",
        shortest_chars=3,
    ),
    Rule("code=", "authorization code", rf"(?i){_IN_QUERY}code={_PARAMETER}"),
    Rule("jwt=", "token", rf"(?i){_IN_QUERY}jwt={_PARAMETER}"),
    Rule("sig=", "signature", rf"(?i){_IN_QUERY}sig={_PARAMETER}"),
    Rule("signature=", "signature", rf"(?i)signature={_PARAMETER}"),
    Rule("session=", "session", rf"(?i){_IN_QUERY}session={_PARAMETER}"),
    Rule("key=", "key", rf"(?i){_IN_QUERY}key={_PARAMETER}"),
    Rule("ls0tls1crudjti", "private key", r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)([A-Za-z0-9+/=]{20,}+)"),
    Rule("appid=", "key", rf"(?i){_IN_QUERY}appid={_PARAMETER}"),
    Rule("bearer", "token", rf"(?i)(?<![A-Za-z])bearer{_CREDENTIALS}"),
    Rule("basic", "credentials", rf"(?i)(?<![A-Za-z])basic{_CREDENTIALS}"),
    Rule(
        "authorization",
        "credentials",
        rf"(?i){_HEADER}(?:basic|bearer)(?:[ \t]{{1,4}}|\\t)([A-Za-z0-9+/=._~-]{{6,}}+)",
    ),
    Rule(
        "authorization",
        "credentials",
        rf"(?i){_HEADER}{_SCHEMES}(?=[^\r\n]{{0,200}}=|[ \t]*\r?\n[^\r\n]{{0,80}}=){_DIGEST}",
    ),
    Rule(
        "authorization",
        "credentials",
        rf"(?i){_HEADER}{_NAME_OF_SCHEME}(?:[ \t]{{1,4}}|\\t)([A-Za-z0-9+/=._~-]{{12,}}+)",
    ),
    Rule("cookie", "cookie", _COOKIES),
    Rule("cookie", "cookie", _QUOTED_COOKIE, _no_cookie),
    *COMMANDS,
    *SENTENCES,
    *PAIRS,
    *(rule for word in ASCII_WORDS for rule in _told_after(word)),
)
_INVISIBLE = "\x00-\x08\x0e-\x1f\u00ad\u115f\u1160\u200b-\u200f\u2060-\u2064\u3164\ufeff\uffa0"
_FLAG = Rule("--", "credentials", _FLAGS, _no_flag)
_FLAG_BEGINS = "(?:^|[^a-z0-9_-])--[a-z]"
_HIDDEN_KEY = re.compile(rf"[A-Za-z0-9_{_INVISIBLE}%+-]{{4,80}}+=[\"'`]?([^\s&#\"'`<>]{{3,}}+)")
_HIDDEN = r"[a-z0-9_-]{1,40}(?:%[0-9a-f]{2}|[+?\x00-\x08])[a-z0-9_%+?\x00-\x08-]{0,40}="
"""Name with an escape or a character that is not ASCII, which is `?` in ASCII."""
_NO_NAME = re.compile(rf"[{_INVISIBLE}\s+]")
_HIDDEN_NAME = re.compile(
    r"(?:\A|[_-])(?:secret|token|password|passwd|apikey|key|jwt|credential)\Z"
)


@cache
def linear(pattern: str) -> Any:
    """Return a compiled pattern for bytes in RE2 syntax, whose search reads each byte once."""
    import re2  # 3 MB that only a daemon that masks needs

    return re2.compile(pattern.encode())


@cache
def _by_word() -> tuple[str, dict[bytes, list[Rule]]]:
    """Return a pattern of all words of rules, and the rules by word.

    Rules whose word begins with the word of others are listed there.
    """
    words = {rule.word for rule in RULES}
    words -= {word for word in words if any(word != w and word.startswith(w) for w in words)}
    rules: dict[bytes, list[Rule]] = {word.encode(): [] for word in words}
    for rule in RULES:
        (word,) = (word for word in words if rule.word.startswith(word))
        rules[word.encode()].append(rule)
    return "|".join(map(re.escape, sorted(words))), rules


def named_secrets(text: str, lowered: bytes) -> Iterator[Secret]:
    """Yield the secrets that rules find. `lowered` has one byte per character of the text."""
    words, rules_of = _by_word()
    done: dict[Rule, int] = {}
    for word in linear(words).finditer(lowered):
        at = word.start()
        for rule in rules_of[word[0]]:
            if done.get(rule, 0) <= at and (found := _found(rule, text, at)):
                done[rule] = found.end
                yield found
    for flag in linear(_FLAG_BEGINS).finditer(lowered):
        if found := _found(_FLAG, text, flag.end() - len("--p")):
            yield found
    if not text.isascii():
        yield from _in_other_scripts(text)
    for name in linear(_HIDDEN).finditer(lowered):
        start = max(name.start(), text.rfind("?", name.start(), name.end()) + 1)
        yield from _under_hidden_name(text, start)


def _found(rule: Rule, text: str, at: int) -> Secret | None:
    match = _compiled(rule.pattern).match(text, at)
    if match is None or match.lastindex is None:
        return None
    start, end = match.span(match.lastindex)
    if rule.ends_sentence:
        end = start + len(text[start:end].rstrip(".,;:)]}*…"))
    value = text[start:end]
    if end - start < rule.shortest_chars or rule.harmless(text[at:start], value):
        return None
    if rule.word.endswith("=") and not _is_signed(rule.word, text, at, end, value):
        return None
    return Secret(start, end, rule.kind)


_FORM_BEGINS = re.compile(r"(?:body[\"']?[:=]\s{0,4}[\"'`]?|callback\s)\Z", re.IGNORECASE)
_LOCALE = re.compile("[a-z]{2}[-_][A-Z]{2}")
_NEXT_FIELD = re.compile(r"&[A-Za-z_][\w.%-]{0,60}=")


def _is_signed(word: str, text: str, at: int, end: int, value: str) -> bool:
    """Return whether a parameter of an address or form is a secret, by its place and value."""
    in_query = text[max(0, at - 1) : at] in ("?", "&") or text[max(0, at - 5) : at] == "&amp;"
    if word == "signature=":
        in_query = in_query or text[max(0, at - 1) : at] == "-" or looks_secret(value)
    in_form = bool(_NEXT_FIELD.match(text, end)) or bool(
        _FORM_BEGINS.search(text, max(0, at - 12), at)
    )
    if not (in_query or in_form):
        return False
    if word == "code=" and (KNOWN_WORD.fullmatch(value) or _LOCALE.fullmatch(value)):
        return False
    if word in ("code=", "sig=", "signature=", "jwt="):
        return not (value.isdigit() and len(value) < 6)
    return (len(value) >= 8 and looks_secret(value)) or ("-" in value and len(value) >= 12)


def _in_other_scripts(text: str) -> Iterator[Secret]:
    lowered = text.lower()
    if not linear(OTHER_WORDS).search(lowered.encode(errors="replace")):
        return
    if len(lowered) != len(text):  # a letter that becomes two shifts the rest
        lowered = "".join(char.lower()[0] for char in text)
    rules = (*_told_after(""), Rule("", PASSWORD, MIXED, is_reference))
    for word in _compiled(OTHER_WORDS).finditer(lowered):
        found = (_found(rule, text, word.start()) for rule in rules)
        yield from (secret for secret in found if secret is not None)


def _under_hidden_name(text: str, start: int) -> Iterator[Secret]:
    """Yield the value of a name that is written with escapes or invisible characters."""
    if (found := _HIDDEN_KEY.match(text, start)) is None:
        return
    name = found[0].partition("=")[0]
    plain = _NO_NAME.sub("", unquote(name))
    if plain != name and _HIDDEN_NAME.search(plain.lower()):
        yield Secret(*found.span(1), "secret")
