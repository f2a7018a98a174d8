"""Extra paths, ignore files and private parts, at run time."""

import os
from pathlib import Path

import pytest
from harness import Daemon
from waiting import eventually

from memoryd_client.errors import DeniedError


def found(daemon: Daemon, query: str) -> list[str]:
    """Return the sorted names of the files that a search finds."""
    return sorted(Path(path).name for path in daemon.paths(query))


@pytest.fixture
def vault(daemon: Daemon) -> Path:
    """A folder beside the workspace with notes about figs in subfolders."""
    for name in ("a.md", "drafts/b.md", "p1/notes/c.md", "p2/notes/deep/d.md", "p2/other/e.md"):
        daemon.write(f"../vault/{name}", "a note about figs\n")
    return daemon.folder / "vault"


@pytest.mark.parametrize(
    ("extra", "names"),
    [
        ('"../vault"', ["a.md", "b.md", "c.md", "d.md", "e.md"]),
        ('"../vault/*/notes/**/*.md"', ["c.md", "d.md"]),
        ('"../vault/p?/notes"', ["c.md", "d.md"]),
        ('"~/vault/[a-c].md"', ["a.md"]),
        ('{ path = "../vault", pattern = "/p2/" }', ["d.md", "e.md"]),
        ('{ path = "../vault", exclude = ["drafts/", "e.md"] }', ["a.md", "c.md", "d.md"]),
    ],
)
def test_an_extra_path_takes_what_its_patterns_say(
    daemon: Daemon, vault: Path, extra: str, names: list[str]
) -> None:
    daemon.settings += f"\nextra_paths = [{extra}]"
    daemon.start().sync()
    assert found(daemon, "figs") == names


@pytest.mark.parametrize("blank", ['""', '" "', '{ path = "\\t" }'])
def test_a_blank_extra_path_does_not_take_the_workspace(daemon: Daemon, blank: str) -> None:
    daemon.write("README.md", "not memory: durians\n")
    daemon.start().sync()
    daemon.settings += f"\nextra_paths = [{blank}]"
    daemon.write_config()
    message = daemon.memctl("reload", code=1).stderr
    assert "extra_paths[0]" in message
    assert "is blank" in message
    assert found(daemon, "durians") == []


def test_an_extra_path_that_comes_later_is_noticed_by_itself(daemon: Daemon) -> None:
    daemon.settings += '\nextra_paths = ["../later/on/notes/*.md"]'
    daemon.start().sync()
    with daemon.client() as client:
        (missing,) = client.files("skipped")
        assert missing.reason == "missing"
    daemon.write("../later/on/notes/x.md", "a note about plums\n")
    eventually(lambda: found(daemon, "plums") == ["x.md"])


def rewrite_unseen(file: Path, text: str) -> None:
    """Rewrite a file in place with a text of the same length, and set its old times."""
    found = file.stat()
    assert len(text) == found.st_size
    with file.open("r+") as opened:
        opened.write(text)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize("watch", ["true", "false"])
def test_a_rewrite_of_the_same_size_and_time_is_noticed(daemon: Daemon, watch: str) -> None:
    daemon.settings = f"sync = {{ watch = {watch}, watch_debounce_ms = 20, interval_minutes = 0 }}"
    file = daemon.write("memory/a.md", "the gate code is 1111\n")
    daemon.start().sync()
    rewrite_unseen(file, "the gate code is 2222\n")
    if watch == "false":
        daemon.sync()
    eventually(lambda: found(daemon, "2222") == ["a.md"])
    assert found(daemon, "1111") == []


def test_a_rewrite_while_the_daemon_is_stopped_is_noticed(daemon: Daemon) -> None:
    file = daemon.write("memory/a.md", "the gate code is 1111\n")
    daemon.start().sync()
    daemon.stop()
    rewrite_unseen(file, "the gate code is 2222\n")
    daemon.start().sync()
    assert found(daemon, "2222") == ["a.md"]


