"""Message text without the wrappers that agents add, and message times, for all formats.

The patterns match text that OpenClaw, Claude Code and Codex insert into messages. Each takes time
proportional to the text, whatever the text is.
"""

import re
from datetime import UTC, datetime
from typing import Literal

from memoryd.source.transcripts.format import Message

_TEXT_BLOCKS = ("text", "input_text", "output_text")

_MILLISECONDS_FROM = 1e11
"""Times from here on are milliseconds; as seconds, this is the year 5138."""
_LATEST_S = 253_402_300_800
"""The end of the year 9999."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

_OPENING = (
    r"[ \t]*(?:Untrusted context \([^()\n]*\):\n)?"
    r"(?:(?P<internal><<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>)|<(?P<tag>"
    r"system-reminder|(?:local-)?command-[a-z]+|bash-(?:input|stdout|stderr)|task-notification"
    r"|user-prompt-submit-hook|ide_opened_file|ide_selection"
    r"|environment_context|user_instructions|INSTRUCTIONS|permissions instructions|app-context"
    r"|collaboration_mode|skills_instructions|apps_instructions|recommended_plugins|turn_aborted"
    r"|subagent_notification|hook_prompt|codex_internal_context|relevant-memories|active_memory_plugin"
    r")(?: [^<>\n]*)?>)"
)
_OPENING_HERE = re.compile(_OPENING)
_OPENING_OF_LINE = re.compile("^" + _OPENING, re.MULTILINE)
_INTERNAL_END = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"

_LABEL = r"[A-Z][^\n:()]{0,80}\(untrusted(?: metadata|, [^()\n]{0,80})\):[ \t]*"
_METADATA = re.compile(rf"^(?:\[[^\]\n]{{1,200}}\] )?{_LABEL}\n[ \t]*```json[ \t]*$", re.MULTILINE)
_FENCE_END = "\n```"
_CONTEXT_TO_THE_END = re.compile(
    r"^Untrusted context \(metadata, [^()\n]*\):\n"
    r"(?=[^\n]*(?:\n[^\n]*){0,6}?"
    r"(?:<<<EXTERNAL_UNTRUSTED_CONTENT|UNTRUSTED channel metadata \(|Source: ))",
    re.MULTILINE,
)
_NOTE_LINES = re.compile(
    r"^(?:\[message_id: [^\]\n]*\]|\[media attached[^\n]*\]"
    r"|To send an image back, prefer the message tool[^\n]*)[ \t]*$",
    re.MULTILINE,
)
_CHANNELS = (
    "WhatsApp|Telegram|Discord|Slack|Signal|iMessage|BlueBubbles|LINE|Matrix|WebChat|IRC|Nostr"
    "|Google Chat|Microsoft Teams|MS ?Teams|Mattermost|Feishu|Lark|Zalo|Twitch|Nextcloud Talk"
)
_PARAGRAPH = r"(?s:.*?)(?=\n[ \t]*(?:\n|\Z)|\Z)"
_USER_LEAD = re.compile(
    r"\s+"
    r"|\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]*\]"
    rf"|\[(?:{_CHANNELS})\b[^\]\n]{{0,300}}\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d[^\]\n]{{0,40}}\]"
    rf"|(?:{_LABEL}|Untrusted context \(metadata, [^()\n]*\):[ \t]*)\n{_PARAGRAPH}"
    rf"|System(?: \(untrusted\))?: \[{_PARAGRAPH}"
    r"|\[Chat messages since your last reply[^\]\n]*\](?s:.*?)\[Current message[^\]\n]*\]"
    r"|\# (?:Context from my IDE setup|Files mentioned by the user):(?s:.*?)"
    r"\n\#\# My request for Codex:"
)
_FROM_A_MACHINE = re.compile(
    r"\[cron:[^\]]+\]"
    r"|Read HEARTBEAT\.md if it exists|\[OpenClaw heartbeat poll\]"
    r"|An async command you ran earlier has completed|Exec (?:completed|failed|finished) \("
    r"|A scheduled reminder has been triggered\."
    r"|A new session was started via /new or /reset|Pre-compaction memory flush"
    r"|\[Inter-session message\]|\[Internal task completion event\]"
    r"|\# AGENTS\.md instructions(?: for [^ ]*[/\\]|$)"
    r"|\[Request interrupted by user(?: for tool use)?\]$"
)

_ASSISTANT_LEAD = re.compile(
    r"\s+"
    r"|\[\[ ?(?:reply_to_current|reply_to ?:[^\]\n]*|audio_as_voice) ?\]\]"
    r"|<(?P<tag>think|thinking)>(?s:.*?)</(?P=tag)>"
)
_SILENT = re.compile(r"[*_`\"']*(?:NO_REPLY|HEARTBEAT_OK)[*_`\"'.]*")


def said(role: object, content: object, *times: object) -> Message | None:
    """Return a message with the first valid time, None if it is empty.

    `content` is a text or a list of blocks, of which text blocks count.
    """
    match role:
        case "user" | "assistant":
            text = clean(role, block_text(content))
            return Message(role, text, seconds(*times)) if text else None
    return None


def block_text(content: object) -> str:
    """Join the text blocks of a content: no tool calls or results, thinking or images."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [
        block.get("text")
        for block in content
        if isinstance(block, dict) and block.get("type") in _TEXT_BLOCKS
    ]
    return "\n".join(text for text in texts if isinstance(text, str))


