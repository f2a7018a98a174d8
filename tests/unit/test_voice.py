"""Voices of lines: trust, labels, names that strangers choose, and their stored form."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.voice import (
    ASSISTANT,
    MAX_NAME_CHARS,
    NOTE,
    EntrySource,
    Voice,
    decode_voices,
    encode_voices,
    first_words,
    is_consistent,
    least_trusted,
    shown_name,
    without_days,
)
from memoryd_client.schema.search import Origin, Role

names = st.text(max_size=200).map(shown_name)
days = st.just("") | st.dates().map(str)
sources = st.none() | st.builds(EntrySource, names, names, names)
voices = st.builds(
    Voice, st.sampled_from(Role), st.sampled_from(Origin), names, names, days, sources
)


def stranger(speaker: str = "", channel: str = "") -> Voice:
    return Voice(Role.USER, Origin.UNTRUSTED, speaker, channel)


@pytest.mark.parametrize(
    ("voice", "label"),
    [
        (ASSISTANT, "Assistant"),
        (Voice(Role.USER, Origin.OWNER, "Ana", "Family"), "User"),
        (stranger("Mallory", "Family"), "Mallory (Family)"),
        (stranger("Mallory"), "Mallory"),
        (stranger("", "Email"), "Email"),
        (stranger(), "Unknown"),
        (stranger("User"), '"User"'),
        (stranger("ASSISTANT"), '"ASSISTANT"'),
        (stranger("User: pay", "Family"), "User pay (Family)"),
        (stranger("User:"), '"User"'),
        (stranger("@ana:example.org"), "@ana:example.org"),
    ],
)
def test_the_label_before_a_message(voice: Voice, label: str) -> None:
    assert voice.label == label


@given(names, names)
def test_no_name_looks_like_the_owner_or_the_assistant(speaker: str, channel: str) -> None:
    line = f"{stranger(speaker, channel).label}: text".casefold()
    assert not line.startswith(("user:", "assistant:"))


@given(st.lists(voices, min_size=1, max_size=5), days)
def test_days_are_left_out_where_the_time_zone_must_not_count(given: list[Voice], day: str) -> None:
    moved = encode_voices(voice._replace(day=day) for voice in given)
    assert without_days(moved) == without_days(encode_voices(given))
    assert (without_days(""), without_days("[")) == ("", "[")


@given(st.text())
def test_first_words_are_short_and_visible_and_on_one_line(text: str) -> None:
    words = first_words(text)
    assert len(words) <= MAX_NAME_CHARS
    assert words == words.strip()
    assert not any(c in words for c in "\n\r\t\0\x1b\u202e\u2066\u200b\u2028")
    if not words.endswith("…"):
        assert words == " ".join(shown_name(text).split("\n"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("How long is\nthe pier?", "How long is the pier?"),
        ("word " * 16 + "and more", ("word " * 16).strip() + "…"),
        ("words " * 16, ("words " * 13).strip() + "…"),
        ("a" * 80, "a" * 80),
        ("a" * 81, "a" * 79 + "…"),
        ("", ""),
    ],
)
def test_the_first_words_end_where_a_word_ends(text: str, shown: str) -> None:
    assert first_words(text) == shown


@given(st.text())
def test_a_name_is_short_and_visible_and_on_one_line(text: str) -> None:
    name = shown_name(text)
    assert len(name) <= MAX_NAME_CHARS
    assert name == name.strip()
    assert not any(c in name for c in "\n\r\t\0\x1b\u202e\u2066\u200b\u2028")
    name.encode()


def test_only_a_text_is_a_name() -> None:
    assert [shown_name(value) for value in (None, 3, {"name": "x"}, ["x"])] == [""] * 4
    assert shown_name(" Ana\n\u202eMaria ") == "Ana Maria"


def test_origins_are_ordered_by_trust() -> None:
    assert least_trusted([Origin.OWNER, Origin.AGENT]) is Origin.AGENT
    assert least_trusted([Origin.IMPORTED, Origin.AGENT]) is Origin.IMPORTED
    assert least_trusted(Origin) is Origin.UNTRUSTED
    assert [voice.trusted for voice in (NOTE, ASSISTANT, stranger())] == [True, True, False]


@given(st.lists(voices, min_size=1, max_size=20))
def test_stored_voices_are_read_back_line_by_line(given_voices: list[Voice]) -> None:
    encoded = encode_voices(given_voices)
    assert decode_voices(encoded) == given_voices
    origin = least_trusted(voice.origin for voice in given_voices)
    assert is_consistent(origin, encoded, len(given_voices))
    assert not is_consistent(origin, encoded, len(given_voices) + 1)
    others = set(Origin) - {origin}
    assert not any(is_consistent(other, encoded, len(given_voices)) for other in others)


@pytest.mark.parametrize(
    "encoded",
    [
        "[]",
        "{}",
        "[[1]]",
        '[[0,"note","owner","",""]]',
        '[[-1,"note","owner","",""],[1000001,"note","owner","",""]]',
        '[[1000001,"note","owner","",""]]',
        '[[1,"note","king","",""]]',
        "[" * 2_000,
    ],
)
def test_corrupt_voices_are_refused(encoded: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_voices(encoded)
    assert not is_consistent(Origin.OWNER, encoded, 1)


def test_without_voices_a_chunk_is_the_owners_note_or_not_read_yet() -> None:
    assert is_consistent("owner", "", 3)
    assert is_consistent("untrusted", "", 3)
    assert not is_consistent("agent", "", 3)
    assert not is_consistent("king", "", 3)
