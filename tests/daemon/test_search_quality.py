"""Order, omissions and explanations of search results, for users and agents."""

import datetime
import json
import re

import pytest
from harness import Daemon
from waiting import eventually

FILLER = "".join(f"Line {n} talks about nothing in particular.\n" for n in range(30))


def days_ago(days: int) -> str:
    return (datetime.date.today() - datetime.timedelta(days=days)).isoformat()


@pytest.fixture
def boilers(daemon: Daemon) -> Daemon:
    """A started daemon with a few notes about boilers, two of them with a date."""
    daemon.write("MEMORY.md", "# House\n\nThe boiler is a Calda 24.\n")
    daemon.write("memory/people/ines.md", "# Ines\n\nInes repairs the boiler.\n")
    daemon.write("memory/2026-03-09.md", "# Monday\n\nThe boiler was serviced.\n")
    daemon.write("memory/2026-03-20.md", "# Friday\n\nThe boiler lost pressure.\n")
    daemon.write("memory/my notes/plan.md", "# Plan\n\nA new boiler in spring.\n")
    daemon.start().sync()
    return daemon


ALL = {
    *("MEMORY.md", "memory/people/ines.md", "memory/2026-03-09.md", "memory/2026-03-20.md"),
    "memory/my notes/plan.md",
}
OPERATORS = [
    ("boiler", ALL),
    ("boiler path:people", {"memory/people/ines.md"}),
    ("boiler path:memory/*.md", {"memory/2026-03-09.md", "memory/2026-03-20.md"}),
    ('boiler path:"my notes"', {"memory/my notes/plan.md"}),
    ("boiler path:nowhere", set()),
    ("boiler source:memory", ALL),
    ("boiler source:sessions", set()),
    ("boiler path:2026 since:2026-03-10", {"memory/2026-03-20.md"}),
    ("boiler path:2026 until:2026-03-09", {"memory/2026-03-09.md"}),
    ("boiler since:2026-03-09 until:2026-03-19", {"memory/2026-03-09.md"}),
    ("boiler since:2026-03-20 until:2026-03-20", {"memory/2026-03-20.md"}),
    ("boiler -serviced", ALL - {"memory/2026-03-09.md"}),
    ("boiler -services -PRESSURE", ALL - {"memory/2026-03-09.md", "memory/2026-03-20.md"}),
    ('"Calda 24"', {"MEMORY.md"}),
    ('"24 Calda"', set()),
    ("path:people", set()),
]


def test_operators_by_the_client(boilers: Daemon) -> None:
    with boilers.client() as client:
        for query, expected in OPERATORS:
            found = [hit.path for hit in client.search(query).results]
            assert set(found) == expected, query
            assert len(found) == len(expected), query


def test_operators_by_the_command_line(boilers: Daemon) -> None:
    answer = boilers.memctl_json("search", "boiler", "path:people")
    assert [hit["path"] for hit in answer["results"]] == ["memory/people/ines.md"]
    answer = boilers.memctl_json("search", "--max-results", "9", "boiler", 'path:"my notes"')
    assert [hit["path"] for hit in answer["results"]] == ["memory/my notes/plan.md"]
    shown = boilers.memctl("search", "--", "boiler", "-serviced", "until:2026-03-19", "path:2026")
    assert shown.stdout == "No matches.\n"
    refused = boilers.memctl("search", "boiler", "-F28", code=2)
    assert "put -- before a query that begins with a dash" in refused.stderr


def test_an_operator_goes_before_the_option_of_the_same_meaning(boilers: Daemon) -> None:
    assert boilers.paths("boiler path:people", path_glob="MEMORY.md") == ["memory/people/ines.md"]
    found = boilers.paths("boiler until:2026-03-19", since="2026-03-01")
    assert found == ["memory/2026-03-09.md"]


def test_values_that_an_operator_can_not_have_are_text(boilers: Daemon) -> None:
    with boilers.client() as client:
        for query in (
            *("boiler since:yesterday", "boiler path:", "boiler until:1-1-1"),
            f"boiler path:{'*' * 99}",
        ):
            assert client.search(query, min_score=0.0).results, query


