"""Turns chosen chunks into hits: snippets with their lines, citations, and why they are there."""

from collections.abc import Callable, Sequence

from memoryd.index.driver import Connection
from memoryd.search import snippet
from memoryd.search.fuse import Candidate
from memoryd.search.snippet import LineReader
from memoryd_client.schema.memory import Explanation, Hit

LineCosines = Callable[[int, str], list[float]]
"""(row, text of the chunk) → the cosine of each of its lines with the question, or nothing."""


def load_hits(
    connection: Connection,
    chosen: Sequence[Candidate],
    *,
    reader: LineReader,
    line_cosines: LineCosines,
    max_chars: int,
) -> list[tuple[Candidate, Hit]]:
    """Read the chosen chunks and cut their snippets; a chunk that is gone by now is left out."""
    hits: list[tuple[Candidate, Hit]] = []
    for candidate in chosen:
        row = connection.execute(
            "SELECT path, source, start_line, end_line, text, line_map"
            " FROM chunks JOIN files USING (file_id) WHERE row_id = ?",
            (candidate.row_id,),
        ).fetchone()
        if row is None:
            continue
        path, source, start_line, end_line, text, line_map = row
        near = line_cosines(candidate.row_id, text)
        shown = _snippet(text, start_line, end_line, line_map, reader, near, max_chars)
        hit = Hit(
            path=path,
            start_line=start_line,
            end_line=end_line,
            score=candidate.score,
            snippet=shown.text,
            snippet_start_line=shown.start_line,
            snippet_end_line=shown.end_line,
            source=source,
            citation=citation(path, shown.start_line, shown.end_line),
            vector_score=candidate.vector_score,
            text_score=candidate.text_score,
        )
        hits.append((candidate, hit))
    return hits


def explained(candidate: Candidate, text_rank: int | None, vector_rank: int | None) -> Explanation:
    """Return why a hit is where it is."""
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
    )


def within(hits: list[Hit], max_chars: int | None) -> tuple[list[Hit], int]:
    """Return as many hits as have room for their snippets, and how many have not."""
    if max_chars is None:
        return hits, 0
    room = max_chars
    for count, hit in enumerate(hits):
        room -= len(hit.snippet)
        if room < 0:
            return hits[:count], len(hits) - count
    return hits, 0


def _snippet(
    text: str,
    start_line: int,
    end_line: int,
    line_map: str,
    reader: LineReader,
    near: list[float],
    max_chars: int,
) -> snippet.Snippet:
    """Cut the snippet of a chunk; its lines are those of the file, whatever the text's are."""
    if not line_map:
        return snippet.cut(text, start_line, end_line, reader, max_chars, near)
    lines = [int(line) for line in line_map.split(",")]
    shown = snippet.cut(text, 1, len(lines), reader, max_chars, near)
    first, last = lines[shown.start_line - 1], lines[shown.end_line - 1]
    return shown._replace(start_line=first, end_line=last)


def citation(path: str, start_line: int, end_line: int) -> str:
    """Return `path#L3` or `path#L3-L7`."""
    return f"{path}#L{start_line}" + (f"-L{end_line}" if end_line != start_line else "")
