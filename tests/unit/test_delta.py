"""Incremental reading of transcripts: the resulting chunks equal those of a complete read."""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from memoryd.messages import Chunk, TranscriptState
from memoryd.source.transcripts import delta as delta_module
from memoryd.source.transcripts.delta import DeltaOptions, TranscriptDelta, read_delta, read_records
from memoryd.source.transcripts.format import (
    BY_A_PROGRAM,
    Message,
    Record,
    Title,
    TranscriptFormat,
    title_of,
)
from memoryd.source.transcripts.spoken import ReadingRules


class Stub:
    name = "stub"

    def fits(self, head: Sequence[Record]) -> bool:
        return any("say" in record for record in head)

    def session(self, head: Sequence[Record]) -> str:
        return str(head[0].get("id", ""))

    def message(self, record: Record) -> Message | None:
        said = record.get("say")
        return Message("user", said, record.get("at")) if isinstance(said, str) else None

    def title(self, record: Record) -> Title | None:
        return title_of(record.get("title"), record.get("rank", BY_A_PROGRAM), record.get("leaf"))


STUB = Stub()


def detect(head: Sequence[Record]) -> TranscriptFormat | None:
    return STUB if STUB.fits(head) else None


OPTIONS = DeltaOptions(
    detect=detect,
    by_name=lambda name: STUB,
    rules=ReadingRules(lambda text: text.replace("hunter2", "***")),
    base=lambda path: path.parent,
    unpack_in=Path(tempfile.gettempdir()),
    tokens=16,
    max_bytes=400,
    owner="me",
)


def read(path: Path, base: TranscriptState | None = None) -> TranscriptDelta:
    return read_delta(path, base=base, options=OPTIONS)


def line(text: str) -> bytes:
    return json.dumps({"say": text}, ensure_ascii=False).encode() + b"\n"


