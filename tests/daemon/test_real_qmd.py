"""The real QMD as a back end: its commands, its server, and what it does without a model."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from harness import Daemon
from qmd_package import files_with
from waiting import eventually

from memoryd_client.schema.search import SearchResult
from memoryd_client.schema.status import BackendStatus

INSTALLED = Path(sys.executable).parents[1] / "agents" / "node_modules"
pytestmark = [
    pytest.mark.agents,
    pytest.mark.own_process,
    pytest.mark.skipif(not (INSTALLED / "@tobilu").exists(), reason="run `make check-agents`"),
]
DAY = "memory/2026-08-14 Großer Tag.md"
NOTES = {
    "MEMORY.md": "# Memory\n\n- Ana can't eat hazelnuts.\n- The dentist is Dr. Nakamura.\n",
    DAY: "# Friday\n\n" + "Filler.\n\n" * 400 + "## Health\n\nThe dentist moved to 3 pm.\n",
    "memory/.memoryignore": "hidden.md\n",
    "memory/hidden.md": "A hidden dentist.\n",
}


def start(
    daemon: Daemon,
    settings: str = "",
    node: Path | None = None,
    notes: Mapping[str, str] = MappingProxyType(NOTES),
) -> None:
    """Start a daemon with the installed QMD, and notes."""
    for path, text in notes.items():
        daemon.write(path, text)
    found = node or next(INSTALLED.glob("node-*-*64")) / "bin/node"
    daemon.settings += (
        f'\nbackend = "qmd"\n[defaults.qmd]\ncommand = "{INSTALLED}/.bin/qmd"\n'
        f'node = "{found}"\n{settings}\n'
    )
    daemon.start().sync()


def status(daemon: Daemon) -> BackendStatus:
    with daemon.client() as client:
        found = client.status().backend_status
    assert found is not None
    return found


def answered(daemon: Daemon, query: str = "dentist") -> SearchResult:
    """Search until QMD answers."""
    eventually(lambda: daemon.search(query).backend == "qmd")
    return daemon.search(query)


@pytest.mark.parametrize("server", [True, False])
def test_words_are_found_and_cited(daemon: Daemon, server: bool) -> None:
    way = "http" if server else "command"
    start(daemon, f"server = {str(server).lower()}")
    eventually(lambda: status(daemon).way == way)
    result = answered(daemon)
    assert {hit.path for hit in result.results} == {"MEMORY.md", DAY}
    assert (result.model, result.mode, result.warnings) == ("2.8.3", "keyword", [])
    day = next(hit for hit in result.results if hit.path == DAY)
    assert "The dentist moved to 3 pm." in day.snippet
    assert day.snippet_end_line == NOTES[DAY].count("\n")
    daemon.write("memory/new.md", "The ferry leaves at seven.\n")
    daemon.sync()
    assert daemon.paths("ferry") == ["memory/new.md"]
    found = status(daemon)
    assert (found.state, found.documents, found.vectors, found.problem) == ("ready", 4, 0, None)
    assert f"qmd 2.8.3, search, by {way}" in daemon.memctl("probe").stdout
    daemon.assert_healthy()


@pytest.mark.parametrize("server", ["true", "false"])
def test_no_query_breaks_it(daemon: Daemon, server: str) -> None:
    start(daemon, f"server = {server}")
    answered(daemon)
    for query in (
        *('"unbalanced', "-dentist", "a\nb", "--help", "*", "lex: dentist", "NEAR(a b)", "d'or"),
        *("\x00dentist", "歯医者", "🦷", "dentist " * 900, "col:x AND OR", "intent: x"),
    ):
        result = daemon.search(query)
        assert result.backend == "qmd" or result.backend_fallback is not None
    assert daemon.search("dentist").backend == "qmd"


@pytest.mark.parametrize("server", [True, False])
@pytest.mark.parametrize(("mode", "ours"), [("vsearch", "vector"), ("query", "hybrid")])
def test_vectors_are_found(daemon: Daemon, server: bool, mode: str, ours: str) -> None:
    pytest.importorskip("gguf", exc_type=ImportError)
    from gguf_models import write_bert

    model = write_bert(daemon.folder / "tiny.gguf")
    daemon.variables |= {"QMD_EMBED_MODEL": str(model), "QMD_FORCE_CPU": "1"}
    settings = f'search_mode = "{mode}"\nserver = {str(server).lower()}\nsearch_timeout_ms = 60000'
    start(daemon, settings, notes={"MEMORY.md": "A dentist.\n"})
    eventually(lambda: (status(daemon).vectors or 0) > 0)
    result = daemon.search("tooth")
    assert (result.backend, result.mode, result.warnings) == ("qmd", ours, [])
    assert [hit.path for hit in result.results] == ["MEMORY.md"]
    assert f"qmd 2.8.3, {mode}, by " in daemon.memctl("probe").stdout


def test_it_says_that_there_is_no_model(daemon: Daemon) -> None:
    start(daemon, 'search_mode = "vsearch"\nembed_timeout_seconds = 3')
    result = answered(daemon)
    assert {hit.path for hit in result.results} == {"MEMORY.md", DAY}
    assert any("qmd has no vectors, so only words count" in line for line in result.warnings)
    eventually(lambda: "`qmd embed`" in str(status(daemon).problem))


def test_it_is_replaced_when_it_is_killed_and_ends_with_memoryd(daemon: Daemon) -> None:
    start(daemon)
    eventually(lambda: status(daemon).way == "http")
    first = status(daemon).pid
    assert first is not None
    os.killpg(first, signal.SIGKILL)
    eventually(lambda: status(daemon).pid not in (None, first))
    os.killpg(second := status(daemon).pid or 0, signal.SIGSTOP)
    result = daemon.search("dentist")
    assert result.backend_fallback is not None
    assert result.backend_fallback.reason == "qmd did not answer within 4 s"
    eventually(lambda: status(daemon).pid not in (None, second))
    third = status(daemon).pid or 0
    daemon.kill()
    eventually(lambda: not Path(f"/proc/{third}/cmdline").exists())


def test_transcripts_are_exported(daemon: Daemon) -> None:
    chats = daemon.folder / "chats"
    chats.mkdir()
    records = [
        '{"type": "session", "version": 3, "id": "a"}',
        *(
            '{"type": "message", "parentId": null, "message": {"role": "user", "content": '
            f'"{"filler " * 60} number {number} {"kumquat" if number == 70 else ""}"}}}}'
            for number in range(100)
        ),
    ]
    (chats / "a.jsonl").write_text("\n".join(records) + "\n")
    daemon.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }\n'
    start(daemon)
    (hit,) = answered(daemon, "kumquat").results
    assert (hit.path, hit.snippet_start_line <= 72 <= hit.snippet_end_line) == (
        "sessions/chats/a.jsonl",
        True,
    )
    with daemon.client() as client:
        client.forget(path=hit.path)
    assert daemon.paths("kumquat") == []
    eventually(lambda: not files_with(daemon, b"kumquat"))


def test_an_old_node_is_not_tried(daemon: Daemon) -> None:
    old = daemon.folder / "node"
    old.write_text("#!/bin/sh\necho v20.20.2\n")
    old.chmod(0o755)
    start(daemon, node=old)
    result = daemon.search("dentist")
    assert result.backend_fallback is not None
    assert "qmd needs Node.js 22" in result.backend_fallback.reason
