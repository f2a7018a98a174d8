"""Reads the `files` table page by page, for lists."""

from memoryd.index.driver import Connection


def read_files(
    connection: Connection, after: str | None, limit: int
) -> list[tuple[str, str, int, int]]:
    """Return (path, source, size in bytes, chunks) of the next files by path."""
    return connection.execute(
        "SELECT path, source, size,"
        " (SELECT count(*) FROM chunks WHERE chunks.file_id = files.file_id)"
        " FROM files WHERE ?1 IS NULL OR path > ?1 ORDER BY path LIMIT ?2",
        (after, limit),
    ).fetchall()
