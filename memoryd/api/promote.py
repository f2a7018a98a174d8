"""Promotion: entries of dated notes that agents recall often, added to MEMORY.md on request."""

import re
import textwrap
import time
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.agent.agent import Agent
from memoryd.agent.dated_notes import DatedEntry, day_of_note
from memoryd.agent.recall_counter import hash_of_entry
from memoryd.api.handlers import while_writable
from memoryd.api.note import run_writer, until_searchable
from memoryd.errors import RequestFailedError, bad_request
from memoryd.index.recalls import RecalledEntry, note_promoted, read
from memoryd.messages import RecordChange
from memoryd.search import promotion
from memoryd.source.filenames import ROOT_FILES
from memoryd.source.notes.entry import entry_lines
from memoryd.source.notes.write import NoteRefusedError, PlacedNote
from memoryd.text.fold import fold
from memoryd.text.token_estimate import pieces, weigh
from memoryd_client.schema.notes import NoteBody
from memoryd_client.schema.promotion import (
    PromoteBody,
    PromotedEntry,
    PromoteResult,
    PromotionCandidate,
    RefusedEntry,
    ScoreParts,
)
from memoryd_client.schema.search import Origin
from memoryd_client.shared.citation import cite
from memoryd_client.wire.protocol import ErrorCode

SHOWN, MAX_SHOWN = 20, 500
ID_CHARS, LEAST_ID_CHARS = 12, 4
MAX_TOKENS = 160
"""Maximum length of the text that is added, in estimated tokens."""
HEADING = "From dated notes"
"""Section of MEMORY.md to which entries are added."""
_QUARTERS = 4
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+")
_ID = re.compile(rf"[0-9a-f]{{{LEAST_ID_CHARS},{ID_CHARS}}}")
_BEFORE = "it was added before"
_THERE = f"{ROOT_FILES[0]} has it already"
_GONE = "its text has changed or is gone"


class _Candidate(NamedTuple):
    """A counted entry, the entry as it stands in its note now, None if it is gone, and its score.

    `missed` are the reasons why it must not be added.
    """

    counted: RecalledEntry
    entry: DatedEntry | None
    parts: promotion.Components
    missed: tuple[str, ...]

    @property
    def id(self) -> str:
        """The name by which a person selects it."""
        return self.counted.hash[:ID_CHARS]

    @property
    def score(self) -> float:
        """The score, 0 to 1."""
        return promotion.score_of(self.parts)

    @property
    def citation(self) -> str:
        """The lines of the entry, or those that it had."""
        found = self.counted if self.entry is None else self.entry
        return cite(found.path, found.first_line, found.last_line)


async def promote(agent: Agent, body: PromoteBody) -> PromoteResult:
    """Return the candidates, or add some to MEMORY.md. Raises `RequestFailedError`."""
    if body.limit is not None and not 1 <= body.limit <= MAX_SHOWN:
        raise bad_request(f"limit must be from 1 to {MAX_SHOWN} (got {body.limit})")
    if body.candidate is not None and not _ID.fullmatch(body.candidate):
        raise bad_request(
            f"an id has {LEAST_ID_CHARS} to {ID_CHARS} characters of 0-9 and a-f",
            "`memctl promote` shows the ids",
        )
    if agent.recalls is not None:
        await agent.recalls.flush()
    counted = await agent.index.store.readers.read(read)
    workspace = agent.notes.discovery.workspace
    now = time.time()
    found = await agent.look_up(_candidates, agent, counted, now, at=workspace)
    if body.candidate is not None:
        found = [each for each in found if each.id.startswith(body.candidate)]
        if not found:
            raise RequestFailedError(
                ErrorCode.NOT_FOUND,
                f"no candidate has the id {body.candidate}",
                "`memctl promote` lists them",
            )
        if len(found) > 1:
            raise bad_request(f"several candidates have an id that begins with {body.candidate}")
    settings = agent.config.settings.promotion
    result = PromoteResult(
        tracking=agent.recalls is not None, memory_max_bytes=settings.memory_max_bytes
    )
    if body.apply:
        ready = found
        if body.candidate is None:
            ready = [each for each in found if not (each.missed or each.counted.promoted_at)]
        await _apply(agent, ready[: body.limit], result, now)
    else:
        limit = SHOWN if body.limit is None else body.limit
        result.candidates = [_shown(each) for each in found[:limit]]
        result.omitted = len(found) - len(result.candidates)
    result.memory_bytes = await agent.look_up(_size, agent, at=workspace)
    return result


def _candidates(agent: Agent, counted: Sequence[RecalledEntry], now: float) -> list[_Candidate]:
    """Return the counted entries, those that can be added first, by score. Blocking."""
    by_path: dict[str, dict[str, DatedEntry]] = {}
    found: list[_Candidate] = []
    curated = _memory(agent)
    for one in counted:
        if day_of_note(one.path) is None:
            continue
        if one.path not in by_path:
            by_path[one.path] = _entries(agent, one.path)
        entry = by_path[one.path].get(one.hash)
        parts = promotion.components(one, "" if entry is None else entry.text, now)
        missed = promotion.missed_gates(one, promotion.score_of(parts))
        if entry is None:
            missed.insert(0, _GONE)
        elif _plain(promoted_text(entry.text)) in curated:
            missed.insert(0, _THERE)
        found.append(_Candidate(one, entry, parts, tuple(missed)))
    found.sort(
        key=lambda each: (
            bool(each.missed or each.counted.promoted_at),
            -each.score,
            each.citation,
        )
    )
    return found


