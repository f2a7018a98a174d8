"""`memctl stale`: entries of MEMORY.md that newer notes contradict, in several languages."""

import json

import pytest
from harness import Daemon
from serving import serving
from vendors import OpenAiDouble

COMMENT = "<!-- memoryd: id=3f2a9c01d4e5; origin=owner; observed={}T09:00+01:00 -->"
OLD, NEW = "2026-03-01", "2026-09-01"

RIGHT = [
    ("Gorum uses port 8080.", "Gorum uses port 9090."),
    ("The spare key is at Ana's.", "The spare key is at Ravi's."),
    ("Jonas sitzt an Tisch 12.", "Jonas sitzt jetzt an Tisch 31."),
    ("Der Ersatzschlüssel liegt bei Ana.", "Der Ersatzschlüssel liegt bei Ravi."),
    ("健身房早上七点开门。", "健身房早上九点开门。"),
    ("会議室は三階にあります。", "会議室は五階にあります。"),
    ("El abono cuesta 20 euros.", "El abono cuesta 25 euros."),
    ("Подписка стоит 200 рублей.", "Подписка стоит 300 рублей."),
]
WRONG = [
    # the same value
    ("Gorum uses port 8080.", "Gorum uses port 8080 still."),
    ("Jonas sitzt an Tisch 12.", "Jonas sitzt auch heute an Tisch 12."),
    ("健身房早上七点开门。", "健身房早上七点开门，人很多。"),
    # of another subject
    ("Jonas likes green tea.", "Marta likes green tea."),
    ("Jonas sitzt an Tisch 12.", "Marta sitzt an Tisch 31."),
    ("小明早上七点开会。", "小红早上九点开会。"),
    # another statement
    ("The dentist is on Friday at ten.", "Dentist, the bill is paid."),
    ("Der Ersatzschlüssel liegt bei Ana.", "Den Ersatzschlüssel nachmachen lassen."),
    ("健身房早上七点开门。", "在健身房遇到了老同学。"),
]


def start(daemon: Daemon, entry: str, notes: dict[str, str]) -> Daemon:
    daemon.write("MEMORY.md", f"# Memory\n\n- {entry}\n- Something else entirely.\n")
    for day, line in notes.items():
        daemon.write(f"memory/{day}.md", f"# {day}\n\n- Lunch with the others.\n- {line}\n")
    daemon.start().sync()
    return daemon


def cited(daemon: Daemon) -> list[tuple[str, list[str]]]:
    with daemon.client() as client:
        found = client.stale().entries
    return [(each.citation, [newer.citation for newer in each.newer]) for each in found]


@pytest.mark.parametrize(("old", "new"), RIGHT)
def test_a_newer_value_is_found(daemon: Daemon, old: str, new: str) -> None:
    start(daemon, f"{old} {COMMENT.format(OLD)}", {NEW: new})
    assert cited(daemon) == [("MEMORY.md#L3", [f"memory/{NEW}.md#L4"])]


@pytest.mark.parametrize(("old", "new"), WRONG)
def test_anything_else_is_not(daemon: Daemon, old: str, new: str) -> None:
    start(daemon, f"{old} {COMMENT.format(OLD)}", {NEW: new})
    assert cited(daemon) == []


def test_both_sides_are_shown_and_nothing_is_changed(daemon: Daemon) -> None:
    start(daemon, f"{RIGHT[0][0]} {COMMENT.format(OLD)}", {NEW: RIGHT[0][1]})
    before = (daemon.workspace / "MEMORY.md").read_text()
    done = daemon.memctl("stale")
    assert done.stdout == (
        f"MEMORY.md#L3  {OLD}\n    Gorum uses port 8080.\n"
        f"  memory/{NEW}.md#L4  {NEW}\n      Gorum uses port 9090.\n"
    )
    assert done.stderr == "entries compared: 2\n"
    assert daemon.memctl_json("stale") == {
        "entries": [
            {
                "citation": "MEMORY.md#L3",
                "text": "Gorum uses port 8080.",
                "newer": [
                    {
                        "citation": f"memory/{NEW}.md#L4",
                        "text": "Gorum uses port 9090.",
                        "date": NEW,
                    }
                ],
                "date": OLD,
            }
        ],
        "compared": 2,
        "warnings": [],
    }
    assert (daemon.workspace / "MEMORY.md").read_text() == before
    daemon.assert_healthy()


def test_an_older_note_is_no_contradiction(daemon: Daemon) -> None:
    start(daemon, f"{RIGHT[0][0]} {COMMENT.format(NEW)}", {OLD: RIGHT[0][1]})
    assert cited(daemon) == []


def test_the_latest_note_decides_about_an_entry_without_a_date(daemon: Daemon) -> None:
    old, new = RIGHT[0]
    start(daemon, old, {OLD: new, "2026-05-01": old})
    assert cited(daemon) == []
    daemon.write(f"memory/{NEW}.md", f"- {new}\n")
    daemon.sync()
    assert cited(daemon) == [("MEMORY.md#L3", [f"memory/{NEW}.md#L1"])]
    assert "MEMORY.md#L3  without a date\n" in daemon.memctl("stale").stdout


def test_undated_and_untrusted_notes_say_nothing(daemon: Daemon) -> None:
    old, new = RIGHT[0]
    start(daemon, old, {})
    daemon.write("memory/gorum.md", f"- {new}\n")
    daemon.write(f"memory/{NEW}.md", f"- {new} <!-- memoryd: id=1; origin=untrusted -->\n")
    daemon.sync()
    assert cited(daemon) == []


def test_an_empty_memory_has_nothing_to_compare(daemon: Daemon) -> None:
    daemon.start()
    assert json.loads(daemon.memctl("stale", "--json").stdout)["compared"] == 0


def test_no_entry_leaves_the_machine(daemon: Daemon) -> None:
    with serving(OpenAiDouble(key="sk-double")) as double:
        daemon.provider = "openai"
        daemon.variables |= {"OPENAI_API_KEY": "sk-double", "OPENAI_BASE_URL": double.url}
        start(daemon, RIGHT[0][0], {NEW: RIGHT[0][1]})
        before = len(double.requests)
        assert cited(daemon) == [("MEMORY.md#L3", [f"memory/{NEW}.md#L4"])]
        assert len(double.requests) == before