def clean(role: Literal["user", "assistant"], text: str) -> str:
    """Return the spoken text on one line, "" if there is none.

    Each text is judged by itself, so a fake wrapper of a user never hides the answer.
    """
    text = _UNSTORABLE.sub("\ufffd", text).replace("\r\n", "\n").replace("\r", "\n")
    if role == "assistant":
        text = _collapsed(_without_lead(text, _ASSISTANT_LEAD))
        return "" if _SILENT.fullmatch(text) else text
    text = _NOTE_LINES.sub("", _without_metadata(_without_blocks(text)))
    if outside := _CONTEXT_TO_THE_END.search(text):
        text = text[: outside.start()]
    text = _collapsed(_without_lead(text, _USER_LEAD))
    return "" if _FROM_A_MACHINE.match(text) else text


def seconds(*values: object) -> float | None:
    """Return the first value that is a time, as Unix time in seconds.

    A time is an RFC 3339 text (UTC without a zone), or a number of seconds or milliseconds.
    """
    return next((found for found in map(_seconds, values) if found is not None), None)


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            return None
        value = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    elif isinstance(value, bool) or not isinstance(value, int | float):
        return None
    elif _MILLISECONDS_FROM <= value < _LATEST_S * 1000:
        value /= 1000
    return float(value) if 0 < value < _LATEST_S else None


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _without_lead(text: str, lead: re.Pattern[str]) -> str:
    at = 0
    while found := lead.match(text, at):
        at = found.end()
    return text[at:]


def _without_blocks(text: str) -> str:
    """Remove blocks that begin a line or follow another block, except unclosed ones."""
    kept: list[str] = []
    unclosed: set[str] = set()
    done = at = 0
    while True:
        opening = _OPENING_HERE.match(text, at) if at == done else None
        opening = opening or _OPENING_OF_LINE.search(text, at)
        if opening is None:
            return "".join((*kept, text[done:]))
        closing = _INTERNAL_END if opening["internal"] else f"</{opening['tag']}>"
        end = -1 if closing in unclosed else text.find(closing, opening.end())
        if end < 0:
            unclosed.add(closing)
            at = opening.end()
        else:
            kept.append(text[done : opening.start()])
            done = at = end + len(closing)


def _without_metadata(text: str) -> str:
    """Remove labelled JSON about author and chat, except unclosed blocks."""
    kept: list[str] = []
    done = 0
    while label := _METADATA.search(text, done):
        end = text.find(_FENCE_END, label.end())
        if end < 0:
            break
        kept.append(text[done : label.start()])
        done = end + len(_FENCE_END)
    return "".join((*kept, text[done:]))
