"""Secrets in arguments of commands, in calls and in statements of SQL."""

import re

from memoryd.text.secret_rule import PASSWORD, QUOTED, Rule, is_one_word, is_word

FLAG_VALUE = (
    r"(?:\"(?!\$[A-Za-z_{(])([^\"\r\n]{4,}+)\"|'([^'\r\n]{4,}+)'"
    r"|([^\s\"'`|<>;&$(){}\[\]-][^\s\"'`|<>;]{3,}+))"
)
_STARTS = r"(?<![\w./-])"
_GAP = r"(?:[ \t]|\\\r?\n){1,40}"
_ARGUMENT = r"(?:\"[^\"\r\n]{0,400}\"|'[^'\r\n]{0,400}'|[^\s|;&\"']){1,400}"
_ARGUMENTS = rf"(?:{_GAP}{_ARGUMENT}){{0,12}}?{_GAP}"
_OF_USER = r"[\"']?[^\s:\"'$]{1,80}:([^\s\"']{3,}+)"
_JOINED = r"[\"']?([^\s\"'$<>|-][^\s\"']{3,}+)"
_PRINTED = r"(?:echo|printf)[ \t]{1,4}(?:-[neE]{1,3}[ \t]{1,4})?"
_PIPED = (
    r"[ \t]{0,4}\|[ \t]{0,4}(?:sudo[ \t][^|;&\r\n]{0,40}?-[A-Za-z]{0,4}S"
    r"|[^|;&\r\n]{0,120}?--(?:password-)?stdin"
    r"|[^|;&\r\n]{0,60}?secrets?[ \t](?:put|set|add|create))"
)
_TEXT = r"(?!\$[A-Za-z_{(])([^\"'|;&\r\n]{4,200}?)(?:\\n)?"
_SHOWN = rf"(?:\"{_TEXT}\"|'{_TEXT}'|(?!\$)([^\s\"'|;&]{{4,200}}+))"


def _command(
    word: str, names: str, flag: str, value: str = FLAG_VALUE, shortest_chars: int = 4
) -> Rule:
    """Return the rule for the value of a command's flag; flags distinguish capitals."""
    pattern = rf"(?i){_STARTS}(?:{names}){_ARGUMENTS}(?-i:{flag}){value}"
    return Rule(word, PASSWORD, pattern, shortest_chars=shortest_chars)


def _is_phrase_or_word(head: str, value: str) -> bool:
    return " " in value or is_one_word(head, value)