def test_a_path_that_leaves_the_configuration_takes_its_rows_along(
    daemon: Daemon, vault: Path
) -> None:
    settings = daemon.settings
    daemon.settings += '\nextra_paths = ["../vault"]'
    daemon.start().sync()
    daemon.settings = settings
    daemon.write_config()
    with daemon.client() as client:
        assert client.status().files == 5
        client.reload()
        client.sync()
        assert client.status().files == 0


def test_a_bad_pattern_is_told_at_the_start(daemon: Daemon) -> None:
    daemon.settings += '\nextra_paths = [{ path = "../vault", pattern = "[[" }]'
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(60) == 78
    assert "extra_paths" in daemon.log()
    assert "Traceback" not in daemon.log()


def test_ignore_files_hide_and_show_while_it_runs(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "olives in the root\n")
    for name in ("keep.md", "drafts/one.md", "deep/secret.md", "deep/shown.md"):
        daemon.write(f"memory/{name}", "olives\n")
    ignore = daemon.write("memory/.memoryignore", "drafts/\nsecret.md\n")
    daemon.start().sync()
    assert found(daemon, "olives") == ["MEMORY.md", "keep.md", "shown.md"]
    with daemon.client() as client, pytest.raises(DeniedError):
        client.get("memory/drafts/one.md")
    daemon.write("memory/deep/.memoryignore", "!secret.md\nshown.md\n")
    eventually(lambda: found(daemon, "olives") == ["MEMORY.md", "keep.md", "secret.md"])
    daemon.write(".memoryignore", "MEMORY.md\n")
    eventually(lambda: found(daemon, "olives") == ["keep.md", "secret.md"])
    ignore.unlink()
    eventually(lambda: "one.md" in found(daemon, "olives"))


def test_an_ignore_file_that_can_not_be_used_hides_its_folder_until_it_can(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "olives and capers\n")
    for name in ("b.md", "deep/c.md"):
        hybrid.write(f"memory/private/{name}", f"olives and {name}\n")
    hybrid.write("memory/private/deep/.memoryignore", "!*\n")
    ignore = hybrid.write("memory/private/.memoryignore", "nothing.md\n")
    hybrid.start().sync()
    assert found(hybrid, "olives") == ["a.md", "b.md", "c.md"]
    message = (
        "memory/private/.memoryignore can't be used (not UTF-8);"
        " memoryd leaves out memory/private until it can"
    )
    ignore.write_bytes(b"\xff\xfe")
    eventually(lambda: found(hybrid, "olives") == ["a.md"])
    hybrid.write("memory/private/new.md", "olives and news\n")
    with hybrid.client() as client:
        client.sync()
        assert found(hybrid, "olives") == ["a.md"]
        (skipped,) = client.files("skipped")
        assert skipped.path == str(ignore)
        assert skipped.reason == "not UTF-8; its folder is left out until it can be used"
        assert client.status().files == 1
        assert message in client.status().degraded
        assert message in client.search("olives").warnings
        with pytest.raises(DeniedError):
            client.get("memory/private/b.md")
    assert hybrid.log().count(message) == 1
    assert not any("news" in text for text in hybrid.embedded())
    ignore.write_text("new.md\n")
    eventually(lambda: found(hybrid, "olives") == ["a.md", "b.md", "c.md"])
    hybrid.sync()
    assert hybrid.search("olives").warnings == []
    for text in ("olives and b.md", "olives and deep/c.md"):
        assert sum(text in embedded for embedded in hybrid.embedded()) == 1, "nothing is paid twice"
    hybrid.assert_healthy()


def test_a_linked_ignore_file_follows_its_target(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "olives\n")
    daemon.write("memory/b.md", "olives\n")
    rules = daemon.write("../dotfiles/rules", "a.md\n")
    (daemon.workspace / "memory/.memoryignore").symlink_to(rules)
    daemon.start().sync()
    assert found(daemon, "olives") == ["b.md"]
    rules.write_text("b.md\n")
    eventually(lambda: found(daemon, "olives") == ["a.md"])
    rules.unlink()
    eventually(lambda: found(daemon, "olives") == [])
    rules.write_text("")
    eventually(lambda: found(daemon, "olives") == ["a.md", "b.md"])