def test_code_flags_are_text(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "# Git\n\nNever use git push --force here.\n")
    daemon.write("memory/b.md", "# Grep\n\nUse grep -e for patterns.\n")
    daemon.start().sync()
    assert daemon.paths("git push --force")[0] == "memory/a.md"
    assert daemon.paths("grep -e pattern")[0] == "memory/b.md"


def test_an_explanation_for_programs(hybrid: Daemon) -> None:
    hybrid.settings = "[defaults.query]\nrelative_cutoff = 0.0"
    hybrid.write("memory/a.md", "the lighthouse keeper counts gannets")
    hybrid.write("memory/b.md", "a lighthouse of another kind")
    hybrid.start().sync()
    result = hybrid.search("lighthouse keeper", explain=True, min_score=0.0)
    parts = [hit.explanation for hit in result.results]
    assert [hit.path for hit in result.results] == ["memory/a.md", "memory/b.md"]
    best, second = parts
    assert best is not None
    assert second is not None
    assert best.coverage == pytest.approx(1.0)
    assert best.adjacency > second.adjacency == 0.0
    assert best.verbatim == pytest.approx(1.0)
    assert best.bm25 > second.bm25 > 0
    assert best.cosine is not None
    assert best.strength > second.strength
    assert (best.text_rank, best.vector_rank, best.decay) == (1, 1, 1.0)
    assert (second.text_rank, second.vector_rank) == (2, 2)
    assert all(hit.explanation is None for hit in hybrid.search("lighthouse").results)


def test_an_explanation_for_people(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "the lighthouse keeper counts gannets")
    hybrid.start().sync()
    shown = hybrid.memctl("search", "--explain", "lighthouse keeper").stdout
    assert re.search(
        r"keywords: bm25 0\.\d\d, coverage 1\.00, adjacency 1\.00, verbatim 1\.00 \(rank 1\)\n"
        r" +vector: cosine 0\.\d\d \(rank 1\)\n"
        r" +strength \d\.\d\d, age factor 100%\n",
        shown,
    )
    assert "keywords:" not in hybrid.memctl("search", "lighthouse keeper").stdout
    answer = hybrid.memctl_json("search", "--explain", "lighthouse keeper")
    (hit,) = answer["results"]
    why = hit["explanation"]
    assert (why["coverage"], why["textRank"], why["vectorRank"], why["decay"]) == (1.0, 1, 1, 1.0)


def test_without_vectors_an_explanation_says_so(boilers: Daemon) -> None:
    shown = boilers.memctl("search", "--explain", "boiler").stdout
    assert "vector: none" in shown


def test_each_mode_runs_what_it_says(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "the lighthouse keeper counts gannets")
    hybrid.start().sync()
    with hybrid.client() as client:
        keyword = client.search("lighthouse keeper", mode="keyword")
        vector = client.search("lighthouse keeper", mode="vector")
        both = client.search("lighthouse keeper", mode="hybrid")
        default = client.search("lighthouse keeper")
    assert (keyword.mode, vector.mode, both.mode) == ("keyword", "vector", "hybrid")
    assert default.results == both.results
    (by_words,), (by_meaning,), (by_both,) = keyword.results, vector.results, both.results
    assert (by_words.vector_score, by_meaning.text_score) == (None, None)
    assert by_words.text_score is not None
    assert by_meaning.vector_score is not None
    assert by_both.vector_score == by_meaning.vector_score
    for mode in ("keyword", "vector", "hybrid"):
        answer = hybrid.memctl_json("search", "--mode", mode, "lighthouse keeper")
        assert (answer["mode"], len(answer["results"])) == (mode, 1)
    refused = hybrid.memctl("search", "--mode", "psychic", "lighthouse", code=1)
    assert "mode must be one of hybrid, keyword, vector (got 'psychic')" in refused.stderr


def test_by_keywords_alone_no_query_is_embedded(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "the lighthouse keeper counts gannets")
    hybrid.start().sync()
    hybrid.search("lighthouse keeper", mode="keyword")
    assert "'lighthouse keeper'" not in hybrid.embedded()
    hybrid.search("lighthouse keeper", mode="vector")
    assert "'lighthouse keeper'" in hybrid.embedded()


