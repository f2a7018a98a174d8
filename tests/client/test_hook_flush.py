"""Hooks and compactions: by the end of a transcript, the next prompt asks for notes or does not.

The lines are those that Claude Code 2.1.332, Codex 0.171.0 and Gemini CLI 0.61.0 have written,
shortened, with other numbers.
"""

import json
from pathlib import Path

import pytest

from memctl.hook_flush import is_due, is_due_after
from memoryd_client.flush import TRANSCRIPT_BYTES

GIVEN = (
    '<memoryd-context id="memoryd-flush">\nThe user lets memoryd ask this: …\n</memoryd-context>'
)
FULL = {"claude": 146_300, "codex": 205_304, "gemini": 467_860}
"""Least number of tokens of a conversation that may be compacted soon."""


def answer(agent: str, tokens: int) -> bytes:
    """Return the record of an answer that leaves so many tokens in the context."""
    records = {
        "claude": {
            "type": "assistant",
            "message": {
                "role": "assistant",
                "content": [{"type": "text", "text": 'it says "usage":{"input_tokens":999999}'}],
                "usage": {
                    "input_tokens": 9,
                    "cache_creation_input_tokens": 100,
                    "cache_read_input_tokens": tokens - 119,
                    "output_tokens": 10,
                    "server_tool_use": {"web_search_requests": 0},
                },
            },
        },
        "codex": {
            "type": "event_msg",
            "payload": {
                "type": "token_count",
                "info": {
                    "total_token_usage": {"total_tokens": 10 * tokens},
                    "last_token_usage": {"input_tokens": tokens - 9, "total_tokens": tokens},
                    "model_context_window": 258_400,
                },
            },
        },
        "gemini": {
            "id": "a1",
            "type": "gemini",
            "content": "",
            "tokens": {"input": tokens - 9, "output": 9, "cached": 0, "total": tokens},
        },
    }
    return line(records[agent])


def line(record: object) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def given(agent: str) -> bytes:
    """Return the record of a prompt that the instruction has joined."""
    escaped = GIVEN.replace("<", "&lt;").replace(">", "&gt;")
    records = {
        "claude": {"type": "attachment", "attachment": {"content": [GIVEN]}},
        "codex": {"type": "response_item", "payload": {"role": "developer", "content": [GIVEN]}},
        "gemini": {"id": "u1", "type": "user", "content": [{"text": f"<hook_context>{escaped}"}]},
    }
    return line(records[agent])


COMPACTED = {
    "claude": line({"type": "system", "subtype": "compact_boundary", "compactMetadata": {}}),
    "codex": line({"type": "compacted", "payload": {"message": "", "replacement_history": []}}),
}


@pytest.mark.parametrize("agent", FULL)
def test_it_is_due_when_a_compaction_is_near(agent: str) -> None:
    assert not is_due_after(agent, answer(agent, FULL[agent] - 1))
    assert is_due_after(agent, answer(agent, FULL[agent]))
    assert not is_due_after(agent, answer(agent, FULL[agent]) + answer(agent, 9_000))
    assert not is_due_after(agent, b"")


@pytest.mark.parametrize("agent", FULL)
def test_it_is_due_once_until_the_next_compaction(agent: str) -> None:
    told = answer(agent, FULL[agent]) + given(agent)
    assert not is_due_after(agent, told)
    told += answer(agent, FULL[agent] + 3_000)
    assert not is_due_after(agent, told)
    told += COMPACTED.get(agent, b"")
    assert not is_due_after(agent, told)
    assert is_due_after(agent, told + answer(agent, 30_000) + answer(agent, FULL[agent]))


def test_gemini_repeats_its_records_when_a_session_is_resumed() -> None:
    told = answer("gemini", 9_000) + answer("gemini", FULL["gemini"]) + given("gemini")
    records = [json.loads(record) for record in told.splitlines()]
    told += line({"$set": {"messages": records}}) + answer("gemini", FULL["gemini"])
    assert not is_due_after("gemini", told)


def test_claude_code_is_asked_again_in_a_larger_window() -> None:
    told = answer("claude", 150_000) + given("claude") + answer("claude", 250_000)
    assert not is_due_after("claude", told)
    assert is_due_after("claude", told + answer("claude", 870_000))
    assert not is_due_after("claude", told + answer("claude", 870_000) + given("claude"))


def test_without_counts_the_size_decides(tmp_path: Path) -> None:
    transcript = tmp_path / "s1.jsonl"
    said = line({"type": "user", "message": {"role": "user", "content": "x" * 1_000}})
    transcript.write_bytes(said * (TRANSCRIPT_BYTES // len(said)))
    assert not is_due("claude", str(transcript))
    with transcript.open("ab") as file:
        file.write(said)
    assert is_due("claude", str(transcript))
    with transcript.open("ab") as file:
        file.write(given("claude"))
    assert not is_due("claude", str(transcript))


@pytest.mark.parametrize("agent", FULL)
@pytest.mark.parametrize("count", [b"{", b"[1]", b"null", b'{"input":"x"}', b"\xff" * 5_000])
def test_unreadable_counts_are_none(agent: str, count: bytes) -> None:
    names = {"claude": b'"usage":', "codex": b'"last_token_usage":', "gemini": b'"tokens":'}
    assert not is_due_after(agent, b'{"id":"a",' + names[agent] + count)