def test_what_was_hidden_while_it_was_stopped_is_not_found_before_the_first_scan(
    daemon: Daemon,
) -> None:
    for number in range(300):
        daemon.write(f"memory/{number:03}.md", f"olives {number}\n")
    daemon.start().sync()
    daemon.stop()
    daemon.write("memory/.memoryignore", "*5.md\n")
    daemon.start()
    assert not any(path.endswith("5.md") for path in daemon.paths("olives", max_results=50))


def test_what_is_private_is_neither_found_nor_shown(hybrid: Daemon) -> None:
    text = (
        "# Garden\n\nroses <private>tulips</private> lilies\n<private>\norchids\n</private>\nivy\n"
    )
    hybrid.write("memory/a.md", text)
    hybrid.start().sync()
    with hybrid.client() as client:
        for word in ("tulips", "orchids"):
            assert not any(word in hit.snippet for hit in client.search(word).results)
            assert not any(word in embedded for embedded in hybrid.embedded()[:-1])
        (hit,) = client.search("ivy").results
        assert "tulips" not in hit.snippet
        shown = client.get("memory/a.md")
        assert shown.text.split("\n") == [
            *("# Garden", "", "roses [private] lilies"),
            *("[private]", "[private]", "[private]", "ivy"),
        ]
    hybrid.stop()
    assert b"orchids" not in hybrid.database.read_bytes()


def test_a_private_part_without_an_end_hides_the_rest_and_says_so(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "ferns\n<private>\nmoss\n")
    daemon.start().sync()
    assert found(daemon, "moss") == []
    with daemon.client() as client:
        (remarked,) = client.files("remarked")
        assert remarked.reason == "a <private> block is not closed: hidden to the end"
        assert client.status().remark_count == 1
    daemon.kill()
    daemon.start().sync()
    with daemon.client() as client:
        assert client.status().remark_count == 1, "the remark survives a restart"


HIDDEN = (
    "memory/node_modules/x/a.md",
    "memory/node_modules/b.md",
    "memory/deep/node_modules/c.md",
    "memory/venv/d.md",
    "memory/.obsidian/e.md",
    "memory/.draft.md",
    "memory/talk.markdown",
    "memory/deep/Talk.MKD",
    "memory/secret/f.md",
    "memory/g.private.md",
)


def test_what_rules_hide_is_counted_by_rule(daemon: Daemon) -> None:
    for name in (*HIDDEN, "memory/a.md", "memory/picture.png", "notes.md"):
        daemon.write(name, "a note about figs\n")
    daemon.write("memory/.memoryignore", "secret/\n*.private.md\n")
    counts = {
        ".memoryignore files": 2,
        "folders called node_modules": 2,
        "folders called venv": 1,
        "names that begin with a dot": 2,
        "names that end in .markdown, not in .md": 1,
        "names that end in .mkd, not in .md": 1,
    }
    daemon.start().sync()
    with daemon.client() as client:
        assert client.files_page().hidden == counts
        assert client.status().hidden == counts
    listed = daemon.memctl("files", "--skipped").stdout
    assert listed.startswith("No skipped files.\n")
    assert "Hidden: 2 by the rule: folders called node_modules\n" in listed
    status = " ".join(daemon.memctl("status").stdout.split())
    assert "1 by the rule: names that end in .markdown, not in .md" in status
    assert "f.md" not in listed + status, "nothing tells the names that an ignore file hides"