class Follower:
    """Keeps chunks as the index does: chunks that begin at `from_line` or later are replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state: TranscriptState | None = None
        self.chunks: list[Chunk] = []

    def look(self) -> TranscriptDelta:
        found = read(self.path, self.state)
        kept = [c for c in self.chunks if c.start_line < found.from_line]
        self.chunks = kept + found.chunks
        self.state = found.state
        return found


TEXTS = st.lists(st.text("ab 漢🦭\u0301", max_size=90), max_size=12)


@given(TEXTS, st.lists(st.integers(1, 120), max_size=30))
def test_any_split_of_the_bytes_gives_the_same_chunks(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], cuts: list[int]
) -> None:
    data = line("first") + b"".join(
        b"no json\n" if number % 5 == 4 else line(text) for number, text in enumerate(texts)
    )
    folder = tmp_path_factory.mktemp("delta")
    whole = folder / "whole"
    whole.write_bytes(data)
    expected = read(whole)
    follower = Follower(folder / "grown")
    at = 0
    with follower.path.open("ab", buffering=0) as file:
        for cut in [*cuts, len(data)]:
            file.write(data[at : at + cut])
            at += cut
            follower.look()
    assert follower.chunks == expected.chunks
    assert follower.state is not None
    for field in ("offset", "lines", "messages", "malformed", "tail_offset", "tail_line"):
        assert getattr(follower.state, field) == getattr(expected.state, field)


def test_only_the_tail_is_read_again(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "a")
    follower.path.write_bytes(b"".join(line(f"message number {n}") for n in range(2_000)))
    size = follower.path.stat().st_size
    assert follower.look().bytes_read == size
    before = list(follower.chunks)
    with follower.path.open("ab") as file:
        file.write(line("one more"))
    found = follower.look()
    assert found.bytes_read < 400
    assert len(found.chunks) <= 2
    assert follower.chunks[: len(before) - 1] == before[:-1]


def test_a_torn_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "a")
    follower.path.write_bytes(line("one") + line("two")[:-5])
    follower.look()
    assert [chunk.text for chunk in follower.chunks] == ["User: one"]
    with follower.path.open("ab") as file:
        file.write(line("two")[-5:])
    follower.look()
    assert [chunk.text for chunk in follower.chunks] == ["User: one\nUser: two"]
    assert follower.chunks[0].line_map == "1,2"


@pytest.mark.parametrize("how", ["truncated", "rewritten", "rotated"])
def test_another_content_is_another_generation(tmp_path: Path, how: str) -> None:
    follower = Follower(tmp_path / "a")
    follower.path.write_bytes(line("old") * 30)
    follower.look()
    if how == "truncated":
        os.truncate(follower.path, len(line("old")))
    elif how == "rewritten":
        follower.path.write_bytes(line("new") * 40)
    else:
        (tmp_path / "b").write_bytes(line("new") * 40)
        (tmp_path / "b").replace(follower.path)
    found = follower.look()
    assert found.state.generation == 1
    assert found.from_line == 1
    assert follower.chunks == read(follower.path).chunks


def test_what_is_no_record_is_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbf" + line("one") + b"\n[1, 2]\n{broken\n\xff\xfe\n" + line("two"))
    state = read(path).state
    assert (state.messages, state.malformed, state.lines) == (2, 3, 6)


def test_a_line_of_many_megabytes_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_module, "MAX_RECORD_BYTES", 1_000_000)
    path = tmp_path / "a"
    path.write_bytes(line("one") + line("x" * 2_000_000) + line("two"))
    found = read(path)
    assert [chunk.text for chunk in found.chunks] == ["User: one\nUser: two"]
    assert found.chunks[0].line_map == "1,3"
    assert found.state.malformed == 1


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"other": 1}\n')
    with pytest.raises(OSError, match="not a transcript of a known format"):
        read(path)
    path.write_bytes(b"")
    assert (read(path).chunks, read(path).state.format) == ([], "")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match=r"."):
        read(tmp_path / "link")
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path)


def test_a_message_too_long_for_a_chunk_is_in_several(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "a")
    follower.path.write_bytes(line("short") + line("word " * 100))
    follower.look()
    assert [c.start_line for c in follower.chunks][:2] == [1, 2]
    assert all(c.start_line == c.end_line == 2 for c in follower.chunks[1:])
    with follower.path.open("ab") as file:
        file.write(line("after"))
    follower.look()
    assert follower.chunks == read(follower.path).chunks


def test_secrets_are_masked_before_anything_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(line("my password is hunter2"))
    assert read(path).chunks[0].text == "User: my password is ***"
    for raw in (False, True):
        shown = read_records(
            path, options=OPTIONS, start_line=1, max_lines=9, max_chars=99, raw=raw
        )
        assert "hunter2" not in shown.lines[0]


def test_messages_from_a_record_on(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(line("one") + b'{"tool": 1}\n' + line("two") + line("three"))

    def shown(start_line: int, max_lines: int, max_chars: int = 1_000) -> tuple[object, ...]:
        return read_records(
            path,
            options=OPTIONS,
            start_line=start_line,
            max_lines=max_lines,
            max_chars=max_chars,
            raw=False,
        )

    assert shown(1, 9) == (["User: one", "User: two", "User: three"], 4, None)
    assert shown(2, 1) == (["User: two"], 4, 4)
    assert shown(1, 9, max_chars=12) == (["User: one"], 4, 3)
    assert shown(9, 9) == ([], 4, None)


def test_a_packed_archive_is_read_as_what_is_in_it(tmp_path: Path) -> None:
    data = b"".join(line(f"message {n}") for n in range(3_000))
    (tmp_path / "a.jsonl").write_bytes(data)
    packed = tmp_path / "a.jsonl.deleted.2026-11-28T10-00-00.000Z.zst"
    packed.write_bytes(zstandard.compress(data))
    assert read(packed).chunks == read(tmp_path / "a.jsonl").chunks
    packed.write_bytes(b"nothing of the kind")
    with pytest.raises(OSError, match="can't be unpacked"):
        read(packed)


def test_an_archive_is_unpacked_beside_the_index_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary folders may be on another disk, which is not encrypted."""
    packed = tmp_path / "a.jsonl.deleted.2026-11-28T10-00-00.000Z.zst"
    packed.write_bytes(zstandard.compress(line("one")))
    state = tmp_path / "state"
    options = replace(OPTIONS, unpack_in=state)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError):
        read_delta(packed, base=None, options=options)
    state.mkdir()
    assert len(read_delta(packed, base=None, options=options).chunks) == 1
    assert list(state.iterdir()) == [], "it has no name that could remain after a crash"


