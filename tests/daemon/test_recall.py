"""Recall for a message: the entries that fit, in their order, and what it never tells."""

from collections.abc import Iterator

import pytest
from harness import Daemon
from serving import serving
from vendors import OpenAiDouble
from waiting import eventually

from memoryd_client import RecallResult
from memoryd_client.errors import BadRequestError

MEMORY = """\
# Memory

## People
- Ana can't eat hazelnuts; Ana carries an injector. <!-- trigger: dinner party, Restaurant -->
  - her doctor is Okafor
- Karel hears badly on his left side. <!-- importance: 8 --> <!-- trigger: restaurant -->
- Priya's startup is called Loomwise; Priya left the bank.

## Work
The staging database of the Heron project listens on port 5433.

Release notes for the Heron project go to Marguerite. Never deploy on Thursdays.
"""


def recall(daemon: Daemon, message: str, **options: object) -> RecallResult:
    with daemon.client() as client:
        return client.recall(message, **options)  # type: ignore[arg-type]


def cited(daemon: Daemon, message: str, **options: object) -> list[str]:
    return [entry.citation for entry in recall(daemon, message, **options).entries]


@pytest.fixture
def notes(daemon: Daemon) -> Daemon:
    daemon.write("MEMORY.md", MEMORY)
    daemon.write("USER.md", "- I live in Ghent.\n")
    daemon.write("memory/boiler.md", "# Boiler\n\nThe Calda boiler shows F28 without pressure.\n")
    daemon.write("memory/2026-11-20.md", "- Wout of the Nieuwpoort marina wants phone calls.\n")
    for number in range(20):
        daemon.write(f"memory/other{number}.md", f"Subject {number} is something else.\n")
    return daemon


def test_an_entry_that_fits_is_found(notes: Daemon) -> None:
    notes.start().sync()
    result = recall(notes, "Which port has the staging database of the Heron project?")
    entry = result.entries[0]
    assert entry.citation == "MEMORY.md#L10"
    assert entry.text == "The staging database of the Heron project listens on port 5433."
    assert (entry.title, entry.origin) == ("Memory > Work", "owner")
    assert entry.confidence >= 0.45
    assert result.text.startswith("<memoryd-context>\n")
    assert '<memory path="MEMORY.md#L10" title="Memory &gt; Work" origin="owner">' in result.text
    assert cited(notes, "the Calda boiler shows F28 again") == ["memory/boiler.md#L3"]
    found = recall(notes, "Tell Wout of the Nieuwpoort marina that I am late").entries
    assert [(each.citation, each.date) for each in found] == [
        ("memory/2026-11-20.md#L1", "2026-11-20")
    ]


@pytest.mark.parametrize(
    "message",
    [
        "fix the failing test in the parser",
        "thanks!",
        "",
        " \n\t",
        "```\nAna Priya Karel Loomwise Heron staging database port\n```\n",
        "> Priya left the bank and Loomwise is Priya's startup\nok",
    ],
)
def test_nothing_fits(notes: Daemon, message: str) -> None:
    notes.start().sync()
    assert recall(notes, message) == RecallResult("", [])


def test_a_trigger_lets_an_entry_through_and_importance_orders(notes: Daemon) -> None:
    notes.start().sync()
    both = recall(notes, "find a restaurant")
    assert [entry.citation for entry in both.entries] == ["MEMORY.md#L6", "MEMORY.md#L4-L5"]
    ana = both.entries[1]
    assert ana.text.endswith("carries an injector.\n  - her doctor is Okafor")
    assert "trigger" not in both.text
    assert cited(notes, "we are planning dinner parties") == ["MEMORY.md#L4-L5"]
    assert cited(notes, "a party after dinner") == []


def test_the_room_and_the_number_are_limited(notes: Daemon) -> None:
    lines = [f"- entry {n} of the list, {'x' * 100} <!-- trigger: zebra -->" for n in range(9)]
    notes.write("MEMORY.md", "\n".join(lines) + "\n")
    notes.start().sync()
    assert len(recall(notes, "zebra").entries) == 3
    some = recall(notes, "zebra", max_chars=500)
    assert 0 < len(some.entries) < 3
    assert len(some.text) <= 500
    assert recall(notes, "zebra", max_chars=20) == RecallResult("", [])


