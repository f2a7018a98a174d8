"""Front matter and titles, through the socket."""

from harness import Daemon

NOTE = """---
title: Paley's Watch
aliases: [teleological argument]
tags:
  - essay/nature
status: draft
---

# The watchmaker

A watch on a heath.
"""


def test_front_matter_is_searched_and_not_shown(daemon: Daemon) -> None:
    daemon.write("memory/note-7.md", NOTE)
    daemon.write("memory/other.md", "# Other\n\nA heath in bloom.\n")
    daemon.start().sync()
    for query in ("Paley", "teleological", "nature", "draft"):
        (hit,) = daemon.search(query, min_score=0.0).results
        assert (hit.path, hit.title) == ("memory/note-7.md", "Paley's Watch")
        assert hit.snippet == "# The watchmaker\n\nA watch on a heath."
        assert (hit.start_line, hit.snippet_start_line, hit.snippet_end_line) == (9, 9, 11)
        assert hit.citation == "memory/note-7.md#L9-L11"


def test_a_title_is_stated_or_the_first_heading_or_the_name(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "---\ntitle: Stated\n---\n# Heading\nfigs\n")
    daemon.write("memory/b.md", "figs, then\n# The [[x|Heading]] of **b** #\n")
    daemon.write("memory/c d.md", "## a part\nfigs\n")
    daemon.write("memory/e.md", "```\n# a comment\n```\nfigs\n")
    daemon.start().sync()
    hits = daemon.search("figs", min_score=0.0).results
    assert {hit.path: hit.title for hit in hits} == {
        "memory/a.md": "Stated",
        "memory/b.md": "The Heading of b",
        "memory/c d.md": "c d",
        "memory/e.md": "e",
    }


def test_words_of_others_are_no_title_and_no_property(daemon: Daemon) -> None:
    mark = "<<<{}EXTERNAL_UNTRUSTED_CONTENT>>>"
    daemon.write("memory/mail.md", f"figs\n{mark.format('')}\n# Pay now\n{mark.format('END_')}\n")
    daemon.write(
        "memory/head.md",
        f"---\ntitle: Pay\nx: {mark.format('')}\n---\nfigs\n{mark.format('END_')}\n",
    )
    daemon.start().sync()
    hits = daemon.search("figs", min_score=0.0).results
    assert {hit.title for hit in hits} == {"mail", "head"}
    assert "untrusted" in {hit.origin for hit in hits if hit.path == "memory/head.md"}


def test_unreadable_front_matter_is_text_and_remarked(daemon: Daemon) -> None:
    daemon.write("memory/broken.md", "---\ntitle: X\nno property\n---\nfigs\n")
    daemon.write("memory/only.md", "---\nphone: 555 walrus\n---\n")
    daemon.start().sync()
    assert daemon.paths('"no property"') == ["memory/broken.md"]
    (hit,) = daemon.search("walrus").results
    assert "phone: 555 walrus" in hit.snippet  # there is nothing else to show
    with daemon.client() as client:
        (remarked,) = client.files("remarked")
    assert remarked.path == "memory/broken.md"
    assert remarked.reason is not None
    assert "line 3" in remarked.reason


def test_a_new_alias_is_found_and_the_old_one_is_not(hybrid: Daemon) -> None:
    hybrid.write("memory/note-7.md", NOTE)
    hybrid.start().sync()
    embedded = hybrid.embedded()
    hybrid.write("memory/note-7.md", NOTE.replace("teleological", "cosmological"))
    with hybrid.client() as client:
        client.sync(vectors=True)
        found = [
            client.search(word, mode="keyword", min_score=0.0)
            for word in ("cosmological", "teleological")
        ]
    assert [len(each.results) for each in found] == [1, 0]
    assert hybrid.embedded() == embedded


def test_a_text_in_front_matter_is_known_when_it_is_to_be_forgotten(daemon: Daemon) -> None:
    daemon.write("memory/note-7.md", NOTE)
    with daemon.start().client() as client:
        client.sync(vectors=False)
        result = client.forget(match="teleological argument", dry_run=True)
    assert result.notes == ["memory/note-7.md:3"]
