"""The command `memctl facts`: facts stored, recalled, forgotten, listed, exported and imported."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime

from memctl import json_output
from memctl.arguments import FACT_ACTIONS, Arguments
from memctl.output import write
from memoryd_client.client import Client
from memoryd_client.schema.facts import (
    Fact,
    FactForgetResult,
    FactRecallResult,
    FactsResult,
    FactStoreResult,
)
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import one_line, printable_name

FactAnswer = FactStoreResult | FactRecallResult | FactForgetResult
_ID_DASHES, _ID_CHARS = 4, 36


def ask(client: Client, arguments: Arguments) -> FactAnswer | None:
    """Return the daemon's answer; None if the command has already printed it."""
    action, *words = arguments.words
    is_piped = words == ["-"] and FACT_ACTIONS[action] == "text"
    text = sys.stdin.read() if is_piped else " ".join(words)
    return _ACTIONS[action](client, arguments, text)


def _store(client: Client, arguments: Arguments, text: str) -> FactStoreResult:
    return client.fact_store(
        text,
        importance=arguments.importance,
        category=arguments.category or "other",
        origin=arguments.origin,
        owner=arguments.owner,
        timeout_s=arguments.timeout_s,
    )


def _recall(client: Client, arguments: Arguments, text: str) -> FactRecallResult:
    return client.fact_recall(
        text,
        limit=arguments.max_results or 5,
        min_score=arguments.min_score,
        owner=arguments.owner,
        timeout_s=arguments.timeout_s,
    )


def _forget(client: Client, arguments: Arguments, text: str) -> FactForgetResult:
    owner, timeout_s = arguments.owner, arguments.timeout_s
    if len(text) == _ID_CHARS and text.count("-") == _ID_DASHES and " " not in text:
        return client.fact_forget(fact_id=text, owner=owner, timeout_s=timeout_s)
    return client.fact_forget(query=text, owner=owner, timeout_s=timeout_s)


def _list(client: Client, arguments: Arguments, text: str) -> None:
    """Print facts page by page: all of them, or those that contain a text."""
    facts = [fact for page in _pages(client, arguments, text) for fact in page.facts]
    if arguments.json:
        write(json_output.text(json_output.answer_list(facts)))
        return
    write("".join(_line(fact) for fact in facts) or "No facts\n")


def _stats(client: Client, arguments: Arguments, _: str) -> None:
    page = next(_pages(client, arguments, "", limit=1))
    total = sum(page.categories.values())
    if arguments.json:
        shown = {
            "store": page.store,
            "owner": page.owner,
            "facts": total,
            "categories": page.categories,
            "withoutVector": page.without_vector,
            "warnings": page.warnings,
        }
        write(json_output.text(shown))
        return
    lines = [f"{counted(total, 'fact')} of {printable_name(page.owner)} in {page.store}"]
    lines += [f"  {category}  {number}" for category, number in page.categories.items()]
    if page.without_vector:
        lines.append(f"{counted(page.without_vector, 'fact')} without a vector yet")
    lines += [f"warning: {one_line(warning)}" for warning in page.warnings]
    write("\n".join(lines) + "\n")


def _export(client: Client, arguments: Arguments, path: str) -> None:
    from memctl import facts_note

    facts = [fact for page in _pages(client, arguments, "") for fact in page.facts]
    if path == "-":
        write(facts_note.note_text(facts))
        return
    facts_note.write_note(path, facts)
    if arguments.json:
        write(json_output.text({"path": path, "facts": len(facts)}))
    else:
        write(f"Exported: {counted(len(facts), 'fact')} to {printable_name(path)}\n")


def _import(client: Client, arguments: Arguments, path: str) -> None:
    from memctl import facts_note

    facts_note.import_note(client, arguments, path)


_ACTIONS: dict[str, Callable[[Client, Arguments, str], FactAnswer | None]] = {
    "store": _store,
    "recall": _recall,
    "forget": _forget,
    "list": _list,
    "search": _list,
    "stats": _stats,
    "export": _export,
    "import": _import,
}


def _pages(
    client: Client, arguments: Arguments, text: str, *, limit: int = 500
) -> Iterator[FactsResult]:
    after: str | None = None
    while True:
        page = client.facts_page(
            text,
            category=arguments.category,
            owner=arguments.owner,
            after=after,
            limit=limit,
            timeout_s=arguments.timeout_s,
        )
        yield page
        if (after := page.next_after) is None:
            return


def text(result: FactAnswer) -> str:
    """Return the facts of an answer, one a line."""
    match result:
        case FactStoreResult():
            done = "Already known" if result.duplicate else "Stored"
            return f"{done}: {_line(result.fact)}"
        case FactRecallResult():
            return "".join(f"{match.score:.2f}  {_line(match.fact)}" for match in result.facts)
        case FactForgetResult():
            lines = [f"Forgotten: {_line(fact)}" for fact in result.forgotten]
            lines += [f"{match.score:.2f}  {_line(match.fact)}" for match in result.candidates]
            return "".join(lines)


def remarks(result: FactAnswer) -> list[str]:
    """Return the remarks for stderr, one per line."""
    lines = []
    match result:
        case FactStoreResult(masked=True):
            lines.append("a secret in the text was masked")
        case FactRecallResult(facts=[]):
            lines.append("no fact fits")
        case FactForgetResult(forgotten=[]):
            why = "give the id of one of these" if result.candidates else "no fact fits"
            lines.append(f"nothing was forgotten: {why}")
    return lines + [f"warning: {one_line(warning)}" for warning in result.warnings]


def _line(fact: Fact) -> str:
    try:
        day = datetime.fromtimestamp(fact.created_at).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):  # another program's row
        day = "unknown day"
    whose = "" if fact.origin == "agent" else f"  ({fact.origin})"
    return f"{fact.id}  {day}  {fact.category}  {one_line(fact.text)}{whose}\n"
