"""`memctl search --open N`: the choice of the editor and its arguments, with a script as editor."""

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Protocol

import msgspec
import pytest
from fake_daemon import FakeDaemon, answering
from golden_bodies import golden

from memctl import main as memctl
from memctl.editor import command
from memoryd_client.schema.search import SearchResult

FOUND = golden("search_result", SearchResult)
Captured = pytest.CaptureFixture[str]


class Editor(Protocol):
    def __call__(self, name: str, then: str = "") -> Path: ...


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The workspace of the hits: `memory/2026-08-14.md`, `MEMORY.md`."""
    (tmp_path / "ws/memory").mkdir(parents=True)
    (tmp_path / "ws/memory/2026-08-14.md").write_text("# Friday\n")
    (tmp_path / "ws/MEMORY.md").write_text("# Memory\n")
    return tmp_path / "ws"


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """Create an editor that records its arguments, then runs a line of Python."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)

    def make(name: str, then: str = "") -> Path:
        program = tmp_path / name
        program.write_text(
            f"#!{sys.executable}\nimport json, os, signal, sys\n"
            f"open({str(tmp_path / 'noted')!r}, 'w').write(json.dumps(sys.argv[1:]))\n{then}\n"
        )
        program.chmod(0o755)
        return program

    return make


def noted(tmp_path: Path) -> list[str]:
    words: list[str] = json.loads((tmp_path / "noted").read_text())
    return words


def search(workspace: Path, number: int, *options: str) -> int:
    found = msgspec.structs.replace(FOUND, workspace_dir=str(workspace))
    with FakeDaemon(answering(found)) as daemon:
        line = ["search", "tea", "--open", str(number), *options, "--socket", daemon.path]
        return memctl.main(line)


