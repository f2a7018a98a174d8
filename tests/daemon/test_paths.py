"""Paths are data: no path exposes files outside of the memory or causes a crash."""

import json
import os
import time
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from harness import Daemon
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swapping import swapping
from waiting import PATIENCE_S

from memoryd_client import Client
from memoryd_client.errors import BadRequestError, DeniedError, NotFoundError

SECRET = "xylographsecret"
HIDDEN_NAME = "unheardofname"
NOT_UTF8 = "its name is not UTF-8"
ROUNDS = 50

NAMES = [
    "under_score",
    "per%cent",
    "per%20cent",
    "quo'te\"s",
    "new\nline",
    "tab\there",
    "st*ar",
    "que?stion",
    "brack[e]t",
    "bra{ce,s}",
    "-rf",
    "--help",
    "semi;colon -- drop table files",
    "back\\slash",
    "dollar$(id)`id`",
    " space ",
    "\u202eright to left",
    "\x1b[31mred",
    "🦭",
    "z\u0335a\u0335lgo",
    unicodedata.normalize("NFC", "café"),
    unicodedata.normalize("NFD", "café"),
    "x" * 252,
    "é" * 126,
]

TYPED_NAMES = ["per%cent", "quo'te\"s", "new\nline", "--help", "\u202eright to left", "\x1b[31mred"]


def on_disk(daemon: Daemon) -> bytes:
    """Return all bytes of the index, its log, and the daemon's log."""
    state = daemon.folder / "state"
    files = [daemon.log_path, *(file for file in state.rglob("*") if file.is_file())]
    assert any(file.name.endswith("-wal") for file in files)
    return b"".join(file.read_bytes() for file in files)


# --- races


@pytest.fixture
def outside(daemon: Daemon) -> Path:
    """A private folder with files of the same names as memory files."""
    folder = daemon.folder / "outside"
    for name in ("a.md", f"{HIDDEN_NAME}.md", "deep/b.md", "c.jsonl"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"role": "user", "content": f"{SECRET} in a conversation"})
        file.write_text(f"{line}\n" if name.endswith("l") else f"# {SECRET}\n\nthe {SECRET}\n")
    (folder / ".memoryignore").write_text(f"[{SECRET}\n")
    return folder


def test_a_folder_that_is_swapped_for_a_link_shows_nothing(daemon: Daemon, outside: Path) -> None:
    for name in ("a.md", "deep/b.md"):
        daemon.write(f"memory/swap/{name}", f"a harmless walrus in {name}\n")
    daemon.start().sync()
    answers: list[str] = []
    outcomes: set[str] = set()
    with daemon.client() as client, swapping(daemon.workspace / "memory/swap", outside):
        deadline, rounds = time.monotonic() + PATIENCE_S, 0
        while rounds < ROUNDS or not {"shown", "denied"} <= outcomes:
            assert time.monotonic() < deadline, outcomes
            rounds += 1
            for name in ("a.md", "deep/b.md"):
                try:
                    answers.append(client.get(f"memory/swap/{name}").text)
                    outcomes.add("shown")
                except DeniedError:
                    outcomes.add("denied")
                except NotFoundError:
                    outcomes.add("not there")
            if rounds % 5 == 0:
                client.transcript_updated(daemon.workspace / f"memory/swap/{HIDDEN_NAME}.md")
                client.transcript_updated(daemon.workspace / "memory/swap/a.md")
            if rounds % 10 == 0:
                client.sync()
                answers += [str(client.search(query)) for query in (SECRET, "walrus", HIDDEN_NAME)]
                answers += [str(entry) for state in STATES for entry in client.files(state)]
                answers.append(str(client.status()))
    assert "harmless walrus" in "".join(answers)
    daemon.sync()
    everything = "".join(answers).encode() + on_disk(daemon)
    assert b"harmless walrus" in everything
    assert SECRET.encode() not in everything
    with daemon.client() as client:
        assert HIDDEN_NAME not in str([*client.files()])
        assert {hit.path for hit in client.search("walrus").results} == {
            "memory/swap/a.md",
            "memory/swap/deep/b.md",
        }


STATES = ("indexed", "failed", "skipped", "remarked")


