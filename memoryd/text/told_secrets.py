"""Secrets that a sentence, a prompt or a pair of name and value tells."""

from memoryd.text.secret_rule import (
    PASSWORD,
    QUOTED,
    Harmless,
    Rule,
    is_no_mix,
    is_one_word,
    is_short_word,
    is_word,
)
from memoryd.text.secret_values import END
from memoryd.text.secret_words import BESIDE, OF_VALUE, TOLD, TOLD_BESIDE

_A_WORD = r"[ \t]{1,4}[^\s:.=,;!?|]{1,20}"
_A_PLACE = r"[ \t]{1,4}(?:'[^'\r\n]{1,200}'|[^\s:=,;!?|'][^\s:=,;!?|]{0,39})"
_IS = (
    r"(?![ \t](?:manager|hash|policy|field|length|prompt|file|strength|rules?|column|type)\b)"
    rf"(?:(?:{_A_WORD}){{0,6}}?[ \t]{{1,4}}"
    r"(?:is|was|are|ist|lautet|es|est|è|é|är|er|(?:changed|set|reset)[ \t]to)"
    r"(?:[ \t]{1,4}(?:now|still|just|simply))?:?"
    rf"|[ \t]for(?:{_A_PLACE}){{1,6}}?:)[ \t]{{1,4}}"
)
_VALUE = (
    r"[\"'`*]{0,3}(?=[^\s\"'`*]{0,99}?(?:[^A-Za-z\s\"'`*.,;:!?)]|[!?:.][A-Za-z0-9]))"
    r"([^\s\"'`*]{4,200}+)"
)
_NO_CALL = r"(?![A-Za-z_$][\w.$]{0,60}\()"
_PASSWORD = "pass(?:word|phrase|code|wd)"  # noqa: S105 - a pattern
_ARROW = r"[\"'`*]{0,3}[ \t]{0,4}(?:->|→|➜|⇒|[-–—](?=[ \t]))[ \t]{0,4}"
_NEXT_LINE = (
    r"s?\*{0,2}[:：]\*{0,2}[ \t]{0,4}(?:[|>][+-]?)?[ \t]{0,4}\r?\n"
    r"(?:[ \t]{0,20}\r?\n)?[ \t]{0,20}[\"'`]?"
    r"([^\s\"'`|#*<>{}\[\]()-][^\s\"'`]{4,99}[^\s\"'`$#>:,{(\[])"
    r"[\"'`]?(?=[ \t]{0,20}(?:\r?\n|\Z))"
)
_VALUE_OF_PAIR = (
    r"(?:[_.-][a-z0-9]{1,20}){0,2}\\{0,3}[\"']?[ \t]{0,4},?\s{0,40}\\{0,3}[\"']?"
    r"(?:parameter)?value\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?"
    r"([^\s\"'`\\<>,;{}]{4,200}+)"
)
_IN_ELEMENT = r"[\"']?>([^<>\s]{4,200}+)</"
_KEYS = (
    "api access private secret signing encryption master account auth client shared material"
    " subscription recovery wpa wpa2 wifi"
)
"""Words that make a key a secret."""
BEFORE_KEY = "|".join(f"(?<={of}{gap})" for of in _KEYS.split() for gap in ("", "[ _-]"))


def _told(word: str, pattern: str, harmless: Harmless, kind: str = PASSWORD) -> Rule:
    return Rule(word, kind, f"(?i){pattern}", harmless, ends_sentence=True)


