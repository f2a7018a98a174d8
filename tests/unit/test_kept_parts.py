"""Parts of a large transcript, as an export has them."""

from hypothesis import given
from hypothesis import strategies as st

from memoryd.messages import NO_FACTS, TranscriptState
from memoryd.source.transcripts.kept import KeptHeader, KeptMessage, part_after
from memoryd.text.voice import ASSISTANT

STATE = TranscriptState("plain", 1, 2, 0, 9, 9, 0, "", 0, 1)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 300)), min_size=1), st.integers(1, 900))
def test_parts_have_all_messages_once_and_follow_each_other(
    gaps: list[tuple[int, int]], most_bytes: int
) -> None:
    messages, line = list[KeptMessage](), 0
    for gap, size in gaps:
        line += gap
        messages.append(KeptMessage(line, [("x" * size, ASSISTANT)]))
    whole = KeptHeader("sessions/a/b.jsonl", STATE, NO_FACTS, 0.0, len(messages))
    found, after = list[KeptMessage](), 0
    while after < line:
        header, part = part_after(whole, messages, after, most_bytes)
        assert (header.after, header.until, header.messages) == (after, part[-1].line, len(part))
        assert len(part) == 1 or sum(len(m.parts[0][0]) for m in part) <= most_bytes
        found += part
        after = header.until
    assert found == messages
    assert part_after(whole, messages, after, most_bytes)[1] == []