class Late(Stub):
    """A format that also fits the records of `Stub`, once one record identifies it."""

    name = "late"

    def fits(self, head: Sequence[Record]) -> bool:
        return any("late" in record for record in head)

    def session(self, head: Sequence[Record]) -> str:
        return next((str(record["id"]) for record in head if "id" in record), "")

    def message(self, record: Record) -> Message | None:
        return Message("assistant", str(record["late"])) if "late" in record else None


LATE = Late()
BOTH = replace(
    OPTIONS,
    detect=lambda head: LATE if LATE.fits(head) else detect(head),
    by_name={"stub": STUB, "late": LATE}.__getitem__,
)


def json_line(**record: object) -> bytes:
    return json.dumps(record).encode() + b"\n"


def refused_until_complete(path: Path, base: TranscriptState | None) -> TranscriptDelta | None:
    """Read like the tracker, which reads an unreadable transcript again after its next change."""
    try:
        return read_delta(path, base=base, options=BOTH)
    except OSError:
        return None


RECORDS = st.sampled_from(
    [b"no json\n", b"\n", b"[1]\n", json_line(say="hi"), json_line(late="yo"), json_line(id="S")]
)


@given(st.lists(RECORDS, max_size=120), st.lists(st.integers(1, 400), max_size=30))
def test_what_a_file_is_does_not_depend_on_when_it_was_looked_at(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(records)
    folder = tmp_path_factory.mktemp("delta")
    (folder / "whole").write_bytes(data)
    expected = refused_until_complete(folder / "whole", None)
    state: TranscriptState | None = None
    chunks: list[Chunk] = []
    at = 0
    with (folder / "grown").open("ab", buffering=0) as file:
        for cut in [*cuts, len(data)]:
            file.write(data[at : at + cut])
            at += cut
            if (found := refused_until_complete(folder / "grown", state)) is not None:
                chunks = [c for c in chunks if c.start_line < found.from_line] + found.chunks
                state = found.state
    if expected is None:
        assert chunks == []
        return
    assert state is not None
    assert chunks == expected.chunks
    for field in ("format", "session", "offset", "lines", "messages", "malformed", "tail_line"):
        assert getattr(state, field) == getattr(expected.state, field)


def test_a_file_that_was_empty_goes_on_in_its_generation(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "a")
    follower.path.write_bytes(b"")
    follower.look()
    follower.path.write_bytes(line("one")[:-3])
    follower.look()
    follower.path.write_bytes(line("one"))
    assert follower.look().state.generation == 0
    assert [chunk.text for chunk in follower.chunks] == ["User: one"]


def test_malformed_lines_at_the_beginning_do_not_hide_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"no json\n" * 60 + line("one"))
    found = read(path)
    assert [chunk.text for chunk in found.chunks] == ["User: one"]
    assert (found.chunks[0].start_line, found.state.malformed) == (61, 60)
    path.write_bytes(b"no json\n")
    with pytest.raises(OSError, match="not a transcript of a known format"):
        read(path)


def test_a_first_line_of_many_megabytes_does_not_hide_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_module, "MAX_RECORD_BYTES", 1_000_000)
    path = tmp_path / "a"
    path.write_bytes(line("x" * 2_000_000) + line("two"))
    found = read(path)
    assert [chunk.text for chunk in found.chunks] == ["User: two"]
    assert found.state.malformed == 1


def test_a_rewritten_file_with_the_same_beginning_is_another_generation(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "a")
    header = json_line(id="S", padding="x" * 5_000)
    follower.path.write_bytes(header + line("old text") * 60)
    follower.look()
    follower.path.write_bytes(header + line("other") * 100)
    found = follower.look()
    assert (found.state.generation, found.from_line) == (1, 1)
    assert follower.chunks == read(follower.path).chunks


