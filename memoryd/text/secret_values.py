"""Patterns of values that stand beside a telling name, and tests for those that are no secrets."""

import re

_NAMES = (
    r"pass(?:word|wd|phrase)?|pwd|secret|(?:access|auth|refresh)?[_-]?token|credentials?"
    r"|(?:api|access|private|secret)?[_-]?key"
)


def placeholder(end: str) -> str:
    """Return a pattern of placeholders for secrets: words, types, variables, paths."""
    return rf"""
        (?:true|false|null|none|nil|undefined|yes|no|on|off|empty|unset|unknown|required|optional
          |invalid|missing|expired|wrong|incorrect|must|should|please|never|always|await|new|return
          |auth|basic|bearer|digest|oauth2?|oidc|saml|ldap|jwt|authentication|the|this|that|your
          |with|from|what|change_?me|redacted|hidden|see|ask|not|get|is|and|or|in|at|stored|default
          |include|same-origin|omit|plaintext|encrypted|hashed|todo|tbd|n/a){end}
        |&?(?:str|string|int|integer|bool|boolean|bytes|number|any|object|text|optional|secretstr
          |varchar)(?:{end}|[?(\[|])
        |\$?(?:{_NAMES}){end}
        |<[^<>\n]{{0,80}}>{end}|\$?\{{{{1,2}}[a-z0-9_.\ ]{{0,80}}\}}{{1,2}}{end}
        |\$(?-i:(?![A-Z]{{1,40}}[0-9]{{3}})[A-Z_][A-Z0-9_]{{0,60}}){end}
        |\$\{{[a-z_][a-z0-9_]{{0,60}}(?::?[-=+](?:\$\{{?[a-z_][a-z0-9_]{{0,60}}\}}?)?|:?\?[^{{}}\n]{{0,80}})?\}}{end}
        |\$env:[a-z_]|%[a-z_]{{1,40}}%{end}|%(?:\([a-z_]{{1,40}}\))?[sdvqr]{end}
        |[*•x.…]{{3,80}}{end}|\[[a-z _-]{{1,30}}\]{end}|your[-_ ][a-z_ -]{{1,40}}{end}
        |https?://|(?:~|\.\.?)/|(?-i:(?:/[a-z0-9._-]{{1,40}}){{2,20}}{end})
        |[0-9]{{0,9}}\.[0-9]{{1,12}}{end}|\#[0-9a-f]{{3,8}}{end}|-----BEGIN\ |\S{{0,6}}…{{8}}"""


END = r"(?=[\s\"'`,;)\]}<>\\|]|[.:!?](?:\s|\Z)|\Z)"
_CODE = rf"""
    \$?(?:[a-z_]{{1,40}}(?:\.|->|::)){{1,4}}(?:{_NAMES}){END}
    |(?:process\.env|os\.environ|import\.meta|env|secrets|self|this|settings|config|args)\.[a-z_]
    |[a-z_][a-z0-9_.]{{0,80}}[(\[]|\$\(|![a-z]{{2,20}}(?=\s)|\((?=[\"']|[a-z_.]{{0,60}}[\s,.(])|[bfru]{{1,2}}["']"""
SCHEME = r"(?:(?:bearer|basic|token|apikey)(?:[ \t]|\\t){1,4})"
_END_OF_QUOTED = r"(?=[\"'`\\]|\Z)"
OF_BARE = r"""(?:[^\s"'`&;,\\)\]}>.:]
       |(?![&;,][a-z_][\w.-]{0,40}[=:])(?![)\]}>.,;:]{1,8}(?:[\s"'`\\]|\Z))[&;,)\]}>.:]
       |\\(?!["'`])|["'`](?![\s,;:.)\]}]|\Z))"""