def test_a_folder_of_transcripts_that_is_swapped_shows_nothing(
    daemon: Daemon, outside: Path
) -> None:
    daemon.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    chat = daemon.folder / "chats/swap/c.jsonl"
    chat.parent.mkdir(parents=True)
    chat.write_text(json.dumps({"role": "user", "content": "a harmless walrus"}) + "\n")
    daemon.start().sync()
    answers: list[str] = []
    outcomes: set[str] = set()
    with daemon.client() as client, swapping(chat.parent, outside):
        deadline, rounds = time.monotonic() + PATIENCE_S, 0
        while rounds < ROUNDS or not {"shown", "denied"} <= outcomes:
            assert time.monotonic() < deadline, outcomes
            rounds += 1
            try:
                answers.append(client.get("sessions/chats/swap/c.jsonl", raw=True).text)
                outcomes.add("shown")
            except DeniedError:
                outcomes.add("denied")
            except NotFoundError:
                outcomes.add("not there")
            if rounds % 10 == 0:
                client.sync()
                answers += [str(client.search(query)) for query in (SECRET, "walrus")]
                answers.append(str([*client.sessions()]))
    everything = "".join(answers).encode() + on_disk(daemon)
    assert b"harmless walrus" in everything
    assert SECRET.encode() not in everything


def test_only_the_transcript_itself_is_deleted(daemon: Daemon, outside: Path) -> None:
    daemon.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    chats = daemon.folder / "chats"
    (chats / "sub").mkdir(parents=True)
    for path in ("sub/c.jsonl", "d.jsonl", "e.jsonl"):
        (chats / path).write_text(json.dumps({"role": "user", "content": path}) + "\n")
    daemon.start().sync()
    (chats / "sub").rename(chats / "away")
    (chats / "sub").symlink_to(outside)
    (chats / "d.jsonl").unlink()
    (chats / "d.jsonl").symlink_to(outside / "c.jsonl")
    (chats / "e.jsonl").unlink()
    os.mkfifo(chats / "e.jsonl")
    with daemon.client() as client:
        for path in ("sub/c.jsonl", "d.jsonl", "e.jsonl"):
            done = client.forget(path=f"sessions/chats/{path}", delete_source=True)
            assert done.deleted == []
    assert (outside / "c.jsonl").exists()
    assert (chats / "d.jsonl").is_symlink()
    assert (chats / "e.jsonl").is_fifo()


# --- names


def test_any_name_is_found_shown_listed_and_matched(daemon: Daemon) -> None:
    for number, name in enumerate(NAMES):
        daemon.write(f"memory/{name}.md", f"a walrus called number{number}\n")
    daemon.start().sync()
    with daemon.client() as client:
        for number, name in enumerate(NAMES):
            path = f"memory/{name}.md"
            (hit,) = client.search(f'"number{number}"').results
            assert hit.path == path
            assert client.get(path).text == f"a walrus called number{number}"
            assert client.get(str(daemon.workspace / path)).path == path
            globbed = client.search("walrus", path_glob=path, max_results=50).results
            assert path in {found.path for found in globbed}
            if '"' not in name:
                operator = client.search(f'walrus path:"{path}"', max_results=50).results
                assert path in {found.path for found in operator}, name
        assert {entry.path for entry in client.files()} == {f"memory/{n}.md" for n in NAMES}
        literal = client.search("walrus", path_glob="memory/brack[e]t.md").results
        assert [hit.path for hit in literal] == ["memory/brack[e]t.md"]
        assert client.search("walrus", path_glob="memory/under%score.md").results == []
    for name in TYPED_NAMES:
        shown = daemon.memctl("search", "walrus", "--path", f"memory/{name}.md").stdout
        assert "walrus" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert daemon.memctl("get", f"memory/{name}.md").stdout.startswith("a walrus")
    listed = daemon.memctl("files").stdout
    assert len(listed.splitlines()) >= len(NAMES)
    assert "\x1b" not in listed


def test_a_note_that_is_renamed_to_any_name_is_the_same_note(daemon: Daemon) -> None:
    file = daemon.write("memory/first.md", "a walrus\n")
    daemon.start().sync()
    with daemon.client() as client:
        for name in NAMES:
            file = file.rename(daemon.workspace / f"memory/{name}.md")
            client.sync()
            assert [hit.path for hit in client.search("walrus").results] == [f"memory/{name}.md"]
        file.unlink()
        client.sync()
        assert client.search("walrus").results == []


