"""Comments of written entries are read, cut out, and only lower the trust in their entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.chunk.markdown import chunk_markdown
from memoryd.chunk.provenance import (
    WrittenEntries,
    provenance,
    without_provenance,
    written_entries,
    written_ids,
)
from memoryd.text.voice import EntrySource, decode_voices, is_consistent
from memoryd_client.schema.search import Origin

UNTRUSTED = provenance({"id": "a1", "origin": "untrusted"})
AGENT = provenance({"id": "b2", "origin": "agent", "conversation": ""})
LINES = st.lists(
    st.sampled_from(
        [
            "- item",
            "  more",
            "",
            "# H",
            "```",
            "text",
            *(f"- x {c}" for c in (UNTRUSTED, AGENT)),
            AGENT,
        ]
    ),
    max_size=12,
)


def origins(found: WrittenEntries) -> dict[int, Origin]:
    return {at: voice.origin for at, voice in found.voices.items()}


def test_a_comment_has_its_fields_in_one_line() -> None:
    assert AGENT == "<!-- memoryd: id=b2; origin=agent -->"
    shown = provenance({"observed": "a; b\n--> c"})
    assert shown == "<!-- memoryd: observed=a%3B b%0A%2D%2D%3E c -->"
    assert written_ids(["- x", f"- y {AGENT}", f"  {UNTRUSTED}"]) == {"a1", "b2"}
    assert without_provenance([f"- y {AGENT}"]) == ["- y"]
    assert without_provenance(["- y", "  ```", f"  {AGENT}"]) == ["- y", "  ```"]


def test_an_entry_reaches_from_its_marker_to_its_comment() -> None:
    lines = ["- mine", "- theirs", "  - more", "", f"  end {UNTRUSTED}", "- mine", f"- it {AGENT}"]
    found = written_entries(lines)
    untrusted = dict.fromkeys(range(1, 5), Origin.UNTRUSTED)
    assert origins(found) == {**untrusted, 6: Origin.AGENT}
    assert found.shown == {4: "  end", 6: "- it"}


def test_an_entry_ends_where_another_text_begins() -> None:
    lines = ["- mine", "", f"text {UNTRUSTED}", "- mine", "# H", f"  more {UNTRUSTED}", "- mine"]
    assert origins(written_entries(lines)) == {2: Origin.UNTRUSTED, 5: Origin.UNTRUSTED}


def test_the_least_trusted_comment_of_an_entry_counts() -> None:
    lines = [f"- one {UNTRUSTED} {AGENT}", f"  two {AGENT}", "  three"]
    assert origins(written_entries(lines)) == dict.fromkeys((0, 1), Origin.UNTRUSTED)
    assert written_entries(["- a <!-- memoryd: origin=agent"]) == ({}, {})


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        (
            {"conversation": "sessions/a;b --> c.jsonl#L3", "observed": "2026-11-29T21:00+13:00"},
            EntrySource("sessions/a;b --> c.jsonl#L3", "2026-11-29T21:00+13:00"),
        ),
        ({"supersedes": "memory/Größe.md#L1"}, EntrySource(supersedes="memory/Größe.md#L1")),
        ({"conversation": "x" * 501}, None),
        ({"conversation": "a\nb"}, None),
        ({"conversation": "a\u202eb"}, None),
        ({"observed": "yesterday"}, None),
        ({"observed": "2026-11-29T21:00"}, None),
    ],
)
def test_the_source_of_an_entry_is_read_as_it_was_written(
    fields: dict[str, str], source: EntrySource | None
) -> None:
    found = written_entries([f"- x {provenance({'id': 'a', 'origin': 'agent', **fields})}"])
    assert found.voices[0].source == source
    (chunk,) = chunk_markdown([found.shown[0]], written=found.voices)
    assert decode_voices(chunk.voices)[0].source == source


def test_what_is_stated_first_counts() -> None:
    one, other = (provenance({"conversation": f"{name}.jsonl"}) for name in "ab")
    found = written_entries([f"- x {AGENT} {one}", f"  y {other}"])
    assert {voice.source for voice in found.voices.values()} == {EntrySource("a.jsonl")}


def test_untrusted_entries_of_several_sources_share_a_chunk() -> None:
    lines = [
        f"- x {provenance({'origin': 'untrusted', 'conversation': f'{name}.jsonl'})}"
        for name in "ab"
    ]
    found = written_entries(lines)
    (chunk,) = chunk_markdown([found.shown[0], found.shown[1]], written=found.voices)
    assert [voice.source for voice in decode_voices(chunk.voices)] == [
        EntrySource("a.jsonl"),
        EntrySource("b.jsonl"),
    ]


def test_hostile_lines_take_no_long_time() -> None:
    many = 20_000
    for lines in (
        ["<!-- memoryd:" * many],
        [" " * many + "<!-- memoryd: -->" * many],
        ["- x", *[f"  {UNTRUSTED}"] * many],
        [f"x {UNTRUSTED}"] * many,
    ):
        written_entries(lines)


def test_code_has_no_comments() -> None:
    assert written_entries(["```", f"- x {UNTRUSTED}", "```"]) == ({}, {})


def test_agents_share_a_chunk_with_the_owner_and_strangers_do_not() -> None:
    lines = ["# H", "", "- mine", f"- agent {AGENT}", f"- stranger {UNTRUSTED}", "- mine again"]
    found = written_entries(lines)
    shown = [found.shown.get(at, line) for at, line in enumerate(lines)]
    chunks = chunk_markdown(shown, written=found.voices)
    assert [(chunk.text, chunk.origin) for chunk in chunks] == [
        ("# H\n\n- mine\n- agent", Origin.AGENT),
        ("- stranger", Origin.UNTRUSTED),
        ("- mine again", Origin.OWNER),
    ]
    spoken = [voice.origin for voice in decode_voices(chunks[0].voices)]
    assert spoken == [Origin.OWNER] * 3 + [Origin.AGENT]


@given(LINES)
def test_every_line_keeps_its_origin_in_its_chunk(lines: list[str]) -> None:
    found = written_entries(lines)
    shown = [found.shown.get(at, line) for at, line in enumerate(lines)]
    for chunk in chunk_markdown(shown, written=found.voices):
        count = chunk.end_line - chunk.start_line + 1
        assert is_consistent(chunk.origin, chunk.voices, count)
        spoken = decode_voices(chunk.voices) if chunk.voices else []
        for at in range(count):
            origin = origins(found).get(chunk.start_line - 1 + at, Origin.OWNER)
            if spoken and chunk.text.split("\n")[at]:
                assert spoken[at].origin is origin
        assert "memoryd" not in chunk.text or "```" in lines