def test_marks_alone_are_no_question(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "the café keeper")
    hybrid.start().sync()
    for mode in ("hybrid", "keyword", "vector"):
        assert hybrid.search('"\u0301\u0300"', mode=mode).results == []


def test_max_chars_drops_whole_results_from_the_end(boilers: Daemon) -> None:
    with boilers.client() as client:
        everything = client.search("boiler").results
        sizes = [len(hit.snippet) for hit in everything]
        for count in range(len(everything) + 1):
            room = sum(sizes[:count])
            for max_chars in {max(1, room), max(1, sum(sizes[: count + 1]) - 1)}:
                answer = client.search("boiler", max_chars=max_chars)
                assert answer.results == everything[: len(answer.results)]
                assert sum(len(hit.snippet) for hit in answer.results) <= max_chars
                assert answer.omitted == len(everything) - len(answer.results)
            assert len(client.search("boiler", max_chars=max(1, room)).results) == count
    answer = boilers.memctl_json("search", "--max-chars", str(sizes[0]), "boiler")
    assert (len(answer["results"]), answer["omitted"]) == (1, 4)
    shown = boilers.memctl("search", "--max-chars", str(sizes[0]), "boiler")
    assert "4 more results did not fit into --max-chars" in shown.stderr


@pytest.mark.parametrize(
    ("query", "wanted", "misses"),
    [
        (
            '"2026.4.1"',
            "it runs 2026.4.1 now",
            ["it runs 2026.4.10 now", "it runs 2026.4.11 now", "runs 1.2026.4 now", "it is 2026"],
        ),
        (
            "which ticket is MAN-2184",
            "the ticket MAN-2184 waits",
            ["the ticket MAN-2185 waits", "the ticket WOM-2184 waits", "which ticket is man"],
        ),
        (
            '"filling tap"',
            "open the filling tap slowly",
            ["the tap for filling", "filling of the tap", "a tap, filling fast"],
        ),
        (
            "parse_user_id",
            "call parse_user_id first",
            ["user parse id", "parse_user_ids of all", "the parse of a user id"],
        ),
        (
            "请问OPS-2184的状态是什么？",
            "OPS-2184 已经关闭",
            ["OPS-2185 已经关闭", "状态 2184", "工单已经关闭"],
        ),
    ],
)
def test_the_exact_string_ranks_first_among_near_misses(
    daemon: Daemon, query: str, wanted: str, misses: list[str]
) -> None:
    daemon.write("memory/wanted.md", f"# Note\n\n{wanted}\n")
    for number, text in enumerate(misses):
        daemon.write(f"memory/miss-{number}.md", f"# Note\n\n{text}\n")
    daemon.start().sync()
    assert daemon.paths(query, min_score=0.0)[0] == "memory/wanted.md"


def test_a_question_about_nothing_is_rated_so(boilers: Daemon) -> None:
    with boilers.client() as client:
        for query in (
            "how do penguins hatch their eggs in winter?",
            "zeppelin",
            "企鹅怎么孵蛋？",
            "what did the captain of the zeppelin say about the boiler of the dirigible's kitchen?",
        ):
            answer = client.search(query, mode="keyword")
            assert (answer.confidence, answer.warnings) == ("none", []), query
            sure = client.search(query, mode="keyword", min_confidence=0.5)
            assert sure.results == [], query
        assert client.search("which boiler do we have", mode="keyword").confidence == "high"


def test_a_file_that_is_gone_does_not_show(daemon: Daemon) -> None:
    """Without watching, the index still has the deleted file."""
    daemon.settings = "sync = { watch = false }"
    gone = daemon.write("memory/gone.md", "the boiler is a Calda 24")
    daemon.write("memory/here.md", "the boiler hums")
    daemon.start().sync()
    assert set(daemon.paths("boiler")) == {"memory/gone.md", "memory/here.md"}
    gone.unlink()
    assert daemon.paths("boiler") == ["memory/here.md"]
    assert daemon.paths("Calda", min_score=0.0) == []
    with daemon.client() as client:
        assert client.status().files == 2
    daemon.write("memory/gone.md", "the boiler is a Calda 24")
    assert set(daemon.paths("boiler")) == {"memory/gone.md", "memory/here.md"}


