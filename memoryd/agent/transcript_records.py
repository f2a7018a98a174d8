"""Records of the transcripts of one agent: their ids, times and words, to find copies of them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from memoryd.agent.forgotten import ForgottenTalk, squeezed
from memoryd.messages import FileKey
from memoryd.source.transcripts.claude import first_uuid, source_sessions
from memoryd.source.transcripts.delta import (
    DeltaOptions,
    first_records,
    record_times,
    spoken_records,
)
from memoryd.source.transcripts.locations import TranscriptLocations

_START_BYTES = 65_536


class TranscriptRecords:
    """Reads the records of transcripts. All methods are blocking."""

    def __init__(
        self,
        places: TranscriptLocations,
        kept_texts: Callable[[str], list[str]],
        forgotten: ForgottenTalk,
    ) -> None:
        """`kept_texts` returns the messages of a transcript by its name, if its file is gone.

        It raises `OSError` if there is no copy.
        """
        self._places = places
        self._kept_texts = kept_texts
        self._forgotten = forgotten

    def first(self, path: Path) -> str:
        """Return the id of a transcript's first record, "" if it has none."""
        try:
            with open(self._places.open_file(path), "rb") as file:
                return first_uuid(file.read(_START_BYTES))
        except OSError:
            return ""

    def times(
        self, key: FileKey, others: Iterable[FileKey], options: DeltaOptions
    ) -> dict[str, str]:
        """Return the ids of a transcript's records with their times.

        Without its file, these are the records of others that have the same words, without times.
        """
        if (path := self._places.present_path(key)) is not None:
            with suppress(OSError):
                return record_times(path, options)
        found: dict[str, str] = {}
        for other in map(self._places.present_path, others):
            with suppress(OSError):
                found |= dict.fromkeys(self.ids(key, other or Path(), options), "")
        return found

    def ids(self, other: FileKey, path: Path, options: DeltaOptions) -> set[str]:
        """Return the ids of the records of another transcript. Raises `OSError`.

        If its file is gone, only its words are known: they are compared with those at `path`.
        """
        try:
            return set(record_times(self._places.real_path(other) or Path(), options))
        except OSError:
            kept = [squeezed(text) for text in self._kept_texts(other.path)]
        records = [(id_, squeezed(text)) for id_, text in _texts(path, options)]
        common = {text for _, text in records}
        ids: set[str] = set()
        expected = iter([text for text in kept if text in common])
        word = next(expected, None)
        for id_, text in records:
            if text == word:
                ids.add(id_)
                word = next(expected, None)
        return ids - {""}

    def sources(self, key: FileKey, session: str, options: DeltaOptions) -> set[str]:
        """Return the other sessions that a transcript names as sources of its first records."""
        with suppress(OSError):
            path = self._places.present_path(key) or Path()
            return source_sessions(first_records(path, options), session)
        return set()

    def texts(self, key: FileKey, ids: Collection[str], options: DeltaOptions) -> list[str]:
        """Return the messages of the records with these ids, all of a transcript without a file."""
        with suppress(OSError):
            if (path := self._places.present_path(key)) is None:
                return self._kept_texts(key.path)
            return [text for id_, text in _texts(path, options) if id_ in ids]
        return []

    def forgotten(self, path: Path, marks: Collection[str], options: DeltaOptions) -> set[str]:
        """Return the ids of records that were forgotten, in a transcript with these marks.

        Raises `OSError`.
        """
        ids = self._forgotten.records
        if (is_forgotten := self._forgotten.in_copies(marks)) is None:
            return ids
        return ids | {id_ for id_, text in _texts(path, options) if is_forgotten(text)} - {""}


def was_resumed(theirs: Mapping[str, str], own: Mapping[str, str]) -> bool | None:
    """Return whether another transcript was resumed as this one, None if both have gone on.

    Each maps the ids of its records to times.
    """
    after_theirs, after_own = theirs.keys() - own.keys(), own.keys() - theirs.keys()
    if not after_own or len(after_theirs) == len(theirs):
        return False
    return None if after_theirs else True


def goes_on_later(theirs: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Return whether the first message after the common ones is later in another transcript.

    A copy is made with the first message that follows it.
    """
    first_theirs = min(theirs[id_] for id_ in theirs.keys() - own.keys())
    first_own = min(own[id_] for id_ in own.keys() - theirs.keys())
    return first_theirs > first_own > ""


def _texts(path: Path, options: DeltaOptions) -> list[tuple[str, str]]:
    """Return the id and the words of each record with a message. Raises `OSError`."""
    return [
        (id_, "\n".join(part.text for part in said)) for id_, said in spoken_records(path, options)
    ]
