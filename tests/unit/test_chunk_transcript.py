"""Chunks of transcripts: whole messages, sizes, and continuation after the last chunk."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from memoryd.chunk.transcript import LINE_CHARS, Position, TranscriptChunker
from memoryd.messages import Chunk
from memoryd.text.token_estimate import weigh, well_formed
from memoryd.text.voice import ASSISTANT, Voice, decode_voices, is_consistent
from memoryd_client.schema.search import Origin, Role

USER = Voice(Role.USER, Origin.OWNER)
FAMILY = "👨‍👩‍👧‍👦"
LETTERS = ["a", "word", "ж", "漢字", "e\u0301", "🇩🇪🇫🇷", FAMILY, "x" * 70, ". ", " ", "\ud83d"]

words = st.lists(st.sampled_from(LETTERS), max_size=30).map("".join)
long_texts = st.builds(str.__mul__, st.sampled_from(["ab ", "漢", "x" * 9, FAMILY]), st.just(300))
texts = st.one_of(words, words, words, long_texts).map(lambda text: f"User: {text}")
transcripts = st.lists(texts, max_size=12)


@dataclass(frozen=True)
class Options:
    tokens: int
    max_bytes: int

    @property
    def budget(self) -> int:
        return max(32, self.tokens * 4)


sizes = st.builds(Options, st.integers(1, 80), st.integers(4, 900))


def record(number: int) -> Position:
    """Return the line of message `number` (0-based); messages are on every second line."""
    return Position(number * 100, number * 2 + 1)


def chunked(
    messages: list[str], options: Options, *, first: int = 0
) -> tuple[list[Chunk], Position]:
    chunker = TranscriptChunker(tokens=options.tokens, max_bytes=options.max_bytes)
    for number, text in enumerate(messages[first:], start=first):
        chunker.add(record(number), [(text, USER)])
    return chunker.finish(record(len(messages)))


def owners(chunk: Chunk) -> list[int]:
    return [int(number) for number in chunk.line_map.split(",")]


def texts_by_line(chunks: list[Chunk]) -> dict[int, str]:
    """Return the text of each message in the chunks, without spaces, as wrapping removes some."""
    said: dict[int, str] = {}
    for chunk in chunks:
        for owner, line in zip(owners(chunk), chunk.text.split("\n"), strict=True):
            said[owner] = said.get(owner, "") + line.replace(" ", "")
    return said


@given(transcripts, sizes, st.lists(st.integers(0, 12), max_size=6))
def test_going_on_from_the_last_chunk_gives_the_chunks_of_the_whole(
    messages: list[str], options: Options, stops: list[int]
) -> None:
    kept: list[Chunk] = []
    tail = record(0)
    for stop in [*sorted(min(stop, len(messages)) for stop in stops), len(messages)]:
        found, next_tail = chunked(messages[:stop], options, first=tail.offset // 100)
        kept = [chunk for chunk in kept if chunk.start_line < tail.line] + found
        tail = next_tail
    assert (kept, tail) == chunked(messages, options)


@given(transcripts, sizes)
def test_nothing_is_lost_doubled_or_out_of_order(messages: list[str], options: Options) -> None:
    chunks, _ = chunked(messages, options)
    assert texts_by_line(chunks) == {
        record(number).line: well_formed(text).replace(" ", "")
        for number, text in enumerate(messages)
    }
    lines = [owner for chunk in chunks for owner in owners(chunk)]
    assert lines == sorted(lines)


@given(transcripts, sizes)
def test_chunks_and_their_lines_keep_to_the_limits(messages: list[str], options: Options) -> None:
    for chunk in chunked(messages, options)[0]:
        lines = chunk.text.split("\n")
        assert len(chunk.text.encode()) <= options.max_bytes
        assert max(map(len, lines)) <= LINE_CHARS
        # Only a single grapheme of many code points may weigh more than a chunk.
        cost = sum(weigh(line) + 1 for line in lines)
        assert cost <= options.budget or (len(lines) == 1 and FAMILY.startswith(chunk.text[0]))
        assert (chunk.start_line, chunk.end_line) == (owners(chunk)[0], owners(chunk)[-1])
        assert chunk.heading == ""


@given(transcripts, sizes)
def test_a_message_is_split_only_when_no_chunk_holds_it(
    messages: list[str], options: Options
) -> None:
    chunks, _ = chunked(messages, options)
    for number, text in enumerate(messages):
        alone = chunked([text], options)[0]
        line = record(number).line
        parts = [chunk for chunk in chunks if line in owners(chunk)]
        assert len(parts) == len(alone)


@given(transcripts, sizes)
def test_the_tail_is_the_record_with_which_the_last_chunk_begins(
    messages: list[str], options: Options
) -> None:
    chunks, tail = chunked(messages, options)
    if not messages:
        assert (chunks, tail) == ([], record(0))
        return
    assert tail.line == chunks[-1].start_line
    assert tail == record((tail.line - 1) // 2)


def test_a_message_that_does_not_fit_begins_the_next_chunk() -> None:
    options = Options(tokens=16, max_bytes=8_000)
    chunks, tail = chunked(["User: " + "a" * 30, "Assistant: " + "b" * 30, "User: c"], options)
    assert [(c.start_line, c.end_line, c.line_map) for c in chunks] == [(1, 1, "1"), (3, 5, "3,5")]
    assert tail == record(1)


def test_what_follows_a_split_message_joins_its_last_part() -> None:
    options = Options(tokens=16, max_bytes=8_000)
    messages = ["User: first", "User: " + "word " * 16, "Assistant: yes"]
    chunks, tail = chunked(messages, options)
    assert [c.line_map for c in chunks] == ["1", "3", "3,5"]
    assert tail == record(1)


def test_long_messages_are_wrapped_at_a_space() -> None:
    options = Options(tokens=2_000, max_bytes=9_000)
    (chunk,), _ = chunked(["User: " + "seven77 " * 200 + "end"], options)
    lines = chunk.text.split("\n")
    assert len(lines) == 3
    assert all(not line.startswith(" ") and not line.endswith(" ") for line in lines)
    assert " ".join(lines) == "User: " + "seven77 " * 200 + "end"


def test_a_line_never_ends_within_a_character() -> None:
    options = Options(tokens=20_000, max_bytes=90_000)
    (chunk,), _ = chunked(["User: " + FAMILY * 400], options)
    lines = chunk.text.removeprefix("User:\n").split("\n")
    assert len(lines) > 3
    assert all(line == FAMILY * (len(line) // len(FAMILY)) for line in lines)


# --- voices

VOICES = (
    USER,
    ASSISTANT,
    USER._replace(channel="Family"),
    *(Voice(Role.USER, Origin.UNTRUSTED, name, "Family") for name in ("Mallory", "Trent")),
    Voice(Role.USER, Origin.UNTRUSTED, "eve@example.org", "Email"),
)
parts = st.tuples(texts, st.sampled_from(VOICES))
talks = st.lists(st.lists(parts, max_size=3), max_size=10)


def chunked_parts(
    talk: list[list[tuple[str, Voice]]], options: Options, *, first: int = 0
) -> tuple[list[Chunk], Position]:
    chunker = TranscriptChunker(tokens=options.tokens, max_bytes=options.max_bytes)
    for number, said in enumerate(talk[first:], start=first):
        chunker.add(record(number), said)
    return chunker.finish(record(len(talk)))


@given(talks, sizes)
def test_no_chunk_mixes_strangers_with_others_or_two_chats(
    talk: list[list[tuple[str, Voice]]], options: Options
) -> None:
    for chunk in chunked_parts(talk, options)[0]:
        voices = decode_voices(chunk.voices)
        assert len(voices) == chunk.text.count("\n") + 1
        assert len({voice.trusted for voice in voices}) == 1
        assert len({voice.channel for voice in voices if voice.role is Role.USER}) <= 1
        assert is_consistent(chunk.origin, chunk.voices, len(voices))


@given(talks, sizes)
def test_each_line_keeps_its_voice(talk: list[list[tuple[str, Voice]]], options: Options) -> None:
    said = [(well_formed(text), voice) for part in talk for text, voice in part]
    found = [
        line
        for chunk in chunked_parts(talk, options)[0]
        for line in zip(chunk.text.split("\n"), decode_voices(chunk.voices), strict=True)
    ]
    assert letters(found) == letters(said)


def letters(lines: list[tuple[str, Voice]]) -> list[tuple[str, Voice]]:
    return [(letter, voice) for text, voice in lines for letter in text if letter != " "]


@given(talks, sizes, st.lists(st.integers(0, 10), max_size=4))
def test_going_on_gives_the_chunks_of_the_whole_with_several_voices(
    talk: list[list[tuple[str, Voice]]], options: Options, stops: list[int]
) -> None:
    kept: list[Chunk] = []
    tail = record(0)
    for stop in [*sorted(min(stop, len(talk)) for stop in stops), len(talk)]:
        found, next_tail = chunked_parts(talk[:stop], options, first=tail.offset // 100)
        kept = [chunk for chunk in kept if chunk.start_line < tail.line] + found
        tail = next_tail
    assert (kept, tail) == chunked_parts(talk, options)


def test_the_owner_and_the_assistant_share_chunks_as_before() -> None:
    chunker = TranscriptChunker(tokens=400, max_bytes=8_000)
    chunker.add(record(0), [("User: hi", USER._replace(channel="Family"))])
    chunker.add(record(1), [("Assistant: hello", ASSISTANT)])
    chunker.add(record(2), [("User: bye", USER._replace(channel="Family"))])
    (chunk,), _ = chunker.finish(record(3))
    assert chunk.text == "User: hi\nAssistant: hello\nUser: bye"
    assert chunk.origin is Origin.AGENT
