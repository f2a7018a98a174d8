"""Results: chosen chunks with their snippets, line ranges, citations and explanations."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from memoryd.index.catalog import decode_transcript
from memoryd.messages import FileKey
from memoryd.search.diversify import COPY, Runs, in_common, is_copy, runs_of
from memoryd.search.fuse import Candidate
from memoryd.search.gather import ReadChunk
from memoryd.search.query import Filters
from memoryd.search.snippet import LineReader, cut_snippet
from memoryd.text.voice import NOT_STATED, Voice, day_of, least_trusted
from memoryd_client.schema.search import Explanation, Hit, Origin
from memoryd_client.shared.citation import Citation, cite, read_citation

_NO_CITATIONS: frozenset[Citation] = frozenset()
OriginOf = Callable[[FileKey], Origin]
"""Origin of a file's words, as the configuration says."""
Choose = Callable[[Set[int]], Sequence[Candidate]]
"""Function that chooses the candidates to show, best first, without some rows."""
LineCosines = Callable[[Mapping[int, str]], Mapping[int, list[float]]]
"""Texts of chunks by row → the cosine of each of their lines with the query, or nothing."""


class Loaded(NamedTuple):
    """A result, the runs of its text, and the conversations from which its lines come, as cited."""

    hit: Hit
    runs: Runs
    cited: frozenset[Citation] = frozenset()


@dataclass(frozen=True, slots=True)
class Loader:
    """Makes results of chunks that have been read, with snippets of at most `max_chars`.

    `trusted` leaves out untrusted ones, and `filters` the lines that don't pass. Whose words a
    result is says its likeliest line. `cited` are the lines to show of some rows.
    """

    chunks: Mapping[int, ReadChunk]
    cited: Mapping[int, tuple[int, int]]
    reader: LineReader
    line_cosines: LineCosines
    origin_of: OriginOf
    max_chars: int
    trusted: bool
    filters: Filters

    def load(self, candidate: Candidate, near: Sequence[float]) -> Loaded | None:
        """Return the result for a candidate; None if none of its lines may be shown.

        `near` are the cosines of its lines, if there are any.
        """
        chunk = self.chunks[candidate.row_id]
        stored = chunk.stored
        _, _, _, _, start_line, end_line, line_map, voices = stored.facts
        key, title, date, transcript, _, _ = stored.file
        (source, path), text = key, stored.text
        # The file's line of each line of the text.
        lines = line_map.split(",") if line_map else range(start_line, end_line + 1)
        of_lines = stored.voices
        if candidate.row_id in self.cited:
            first, last = self.cited[candidate.row_id]
            text = _only(text, [first <= int(line) <= last for line in lines]) or text
        if self.filters.of_lines:
            passed = [self._passes(key, voice) for voice in of_lines]
            text = _only(text, passed if len(passed) == len(lines) else passed[:1] * len(lines))
            if not text:
                return None
        places, of_text = (chunk.places, stored.lines) if text is stored.text else (None, None)
        shown = cut_snippet(text, 1, len(lines), self.reader, self.max_chars, near, places, of_text)
        first, last = int(lines[shown.start_line - 1]), int(lines[shown.end_line - 1])
        voice = of_lines[min(shown.best, len(of_lines) - 1)]
        origin = self.origin_of(key)
        if origin is not voice.origin:
            origin = least_trusted((voice.origin, origin))
        if self.trusted and origin is Origin.UNTRUSTED:
            return None
        if (state := decode_transcript(transcript)) is not None:
            title = state.topic.shown(trusted=origin is not Origin.UNTRUSTED)
            cited = of_lines[shown.start_line - 1 : shown.end_line]
            date = day_of([voice, *cited]) or date.partition("/")[0]
        elif not date and voice.source is not None:
            date = voice.source.observed[: len("2026-11-28")]
        stated = voice.source or NOT_STATED
        hit = Hit(
            path=path,
            start_line=start_line,
            end_line=end_line,
            score=candidate.score,
            snippet=shown.text,
            snippet_start_line=first,
            snippet_end_line=last,
            source=source,
            citation=cite(path, first, last),
            vector_score=candidate.vector_score,
            text_score=candidate.text_score,
            role=str(voice.role),
            speaker=voice.speaker,
            channel=voice.channel,
            origin=str(origin),
            title=title,
            date=date,
            conversation=stated.conversation,
            observed=stated.observed,
            supersedes=stated.supersedes,
            gone_at=None if state is None else state.gone_at,
        )
        if shown.whole is not None and text is stored.text:
            runs = stored.runs.between(*shown.whole)
        else:
            runs = runs_of(shown.text)
        if not voices:
            return Loaded(hit, runs)
        return Loaded(hit, runs, _cited(of_lines[shown.start_line - 1 : shown.end_line]))

    def _passes(self, key: FileKey, voice: Voice) -> bool:
        conversation = "" if voice.source is None else voice.source.conversation
        origin = least_trusted([voice.origin, self.origin_of(key)])
        return self.filters.accept_line(key, origin, conversation)