def test_a_name_that_is_not_utf8_is_told_and_harms_nobody(daemon: Daemon) -> None:
    memory = os.fsencode(daemon.workspace / "memory")
    daemon.write("memory/good.md", "a walrus\n")
    for name in (b"bad\xff.md", b"folder\xfe/in.md", b"\xc3(.md", b"\xed\xa0\x80.md"):
        path = Path(os.fsdecode(memory + b"/" + name))
        path.parent.mkdir(exist_ok=True)
        path.write_text("a walrus with a bad name\n")
    daemon.start().sync()
    assert daemon.paths("walrus", max_results=20) == ["memory/good.md"]
    with daemon.client() as client:
        skipped = {entry.path.rpartition("/")[2]: entry.reason for entry in client.files("skipped")}
    assert skipped == dict.fromkeys(
        ("bad\\xff.md", "folder\\xfe", "\\xc3(.md", "\\xed\\xa0\\x80.md"), NOT_UTF8
    )
    shown = daemon.memctl("files", "--skipped").stdout
    assert "its name is not UTF-8" in shown
    failed = daemon.memctl("get", os.fsdecode(b"memory/bad\xff.md"), code=4)
    assert "Traceback" not in failed.stderr
    # Under another name, the search finds the note.
    os.rename(memory + b"/bad\xff.md", memory + b"/mended.md")
    daemon.sync()
    assert sorted(daemon.paths("walrus")) == ["memory/good.md", "memory/mended.md"]


def test_a_transcript_whose_name_is_not_utf8_is_told_and_harms_nobody(daemon: Daemon) -> None:
    chats = os.fsencode(daemon.folder / "chats")
    for name in (b"good.jsonl", b"bad\xff.jsonl", b"folder\xfe/in.jsonl", b"none\xff.txt"):
        path = Path(os.fsdecode(chats + b"/" + name))
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(json.dumps({"role": "user", "content": "a walrus"}) + "\n")
    daemon.settings += (
        '\nsessions = { enabled = true, formats = ["plain"], paths = ["~/chats"],'
        ' visibility = "all" }'
    )
    daemon.start().sync()
    assert daemon.paths("walrus", max_results=20) == ["sessions/chats/good.jsonl"]
    told = dict.fromkeys(("chats/bad\\xff.jsonl", "chats/folder\\xfe/in.jsonl"), NOT_UTF8)
    prefix = f"{daemon.folder}/"
    with daemon.client() as client:
        status = client.status()
        assert {s.path.removeprefix(prefix): s.reason for s in status.skipped_paths} == told
        assert status.skipped_count == 2
        listed = [*client.files("skipped")]
        assert {f.path.removeprefix(prefix): f.reason for f in listed} == told
        assert {f.source for f in listed} == {"sessions"}
    shown = daemon.memctl("sessions").stderr
    assert all(f"{prefix}{path}: {NOT_UTF8}" in shown.replace("\n", "") for path in told), shown
    os.rename(chats + b"/bad\xff.jsonl", chats + b"/mended.jsonl")
    daemon.sync()
    assert len(daemon.paths("walrus", max_results=20)) == 2
    with daemon.client() as client:
        assert client.status().skipped_count == 1


def test_a_place_of_transcripts_whose_path_is_not_utf8(daemon: Daemon) -> None:
    home = Path(os.fsdecode(os.fsencode(daemon.folder) + b"/bad\xff"))
    chat = home / "sessions" / "rollout-1.jsonl"
    daemon.variables["CODEX_HOME"] = str(home)
    daemon.settings += '\nsessions = { enabled = true, formats = ["codex"] }'
    daemon.write("memory/a.md", "a walrus")
    daemon.start().sync()
    chat.parent.mkdir(parents=True)
    chat.write_text(json.dumps({"role": "user", "content": "a walrus"}) + "\n")
    for there in (True, False):
        daemon.sync()
        with daemon.client() as client:
            assert client.search("walrus").results
            assert client.sessions_page().sessions == []
            assert client.status().skipped_count == there
        if there:
            chat.unlink()
            chat.parent.rmdir()


