"""Front matter and titles, through the socket."""

import base64
import random

import pytest
from harness import Daemon

from memoryd_client.errors import BadRequestError

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


@pytest.fixture
def tagged(daemon: Daemon) -> Daemon:
    daemon.write("memory/a.md", "---\ntags: [work/plans]\nstatus: In Progress\n---\nfigs a\n")
    daemon.write("memory/b.md", "---\nstatus: done\ndue: 2026-03-23\n---\nfigs b #Work\n")
    daemon.write("memory/c.md", "figs c\n```\n#work in code\n```\n# work\nitem:#work #123 \n")
    return daemon.start()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("figs tag:work", "ab"),
        ("figs tag:#work/plans", "a"),
        ("figs tag:plans", ""),
        ("figs tag:123", ""),
        ("figs [status:done]", "b"),
        ('figs ["status":"in progress"]', "a"),
        ("figs status:done", "b"),
        ("figs [due]", "b"),
        ("figs [due:2026-03-23] tag:work", "b"),
        ("figs [status:lost]", ""),
        ("figs [color:red]", "abc"),  # no note has this property: it is text
    ],
)
def test_tags_and_properties_filter(tagged: Daemon, query: str, names: str) -> None:
    tagged.sync()
    found = tagged.paths(query, min_score=0.0)
    assert sorted(found) == [f"memory/{name}.md" for name in names]


def test_an_unknown_source_is_an_error_that_lists_the_valid_ones(tagged: Daemon) -> None:
    tagged.sync()
    with pytest.raises(BadRequestError, match="unknown source 'zap': use memory or sessions"):
        tagged.search("figs", sources=["zap"])
    with pytest.raises(BadRequestError, match="memory or sessions"):
        tagged.search("figs source:zap")
    failed = tagged.memctl("search", "figs", "--source", "zap", code=1)
    assert "memory or sessions" in failed.stderr


def test_data_are_left_out_and_the_text_around_them_stays(hybrid: Daemon) -> None:
    image = base64.b64encode(random.Random(5).randbytes(30_000)).decode()
    pem = base64.encodebytes(random.Random(6).randbytes(3_000)).decode()
    hybrid.write(
        "memory/a.md",
        f"# Figs\n\nBefore.\n![x](data:image/png;base64,{image})\n"
        f"-----BEGIN CERTIFICATE-----\n{pem}-----END CERTIFICATE-----\nAfter the walrus.\n",
    )
    drawing = ",".join(f'{{"id":{n},"opacity":100}}' for n in range(2_000))
    hybrid.write(
        "memory/b.md",
        "---\nexcalidraw-plugin: parsed\n---\n# Text Elements\nboiler ^x\n\n# Drawing\n"
        f'```json\n{{"elements":[{drawing}]}}\n```\n%%\n',
    )
    with hybrid.start().client() as client:
        client.sync(vectors=True)
        (hit,) = client.search("walrus", min_score=0.0, mode="keyword").results
        number = 5 + pem.count("\n") + 2
        assert (hit.snippet_start_line, hit.snippet_end_line) == (number - 1, number)
        assert client.search("boiler", mode="keyword").results[0].snippet.endswith("boiler ^x")
        assert not client.search("opacity", mode="keyword", min_score=0.0).results
        remarks = {entry.path: entry.reason or "" for entry in client.files("remarked")}
    assert "no text" in remarks["memory/a.md"]
    assert "no text" in remarks["memory/b.md"]
    assert sum(map(len, hybrid.embedded())) < 1_000