def _entries(agent: Agent, path: str) -> dict[str, DatedEntry]:
    """Return the entries of a note by their hashes; none of one that can't be read. Blocking."""
    try:
        entries = agent.dated_notes.entries(path)
    except OSError:
        return {}
    key = agent.index.store.tombstone_key
    return {hash_of_entry(key, entry): entry for entry in reversed(entries)}


def _shown(candidate: _Candidate) -> PromotionCandidate:
    counted, entry = candidate.counted, candidate.entry
    return PromotionCandidate(
        id=candidate.id,
        citation=candidate.citation,
        text="" if entry is None else promoted_text(entry.text),
        date=day_of_note(counted.path) or "",
        origin="" if entry is None else entry.origin,
        score=candidate.score,
        parts=ScoreParts(*candidate.parts),
        recalls=counted.recalls,
        questions=len(counted.questions),
        days=len(counted.days),
        last_recalled=counted.last_at,
        missed=[*([_BEFORE] if counted.promoted_at else ()), *candidate.missed],
        promoted_at=counted.promoted_at,
    )


async def _apply(
    agent: Agent, chosen: Sequence[_Candidate], result: PromoteResult, now: float
) -> None:
    """Add entries to MEMORY.md. Raises `RequestFailedError` if the file can't be written at all."""
    placed: list[PlacedNote] = []
    for candidate in chosen:
        if candidate.missed:
            why = "; ".join(candidate.missed)
            result.refused.append(RefusedEntry(candidate.id, candidate.citation, why))
            continue
        try:
            added = await _write(agent, candidate, result.memory_max_bytes)
        except RequestFailedError as error:
            if error.code is not ErrorCode.BAD_REQUEST and not placed:
                raise
            why = f"{error.message}; {error.hint}" if error.hint else error.message
            result.refused.append(RefusedEntry(candidate.id, candidate.citation, why))
            continue
        placed.append(added)
        text = "\n".join(entry_lines(_text_of(candidate)))
        entry = PromotedEntry(candidate.id, added.citation, candidate.citation, text)
        result.applied.append(entry)
        await _note_promoted(agent, candidate, now)
    result.warnings += await until_searchable(agent, placed)


async def _note_promoted(agent: Agent, candidate: _Candidate, now: float) -> None:
    path, digest = candidate.counted.path, candidate.counted.hash
    change = RecordChange(lambda connection: note_promoted(connection, path, digest, now))

    async def write() -> None:
        await agent.queues.write.put(change)
        await change.done

    await while_writable(agent.index.store.outage, write())


async def _write(agent: Agent, candidate: _Candidate, max_bytes: int) -> PlacedNote:
    """Append one entry. Raises `RequestFailedError`: a bad request if this entry is refused."""
    text, entry = _text_of(candidate), candidate.entry

    def check(content: str, added: str) -> None:
        """Raise `NoteRefusedError`, while the file is locked, if the entry must not be added."""
        if candidate.counted.hash not in _entries(agent, candidate.counted.path):
            raise NoteRefusedError(_GONE)
        if _plain(text) in " ".join(fold(content).split()):
            raise NoteRefusedError(_THERE)
        if (size := len(f"{content}{added}".encode())) > max_bytes:
            raise NoteRefusedError(
                f"{ROOT_FILES[0]} would have {size:,} bytes, more than promotion.memory_max_bytes"
                f" ({max_bytes:,})",
                f"shorten {ROOT_FILES[0]}, or raise the setting",
            )

    body = NoteBody(
        text,
        ROOT_FILES[0],
        HEADING,
        origin=Origin.AGENT if entry is None else entry.origin,
        conversation=candidate.citation,
        observed=day_of_note(candidate.counted.path),
    )
    return (await run_writer(agent, lambda: agent.note_writer.write(body, check=check)))[0]


def _text_of(candidate: _Candidate) -> str:
    return "" if candidate.entry is None else promoted_text(candidate.entry.text)


def _plain(text: str) -> str:
    """Return how a text stands in a note, in any case and spacing."""
    return " ".join(fold("\n".join(entry_lines(text)).removeprefix("- ")).split())


def _memory(agent: Agent) -> str:
    """Return the text of MEMORY.md in any case and spacing, "" if it can't be read. Blocking."""
    try:
        note = agent.note_texts.get(ROOT_FILES[0])
    except OSError:
        note = None
    texts = () if note is None else (entry.text for entry in note.entries)
    return " ".join(fold("\n".join(texts)).split())


def promoted_text(text: str) -> str:
    """Return the text of an entry without its list marker, cut to `MAX_TOKENS`."""
    first, _, rest = text.partition("\n")
    own = _MARKER.sub("", first, count=1) if _MARKER.match(first) else first
    own = f"{own}\n{textwrap.dedent(rest)}".strip()
    if weigh(own) <= _QUARTERS * MAX_TOKENS:
        return own
    room = _QUARTERS * (MAX_TOKENS - 1)  # the mark of what is left out takes one
    return f"{next(pieces(own, units=room, max_bytes=4 * room)).rstrip()}…"


def _size(agent: Agent) -> int:
    try:
        return (agent.notes.discovery.workspace / ROOT_FILES[0]).lstat().st_size
    except OSError:
        return 0
