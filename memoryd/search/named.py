"""Files that a question names, by a title, a path or a citation, and their chunks to show."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memoryd.index.catalog import Catalog
from memoryd.index.driver import Connection
from memoryd.messages import FileKey
from memoryd.text.titles import asked_titles, file_key
from memoryd_client.shared.citation import Citation, read_citation

MOST_NAMED = 10
"""Maximum number of files with one title for which a question of that title asks."""
_AROUND = " \t\n\"'`“”„«»<>()"
_NOTE = ".md"


class Named(NamedTuple):
    """Files that a question names, and the lines that it cites, if any."""

    file_ids: list[int]
    lines: tuple[int, int] | None = None


NOTHING = Named([])


def named_files(catalog: Catalog, question: str, file_ids: frozenset[int] | None) -> Named:
    """Return the files that a question consists of, apart from words that ask.

    A title of many files, such as `README`, names none of them. `file_ids` are the files that a
    search may find; None: all.
    """

    def allowed(keys: Sequence[FileKey]) -> list[int]:
        # A file may be removed meanwhile: this runs on a reader's thread.
        found = [row.file_id for key in keys if (row := catalog.rows.get(key)) is not None]
        return [each for each in found if file_ids is None or each in file_ids]

    bare = question.strip(_AROUND)
    cited = read_citation(bare)
    path = bare if cited is None else cited.path
    is_path = cited is not None or "/" in path or path.endswith(_NOTE)
    if is_path and (found := allowed(list(_with_path(catalog, path)))):
        return _limited(found, cited)
    for title in asked_titles(question):
        if (keys := catalog.titled(title)) and (found := allowed(keys)):
            return _limited(found, None)
    return NOTHING


def _limited(found: list[int], cited: Citation | None) -> Named:
    if len(found) > MOST_NAMED:
        return NOTHING
    return Named(found, None if cited is None else (cited.first, cited.last))


def _with_path(catalog: Catalog, path: str) -> Iterator[FileKey]:
    """Yield the files whose path ends with `path`, or is its end if it is absolute."""
    wanted = _parts(path)
    for key in catalog.titled(wanted[-1]):
        parts = _parts(key.path)
        common = min(len(parts), len(wanted)) if path.startswith(("/", "~")) else len(wanted)
        if parts[-common:] == wanted[-common:]:
            yield key


def _parts(path: str) -> list[str]:
    return [file_key(part) for part in path.split("/") if part not in ("", ".", "~")] or [""]


def rows_of(connection: Connection, named: Named) -> list[int]:
    """Return the chunk of each named file to show: the one with the cited lines, else the first."""
    found: list[int] = []
    for file_id in named.file_ids:
        first, last = named.lines or (1, 1)
        row = connection.execute(
            "SELECT row_id FROM chunks WHERE file_id = ?1 ORDER BY"
            " start_line <= ?3 AND end_line >= ?2 DESC, start_line > ?2, start_line LIMIT 1",
            (file_id, first, last),
        ).fetchone()
        if row is not None:
            found.append(row[0])
    return found