@pytest.mark.parametrize(
    ("path", "state", "reason"),
    [
        ("memory/a.md", "indexed", None),
        ("memory/a.md/../a.md", "indexed", None),
        ("memory/node_modules/x/a.md", "hidden", "memoryd leaves out folders called node_modules"),
        ("memory/.draft.md", "hidden", "memoryd leaves out names that begin with a dot"),
        (
            "memory/talk.markdown",
            "hidden",
            "memoryd leaves out names that end in .markdown, not in .md",
        ),
        ("memory/secret/f.md", "hidden", "hidden by a .memoryignore file"),
        ("memory/secret/no such.md", "hidden", "hidden by a .memoryignore file"),
        ("memory/a.txt", "hidden", "not a Markdown file (.md)"),
        ("a.md", "hidden", "neither the workspace's memory nor one of the extra_paths"),
        ("/etc/passwd", "hidden", "neither the workspace's memory nor one of the extra_paths"),
        ("../vault/drafts/x.md", "hidden", "the pattern or an exclusion of"),
        ("../vault/b.md", "indexed", None),
        ("memory/none.md", "missing", "there is no such file"),
        ("memory/link.md", "skipped", "a symbolic link; links are not followed"),
        ("memory/linked/a.md", "skipped", "linked: a symbolic link; links are not followed"),
        ("memory/second.md", "skipped", "the same file as memory/first.md"),
        ("memory/nul.md", "remarked", "1 NUL byte, read as U+FFFD"),
        ("memory/image.md", "failed", "not text"),
    ],
)
def test_why_names_the_state_of_a_path(
    daemon: Daemon, path: str, state: str, reason: str | None
) -> None:
    for name in (*HIDDEN, "memory/a.md", "memory/first.md", "../vault/b.md"):
        daemon.write(name, f"a note about {name}\n")
    daemon.write("memory/.memoryignore", "secret/\n*.private.md\n")
    daemon.write("memory/nul.md", b"a NUL \0 in a note\n")
    daemon.write("memory/image.md", bytes(range(256)) * 100)
    memory = daemon.workspace / "memory"
    os.link(memory / "first.md", memory / "second.md")
    (memory / "link.md").symlink_to("a.md")
    (memory / "linked").symlink_to(".")
    daemon.settings += '\nextra_paths = [{ path = "../vault", exclude = ["drafts/"] }]'
    daemon.start().sync()
    found = daemon.memctl_json("files", "--why", path)
    assert found["state"] == state
    assert (found["reason"] is None) if reason is None else (reason in found["reason"])
    if reason is None:
        shown = daemon.memctl("files", f"--why={path}").stdout
        assert shown.endswith("is indexed\n")


@pytest.mark.parametrize(
    ("settings", "is_memory"),
    [
        ("", False),
        ('extra_paths = ["."]', False),
        ('extra_paths = [{ path = ".", pattern = "*.md" }]', False),
        ('extra_paths = ["memory/dreaming"]', True),
        ('extra_paths = ["memory/dreaming/deep"]', True),
        ('extra_paths = ["memory/dreaming/*/*.md"]', True),
        ('extra_paths = [{ path = ".", pattern = "/memory/dreaming/**/*.md" }]', True),
    ],
)
def test_reports_of_dreaming_are_memory_only_if_asked_for(
    daemon: Daemon, settings: str, is_memory: bool
) -> None:
    daemon.write("memory/dreaming/deep/2026-08-14.md", "a report about figs\n")
    daemon.write("memory/projects/dreaming/a.md", "a note about figs\n")
    daemon.settings += f"\n{settings}"
    daemon.start().sync()
    reports = ["2026-08-14.md"] * is_memory
    assert found(daemon, "figs") == [*reports, "a.md"]
    with daemon.client() as client:
        entry = client.why("memory/dreaming/deep/2026-08-14.md")
        assert entry.state == ("indexed" if is_memory else "hidden")
        rule = "OpenClaw's reports in memory/dreaming"
        assert client.status().hidden == ({} if is_memory else {rule: 1})
        if not is_memory:
            assert entry.reason == f"memoryd leaves out {rule}"
