"""The SQLite driver: which one it is, and whether it has what search needs."""

from memoryd.doctor.finding import Finding, Topic
from memoryd.index.driver import (
    DRIVER,
    SQLITE_VERSION,
    ExtensionError,
    bundled_extension,
    has_fts5,
    load_extension,
    sqlite,
)


def check_driver() -> list[Finding]:
    """Check the driver by itself."""
    topic = Topic("driver")
    connection = sqlite.connect(":memory:")
    try:
        if not has_fts5(connection):
            topic.error("this SQLite was built without FTS5", "use a Python whose SQLite has it")
        try:
            vec = load_extension(connection, bundled_extension())
        except ExtensionError as error:
            topic.warning(
                f"sqlite-vec does not load: {error}",
                "vectors are searched in memory all the same; pip install pysqlite3 sqlite-vec",
            )
            vec = "none"
    finally:
        connection.close()
    return topic.fine(f"{DRIVER}, SQLite {SQLITE_VERSION}, FTS5, sqlite-vec {vec}")