def test_a_workspace_that_is_away_is_not_a_workspace_of_deleted_files(daemon: Daemon) -> None:
    daemon.settings = "sync = { watch = false }"
    daemon.write("memory/a.md", "the boiler hums")
    daemon.start().sync()
    away = daemon.workspace.rename(daemon.folder / "away")
    assert daemon.paths("boiler") == ["memory/a.md"]
    away.rename(daemon.workspace)


def test_of_contradicting_notes_the_newer_is_first(daemon: Daemon) -> None:
    old, new = f"memory/{days_ago(200)}.md", f"memory/{days_ago(0)}.md"
    daemon.write(old, "# Day\n\nThe door code of the barn is 1111.\n")
    daemon.write(new, "# Day\n\nSince this morning the code of the barn door is 3333.\n")
    daemon.write(f"memory/{days_ago(1)}.md", "# Day\n\nBread, milk and a door mat.\n")
    daemon.start().sync()
    result = daemon.search("what is the door code of the barn?", explain=True)
    assert [hit.path for hit in result.results[:2]] == [new, old]
    newer, older = (hit.explanation for hit in result.results[:2])
    assert newer is not None
    assert older is not None
    assert older.strength > newer.strength
    assert older.decay < newer.decay == 1.0


def test_of_three_that_say_the_same_the_order_is_that_of_their_dates(daemon: Daemon) -> None:
    for days, code in ((200, 1111), (20, 2222), (0, 3333)):
        daemon.write(f"memory/{days_ago(days)}.md", f"The door code of the barn is {code}.\n")
    daemon.start().sync()
    expected = [f"memory/{days_ago(days)}.md" for days in (0, 20, 200)]
    assert daemon.paths("what is the door code of the barn?") == expected


def test_an_old_answer_stays_above_recent_notes_beside_the_point(daemon: Daemon) -> None:
    daemon.write(f"memory/{days_ago(300)}.md", "# Day\n\nThe door code of the barn is 1111.\n")
    for days in range(5):
        daemon.write(f"memory/{days_ago(days)}.md", f"# Day\n\nSwept the barn, {days} times.\n")
    daemon.start().sync()
    assert daemon.paths("door code of the barn")[0] == f"memory/{days_ago(300)}.md"


def test_undated_notes_do_not_age(daemon: Daemon) -> None:
    daemon.write("memory/barn.md", "# Shed\n\nThe door code of the barn is 1111.\n")
    daemon.write(f"memory/{days_ago(0)}.md", "# Day\n\nThe code of the barn's door is 3333.\n")
    daemon.start().sync()
    result = daemon.search("door code of the barn", explain=True)
    assert result.results[0].path == "memory/barn.md"
    assert {hit.explanation.decay for hit in result.results if hit.explanation} == {1.0}


def test_age_can_be_switched_off(daemon: Daemon) -> None:
    daemon.settings = "query = { hybrid = { temporal_decay = { enabled = false } } }"
    daemon.write(f"memory/{days_ago(200)}.md", "# Day\n\nThe door code of the barn is 1111.\n")
    daemon.write(f"memory/{days_ago(0)}.md", "# Day\n\nThe barn's new door code is 3333.\n")
    daemon.start().sync()
    assert daemon.paths("door code of the barn")[0] == f"memory/{days_ago(200)}.md"


@pytest.mark.parametrize("mmr", [False, True])
def test_near_duplicates_take_one_place(daemon: Daemon, mmr: bool) -> None:
    if mmr:
        daemon.settings += "\nquery = { hybrid = { mmr = { enabled = true } } }"
    text = (
        f"# Ferry\n\n{' '.join(f'harbour{n}' for n in range(40))} and the ferry leaves at noon.\n"
    )
    for number in range(8):
        daemon.write(f"memory/copy-{number}.md", text if number % 2 else f"{text}\n(copied)\n")
    daemon.write("memory/other.md", "# Ferry\n\nThe other ferry leaves at midnight.\n")
    daemon.start().sync()
    found = daemon.paths("when does the ferry leave", min_score=0.0)
    assert sorted(path.partition("-")[0] for path in found) == ["memory/copy", "memory/other.md"]


