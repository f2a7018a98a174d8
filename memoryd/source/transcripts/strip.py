"""Message text without the wrappers that agents add, and message times, for all formats.

The patterns match text that agents, and memoryd itself, insert into messages. Each takes time
proportional to the text, whatever the text is.
"""

import re
from datetime import UTC, datetime
from typing import Literal

from memoryd.source.transcripts.format import Message, Part
from memoryd.source.transcripts.sender import (
    CONTEXT_MARK,
    ENVELOPE,
    LABEL,
    Envelope,
    metadata,
    read_sender,
    with_record,
)
from memoryd.text.outside import outside_lines, without_marks
from memoryd.text.voice import shown_name

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
    r"|session_context|hook_context|memoryd-context"
    r")(?: [^<>\n]*)?>)"
)
_OPENING_HERE = re.compile(_OPENING)
_OPENING_OF_LINE = re.compile("^" + _OPENING, re.MULTILINE)
_INTERNAL_END = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"

_CONTEXT_TO_THE_END = re.compile(
    rf"^Context: {CONTEXT_MARK}[ \t]*$|"
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
_PARAGRAPH = r"(?s:.*?)(?=\n[ \t]*(?:\n|\Z)|\Z)"
_USER_LEAD = re.compile(
    r"\s+"
    r"|\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]*\]"
    rf"|{ENVELOPE}"
    rf"|(?:{LABEL}|Untrusted context \(metadata, [^()\n]*\):[ \t]*)\n{_PARAGRAPH}"
    rf"|System(?: \(untrusted\))?: \[{_PARAGRAPH}"
    # Up to the last mark, because the messages before it are strangers', who may write one.
    r"|\[Chat messages since your last reply[^\]\n]*\](?s:.*)\[Current message[^\]\n]{0,100}\]"
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
_ATTACHMENT = re.compile(
    r"\{\s*\"image_key\"\s*:\s*\"img_[\w-]{1,200}\"\s*\}"
    r"|!?\[[^\]\n]{0,80}\]\(img_v\d_[\w-]{1,200}\)"
    r"|\[[^\]\[\n:]{1,40}: ?img_v\d_[\w-]{1,200}\]"
    r"|\bimg_v\d_[\w-]{8,200}"
)
"""Images of Feishu, as its keys name them."""
_NOTICE = "SECURITY NOTICE: The following content is from an EXTERNAL, UNTRUSTED source"
_NOTICE_LINES = 12
"""Maximum lines of OpenClaw's notice before marked content."""
_SILENT = re.compile(r"[*_`\"']*(?:NO_REPLY|HEARTBEAT_OK)[*_`\"'.]*")
_ACKNOWLEDGED = re.compile(
    r"(?:<[^<>\n]{1,40}>|[*_`\"'~\s])*HEARTBEAT_OK\b(?!`?\s+(?:is|are|was|means|stands|will|should"
    r"|can|tells|and|or|as|when|if|in|from|to|token|reply|replies|answer|message)\b"
    r"|[*_`,;:.–—-]{0,3}\s*(?:but|however|except|though|although|aber|mais|pero|但|不过)\b)"
    # A sentence of its own, because a sentence about the token may end with it.
    r"|(?s:.*)(?:(?<!:)\n|[.!?;)—–-]\s|[。！？])[*_`\"'~(\s]*HEARTBEAT_OK"
    r"(?:</?[a-z]{1,9}>|[\W_]){0,8}\Z"
)
_ACKNOWLEDGEMENT_CHARS = 300 + len("HEARTBEAT_OK")
"""Maximum length of an acknowledgement, as in OpenClaw, which does not deliver a shorter one."""


def said(role: object, content: object, *times: object, record: object = None) -> Message | None:
    """Return a message with the first valid time, None if it is empty.

    `content` is a text or a list of blocks, of which text blocks count. `record` is what OpenClaw
    has recorded about the sender beside the message, if anything.
    """
    text = _storable(block_text(content))
    match role:
        case "assistant":
            words = _spoken_words(text)
            return Message("assistant", words, seconds(*times)) if words else None
        case "user":
            words, envelope = _user_words(text)
            whole = in_lines(words)
            if not whole or _FROM_A_MACHINE.match(on_one_line(whole)):
                return None
            sender, own = read_sender(text, words, envelope)
            if not (own := _ATTACHMENT.sub("", own)).strip():
                return None
            parts = _parts(own)
            if len(parts) == 1 and not parts[0].outside and parts[0].text == whole:
                parts = ()
            return Message("user", whole, seconds(*times), with_record(sender, record), parts)
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


def own_words(text: str) -> str:
    """Return a user's message without wrappers, in its lines; "" for one that a machine wrote."""
    words, _ = _user_words(_storable(text))
    return "" if _FROM_A_MACHINE.match(on_one_line(words)) else words


def clean(role: Literal["user", "assistant"], text: str) -> str:
    """Return the spoken text on one line, "" if there is none.

    Each text is judged by itself, so a fake wrapper of a user never hides the answer.
    """
    message = said(role, text)
    return "" if message is None else on_one_line(message.text)


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text).replace("\r\n", "\n").replace("\r", "\n")


def _spoken_words(text: str) -> str:
    text = in_lines(_without_lead(text, _ASSISTANT_LEAD))
    if len(text) <= _ACKNOWLEDGEMENT_CHARS and _ACKNOWLEDGED.match(text):
        return ""
    return "" if _SILENT.fullmatch(text) else text


def _user_words(text: str) -> tuple[str, Envelope | None]:
    """Return what is left of a user's message without the wrappers, and the first envelope."""
    text = _NOTE_LINES.sub("", _without_metadata(_without_blocks(text)))
    if outside := _CONTEXT_TO_THE_END.search(text):
        text = text[: outside.start()]
    at, envelope = 0, None
    while found := _USER_LEAD.match(text, at):
        at = found.end()
        if found["app"] and envelope is None:
            envelope = Envelope(found["app"], found["label"])
    return text[at:], envelope


def _parts(words: str) -> tuple[Part, ...]:
    """Return the sender's own words and the outside content between them, in order."""
    lines = words.split("\n")
    parts: list[Part] = []
    done = 0
    for run in outside_lines(lines):
        parts.append(Part(in_lines("\n".join(_without_notice(lines[done : run.first])))))
        content = [lines[run.first]] if run.content > run.first else []
        content += lines[run.content : run.last + 1]
        text = in_lines("\n".join([run.subject, *without_marks(content)]))
        parts.append(Part(text, True, shown_name(run.sender), shown_name(run.source)))
        done = run.last + 1
    parts.append(Part(in_lines("\n".join(lines[done:]))))
    return tuple(part for part in parts if part.text)


def _without_notice(lines: list[str]) -> list[str]:
    """Return the lines before marked content without OpenClaw's notice about it."""
    for number in range(max(0, len(lines) - _NOTICE_LINES), len(lines)):
        if lines[number].startswith(_NOTICE):
            return lines[:number]
    return lines


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


def on_one_line(text: str) -> str:
    """Return a text with its white space collapsed."""
    return " ".join(text.split())


def in_lines(text: str) -> str:
    """Return a text in its lines, without spaces at their ends and with single blank lines.

    A text of one line is collapsed. In several lines, indents and columns have a meaning.
    """
    lines: list[str] = []
    for line in map(str.rstrip, text.strip().splitlines()):
        if line or lines[-1]:
            lines.append(line)
    return "\n".join(lines) if len(lines) > 1 else on_one_line(text)


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
    for block in metadata(text):
        kept.append(text[done : block.start])
        done = block.end
    return "".join((*kept, text[done:]))
