"""Transcripts of pi, which are trees: only the branch to the last record counts."""

import json
from pathlib import Path

import pytest
from harness import Daemon

NAME = "sessions/chats/tree.jsonl"


@pytest.fixture
def tree(hybrid: Daemon) -> Path:
    """The transcript of a daemon that reads transcripts only when told to, not started yet."""
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    hybrid.settings = hybrid.settings.replace(
        "sync = { ", "sync = { sessions = { idle_seconds = 3600 }, "
    )
    file = hybrid.folder / "chats/tree.jsonl"
    file.parent.mkdir()
    prompt = {"role": "system", "content": "", "sections": {"tools": ""}}
    write(file, {"type": "session", "version": 3, "id": "s1"})
    write(file, {"type": "message", "id": "0", "parentId": None, "message": prompt})
    return file


def write(file: Path, record: dict[str, object]) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(record) + "\n")


def say(file: Path, name: str, parent: str, text: str) -> None:
    message = {"role": "assistant" if int(name) % 2 == 0 else "user", "content": text}
    write(file, {"type": "message", "id": name, "parentId": parent, "message": message})


def found(daemon: Daemon, *words: str) -> list[str]:
    """Return those of some words that are found."""
    daemon.sync()
    return [
        word
        for word in words
        if any(word in hit.snippet for hit in daemon.search(word, mode="keyword").results)
    ]


FRUIT = ("apricot", "quince", "medlar", "pear", "plum")


def test_what_was_left_with_a_branch_leaves_the_index(hybrid: Daemon, tree: Path) -> None:
    say(tree, "1", "0", "an apricot " + "of many words " * 200)
    say(tree, "2", "1", "a quince " + "of many words " * 200)
    hybrid.start()
    assert found(hybrid, *FRUIT) == ["apricot", "quince"]
    say(tree, "3", "2", "a medlar " + "of many words " * 200)
    embedded = len(hybrid.embedded())
    assert found(hybrid, *FRUIT) == ["apricot", "quince", "medlar"]
    assert not any("apricot" in text for text in hybrid.embedded()[embedded:])
    say(tree, "5", "1", "a pear instead")  # `/tree` went back to the first message
    assert found(hybrid, *FRUIT) == ["apricot", "pear"]
    say(tree, "6", "5", "a plum")
    assert found(hybrid, *FRUIT) == ["apricot", "pear", "plum"]
    with hybrid.client() as client:
        shown, raw = client.get(NAME), client.get(NAME, raw=True)
        client.index(force=True)
    assert "quince" not in shown.text
    assert shown.total_lines == raw.total_lines == 7
    assert "quince" in raw.text
    assert found(hybrid, *FRUIT) == ["apricot", "pear", "plum"]
    say(tree, "7", "3", "and back to the medlar")
    assert found(hybrid, *FRUIT) == ["apricot", "quince", "medlar"]
    hybrid.assert_healthy()


def test_a_lost_record_loses_no_others(hybrid: Daemon, tree: Path) -> None:
    say(tree, "1", "0", "an apricot")
    with tree.open("a") as lines:
        lines.write('{"type":"message","id":"2","parentId":"1","mess\n')
    say(tree, "3", "2", "a medlar")
    hybrid.start()
    assert found(hybrid, *FRUIT) == ["apricot", "medlar"]
    say(tree, "4", "3", "a pear")
    assert found(hybrid, *FRUIT) == ["apricot", "medlar", "pear"]
    hybrid.assert_healthy()