def test_a_block_that_notes_repeat_is_shown_once(daemon: Daemon) -> None:
    lines = [f"{n}. Ask the {n}th harbour master about berths {n * 7}." for n in range(12)]
    for number in range(8):
        before = [f"plan{number} item{n} of the week" for n in range(6)]
        after = [f"later{number} thing{n} to see" for n in range(5)]
        daemon.write(f"memory/day-{number}.md", "\n".join([*before, *lines, *after]) + "\n")
    daemon.write("memory/other.md", "The harbour master is on holiday in June.\n")
    daemon.settings = "[defaults.query]\nrelative_cutoff = 0.0"
    daemon.start().sync()
    found = daemon.paths("harbour master berths", min_score=0.0)
    assert sorted(path.partition("-")[0] for path in found) == ["memory/day", "memory/other.md"]


def test_what_is_far_weaker_than_the_best_is_left_out(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "The zeppelin of the museum needs new fins.\n")
    daemon.write("memory/b.md", "The museum opens at ten.\n")
    daemon.write("memory/c.md", "Sourdough wants rye flour.\n")
    daemon.start().sync()
    assert daemon.paths("zeppelin fins museum") == ["memory/a.md"]
    daemon.stop()
    daemon.settings = "[defaults.query]\nrelative_cutoff = 0.0"
    daemon.start().sync()
    assert daemon.paths("zeppelin fins museum") == ["memory/a.md", "memory/b.md"]


def test_a_copy_with_another_word_of_the_query_is_shown(daemon: Daemon) -> None:
    block = " ".join(f"berth{n}" for n in range(30))
    for port, fee in (("Lagos", "410"), ("Sines", "260"), ("Aveiro", "180")):
        text = f"The harbour fee list of {port}: {block}. It costs {fee} euros.\n"
        daemon.write(f"memory/{port.lower()}.md", text)
    daemon.start().sync()
    assert len(daemon.paths("harbour fee", min_score=0.0)) == 1
    found = daemon.paths("harbour fee Lagos Sines", min_score=0.0)
    assert sorted(found) == ["memory/lagos.md", "memory/sines.md"]


def test_short_notes_that_differ_by_a_word_are_all_shown(daemon: Daemon) -> None:
    for place in ("cellar", "barn", "attic"):
        daemon.write(f"memory/{place}.md", f"The door code of the {place} is kept by Ines.\n")
    daemon.start().sync()
    assert len(daemon.paths("door code")) == 3


def test_a_transcript_that_quotes_a_note_takes_no_second_place(daemon: Daemon) -> None:
    daemon.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    (daemon.folder / "chats").mkdir()
    note = " ".join(f"harbour{n}" for n in range(40)) + " and the ferry leaves at noon."
    with (daemon.folder / "chats" / "a.jsonl").open("w") as chat:
        for role, said in (("user", "what do we know about it?"), ("assistant", note)):
            chat.write(json.dumps({"role": role, "content": said}) + "\n")
    daemon.write("memory/ferry.md", f"{note}\n")
    daemon.start().sync()
    eventually(lambda: bool(daemon.paths("ferry source:sessions", min_score=0.0)))
    assert daemon.paths("ferry noon", min_score=0.0) == ["memory/ferry.md"]
    assert daemon.paths("ferry noon source:sessions", min_score=0.0) == ["sessions/chats/a.jsonl"]
    assert daemon.paths("ferry noon source:memory", min_score=0.0) == ["memory/ferry.md"]


def test_the_lines_that_answer_are_shown(daemon: Daemon) -> None:
    daemon.write(
        "memory/long.md", f"# Log\n{FILLER}The possibility of a leak is in the barn.\n{FILLER}"
    )
    daemon.start().sync()
    (hit, *_) = daemon.search("possibility").results
    assert "The possibility of a leak is in the barn." in hit.snippet
    assert hit.snippet_start_line <= 32 <= hit.snippet_end_line