def test_a_hit_is_opened_at_the_first_line_of_its_snippet(
    workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setenv("EDITOR", str(editor("vim")))
    assert search(workspace, 1) == 0
    assert noted(workspace.parent) == ["+12", str(workspace / "memory/2026-08-14.md")]
    assert capfd.readouterr() == ("", "")


def test_an_absolute_path_stays(
    workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", str(editor("nano")))
    outside = workspace.parent / "--wiki note.md"
    outside.write_text("tea\n")
    hit = msgspec.structs.replace(FOUND.results[0], path=str(outside))
    found = msgspec.structs.replace(FOUND, results=[hit], workspace_dir=str(workspace))
    with FakeDaemon(answering(found)) as daemon:
        assert memctl.main(["search", "tea", "--open", "1", "--socket", daemon.path]) == 0
    assert noted(workspace.parent) == ["+12", str(outside)]


@pytest.mark.parametrize("replaced", ["memory/2026-08-14.md", "memory"])
def test_a_note_that_became_a_link_is_not_opened(
    replaced: str, workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setenv("EDITOR", str(editor("vim")))
    target = (workspace / replaced).rename(workspace.parent / "elsewhere")
    (workspace / replaced).symlink_to(target)
    assert search(workspace, 1) == 4
    assert f"{workspace / replaced} is a link now, which is no note" in capfd.readouterr().err
    assert not (workspace.parent / "noted").exists()


def test_the_way_to_the_workspace_may_be_a_link(
    workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", str(editor("vim")))
    way = workspace.parent / "way"
    way.symlink_to(workspace)
    assert search(way, 1) == 0
    assert noted(workspace.parent) == ["+12", str(way / "memory/2026-08-14.md")]


def test_visual_wins_and_may_have_arguments(
    workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = editor("my code").rename(workspace.parent / "code")
    monkeypatch.setenv("EDITOR", "no-such-editor")
    monkeypatch.setenv("VISUAL", f"{shlex.quote(str(program))} --wait 'a b'")
    assert search(workspace, 2) == 0
    assert noted(workspace.parent) == [
        *("--wait", "a b", "--goto"),
        f"{workspace / 'MEMORY.md'}:3",
    ]


@pytest.mark.parametrize("empty", [None, "", "  "])
def test_without_either_it_is_vi(
    empty: str | None, workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor("vi")
    monkeypatch.setenv("PATH", str(workspace.parent))
    if empty is not None:
        monkeypatch.setenv("VISUAL", empty)
        monkeypatch.setenv("EDITOR", empty)
    assert search(workspace, 2) == 0
    assert noted(workspace.parent) == ["+3", str(workspace / "MEMORY.md")]


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        ("vi", ["+7", "/f"]),
        ("/usr/bin/vim.basic -R", ["-R", "+7", "/f"]),
        ("nvim", ["+7", "/f"]),
        ("nano", ["+7", "/f"]),
        ("emacs -nw", ["-nw", "+7", "/f"]),
        ("emacsclient -t", ["-t", "+7", "/f"]),
        ("micro", ["+7", "/f"]),
        ("kak", ["+7", "/f"]),
        ("joe", ["+7", "/f"]),
        ("code --wait", ["--wait", "--goto", "/f:7"]),
        ("codium", ["--goto", "/f:7"]),
        ("cursor", ["--goto", "/f:7"]),
        ("windsurf", ["--goto", "/f:7"]),
        ("subl -w", ["-w", "/f:7"]),
        ("hx", ["/f:7"]),
        ("helix", ["/f:7"]),
        ("zed", ["/f:7"]),
        ("idea", ["--line", "7", "/f"]),
        ("/opt/pycharm.sh", ["--line", "7", "/f"]),
        ("kate", ["--line", "7", "/f"]),
    ],
)
def test_each_editor_is_told_the_line_in_its_way(editor: str, words: list[str]) -> None:
    program, *_ = editor.split()
    assert command(editor.split(), "/f", 7) == [program, *words]


def test_an_unknown_editor_gets_the_file_and_a_note_says_the_line(
    workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    program = editor("frobedit")
    monkeypatch.setenv("EDITOR", f"{program} -x")
    assert search(workspace, 1) == 0
    assert noted(workspace.parent) == ["-x", str(workspace / "memory/2026-08-14.md")]
    assert capfd.readouterr() == ("", f"note: can't pass the line to {program}; it is 12\n")


@pytest.mark.parametrize(
    ("then", "how"),
    [
        ("sys.exit(7)", "exit status 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", f"signal {signal.SIGKILL.value}"),
    ],
)
def test_an_editor_that_fails_is_told(
    then: str,
    how: str,
    workspace: Path,
    editor: Editor,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Captured,
) -> None:
    program = editor("vim", then)
    monkeypatch.setenv("EDITOR", str(program))
    assert search(workspace, 1) == 1
    assert capfd.readouterr() == ("", f"memctl: the editor {program} ended with {how}\n")


def test_an_interrupt_is_for_the_editor(
    workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    then = (
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n    os.kill(os.getppid(), signal.SIGINT)\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    pass\n"
    )
    monkeypatch.setenv("EDITOR", str(editor("vim", then)))
    assert search(workspace, 1) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_a_missing_editor_is_told(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/vim --wait")
    assert search(workspace, 1) == 1
    assert capfd.readouterr() == (
        "",
        "memctl: can't run the editor /no/such/vim: No such file or directory\n"
        "hint: set VISUAL or EDITOR to an installed command\n",
    )


def test_an_open_quote_is_told(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setenv("VISUAL", "vim 'x")
    assert search(workspace, 1) == 1
    assert "$VISUAL has an unclosed quote: vim 'x" in capfd.readouterr().err


def test_a_number_beyond_the_hits_is_told(workspace: Path, capfd: Captured) -> None:
    assert search(workspace, 4) == 4
    assert capfd.readouterr() == (
        "",
        "memctl: there is no result 4: the search found 3\nhint: use `--max-results` for more\n",
    )


def test_a_search_that_finds_nothing_opens_nothing(capfd: Captured) -> None:
    nothing = SearchResult(results=[], provider="none", model="", mode="keyword")
    with FakeDaemon(answering(nothing)) as daemon:
        assert memctl.main(["search", "tea", "--open", "1", "--socket", daemon.path]) == 4
    assert capfd.readouterr() == ("", "memctl: there is no result 1: the search found nothing\n")


def test_a_file_that_is_gone_is_not_made_anew(
    workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setenv("EDITOR", str(editor("vim")))
    os.unlink(workspace / "MEMORY.md")
    assert search(workspace, 2) == 4
    assert f"{workspace / 'MEMORY.md'} no longer exists" in capfd.readouterr().err
    assert not (workspace.parent / "noted").exists()


def test_open_and_json_do_not_go_together(capfd: Captured) -> None:
    assert memctl.main(["search", "tea", "--open", "1", "--json"]) == 2
    assert json.loads(capfd.readouterr().out)["error"]["code"] == "usage"
