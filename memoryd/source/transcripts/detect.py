"""Detection of transcript formats, and of sessions in which no person takes part.

Message texts don't count, so no message can hide its session.
"""

import re
from collections.abc import Collection, Sequence

from memoryd.source.transcripts.claude import Claude
from memoryd.source.transcripts.codex import Codex, CodexEvents, CodexItems
from memoryd.source.transcripts.format import Record, TranscriptFormat
from memoryd.source.transcripts.gemini import Gemini
from memoryd.source.transcripts.openclaw import OpenClaw
from memoryd.source.transcripts.pi import Pi
from memoryd.source.transcripts.plain import Plain

FORMATS: tuple[TranscriptFormat, ...] = (
    Pi(),
    OpenClaw(),
    CodexEvents(),
    CodexItems(),
    Codex(),
    Claude(),
    Gemini(),
    Plain(),
)
"""All formats, most specific first; the first that fits wins."""

_FAMILIES = {
    CodexEvents.name: Codex.name,
    CodexItems.name: Codex.name,
    "openclaw-store": OpenClaw.name,
}
_BY_NAME = {known.name: known for known in FORMATS}

_KEY = re.compile(r"(?:agent:[^:]*:)?(?:(?P<dreaming>dreaming-narrative-)|(?P<cron>cron:.+:run:))")
"""Keys of OpenClaw sessions. Of a cron job's sessions, only runs have transcripts."""


def detect(head: Sequence[Record], enabled: Collection[str]) -> TranscriptFormat | None:
    """Return the format of a file that begins with these records, None if none fits.

    Returns None too if the format that fits is not enabled.
    """
    found = next((known for known in FORMATS if known.fits(head)), None)
    if found is None or family(found.name) not in enabled:
        return None
    return found


def family(name: str) -> str:
    """Return the name that enables a format; "" for one that is not known yet."""
    return _FAMILIES.get(name, name)


def by_name(name: str) -> TranscriptFormat:
    """Return the format with this name. Raises `KeyError`."""
    return _BY_NAME[name]


def excluded(head: Sequence[Record]) -> str | None:
    """Return why a session is left out, None if people take part in it."""
    for record in head:
        data = record.get("data")
        for part in (record, data if isinstance(data, dict) else {}):
            for key in (part.get("sessionKey"), part.get("runId")):
                if isinstance(key, str) and (reason := excluded_key(key)):
                    return reason
    return "subagent" if _is_subagent(head) else None


def excluded_key(key: str) -> str | None:
    """Return why the OpenClaw session with this key is left out, None if it is not."""
    found = _KEY.match(key)
    if found is None:
        return None
    return "dreaming narrative" if found["dreaming"] else "cron run"


def _is_subagent(head: Sequence[Record]) -> bool:
    """Return whether a Codex thread is a subagent's; its file continues with parent records."""
    metas = (record.get("payload") for record in head if record.get("type") == "session_meta")
    meta = next((payload for payload in metas if isinstance(payload, dict)), {})
    source = meta.get("source")
    return meta.get("thread_source") == "subagent" or (
        isinstance(source, dict) and "subagent" in source
    )