def test_a_file_rewritten_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(line("old") * 30)

    def rewrite(head: Sequence[Record]) -> TranscriptFormat:
        path.write_bytes(line("new") * 30)
        return STUB

    first = read_delta(path, base=None, options=replace(OPTIONS, detect=rewrite))
    found = read(path, first.state)
    assert (found.state.generation, found.from_line) == (1, 1)


def test_what_is_cut_short_while_it_is_read_is_not_taken_for_an_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(line("word") * 60)
    base = read(path).state

    def cut(name: str) -> TranscriptFormat:
        os.truncate(path, base.tail_offset)
        return STUB

    with pytest.raises(OSError, match="truncated while it was read"):
        read_delta(path, base=base, options=replace(OPTIONS, by_name=cut))
    assert read(path, base).state.generation == 1


def test_half_an_emoji_does_not_cost_the_message(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"say": "cut \\ud83d here, \\ud83d\\ude00 whole"}\n{"say": "\\ud83d\n')
    found = read(path)
    assert [chunk.text for chunk in found.chunks] == ["User: cut \ufffd here, 😀 whole"]
    assert found.state.malformed == 1


@pytest.mark.parametrize(
    "record",
    [
        b'{"say": "hunter2"}',
        b'{"say": "\\u0068unter2"}',
        b'{"hunter2": 1}',
        b'{"say": 1, "blocks": [{"text": "h\\u0075nter2"}]}',
        b"{hunter2",
    ],
)
def test_records_are_shown_without_secrets_however_written(tmp_path: Path, record: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(line("one") + record + b"\n")
    shown = read_records(path, options=OPTIONS, start_line=2, max_lines=9, max_chars=99, raw=True)
    assert shown.lines == [readable(record).replace("hunter2", "***")]


def readable(record: bytes) -> str:
    return json.dumps(json.loads(record)) if record.endswith(b"}") else record.decode()


def test_a_record_without_secrets_is_shown_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"say":"\\u0041",  "n": 1.0}\n')
    shown = read_records(path, options=OPTIONS, start_line=1, max_lines=9, max_chars=99, raw=True)
    assert shown.lines == ['{"say":"\\u0041",  "n": 1.0}']


def test_a_transcript_is_of_the_days_of_its_messages(tmp_path: Path) -> None:
    def said(day: int) -> bytes:
        at = datetime(2026, 3, day, 12).timestamp()
        return json.dumps({"say": "hello there", "at": at}).encode() + b"\n"

    path = tmp_path / "a.jsonl"
    path.write_bytes(line("no time") + said(23))
    first = read(path)
    assert first.facts.date == "2026-03-23"
    with path.open("ab") as file:
        file.write(said(25) + said(24) + line("no time"))
    assert read(path, first.state).facts.date == "2026-03-23/2026-03-25"
    assert read(path).facts.date == "2026-03-23/2026-03-25"


@pytest.mark.parametrize("at", [None, 0, -5.0, 1e20])
def test_a_transcript_without_a_time_has_no_date(tmp_path: Path, at: float | None) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps({"say": "hello", "at": at}).encode() + b"\n")
    assert read(path).facts.date == ""


def test_an_addition_brings_back_no_record_that_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = [{"uuid": f"u{n}", "say": f"word{n}"} for n in range(4)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records[:3]))
    options = replace(OPTIONS, tokens=100, repeated=lambda fmt, head: {"u1"})
    before = read_delta(path, base=None, options=options)
    with path.open("a") as file:
        file.write(json.dumps(records[3]) + "\n")
    added = read_delta(path, base=before.state, options=replace(options, repeated=OPTIONS.repeated))
    whole = read_delta(path, base=None, options=options)
    assert [chunk.text for chunk in whole.chunks] == ["User: word0", "User: word2\nUser: word3"]
    assert added.chunks == whole.chunks[1:]
