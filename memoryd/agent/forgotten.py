"""Record of what was forgotten of an agent's transcripts, by which it is recognized when read."""

import errno
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from memoryd.index.forget import RECORD, Tombstone, message_hash
from memoryd.index.tombstone_key import MASKED_MESSAGE, MESSAGE, TombstoneKey
from memoryd.source.transcripts.format import LeftOutError
from memoryd.source.transcripts.names import Names

if TYPE_CHECKING:
    from memoryd.text.first_masking import FirstMasking

_OWN_WORDS_CHARS = 12
"""Shorter messages are said in other conversations, too."""


class ForgottenTalk:
    """The tombstones of one agent. `key` is that of their hashes, `patterns` are `redact`'s own.

    `records` are the ids of records in forgotten transcripts.
    """

    def __init__(
        self,
        key: TombstoneKey,
        redact: Callable[[str], str],
        patterns: Collection[str],
        names: Names,
    ) -> None:
        self.tombstones: set[Tombstone] = set()
        self.records: set[str] = set()
        self.key = key
        self._redact = redact
        self._patterns = patterns
        self._names = names
        self._first_masking: FirstMasking | None = None
        self._has_messages = False
        self.has_paths = False

    def add(self, tombstones: Collection[Tombstone]) -> None:
        """Keep out what was forgotten."""
        self.tombstones |= set(tombstones)
        self.records |= {value for kind, value in tombstones if kind == RECORD}
        kinds = {kind for kind, _ in tombstones}
        self._has_messages |= MESSAGE in kinds
        self.has_paths |= "path" in kinds
        if MASKED_MESSAGE in kinds and self._first_masking is None:
            from memoryd.text.first_masking import FirstMasking  # for indexes of long ago

            self._first_masking = FirstMasking(self._patterns)

    def of_message(self, name: str) -> set[Tombstone]:
        """Return the tombstones of a message: of its words, and of what a copy has of them.

        A copy has masked words in wrapped lines, so white space does not count there.
        """
        role, _, words = name.partition(": ")
        masked = f"{role}:{squeezed(self._redact(words))}"
        return {(MESSAGE, self.key.hashed(message_hash(text))) for text in (name, masked)}

    def has_message(self, name: str) -> bool:
        """Return whether a message of this name was forgotten."""
        if self._has_messages and not self.tombstones.isdisjoint(self.of_message(name)):
            return True
        if self._first_masking is None:
            return False
        role, _, words = name.partition(": ")
        masked = f"{role}: {self._first_masking(words)}"
        return (MASKED_MESSAGE, self.key.hashed(message_hash(masked))) in self.tombstones

    def of_copies(self, marks: Collection[str], texts: Collection[str]) -> set[Tombstone]:
        """Return the tombstones of messages in any transcript that has copies of them.

        `marks` tell such a transcript. Short messages, such as "yes, go on", are left out, because
        they may have been said there again.
        """
        long = [text for text in texts if len(text.partition(": ")[2]) >= _OWN_WORDS_CHARS]
        return {self._of_copy(mark, text) for mark in marks for text in ("", *long)}

    def in_copies(self, marks: Collection[str]) -> Callable[[str], bool] | None:
        """Return the condition for the messages that were forgotten, in a transcript with `marks`.

        None if there are none.
        """
        if not self._has_messages:
            return None
        known = [mark for mark in marks if self._of_copy(mark, "") in self.tombstones]
        if not known:
            return None
        return lambda text: any(self._of_copy(mark, text) in self.tombstones for mark in known)

    def _of_copy(self, mark: str, text: str) -> Tombstone:
        """Return the tombstone of a message in a copy, or with "" that there are any."""
        return MESSAGE, self.key.hashed(message_hash(f"copy of {mark}: {squeezed(text)}"))

    def check(self, session: str) -> None:
        """Raise `LeftOutError` if a session was forgotten."""
        if session and ("session", session) in self.tombstones:
            raise LeftOutError(errno.EILSEQ, "its session was forgotten")

    def has(self, path: str, session: str = "") -> bool:
        """Return whether the transcript of a name and session was forgotten.

        Also if it was under a name that an earlier version gave.
        """
        marks = {("session", session), ("path", stem(path))}
        for place in self._names.paths(path) if self.has_paths else ():
            marks |= {("path", stem(name)) for name in self._names.earlier_names(place)}
        return not self.tombstones.isdisjoint(marks)


def squeezed(text: str) -> str:
    """Return a text without white space, because long lines are kept wrapped."""
    return "".join(text.split())


def stem(path: str) -> str:
    """Return the name of a transcript without the suffix of an archive."""
    name, ending, _ = path.partition(".jsonl")
    return name + ending