def test_a_workspace_whose_path_is_not_utf8_is_refused_in_words(daemon: Daemon) -> None:
    folder = Path(os.fsdecode(os.fsencode(daemon.folder) + b"/bad\xff"))
    folder.mkdir()
    daemon.start(wait=False, options=["--workspace", str(folder)])
    assert daemon.process is not None
    assert daemon.process.wait(timeout=PATIENCE_S) == 78
    assert r"/bad\xff is not UTF-8; rename the folder" in daemon.log()
    assert "Traceback" not in daemon.log()
    daemon.start()
    failed = daemon.memctl("add", str(folder), code=1)
    assert "Traceback" not in failed.stderr


# --- typed paths


@pytest.fixture(scope="module")
def typing() -> Iterator[Client]:
    """A client of a daemon with notes and transcripts, for many queries."""
    daemon = Daemon(settings='sessions = { enabled = true, paths = ["~/chats"] }')
    with daemon:
        daemon.stop()
        daemon.write("memory/a.md", "a walrus, 100% of it, under_score and quo'te\"s\n")
        daemon.write("memory/b.md", "another\n")
        (daemon.folder / "chats").mkdir()
        texts = ["one hundred percent", "100% of it", "100x of it", "under_score", "underXscore"]
        lines = [json.dumps({"role": "user", "content": text}) for text in texts]
        (daemon.folder / "chats/c.jsonl").write_text("\n".join(lines) + "\n")
        daemon.start().sync()
        with daemon.client() as client:
            yield client


SYNTAX = st.lists(
    st.sampled_from(
        [
            *('"', "'", "*", "%", "_", "-", "^", ":", "(", ")", "{", "}", "+", "\\", ";", "\0"),
            *(
                " AND ",
                " OR ",
                " NOT ",
                " NEAR(",
                " NEAR/2 ",
                "path:",
                "source:",
                "since:",
                "body:",
            ),
            *("walrus", "under_score", "100%", "--", "/*", "*/", "' OR 1=1 --", '" OR "1"="1'),
            *(
                "');DROP TABLE files;--",
                "%' ESCAPE '\\",
                "[a-z]",
                "?1",
                "$x",
                ":x",
                "\n",
                "🦭",
                "é",
            ),
        ]
    ),
    max_size=8,
).map("".join)
TYPED = st.one_of(SYNTAX, st.text(st.characters(codec="utf-8"), max_size=60))
MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@MANY
@given(TYPED)
def test_whatever_is_searched_for_is_text(typing: Client, text: str) -> None:
    for mode in (None, "keyword"):
        with suppress(BadRequestError):  # a blank query
            typing.search(text, mode=mode)
    assert len([*typing.files()]) == 3


@MANY
@given(TYPED)
def test_whatever_is_named_is_a_name(typing: Client, text: str) -> None:
    with_errors = (BadRequestError, DeniedError, NotFoundError)
    for path in (text, f"memory/{text}", f"sessions/chats/{text}"):
        try:
            shown = typing.get(path)
        except with_errors:
            continue
        assert shown.path in ("memory/a.md", "memory/b.md", "sessions/chats/c.jsonl")
    try:
        found = typing.search("walrus", path_glob=text)
    except BadRequestError:
        return
    assert {hit.path for hit in found.results} <= {"memory/a.md"}


@MANY
@given(TYPED)
def test_whatever_is_to_be_forgotten_is_text(typing: Client, text: str) -> None:
    try:
        found = typing.forget(match=text, dry_run=True)
        named = typing.forget(path=text, dry_run=True)
    except BadRequestError:
        assert not text.strip()
        return
    assert found.messages <= 5
    assert named.paths in ([], ["sessions/chats/c.jsonl"])
    assert typing.files_page(after=text, limit=1).files is not None


@pytest.mark.parametrize(
    ("text", "messages"), [("100% of", 1), ("under_score", 1), ("%", 1), ("_", 1), ("per%cent", 0)]
)
def test_what_is_forgotten_has_the_text_to_the_letter(
    typing: Client, text: str, messages: int
) -> None:
    assert typing.forget(match=text, dry_run=True).messages == messages