COMMANDS = (
    _command("curl", "curl", "(?:-u|--user|--proxy-user|-U)[ =]?", _OF_USER, 3),
    _command("http -a", "http", "-a[ \\t]", _OF_USER, 3),
    _command("mysql", "mysql(?:dump|admin)?", "-p", _JOINED),
    _command("mariadb", "mariadb(?:-dump)?", "-p", _JOINED),
    _command("7z", "7z[ar]?", "-p", _JOINED),
    _command("zip", "zip", "-P[ \\t]{0,4}"),
    _command("unzip", "unzip", "-P[ \\t]{0,4}"),
    _command("mongo", "mongo(?:sh|dump|restore|import|export)?", "-p[ \\t]{0,4}"),
    _command("redis-cli", "redis-cli", "-a[ \\t]{1,4}"),
    _command("ssh-keygen", "ssh-keygen", "-N[ \\t]{0,4}"),
    _command("ssh-keygen", "ssh-keygen", "-P[ \\t]{0,4}"),
    _command("ldap", "ldap[a-z]{3,8}", "-w[ \\t]{0,4}"),
    _command("lftp", "lftp", "-u[ \\t]{0,4}[^\\s,\"']{1,80},"),
    _command("smbclient", "smbclient", "-U[ \\t]{0,4}[\"']?[^\\s%\"']{1,80}%"),
    _command("mosquitto", "mosquitto_(?:pub|sub|rr)", "-P[ \\t]{0,4}"),
    _command("sqlcmd", "sqlcmd", "-P[ \\t]{0,4}"),
    _command("sqlplus", "sqlplus", "[^\\s/@]{1,60}/", r"([^\s/@]{4,100}+)(?=@|\s|\Z)"),
    _command("openssl", "openssl", "-k[ \\t]{1,4}"),
    _command("security", "security", "-w[ \\t]{1,4}"),
    _command("rclone", "rclone", "(?:pass|password)[ =]"),
    _command("xfreerdp", "xfreerdp", "/p:"),
    _command(
        "htpasswd",
        "htpasswd",
        "-[a-zB]{0,5}b[a-zB]{0,4}(?:[ \\t]{1,4}[^\\s|;&]{1,200}){1,2}[ \\t]{1,4}",
    ),
    *(
        Rule(word, PASSWORD, rf"(?i)(?<=[ \t]-){word}{rest}[ \t]{{1,4}}{FLAG_VALUE}", is_word)
        for word, rest in (("pw", ""), ("pass", "(?:word|phrase)"))
    ),
    Rule("pass", PASSWORD, rf"(?i)(?:(?<=-store)|(?<=-key))pass[ \t]{{1,4}}{FLAG_VALUE}"),
    Rule("sshpass", PASSWORD, rf"(?i){_STARTS}sshpass[ \t]+-p[ \t]?{FLAG_VALUE}"),
    Rule("login", PASSWORD, rf"(?i)(?<= )login{_ARGUMENTS}-p[ =]{FLAG_VALUE}"),
    Rule(
        "net use",
        PASSWORD,
        r"(?i)net use[ \t][^|;&\r\n]{0,200}?/user:[^\s]{1,100}[ \t]{1,4}([^\s/*|;&]{4,100}+)",
    ),
    Rule(
        "net user",
        PASSWORD,
        r"(?i)net user[ \t]{1,4}[^\s/*]{1,80}[ \t]{1,4}([^\s/*|;&]{4,100}+)",
        is_word,
    ),
    Rule(
        "setx",
        "secret",
        r"(?i)setx[ \t]{1,4}(?:/m[ \t]{1,4})?[a-z0-9_]{0,60}(?:pass|pwd|token|secret|key)"
        rf"[a-z0-9_]{{0,20}}[ \t]{{1,4}}{FLAG_VALUE}",
        is_word,
    ),
    Rule("authtoken", "token", rf"(?i)authtoken[ \t]{{1,4}}{FLAG_VALUE}", is_word),
    *(
        Rule(
            f"secret {verb}",
            "secret",
            rf"(?i)secret {verb}[^|;&<\r\n]{{1,200}}(?:<<<[ \t]{{0,4}}|-b[ \t]|--body[ \t=])"
            rf"{FLAG_VALUE}",
        )
        for verb in ("put", "set", "add", "create")
    ),
    *(
        Rule(
            port,
            PASSWORD,
            rf"{re.escape(port)}[^:\s]{{1,80}}:[^:\s]{{1,80}}:([^\s:]{{4,100}}+)(?=\s|\Z)",
        )
        for port in (":5432:", ":5433:", ":6432:")
    ),
    Rule("echo", PASSWORD, rf"{_PRINTED}{_SHOWN}{_PIPED}"),
    Rule("printf", PASSWORD, rf"{_PRINTED}{_SHOWN}{_PIPED}"),
    Rule(
        "echo",
        PASSWORD,
        rf"{_PRINTED}[\"']?[^\s:\"'|]{{1,60}}:([^\s\"'|]{{4,200}}+)[\"']?"
        r"[ \t]{0,4}\|[ \t]{0,4}(?:sudo[ \t]{1,4})?chpasswd",
    ),
    Rule("requirepass", PASSWORD, r"(?i)requirepass[ \t]{1,8}[\"']?([^\s\"']{4,200}+)", is_word),
    Rule(
        "identified",
        PASSWORD,
        r"(?i)identified[ \t]{1,4}(?:with[ \t]{1,4}[^\s]{1,60}[ \t]{1,4})?by[ \t]{1,4}"
        rf"(?:password[ \t]{{1,4}})?{QUOTED}",
    ),
    Rule(
        "securestring", PASSWORD, rf"(?i)securestring(?:[ \t]{{1,4}}-string)?[ \t]{{1,4}}{QUOTED}"
    ),
    Rule(
        "pass",
        PASSWORD,
        rf"(?i)pass(?:word|wd|phrase)?(?:[ \t]{{0,4}}\([ \t]{{0,4}}|[ \t]{{1,4}}){QUOTED}",
        _is_phrase_or_word,
    ),
    Rule(
        "pass",
        PASSWORD,
        rf"(?i)pass(?:word|wd|phrase)?[\"'][ \t]{{0,4}},[ \t]{{0,4}}{QUOTED}(?=[ \t]{{0,4}}\))",
        _is_phrase_or_word,
    ),
    *(
        Rule(
            word,
            PASSWORD,
            rf"(?i){word}[A-Za-z_]{{0,20}}[ \t]{{0,4}}=?[ \t]{{0,4}}\([ \t]{{0,4}}"
            rf"[\"'][^\"'\r\n]{{1,80}}[\"'],[ \t]{{0,4}}{QUOTED}",
            _is_phrase_or_word,
        )
        for word in ("login", "auth", "credential")
    ),
)
