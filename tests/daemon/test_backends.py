"""The contract of a back end, kept by the built-in index and by QMD."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Daemon
from qmd_package import NOTES, SECRET, Qmd, files_with
from waiting import eventually

from memoryd_client.errors import BadRequestError

EVERY = {"MEMORY.md", "day", "old", "mail", "a", "b"}
NAMED = {"2026-08-14 Big Day": "day", "2019-01-02": "old", "MEMORY": "MEMORY.md"}
NAMES = ("builtin", "qmd", "qmd by commands")


def start(daemon: Daemon, name: str) -> Qmd:
    """Start a daemon with a back end, notes and transcripts; return QMD."""
    back_end, _, by_commands = name.partition(" ")
    sessions = daemon.folder / "chats"
    sessions.mkdir()
    for chat, text in {"a": "my quince jam", "b": f"the quince key is {SECRET}"}.items():
        message = {"role": "user", "content": text}
        records: list[dict[str, Any]] = [
            {"type": "session", "version": 3, "id": chat},
            {"type": "message", "parentId": None, "message": message},
        ]
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (sessions / f"{chat}.jsonl").write_text(lines)
    stranger = daemon.folder / "stranger"
    (stranger / "drafts").mkdir(parents=True)
    (stranger / "mail.md").write_text("A stranger's quince.\n")
    (stranger / "drafts/draft.md").write_text("A drafted quince.\n")
    daemon.settings += (
        '\nsessions = { enabled = true, paths = ["~/chats"] }\n'
        f'extra_paths = [{{ path = "{stranger}", origin = "untrusted", exclude = ["drafts"] }}]\n'
    )
    qmd = Qmd(daemon, back_end, "server = false\n" if by_commands else "")
    for path, text in NOTES.items():
        daemon.write(path, text)
    daemon.start().sync()
    if back_end == "qmd":
        way = "command" if by_commands else "http"
        eventually(lambda: qmd.search().backend == "qmd" and qmd.status().way == way)
        daemon.sync()
    return qmd


@pytest.fixture(scope="module", params=NAMES)
def either(request: pytest.FixtureRequest) -> Iterator[Qmd]:
    """Each back end, for tests that change nothing."""
    daemon = Daemon(settings="sync = { watch_debounce_ms = 20 }")
    try:
        yield start(daemon, request.param)
    finally:
        daemon.__exit__(None, None, None)


def names(qmd: Qmd, query: str = "quince", **options: Any) -> set[str]:
    """Return short names of the files that are found."""
    stems = (Path(hit.path).stem for hit in qmd.search(query, max_results=20, **options).results)
    return {NAMED.get(stem, stem) for stem in stems}


def test_a_search_cites_the_files_that_match(either: Qmd) -> None:
    mail = str(either.daemon.folder / "stranger/mail.md")
    result = either.search(max_results=20)
    assert result.backend == either.backend
    assert result.backend_fallback is None
    assert names(either) == EVERY
    hits = {hit.path: hit for hit in either.search(max_results=20, highlight=True).results}
    day = hits["memory/2026-08-14 Big Day.md"]
    assert "A quince fell." in day.snippet
    assert day.citation.startswith("memory/2026-08-14 Big Day.md#L")
    assert (day.title, day.date, day.origin, day.role) == ("Friday", "2026-08-14", "owner", "note")
    assert [day.snippet[s:e] for s, e in day.highlights or []] == ["quince"]
    assert hits[mail].origin == "untrusted"
    assert hits["sessions/chats/a.jsonl"].snippet_start_line == 2
    with either.daemon.client() as client:
        assert "quince" in client.get(day.citation).text
        assert "quince" in client.get(hits["sessions/chats/a.jsonl"].citation).text


def test_secrets_of_transcripts_are_masked(either: Qmd) -> None:
    found = {hit.path: hit.snippet for hit in either.search("the quince key").results}
    assert "quince key" in found["sessions/chats/b.jsonl"]
    assert SECRET not in str(found)
    for file in either.daemon.folder.rglob("state/**/*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [
        ("quince", {"chat_type": "group"}, {"day", "old", "mail"}),
        ("quince", {"visibility": "self"}, {"MEMORY.md", "day", "old", "mail"}),
        ("quince", {"sources": ["sessions"]}, {"a", "b"}),
        ("quince", {"path_glob": "memory/old/*"}, {"old"}),
        ("quince", {"until": "2019-12-31"}, {"old"}),
        ("quince", {"trusted": True}, {"MEMORY.md", "day", "old", "a", "b"}),
        ("quince source:memory", {}, {"MEMORY.md", "day", "old", "mail"}),
        ("quince -planted", {}, {"MEMORY.md", "day", "mail", "a", "b"}),
        ("zzzz", {}, set()),
        ("   ", {}, set()),
    ],
)
def test_the_same_rules_hide_results(
    either: Qmd, query: str, options: dict[str, Any], expected: set[str]
) -> None:
    assert names(either, query, **options) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"max_results": 0},
        {"min_score": 2.0},
        {"min_confidence": -1.0},
        {"sources": ["x"]},
        {"mode": "x"},
        {"since": "x"},
        {"now": "x"},
        {"max_chars": 0},
        {"chat_type": "x"},
    ],
)
def test_invalid_requests_are_refused(either: Qmd, options: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        either.search(**options)


def test_limits_apply(either: Qmd) -> None:
    assert len(either.search(max_results=2).results) == 2
    result = either.search(max_results=20, max_chars=60)
    assert sum(len(hit.snippet) for hit in result.results) <= 60
    assert result.omitted > 0


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_seen(daemon: Daemon, name: str) -> None:
    qmd = start(daemon, name)
    (daemon.workspace / "MEMORY.md").unlink()
    assert names(qmd) == EVERY - {"MEMORY.md"}
    daemon.write("memory/new.md", "A medlar.\n")
    daemon.sync()
    assert names(qmd, "medlar") == {"new"}
    with daemon.client() as client:
        assert client.forget(path="sessions/chats/a.jsonl").paths
    assert names(qmd) == EVERY - {"MEMORY.md", "a"}
    eventually(lambda: not files_with(daemon, b"quince jam"))


def test_status_and_probe_know_the_back_end(either: Qmd) -> None:
    with either.daemon.client() as client:
        status, checks = client.status(), client.probe().checks
    if status.backend == "builtin":
        assert status.backend_status is None
        assert "backend" not in {check.name for check in checks}
        assert "Back end" not in either.daemon.memctl("status").stdout
        return
    assert status.backend_status is not None
    assert (status.backend_status.state, status.backend_status.version) == ("ready", "2.8.3")
    assert status.backend_status.problem is None
    assert status.degraded == []
    (check,) = (check for check in checks if check.name == "backend")
    way = status.backend_status.way
    assert (check.ok, check.detail) == (True, f"qmd 2.8.3, search, by {way}")
    assert "qmd 2.8.3 ready" in either.daemon.memctl("status").stdout
    either.daemon.assert_healthy()
