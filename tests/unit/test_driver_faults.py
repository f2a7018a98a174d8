import sqlite3
from pathlib import Path

import pytest

from memoryd.index.driver import Error, Fault, fault_of, sqlite


def fail(path: Path, sql: str = "SELECT count(*) FROM sqlite_schema") -> BaseException:
    connection = sqlite.connect(path, isolation_level=None)
    try:
        with pytest.raises(Error) as caught:
            connection.execute(sql).fetchall()
    finally:
        connection.close()
    return caught.value


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"no database " * 1_000)
    assert fault_of(fail(file)) is Fault.CORRUPT


def test_a_page_of_noise_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", ((f"{n}" * 100,) for n in range(1_000)))
    connection.close()
    noise = bytearray(file.read_bytes())
    noise[4096:] = b"\xa5" * (len(noise) - 4096)
    file.write_bytes(noise)
    assert fault_of(fail(file, "SELECT x FROM t")) is Fault.CORRUPT


def test_a_folder_that_is_not_there_is_of_the_surroundings(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        sqlite.connect(tmp_path / "no" / "x")
    assert fault_of(caught.value) is Fault.SURROUNDINGS


def test_a_full_file_is_of_the_surroundings(tmp_path: Path) -> None:
    connection = sqlite.connect(tmp_path / "x", isolation_level=None)
    try:
        connection.execute("PRAGMA max_page_count = 2")
        connection.execute("CREATE TABLE t (x)")
        with pytest.raises(Error) as caught:
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    finally:
        connection.close()
    assert fault_of(caught.value) is Fault.SURROUNDINGS


def test_what_the_system_says_is_of_the_surroundings() -> None:
    assert fault_of(OSError(28, "No space left on device")) is Fault.SURROUNDINGS


def test_a_wrong_statement_is_neither(tmp_path: Path) -> None:
    assert fault_of(fail(tmp_path / "x", "SELECT nonsense")) is Fault.OTHER
    assert fault_of(ValueError("x")) is Fault.OTHER
