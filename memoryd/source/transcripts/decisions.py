"""Decisions that people make inside Claude Code: answers, feedback, approved plans, commands.

Claude Code writes them as results of tools, whose content strangers may have written. So a result
must begin with the program's own sentence, and the record must fit the tool that says it.
"""

import re
from typing import Any

from memoryd.source.transcripts.format import Record
from memoryd.source.transcripts.strip import block_text

_REFUSED = re.compile(
    r"(?:The user doesn't want to proceed with|Permission for) this tool use"
    r"[^\n]{0,300}? the user said:\s*(?P<words>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_REFUSED_NOTE = re.compile(
    r"^Note: The user's next message may contain a correction or preference\.[^\n]*\Z", re.MULTILINE
)
_CLARIFY = re.compile(
    r"The user wants to clarify these questions\..*?\n[ \t]*Questions asked:\s*", re.DOTALL
)
_NO_ANSWER = re.compile(r"^- [^\n]*\n[ \t]*\(No answer provided\)\s*", re.MULTILINE)
_ANSWERED = re.compile(
    r"(?:User has answered your questions|Your questions have been answered):(?P<words>.+)",
    re.DOTALL,
)
_ANSWERED_END = re.compile(r"You can now continue with (?:the user's|these) answers in mind\.\Z")
_APPROVED = re.compile(r"User has approved (?:your|the) plan\b")
_PLAN = re.compile(r"^## Approved Plan[^\n]*:[ \t]*\n(?P<words>.*)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"\s*<command-(?:name|message)>")
_COMMAND_NAME = re.compile(r"<command-name>\s*(?P<words>\S[^<\n]{0,200}?)\s*</command-name>")
_COMMAND_ARGS = re.compile(r"<command-args>(?P<words>.*)</command-args>", re.DOTALL)


def decided(record: Record, content: object) -> str:
    """Return the words of decisions in the tool results of a record, "" if there are none."""
    if not isinstance(content, list):
        return ""
    results = (
        block for block in content if isinstance(block, dict) and block.get("type") == "tool_result"
    )
    return "\n".join(filter(None, (_decision(block, record) for block in results)))


def command(content: object) -> str:
    """Return a slash command that has arguments as it was typed, "" for anything else."""
    text = block_text(content)
    if not _COMMAND.match(text):
        return ""
    name, args = _COMMAND_NAME.search(text), _COMMAND_ARGS.search(text)
    words = args["words"].strip() if args else ""
    return f"{name['words'] if name else ''} {words}".strip() if words else ""


def _decision(result: dict[str, Any], record: Record) -> str:
    text = block_text(result.get("content")).strip()
    # Every tool that runs has a result of its own shape here; some records have none at all.
    details = record.get("toolUseResult", {})
    if result.get("is_error"):
        found = _REFUSED.match(text)
        return _feedback(found) if found and (not details or isinstance(details, str)) else ""
    if not isinstance(details, dict):
        return ""
    if (found := _ANSWERED.match(text)) and (not details or "answers" in details):
        return _ANSWERED_END.sub("", found["words"]).strip().removesuffix(".")
    if _APPROVED.match(text) and (not details or "plan" in details):
        plan = details.get("plan")
        found = _PLAN.search(text)
        words = found["words"] if found else plan if isinstance(plan, str) else ""
        return f"Approved plan:\n{words.strip()}" if words.strip() else ""
    return ""


def _feedback(found: re.Match[str]) -> str:
    words = _REFUSED_NOTE.sub("", found["words"])
    if clarify := _CLARIFY.match(words):
        words = _NO_ANSWER.sub("", words[clarify.end() :])
    return words.strip()
