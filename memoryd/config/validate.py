"""Checks of settings beyond their types, such as combinations of values. Pure."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from memoryd.config.operations import EFFECTS, READING
from memoryd.config.settings import Section, Sessions, Settings, SocketSettings
from memoryd.errors import ECHO_CHARS, HintedError
from memoryd_client.wire.protocol import Op

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, 5.6.2."""


AGENT_ID = "{agentId}"
"""Placeholder in `store.path` for the id of the agent, as OpenClaw's configurations have it."""
_PLACEHOLDER = re.compile(r"\{\w[\w.-]*\}")


class ConfigError(HintedError):
    """The configuration can't be used; the message names the file and the key."""


Mistake = tuple[str, str]
"""(dotted key, problem)"""


def mistakes(settings: Settings) -> Iterator[Mistake]:
    """Yield every mistake."""
    yield from _homes(settings)
    yield from _provider(settings)
    for name, value in settings.remote.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            yield f"remote.headers.{name}", "not a valid HTTP header"
    most, request = settings.remote.max_tokens_per_day, settings.remote.batch_tokens
    if 0 < most < request:
        yield (
            "remote.max_tokens_per_day",
            f"must be 0, or at least {request}, the tokens of one request (remote.batch_tokens)",
        )
    key_header = settings.remote.api_key_header
    if key_header is not None and not _HEADER_NAME.fullmatch(key_header):
        yield "remote.api_key_header", "not a valid header name"
    yield from _timezone(settings.timezone)
    yield from _session_notes(settings.sessions)


def _session_notes(sessions: Sessions) -> Iterator[Mistake]:
    if sessions.notes.enabled and not sessions.enabled:
        yield "sessions.notes.enabled", "needs sessions.enabled = true"
    if sessions.notes.enabled and sessions.visibility in ("self", "tree"):
        why = "all sessions find notes; set sessions.visibility to agent or all, or disable notes"
        yield "sessions.notes.enabled", why


def _timezone(name: str | None) -> Iterator[Mistake]:
    if name is None:
        return
    # Reads Python's build settings, 0.3 MiB that few daemons need.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield "timezone", f"{name[:ECHO_CHARS]!r} is no time zone like Europe/Berlin"


def socket_mistakes(settings: SocketSettings) -> Iterator[Mistake]:
    """Yield every mistake in the table `[socket]`."""
    valid = f"valid operations: {', '.join(READING)}"
    for name in settings.allow:
        if name in READING:
            continue
        if name in EFFECTS:
            reason = f"{name} is never permitted at the restricted socket, which only reads"
            if EFFECTS[Op(name)] == "none":
                reason = f"{name} is always permitted; leave it out"
            yield "allow", f"{reason}; {valid}"
        else:
            yield "allow", f"unknown operation {name[:ECHO_CHARS]!r}; {valid}"
    if isinstance(settings.restricted, str):
        yield from _absolute("restricted", settings.restricted)
    if settings.add_below != SocketSettings().add_below:
        for root in settings.add_below:
            yield from _absolute("add_below", root)


def _absolute(key: str, path: str) -> Iterator[Mistake]:
    if wrong := _unusable(path):
        yield key, wrong
    elif not Path(path).expanduser().is_absolute():
        yield key, f"{path!r} is not an absolute path"


def choices(key: str) -> list[str]:
    """Return the valid words of a setting, by its dotted key."""
    kind: Any = Settings
    for name in key.split("."):
        section = next(_sections(kind))
        kind = {f.encode_name: f.type for f in msgspec.structs.fields(section)}[
            name.partition("[")[0]
        ]
    return list(_words(kind))


def _sections(kind: Any) -> Iterator[type[Section]]:
    """Yield the sections in a type: itself, or those in a list of them."""
    if isinstance(kind, type) and issubclass(kind, Section):
        yield kind
    for argument in get_args(kind):
        yield from _sections(argument)


def _words(kind: Any) -> Iterator[str]:
    for argument in get_args(kind):
        if isinstance(argument, str):
            yield argument
        else:
            yield from _words(argument)


def _homes(settings: Settings) -> Iterator[Mistake]:
    named = [
        ("workspace", settings.workspace),
        ("store.path", settings.store.path or ""),
        ("remote.api_key_file", settings.remote.api_key_file or ""),
        ("local.model_path", settings.local.model_path or ""),
        *(("extra_paths", e if isinstance(e, str) else e.path) for e in settings.extra_paths),
    ]
    for key, path in named:
        if wrong := _unusable(path):
            yield key, wrong
    yield from _blanks(settings)
    for found in _PLACEHOLDER.findall(settings.store.path or ""):
        if found != AGENT_ID:
            yield "store.path", f"{found} is no placeholder; {AGENT_ID} is the only one"


def _blanks(settings: Settings) -> Iterator[Mistake]:
    """Yield every blank path, which would mean the current directory or the whole workspace."""
    named = [
        ("workspace", settings.workspace or None),
        ("store.path", settings.store.path),
        ("store.vector.extension_path", settings.store.vector.extension_path),
        ("remote.api_key_file", settings.remote.api_key_file),
        ("local.model_path", settings.local.model_path),
        *((f"sessions.paths[{at}]", path) for at, path in enumerate(settings.sessions.paths)),
    ]
    for at, extra in enumerate(settings.extra_paths):
        if isinstance(extra, str):
            named.append((f"extra_paths[{at}]", extra))
        else:
            named.append((f"extra_paths[{at}].path", extra.path))
            named.append((f"extra_paths[{at}].pattern", extra.pattern))
    for key, text in named:
        if text is not None and not text.strip():
            yield key, "is blank; name a file or folder, or leave it out"


def _unusable(path: str) -> str | None:
    """Return why a path can't be used, None if it can."""
    if "\0" in path:
        return "a path can't contain NUL"
    try:
        Path(path).expanduser()
    except RuntimeError:
        return f"{path}: no such user"
    return None


def _provider(settings: Settings) -> Iterator[Mistake]:
    remote = settings.remote
    if settings.provider in ("auto", "auto-remote"):
        for key, value in (
            ("model", settings.model),
            ("remote.base_url", remote.base_url),
            ("remote.api_key_file", remote.api_key_file),
            ("remote.api_key_header", remote.api_key_header),
        ):
            if value is not None:
                yield key, 'valid for one provider only; name it, for example provider = "openai"'
    if settings.fallback == settings.provider != "none":
        yield "fallback", "must differ from `provider`"
    if remote.base_url is not None and not is_web_address(remote.base_url):
        yield (
            "remote.base_url",
            "must be a URL like https://host/v1, without user name or password",
        )


def is_web_address(url: str) -> bool:
    """Return whether a text is a usable HTTP(S) URL without user name and password."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and parts.username is None and parts.password is None and " " not in url
