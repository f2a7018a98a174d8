"""Ends of conversations, as far as each format records them."""

from pathlib import Path
from typing import Literal

from memoryd.messages import FileKey, TranscriptState
from memoryd.source.transcripts.detect import family
from memoryd.source.transcripts.locations import TranscriptLocations
from memoryd.source.transcripts.openclaw import OpenClaw
from memoryd.source.transcripts.openclaw_sessions import SessionKeys
from memoryd.source.transcripts.stored import STORE_FILES, is_stored
from memoryd.source.transcripts.stores import StoredTranscripts

Ending = Literal["over", "when quiet", "unknown"]
"""`when quiet`: the format records no end, so a conversation ends when nothing more is said."""


class ConversationEndings:
    """Tells which transcripts of one agent are of conversations that have ended. Blocking."""

    def __init__(self, places: TranscriptLocations, stored: StoredTranscripts) -> None:
        self._places = places
        self._stored = stored
        self._keys = SessionKeys(places.base)

    def ending(self, key: FileKey, state: TranscriptState) -> Ending:
        """Return whether a conversation has ended; unknown if its file is gone or was deleted.

        A reset of OpenClaw archives the transcript, or begins another session under its key. A
        session that OpenClaw lists goes on. A chat of its older store has no end.
        """
        path = self._places.present_path(key)
        if path is None or ".jsonl.deleted." in path.name or path.name.endswith(".json5"):
            return "unknown"
        if ".jsonl.reset." in path.name:
            return "over"
        if is_stored(path):
            return self._of_store(path)
        is_listed = family(state.format) == OpenClaw.name and self._keys.has(path)
        return "unknown" if is_listed else "when quiet"

    def _of_store(self, path: Path) -> Ending:
        if STORE_FILES[path.parent.name] != OpenClaw.name:
            return "when quiet"
        return "over" if self._stored.is_over(path) else "unknown"
