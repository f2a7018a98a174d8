"""Which format a transcript is of, by what is in it, and which sessions are nobody's conversation.

Texts are never asked: else a message that somebody sends could hide the session it is in.
"""

import re
from collections.abc import Collection, Sequence

from memoryd.source.transcripts.claude import Claude
from memoryd.source.transcripts.codex import Codex, CodexEvents
from memoryd.source.transcripts.format import Record, TranscriptFormat
from memoryd.source.transcripts.openclaw import OpenClaw
from memoryd.source.transcripts.plain import Plain

FORMATS: tuple[TranscriptFormat, ...] = (OpenClaw(), CodexEvents(), Codex(), Claude(), Plain())
"""All formats, the most specific first: what fits more than one is of the first."""

_FAMILIES = {CodexEvents.name: Codex.name, "openclaw-store": OpenClaw.name}
_BY_NAME = {known.name: known for known in FORMATS}

_KEY = re.compile(r"(?:agent:[^:]*:)?(?:(?P<dreaming>dreaming-narrative-)|(?P<cron>cron:.+:run:))")
"""The keys of OpenClaw's sessions; of those that cron jobs have, only a run has a transcript."""


def detect(head: Sequence[Record], enabled: Collection[str]) -> TranscriptFormat | None:
    """Return the format of a file that begins with these records.

    None when no format fits, or the one that does is not among the `enabled` ones.
    """
    found = next((known for known in FORMATS if known.fits(head)), None)
    if found is None or family(found.name) not in enabled:
        return None
    return found


def family(name: str) -> str:
    """Return the name by which a format is enabled; "" for one that is not known yet."""
    return _FAMILIES.get(name, name)


def by_name(name: str) -> TranscriptFormat:
    """Return the format of this name. Raises `KeyError` when there is none."""
    return _BY_NAME[name]


def excluded(head: Sequence[Record]) -> str | None:
    """Return why a session is left out, None for one in which people take part."""
    for record in head:
        data = record.get("data")
        for part in (record, data if isinstance(data, dict) else {}):
            for key in (part.get("sessionKey"), part.get("runId")):
                if isinstance(key, str) and (reason := excluded_key(key)):
                    return reason
    return "subagent" if _is_subagent(head) else None


def excluded_key(key: str) -> str | None:
    """Return why the session that OpenClaw knows by this key is left out, None if it is not."""
    found = _KEY.match(key)
    if found is None:
        return None
    return "dreaming narrative" if found["dreaming"] else "cron run"


def _is_subagent(head: Sequence[Record]) -> bool:
    """Say whether a Codex thread is a subagent's, whose file goes on with its parent's records."""
    metas = (record.get("payload") for record in head if record.get("type") == "session_meta")
    meta = next((payload for payload in metas if isinstance(payload, dict)), {})
    source = meta.get("source")
    return meta.get("thread_source") == "subagent" or (
        isinstance(source, dict) and "subagent" in source
    )