def load_distinct(choose: Choose, loader: Loader) -> list[tuple[Candidate, Hit]]:
    """Return the chosen candidates with their results, best first, without near copies.

    Others are chosen for the copies, and for candidates without a result. A result that has a word
    of the query which the better one lacks is not its copy, unless both are the same messages: in
    their transcript, and in a note about it.
    """
    loaded: dict[int, Loaded] = {}
    left_out: set[int] = set()
    while True:
        shown: list[tuple[Candidate, Hit]] = []
        known = len(left_out)
        chosen = choose(left_out)
        rows = [c.row_id for c in chosen if c.row_id not in loaded]
        near = loader.line_cosines({row: loader.chunks[row].stored.text for row in rows})
        for candidate in chosen:
            if (row := candidate.row_id) not in loaded:
                result = loader.load(candidate, near.get(row, ()))
                if result is None:
                    left_out.add(row)
                else:
                    loaded[row] = result
        chosen = [candidate for candidate in chosen if candidate.row_id in loaded]
        common, different = in_common([loaded[c.row_id].runs for c in chosen])
        sizes = dict(zip((c.row_id for c in chosen), different, strict=True))
        fewest = min(filter(None, different), default=0)
        some_cite = any(loaded[c.row_id].cited for c in chosen)
        words = loader.reader.found_in
        for candidate, in_others in zip(chosen, common, strict=True):
            row = candidate.row_id
            hit, runs, _ = loaded[row]
            # Few have much in common with any.
            may_be_copy = 0 < COPY * min(sizes[row], fewest) <= in_others
            own = set(runs.tolist()) if may_be_copy else set()
            for better, other in shown if may_be_copy or some_cite else ():
                if _have_same_messages(loaded[row], loaded[better.row_id]) or (
                    may_be_copy
                    and 0 < COPY * min(sizes[row], sizes[better.row_id]) <= in_others
                    and is_copy(own, set(loaded[better.row_id].runs.tolist()))
                    and words(hit.snippet) <= words(other.snippet)
                ):
                    left_out.add(row)
                    break
            else:
                shown.append((candidate, hit))
        if len(left_out) == known:
            return shown


def _cited(voices: Sequence[Voice]) -> frozenset[Citation]:
    named = {voice.source.conversation for voice in voices if voice.source is not None}
    if not named:
        return _NO_CITATIONS
    return frozenset(cited for name in named if (cited := read_citation(name)) is not None)


def _have_same_messages(one: Loaded, other: Loaded) -> bool:
    """Return whether one result is a note about messages that the other one shows."""
    return bool(one.cited or other.cited) and any(
        cited.path == hit.path
        and cited.first <= hit.snippet_end_line
        and cited.last >= hit.snippet_start_line
        for note, hit in ((one, other.hit), (other, one.hit))
        for cited in note.cited
    )


def _only(text: str, shown: Sequence[bool]) -> str:
    """Return a text with blank lines in place of those that are not shown, "" if all are blank."""
    lines = text.split("\n")
    kept = [line if show else "" for line, show in zip(lines, shown, strict=True)]
    return "\n".join(kept) if any(map(str.strip, kept)) else ""


def explained(candidate: Candidate, text_rank: int | None, vector_rank: int | None) -> Explanation:
    """Return the figures behind a result's rank."""
    evidence = candidate.evidence
    return Explanation(
        bm25=evidence.bm25,
        coverage=evidence.coverage,
        adjacency=evidence.adjacency,
        verbatim=evidence.verbatim,
        cosine=candidate.cosine,
        strength=candidate.strength,
        decay=candidate.decay,
        text_rank=text_rank,
        vector_rank=vector_rank,
        title=evidence.title,
    )


def within(hits: list[Hit], max_chars: int) -> tuple[list[Hit], int]:
    """Return the results whose snippets fit into `max_chars`, and the number of the others."""
    fitting = bisect_right(list(accumulate(len(hit.snippet) for hit in hits)), max_chars)
    return hits[:fitting], len(hits) - fitting