SENTENCES = (
    _told("pass", f"{_PASSWORD}{_IS}{_VALUE}", is_word),
    _told("pass", rf"(?<![\w-])pass[ \t]{{1,4}}is:?[ \t]{{1,4}}{_VALUE}", is_word),
    _told("pass", rf"(?<![\w$])pass(?:word|wort|wd)[ \t]{{1,4}}{BESIDE}", is_no_mix),
    _told("pass", rf"pass(?:word|wd|code)[ \t]\({BESIDE}\)", is_no_mix),
    _told("pass", f"{_PASSWORD}s?{_ARROW}{_VALUE}", is_no_mix),
    _told(
        "pass",
        rf"{_PASSWORD}(?:{_A_WORD}){{0,3}}?[ \t]from[ \t]{_VALUE}(?=[ \t]to[ \t])",
        is_no_mix,
    ),
    _told(
        "pass",
        rf"{_PASSWORD}(?:{_A_WORD}){{0,3}}?[ \t]from[ \t][^\s]{{1,100}}[ \t]to[ \t]{_VALUE}",
        is_no_mix,
    ),
    Rule("pass", PASSWORD, f"(?i){_PASSWORD}{_NEXT_LINE}", is_no_mix),
    Rule("pass", PASSWORD, f"(?i){_PASSWORD}{_IS}{QUOTED}", is_one_word),
    Rule(
        "pass",
        PASSWORD,
        rf"(?i){_PASSWORD}`?\*{{0,2}}[ \t]{{0,8}}\|[ \t]{{0,8}}`?((?:(?!\|){OF_VALUE}){{4,200}})"
        r"(?=`?[ \t]{0,99}(?:\||\r?\n|\Z))",
        is_word,
    ),
    Rule("pass", PASSWORD, r"(?i)password[ \t]{1,4}([a-z]{4}(?:-[a-z]{4}){3})(?![\w-])"),
    Rule("pass", PASSWORD, TOLD, is_word, ends_sentence=True),
    Rule("pass", PASSWORD, TOLD_BESIDE, is_no_mix, ends_sentence=True),
    *(
        _told(
            word,
            rf"(?<![a-z]){verb}(?:{_A_WORD}){{0,4}}?[ \t]{{1,4}}{_PASSWORD}(?:{_A_WORD}){{0,4}}?"
            rf"[ \t]{{1,4}}to:?[ \t]{{1,4}}{_VALUE}",
            is_no_mix,
        )
        for word, verb in (
            ("set ", "set"),
            ("reset ", "reset"),
            ("change", "change[ds]?"),
            ("update", "update[ds]?"),
            ("rotate", "rotate[ds]?"),
        )
    ),
    *(
        _told(
            f"{verb} ",
            rf"(?<![a-z]){verb}[ \t]{{1,4}}{_VALUE}[ \t]as(?:{_A_WORD}){{0,3}}?[ \t]"
            rf"{_PASSWORD}(?![\w-])",
            is_no_mix,
        )
        for verb in ("use", "used", "using")
    ),
    _told(
        "user",
        r"user(?:name)?[ \t:=]{1,4}(?!(?:with|and|has|or|the|a)[ \t])[^\s,;]{1,60}[,;]?[ \t]{1,4}"
        rf"(?:(?:and|with)[ \t]{{1,4}})?(?:(?:the|a)[ \t])?{_PASSWORD}[ \t]{{1,4}}{_VALUE}",
        is_no_mix,
    ),
    Rule("user", PASSWORD, r"USER[ \t]\S{1,60}\s{1,4}PASS[ \t](\S{4,100}+)", is_word),
    Rule("login", PASSWORD, r"(?i)login[ \t]+\S{1,80}\s{1,8}password[ \t]+(\S{4,200}+)"),
    *(
        _told(
            word,
            r"(?<![a-z])(?:creds?|credentials?|credenciales|credenciais|credenziali|zugangsdaten"
            r"|logins?)[ \t]{0,4}(?::|=|->|→)[ \t]{0,4}"
            r"[\"'`]?[^\s/:,|\"'`]{1,60}(?:[ \t]{1,4}/[ \t]{1,4}|[/:])"
            rf"([^\s/\"'`]{{6,100}}+){END}",
            is_no_mix,
        )
        for word in ("cred", "zugangsdaten", "login")
    ),
    _told(
        "log in with ",
        r"log in with [^\s/:,|\"'`]{1,60}[ \t]{1,4}/[ \t]{1,4}([^\s/\"'`]{6,100}+)",
        is_word,
    ),
    *(
        _told(
            word,
            rf"{word}(?:{_A_WORD}){{0,3}}?[ \t]{{0,4}}[:=][ \t]{{0,4}}[^/:\r\n]{{1,40}}?"
            r"[ \t]/[ \t]{1,4}([^\s/\"'`]{8,63}+)",
            is_no_mix,
        )
        for word in ("wifi", "wi-fi", "wlan")
    ),
    _told("pw", rf"(?<![a-z])pw[ \t]{{1,4}}{BESIDE}", is_no_mix),
    _told("pw", rf"(?<![a-z])pw(?:{_IS}|[ \t]{{0,4}}[:=][ \t]{{0,4}}){_NO_CALL}{_VALUE}", is_word),
    Rule(
        "psk",
        PASSWORD,
        rf"(?i)(?<![a-z])psk[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}{QUOTED}",
        is_one_word,
    ),
    Rule(
        "psk",
        PASSWORD,
        r"(?i)(?<![a-z])psk[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"'`]?([^\s\"'`]{8,63}+)",
        is_word,
    ),
    _told("secret", f"secret{_IS}{_VALUE}", is_short_word, "secret"),
    _told("token", f"token{_IS}{_VALUE}", is_short_word, "token"),
    _told("key", f"(?:{BEFORE_KEY})key{_IS}{_VALUE}", is_short_word, "key"),
    Rule("secret", "secret", r"(?i)secret[ \t]{1,4}([A-Za-z0-9]{20,200}+)(?![\w-])", is_no_mix),
    Rule("token", "token", r"(?i)token[ \t]{1,4}([A-Za-z0-9]{20,200}+)(?![\w-])", is_no_mix),
    Rule(
        "key",
        "key",
        rf"(?i)(?:{BEFORE_KEY})key[ \t]{{1,4}}([A-Za-z0-9]{{16,200}}+)(?![\w-])",
        is_no_mix,
    ),
)
"""Rules for sentences, prompts and tables."""

PAIRS = (
    Rule("pass", PASSWORD, f"(?i)pass(?:word|wd|phrase)?{_VALUE_OF_PAIR}", is_word),
    Rule("pwd", PASSWORD, f"(?i)pwd{_VALUE_OF_PAIR}", is_word),
    Rule("secret", "secret", f"(?i)secret{_VALUE_OF_PAIR}", is_short_word),
    Rule("token", "token", f"(?i)token{_VALUE_OF_PAIR}", is_short_word),
    Rule("key", "key", f"(?i)(?:{BEFORE_KEY})key{_VALUE_OF_PAIR}", is_short_word),
    Rule("pass", PASSWORD, f"(?i)pass(?:word|wd|phrase){_IN_ELEMENT}"),
    Rule("token", "token", f"(?i)token{_IN_ELEMENT}", is_short_word),
    Rule("secret", "secret", f"(?i)secret{_IN_ELEMENT}", is_short_word),
)
"""Rules for a name and its value in two fields or attributes, or in an element of XML."""