VALUE = rf"""(?:
    (?:[bfru]{{1,2}}(?=["']))? (?:(?P<d>")|(?P<s>')|`) (?![ \t]) (?>{SCHEME}?)
    (?!{placeholder(_END_OF_QUOTED)})
    ((?(d)(?:[^"\\\r\n]|\\.)*+|(?(s)(?:[^'\\\r\n]|\\.)*+|(?:[^`\\\r\n]|\\.)*+)))
    |(?P<e>\\{{1,3}}["']) (?>{SCHEME}?) (?!{placeholder(_END_OF_QUOTED)})
    ([^\r\n]*?(?=(?<!\\)(?P=e)|[\r\n]|\Z))
    |(?>{SCHEME}?) (?!["'`]|\\{{1,3}}["']|{_CODE}|{placeholder(END)})
    ((?={OF_BARE})\S+?(?!{OF_BARE}))
    )"""
"""Value after a name: in quotes, in escaped quotes, or bare. Verbose, ignores case."""

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z_$]*(?:(?:\.|->|::)[A-Za-z_$]+)*[!?]?")
_HUMP_OR_JOINT = re.compile(r"[a-z][A-Z]|[._]|->|::")
_LONG_PART = re.compile("[a-z]{17}|[A-Z]{17}")
_LONGEST_IDENTIFIER_CHARS = 39
_OF_CREDENTIALS = re.compile("(?i)pass|pwd|secret|auth|credential|token|key|value|input|field")
KNOWN_WORD = re.compile(
    r"(?i)(?:sha|md|base|aes|utf|argon|bcrypt|scrypt|pbkdf|ed|rsa|ecdsa|rfc|oauth|http|ipv?)"
    r"[-_ ]?[0-9][\w.-]*|[\w.-]+\.(?:ya?ml|json|toml|env|txt|md|py|ini|conf|[jt]sx?)"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}\S*|[0-9]{1,2}:[0-9]{2}\S*|[0-9.]{1,12}%?|[0-9]+(?:st|nd|rd|th|[a-z]{1,3})"
    r"|v[0-9][0-9.]*|x(?:86|64)\w*|\w+://\S*|[0-9]+[-–/x][0-9]+\S*"
)
_NUMBER_CHARS = 6
_TEST_NAME = re.compile(r"(?:Test|Example|Benchmark|Fuzz)[A-Z_]\w*|[\w/]*test\w*[./]\S*")


def is_code(head: str, value: str) -> bool:
    """Return whether the value of a token, key or secret is an identifier or a word of a text.

    `head` is the text from the name to the value.
    """
    if head[-1:] == "`" and " " in value:
        return True  # a shell command
    if head[-1:] in "\"'`" or not _IDENTIFIER.fullmatch(value):
        return False
    name, separator = re.split(r"[^\w-]", head, maxsplit=1)[0], head.rstrip(" \t")[-1:]
    if separator in ":：":
        return True
    if len(value) > _LONGEST_IDENTIFIER_CHARS or _LONG_PART.search(value):
        return False
    if head[-1:].isspace() and not name.isupper():
        return True
    has_joint = _HUMP_OR_JOINT.search(value) and _OF_CREDENTIALS.search(value)
    return bool(has_joint) or value.lower().endswith(name.lower())


def is_code_of_password(head: str, value: str) -> bool:
    """Return whether the value of a password is an identifier."""
    return (
        head[-1:] not in "\"'`"
        and bool(_IDENTIFIER.fullmatch(value))
        and bool(_HUMP_OR_JOINT.search(value))
        and bool(_OF_CREDENTIALS.search(value))
    )


def looks_secret(value: str) -> bool:
    """Return whether a word of a sentence is no ordinary one: digits, signs, or a hump inside."""
    if value.isdigit():
        return len(value) >= _NUMBER_CHARS
    if len(value) < 4 or KNOWN_WORD.fullmatch(value) or _TEST_NAME.fullmatch(value):
        return False
    inner = value[1:-1] if value[-1:] in "!?" else value[1:]
    has_letter = any(char.isalpha() for char in value)
    return has_letter and (
        any(char.isdigit() for char in value) or any(char in "!@#$%^&*+=~" for char in inner)
    )