def test_entries_that_repeat_are_shown_once(notes: Daemon) -> None:
    notes.write("MEMORY.md", "- The Calda boiler shows F28 without pressure.\n")
    notes.start().sync()
    assert len(cited(notes, "the Calda boiler shows F28 again")) == 1


def test_of_a_long_message_both_ends_count(notes: Daemon) -> None:
    notes.start().sync()
    log = "\n".join(f"line {n}: nothing to see here" for n in range(400))
    asked = "Which port has the staging database of the Heron project?"
    assert cited(notes, f"{asked}\n{log}")[0] == "MEMORY.md#L10"
    assert cited(notes, f"{log}\n{asked}")[0] == "MEMORY.md#L10"
    assert cited(notes, f"{log}\n{asked}\n{log}") == []
    assert cited(notes, "\ud800 " + "é" * 2_000_000) == []


def test_what_is_never_told(notes: Daemon) -> None:
    (notes.folder / "feed").mkdir()
    secret = "Zanzibar ferry leaves at nine from Stone Town.\n"
    (notes.folder / "feed" / "a.md").write_text(secret)
    notes.settings += '\nextra_paths = [{ path = "~/feed", origin = "untrusted" }]'
    quoted = (
        '<<<EXTERNAL_UNTRUSTED_CONTENT id="1">>>\n'
        f'- {secret}<<<END_EXTERNAL_UNTRUSTED_CONTENT id="1">>>\n'
    )
    notes.write("MEMORY.md", f"mine\n\n{quoted}\n<private>{secret}</private>\n")
    notes.write("memory/mail.md", f"mine\n\n{quoted}")
    notes.write("memory/hidden.md", secret)
    notes.start().sync()
    asked = "When does the Zanzibar ferry leave from Stone Town?"
    assert cited(notes, asked) == ["memory/hidden.md#L1"]
    notes.write("memory/.memoryignore", "hidden.md\n")
    assert cited(notes, asked) == []
    (notes.workspace / "memory/.memoryignore").unlink()
    (notes.workspace / "memory/hidden.md").unlink()
    assert cited(notes, asked) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_chars": 100_001}, "max_chars must be from 1 to 100000"),
        ({"now": "2026-11-28"}, "now must be a time like"),
    ],
)
def test_a_wrong_request_is_refused(
    daemon: Daemon, options: dict[str, object], message: str
) -> None:
    daemon.start()
    with pytest.raises(BadRequestError, match=message):
        recall(daemon, "tea", **options)


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key="sk-double")) as double:
        yield double


def test_a_remote_provider_never_gets_a_message(notes: Daemon, openai: OpenAiDouble) -> None:
    notes.provider = "openai"
    notes.variables |= {"OPENAI_API_KEY": "sk-double", "OPENAI_BASE_URL": openai.url}
    notes.start().sync()
    assert notes.search("boiler").mode == "hybrid"
    before = len(openai.requests)
    result = recall(notes, "the Calda boiler shows F28 again")
    assert [entry.citation for entry in result.entries] == ["memory/boiler.md#L3"]
    assert result.warnings == []
    assert len(openai.requests) == before


def test_a_local_model_reads_the_message(hybrid: Daemon) -> None:
    hybrid.write("MEMORY.md", MEMORY)
    hybrid.start().sync()
    with hybrid.client() as client:
        client.session_start("s")

    def has_read() -> bool:
        recall(hybrid, "something about the Heron project")
        return repr("something about the Heron project") in hybrid.embedded()

    eventually(has_read)


def test_memctl_prints_it(notes: Daemon) -> None:
    notes.start().sync()
    done = notes.memctl("recall", "the", "Calda", "boiler", "shows", "F28")
    assert "The Calda boiler shows F28 without pressure." in done.stdout
    assert done.stderr == ""
    none = notes.memctl("recall", "fix the test")
    assert (none.stdout, none.stderr) == ("", "nothing fits with high confidence\n")
    (entry,) = notes.memctl_json("recall", "the Calda boiler shows F28")["entries"]
    assert set(entry) == {"citation", "text", "confidence", "date", "origin", "title"}
    notes.memctl("recall", code=2)
