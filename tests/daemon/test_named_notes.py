"""Notes found by their titles, through the socket."""

import pytest
from harness import Daemon

from memoryd_client.errors import NotFoundError

NOTES = {
    "memory/Smart Contract.md": "---\ntags: [x]\n---\nA self-executing protocol that triggers when"
    " conditions are met on the [[Blockchain]].\nIt is immutable: to change it, deploy a new one.\n"
}
NOTES |= {
    f"memory/{name}.md": f"---\ntags: [x]\n---\n{name}: see [[Smart Contract]]. Part of it.\n"
    for name in ("Token", "Wallet", "Ledger", "Oracle", "Miner", "Gas", "Node", "Fork")
}


@pytest.fixture
def course(daemon: Daemon) -> Daemon:
    for path, text in NOTES.items():
        daemon.write(path, text)
    return daemon


@pytest.mark.parametrize(
    "question",
    [
        "Smart Contract",
        "what is a smart contract?",
        "smart-contract",
        "Smart_Contract.md",
        "memory/Smart Contract.md",
        "[[smart contract]]",
    ],
)
def test_a_note_that_others_mention_is_found_by_its_title(course: Daemon, question: str) -> None:
    course.start().sync()
    assert course.paths(question)[0] == "memory/Smart Contract.md"


def test_titles_and_aliases_of_front_matter_and_headings_are_titles(daemon: Daemon) -> None:
    daemon.write("memory/1.md", "---\ntitle: Paley's Watch\n---\nText.\n")
    daemon.write("memory/2.md", "---\naliases: [Uhrmacher, 時計]\n---\nText.\n")
    daemon.write("memory/3.md", "# Der Wecker\n\nText.\n")
    for number in range(8):
        text = "Paleys watch, Uhrmacher, 時計, der Wecker. " * 3
        daemon.write(f"memory/other/{number}.md", f"{text}{number}\n")
    daemon.start().sync()
    for question, path in (
        ("paleys watch", "1"),
        ("Was ist ein Uhrmacher?", "2"),
        ("時計とは", "2"),
        ("der Wecker", "3"),
    ):
        assert daemon.paths(question)[0] == f"memory/{path}.md"


def test_a_title_that_changes_or_goes_is_one_no_longer(daemon: Daemon) -> None:
    other = "The lantern festival, the lantern parade and the lantern of Ana.\n"
    daemon.write("memory/other.md", other)
    path = daemon.write("memory/1.md", "---\ntitle: Lantern\n---\nText.\n")
    daemon.start().sync()
    assert daemon.paths("lantern")[0] == "memory/1.md"
    daemon.write("memory/1.md", "---\ntitle: Torch\n---\nText.\n")
    daemon.sync()
    assert daemon.paths("lantern") == ["memory/other.md"]
    assert daemon.paths("torch") == ["memory/1.md"]
    path.unlink()
    daemon.sync()
    assert daemon.paths("torch") == []


def test_filters_hold_for_titles_too(course: Daemon) -> None:
    course.write("memory/old/Smart Contract.md", "An older note.\n")
    course.start().sync()
    first = course.paths("smart contract path:old/")
    assert first == ["memory/old/Smart Contract.md"]
    assert "memory/Smart Contract.md" not in course.paths("smart contract -immutable")


def test_a_title_of_many_notes_asks_for_none_of_them(daemon: Daemon) -> None:
    for number in range(11):
        daemon.write(f"memory/{number}/log.md", f"Entry {number}.\n")
    daemon.write("memory/how.md", "How to write the log: a log line, then the next log line.\n")
    daemon.start().sync()
    assert daemon.paths("log", max_results=1) == ["memory/how.md"]


LINES = "".join(f"Line {n} of a long note about a lantern.\n" for n in range(3, 200))
LONG = f"# Long\n\n{LINES}"


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("memory/sub/long.md#L150-L152", 150, 152),
        ("memory/sub/long.md:150-152", 150, 152),
        ("sub/long.md:150:7", 150, 150),
        ("`long.md#L150`", 150, 150),
        ("LONG.md:150", 150, 150),
        ("./memory/sub/long.md", 1, None),
        ("sub/long", 1, None),
        ("memory/sub/long.md#L9999", 1, None),
    ],
)
def test_a_path_or_citation_leads_to_its_lines(
    daemon: Daemon, question: str, first: int, last: int | None
) -> None:
    daemon.write("memory/sub/long.md", LONG)
    for number in range(8):
        daemon.write(f"memory/{number}.md", f"See memory/sub/long.md#L150-L152, {number}.\n")
    daemon.write("memory/other/long.txt.md", "Another one.\n")
    daemon.start().sync()
    hit = daemon.search(question).results[0]
    assert (hit.path, hit.snippet_start_line) == ("memory/sub/long.md", first)
    assert last is None or hit.snippet_end_line == last
    absolute = daemon.search(f"{daemon.workspace}/{hit.citation}").results[0]
    assert absolute.citation == hit.citation


def test_get_accepts_citations(daemon: Daemon) -> None:
    daemon.write("memory/long.md", LONG)
    with daemon.start().client() as client:
        client.sync(vectors=False)
        for citation in ("memory/long.md#L150-L152", "memory/long.md:150-152"):
            result = client.get(citation)
            assert (result.path, result.start_line, result.lines) == ("memory/long.md", 150, 3)
            assert result.text == "\n".join(LONG.split("\n")[149:152])
        assert client.get("memory/long.md#L150", lines=5).lines == 5
        with pytest.raises(NotFoundError, match=r"missing\.md"):
            client.get("memory/missing.md#L3")
    folder = daemon.workspace / "memory"
    for citation in ("memory/long.md#L3", "long.md#L3"):
        found = daemon.memctl("get", citation, cwd=folder).stdout
        assert found == "Line 3 of a long note about a lantern.\n"
