"""Transcripts that are exported from one machine and imported on another."""

import io
import json
import random
import string
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from harness import Daemon

from memoryd_client.errors import BadRequestError

SESSIONS = 'sessions = { enabled = true, paths = ["~/chats"] }'
GONE, LIVING = "sessions/chats/gone.jsonl", "sessions/chats/living.jsonl"


@pytest.fixture
def other() -> Iterator[Daemon]:
    """A daemon of another machine, which reads no transcripts of its own."""
    made = Daemon(settings=SESSIONS)
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


@pytest.fixture
def archive(daemon: Daemon, tmp_path: Path) -> Path:
    """An archive of a kept and a living transcript."""
    daemon.settings = SESSIONS
    (daemon.folder / "chats").mkdir()
    for name in ("gone", "living"):
        secret = "api_key=sk-proj-abcdefghijklmnop1234567890abcdefghij"
        say = [
            {"role": "user", "content": f"a {name} ocelot, {secret}", "sessionId": name},
            {"role": "assistant", "content": "so\nit is"},
        ]
        file = daemon.folder / "chats" / f"{name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in say))
    daemon.start().sync()
    (daemon.folder / "chats/gone.jsonl").unlink()
    daemon.sync()
    path = tmp_path / "chats.tar"
    done = daemon.memctl("export", str(path))
    assert done.stdout == f"Exported: 2 transcripts to {path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def states(daemon: Daemon) -> dict[str, str]:
    with daemon.client() as client:
        return {entry.path: entry.state for entry in client.sessions()}


def test_another_machine_keeps_what_was_exported(
    daemon: Daemon, other: Daemon, archive: Path
) -> None:
    other.start()
    found = other.memctl_json("import", str(archive))
    assert found == {"imported": [GONE, LIVING], "present": [], "leftOut": []}
    assert states(other) == {GONE: "kept", LIVING: "kept"}
    assert set(other.paths("ocelot")) == {GONE, LIVING}
    with other.client() as client, daemon.client() as there:
        assert client.get(LIVING).text == there.get(LIVING).text
        assert "abcdefghij" not in client.get(GONE).text
        client.index(force=True)
    assert set(other.paths("ocelot")) == {GONE, LIVING}
    again = other.memctl("import", str(archive))
    assert again.stdout == "Imported: 0 transcripts\n"
    assert "2 transcripts there already" in again.stderr
    other.memctl("forget", "--path", GONE)
    other.memctl("forget", "--session", "living")
    assert other.memctl_json("import", str(archive))["leftOut"] == [GONE, LIVING]
    assert states(other) == {}
    other.assert_healthy()
    refused = daemon.memctl("export", str(archive), code=1)
    assert "File exists" in refused.stderr
    assert list(archive.parent.iterdir()) == [archive]


MESSAGES = 25


@pytest.mark.long
def test_a_transcript_larger_than_a_frame_comes_in_parts(
    daemon: Daemon, other: Daemon, tmp_path: Path
) -> None:
    # Long words of letters: the index is small, and the text hardly packs.
    letters = bytes(string.ascii_lowercase * 10, "ascii")[:256]
    noise = random.Random(7).randbytes(MESSAGES * 900_000).translate(letters).decode()
    daemon.settings = SESSIONS
    (daemon.folder / "chats").mkdir()
    with (daemon.folder / "chats/gone.jsonl").open("w") as chat:
        for number in range(MESSAGES):
            own = noise[number * 900_000 :][:900_000]
            words = " ".join(own[at : at + 500] for at in range(0, len(own), 500))
            text = f"ocelot{number} {words}"
            chat.write(json.dumps({"role": "user", "content": text, "sessionId": "s"}) + "\n")
    (daemon.folder / "chats/living.jsonl").write_text('{"role": "user", "content": "an ocelot"}\n')
    daemon.start().sync()
    path = tmp_path / "chats.tar"
    assert daemon.memctl_json("export", str(path)) == {
        "path": str(path),
        "transcripts": 2,
        "tooLarge": [],
    }
    with tarfile.open(path) as made:
        parts = [file.read() for each in made if (file := made.extractfile(each)) is not None]
    first, *rest, last = parts  # the last one is the other transcript
    assert len(rest) > 1
    other.start()
    with other.client() as client:
        assert client.import_transcripts([first]).imported == [GONE]  # and then interrupted
        assert client.import_transcripts([first]).present == [GONE]
        assert all(client.import_transcripts([part]).imported == [GONE] for part in rest)
        assert client.import_transcripts([last]).imported == [LIVING]
        assert not any(client.import_transcripts([part]).imported for part in parts)
    with other.client() as client, daemon.client() as there:
        for number in (0, 9, MESSAGES - 1):
            line = number + 1
            shown, here = (c.get(GONE, start_line=line, lines=1).text for c in (client, there))
            assert shown.split() == here.split()  # kept in lines of 800 characters
            assert f"ocelot{number} " in shown
            (hit,) = client.search(f"ocelot{number}", mode="keyword").results
            assert (hit.path, hit.start_line) == (GONE, line)
        assert client.get(GONE, start_line=MESSAGES).total_lines == MESSAGES
    other.assert_healthy()


def member(data: bytes, name: str = "memoryd-transcripts/000000.jsonl.zst") -> bytes:
    """Return an archive of one file."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as made:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        made.addfile(info, io.BytesIO(data))
    return target.getvalue()


@pytest.mark.parametrize(
    "damage",
    ["no tar", "other member", "not packed", "cut", "bad header", "bad name", "too few", "second"],
)
def test_a_bad_archive_changes_nothing(other: Daemon, archive: Path, damage: str) -> None:
    with tarfile.open(archive) as made:
        files = [made.extractfile(each) for each in made]
        good, *_ = [file.read() for file in files if file is not None]
    text = zstandard.ZstdDecompressor().decompressobj().decompress(good).decode()
    head, *rest = text.splitlines(keepends=True)

    def packed(*lines: str) -> bytes:
        return member(zstandard.ZstdCompressor().compress("".join(lines).encode()))

    bad = {
        "no tar": b"x" * 2_000,
        "other member": member(b"x", "../../x"),
        "not packed": member(b"x" * 100),
        "cut": member(good[:-20]),
        "bad header": packed("{}\n", *rest),
        "bad name": packed(head.replace("chats/", "../chats/"), *rest),
        "too few": packed(head, *rest[1:]),
        "second": archive.read_bytes().replace(good[-30:], b"x" * 30, 1),
    }[damage]
    archive.write_bytes(bad)
    other.start()
    failed = other.memctl("import", str(archive), code=1)
    assert failed.stderr.startswith("memctl: ")
    assert states(other) == {}
    assert not Path(f"{other.database}.kept").exists()


def test_without_transcripts_nothing_is_exported(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start()
    with daemon.client() as client:
        with pytest.raises(BadRequestError, match="disabled"):
            client.export()
        with pytest.raises(BadRequestError, match="disabled"):
            client.import_transcripts([b"x"])
    daemon.memctl("export", str(tmp_path / "x.tar"), code=1)
    assert list(tmp_path.iterdir()) == []
