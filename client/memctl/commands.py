"""Table of the commands of `memctl`, their options and the values that options take."""

import math
from collections.abc import Callable
from datetime import date

from msgspec import Struct

from memoryd_client.schema.search import Origin


class Kind(Struct, frozen=True):
    """Type of an option's value. `convert` raises `ValueError` for an invalid one.

    An error reads: the flag, then `must`. An option that `repeats` collects its values.
    """

    metavar: str
    must: str
    convert: Callable[[str], object] = str
    repeats: bool = False


class Option(Struct, frozen=True):
    """One option and the field of `Arguments` that it sets.

    An option with a `kind` takes a value; any other is a switch that sets `value`.
    """

    flag: str
    field: str
    help: str
    kind: Kind | None = None
    value: object = True


class Command(Struct, frozen=True):
    """One command. `words` is for its usage line.

    It needs one unless `max_words` is 0, or the words are `optional`.
    """

    summary: str
    words: str = ""
    max_words: float = 0
    options: tuple[Option, ...] = ()
    optional: bool = False


def _whole(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError
    return number


def _seconds(text: str) -> float:
    if (number := _finite(text)) < 0:
        raise ValueError
    return number


def _date(text: str) -> str:
    # fromisoformat() alone also takes week dates and dates without hyphens.
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError
    return text


def _note_kind(text: str) -> str:
    if text not in ("fact", "decision", "preference", "todo"):
        raise ValueError
    return text


def _category(text: str) -> str:
    if text not in ("preference", "fact", "decision", "entity", "other"):
        raise ValueError
    return text


def _share(text: str) -> float:
    if not 0 <= (number := _finite(text)) <= 1:
        raise ValueError
    return number


_AGENT = Kind("ID", "needs an agent id")
_CATEGORY = Kind("C", "must be preference, fact, decision, entity or other", _category)
_CHAT = Kind("TYPE", "must be direct, group or channel")
_CITED = Kind("CITATION", "needs a citation")
_DATE = Kind("DATE", "must be a date like 2026-11-28", _date)
_DIR = Kind("DIR", "needs a folder")
_EVENT = Kind("K", "needs a kind of event", repeats=True)
_FILE = Kind("FILE", "needs a path")
_GLOB = Kind("GLOB", "needs a pattern")
_ID = Kind("ID", "needs an id")
_MODE = Kind("M", "must be hybrid, keyword or vector")
_NAME = Kind("NAME", "needs a name")
_NOTE = Kind("FILE", "needs today, MEMORY.md or a path below memory/")
_NOTE_KIND = Kind("KIND", "must be fact, decision, preference or todo", _note_kind)
_ORIGIN = Kind("ORIGIN", "must be owner, system, agent, imported or untrusted", Origin)
_ORIGINS = Kind(_ORIGIN.metavar, _ORIGIN.must, Origin, repeats=True)
_PATH = Kind("PATH", "needs a path")
_PROVIDER = Kind("NAME", "needs the name of a provider")
_SCOPE = Kind("V", "must be self, tree, agent or all")
_SCORE = Kind("X", "must be a number", _finite)
_SECONDS = Kind("SECONDS", "must be a number of seconds", _seconds)
_SHARE = Kind("X", "must be a number from 0 to 1", _share)
_SOURCE = Kind("NAME", "needs the name of a source", repeats=True)
_TEXT = Kind("TEXT", "needs a text")
_TITLE = Kind("H", "needs the title of a section")
_WHOLE = Kind("N", "must be a whole number of at least 1", _whole)

_CONFIG = Option("--config", "config", "configuration file", _FILE)

_DRY_RUN = Option("--dry-run", "dry_run", "only show the changes")

GENERAL_OPTIONS = (
    Option("--json", "json", "print JSON, including errors"),
    Option("--agent", "agent", "agent to use; default: by current folder", _AGENT),
    Option("--socket", "socket", "socket of memoryd", _PATH),
    Option("--timeout", "timeout_s", "maximum time to wait for the answer", _SECONDS),
    Option("--wait", "wait_s", "maximum time to wait for memoryd to start", _SECONDS),
    Option("--help", "help", "show help, for a command if given after it"),
    Option("--version", "version", "show the version"),
)

COMMANDS: dict[str, Command] = {
    "search": Command(
        "Search memory and print cited snippets, best first.",
        "QUERY…",
        math.inf,
        (
            Option("--max-results", "max_results", "maximum number of results", _WHOLE),
            Option("--min-score", "min_score", "minimum score of a result", _SCORE),
            Option(
                "--min-confidence", "min_confidence", "minimum probability of an answer", _SCORE
            ),
            Option("--source", "sources", "search only this source; can be repeated", _SOURCE),
            Option("--path", "path_glob", "search only paths that match", _GLOB),
            Option("--since", "since", "exclude anything before this day", _DATE),
            Option("--until", "until", "exclude anything after this day", _DATE),
            Option("--visibility", "visibility", "transcripts: self, tree, agent or all", _SCOPE),
            Option("--session", "session", "session that `self` and `tree` refer to", _ID),
            Option("--chat-type", "chat_type", "chat of the answer: direct, group, channel", _CHAT),
            Option("--mode", "mode", "hybrid, keyword or vector", _MODE),
            Option(
                "--max-chars", "max_chars", "maximum characters of all snippets together", _WHOLE
            ),
            Option("--trusted", "trusted", "leave out the words of strangers"),
            Option("--origin", "origins", "only words of this origin; can be repeated", _ORIGINS),
            Option(
                "--conversation", "conversation", "only what comes from this conversation", _NAME
            ),
            Option("--full", "full", "show whole snippets, not only the matching lines"),
            Option("--explain", "explain", "show how each result was scored"),
            Option("--open", "open_hit", "open result N in $EDITOR at its line", _WHOLE),
        ),
    ),
    "get": Command(
        "Print lines of a memory file.",
        "PATH",
        1,
        (
            Option("--from", "start_line", "first line (default: 1)", _WHOLE),
            Option("--lines", "lines", "number of lines", _WHOLE),
            Option("--raw", "raw", "print a transcript's raw records"),
            Option("--session", "session", "session that asks", _ID),
            Option("--chat-type", "chat_type", "chat of the answer: direct, group, channel", _CHAT),
        ),
    ),
    "context": Command(
        "Print the notes that a session begins with.",
        options=(
            Option("--session", "session", "id of the session", _ID),
            Option("--chat-type", "chat_type", "direct, group or channel", _CHAT),
            Option("--max-chars", "max_chars", "maximum characters (8000)", _WHOLE),
        ),
    ),
    "recall": Command(
        "Print the entries of notes that fit a message.",
        "MESSAGE…",
        math.inf,
        (
            Option("--max-chars", "max_chars", "maximum characters (default: 1500)", _WHOLE),
            Option("--chat-type", "chat_type", "direct, group or channel", _CHAT),
        ),
    ),
    "status": Command("Show the status of the daemon and all agents, or of --agent."),
    "files": Command(
        "List indexed, skipped, unreadable or remarked files.",
        options=(
            Option(
                "--skipped", "state", "files that are not memory, with the reason", value="skipped"
            ),
            Option(
                "--failed",
                "state",
                "files that can't be read or get no vector, and why",
                value="failed",
            ),
            Option("--remarked", "state", "files with a remark", value="remarked"),
            Option("--why", "why", "the state of one file, and why it is not indexed", _NAME),
        ),
    ),
    "sessions": Command("List transcripts and how much of each is not indexed yet."),
    "forget": Command(
        "Permanently forget notes, transcripts, messages or facts.",
        options=(
            Option("--session", "session", "forget this session", _ID),
            Option("--path", "path_glob", "forget this note or transcript", _NAME),
            Option("--match", "match", "forget messages and facts with this text", _TEXT),
            Option("--gone", "gone", "forget all transcripts whose files are gone"),
            Option("--dry-run", "dry_run", "only list what would be forgotten"),
            Option("--delete-source", "delete_source", "also delete the files"),
            Option("--yes", "yes", "delete files without asking"),
        ),
    ),
    "export": Command("Write the texts of all transcripts to an archive.", "FILE", 1),
    "import": Command("Keep the transcripts of an archive from another machine.", "FILE", 1),
    "note": Command(
        "Write a note that is searchable at once.",
        "TEXT…|-",
        math.inf,
        (
            Option("--file", "file", "today (default), MEMORY.md or memory/NAME.md", _NOTE),
            Option("--heading", "heading", "section of the file, added if missing", _TITLE),
            Option("--kind", "note_kind", "fact, decision, preference or todo", _NOTE_KIND),
            Option("--origin", "origin", "whose words: agent (default), owner, …", _ORIGIN),
            Option("--conversation", "conversation", "citation of the conversation", _CITED),
            Option("--supersedes", "supersedes", "citation of what it replaces", _CITED),
            Option("--undo", "action", "take back the last note, if unchanged", value="undo"),
            Option("--restore", "action", "write lost notes again", value="restore"),
            Option("--dismiss", "action", "stop reporting lost notes", value="dismiss"),
        ),
        optional=True,
    ),
    "promote": Command(
        "Show candidates for MEMORY.md from dated notes, or add them.",
        "[N|ID]",
        1,
        (
            Option("--explain", "full", "show all entries and the parts of their scores"),
            Option("--apply", "apply", "add the candidates: all, the first N or that with ID"),
        ),
        optional=True,
    ),
    "stale": Command("List entries of MEMORY.md that newer notes contradict."),
    "facts": Command(
        "Store, recall, forget, list, count, export or import facts.",
        "ACTION …",
        math.inf,
        (
            Option("--category", "category", "preference, fact, decision, …", _CATEGORY),
            Option("--importance", "importance", "0 to 1 (default: 0.7)", _SHARE),
            Option("--origin", "origin", "whose words: agent (default), owner, …", _ORIGIN),
            Option("--owner", "owner", "whose facts (default: the agent's)", _NAME),
            Option("--max-results", "max_results", "maximum facts to recall (5)", _WHOLE),
            Option("--min-score", "min_score", "minimum score to recall (0.5)", _SCORE),
        ),
    ),
    "flush-prompt": Command(
        "Print the instruction to save notes before a compaction.",
        options=(Option("--session", "session", "id of the session", _ID),),
    ),
    "index": Command(
        "Bring the index up to date with the disk now.",
        options=(
            Option("--force", "force", "rebuild the index"),
            Option(
                "--provider",
                "provider",
                "embedding provider from now on; auto: choose again",
                _PROVIDER,
            ),
            Option("--yes", "yes", "send a large amount of text to the provider without asking"),
        ),
    ),
    "sync": Command(
        "Wait until all changes made so far are searchable.",
        options=(Option("--no-vectors", "no_vectors", "don't wait for vectors"),),
    ),
    "probe": Command("Test everything that a search needs, and suggest fixes."),
    "doctor": Command("Diagnose problems and suggest fixes.", options=(_CONFIG,)),
    "events": Command(
        "Show events as they happen, until interrupted.",
        options=(
            Option("--kind", "kinds", "show only this kind of event; can be repeated", _EVENT),
        ),
    ),
    "config": Command("Print the effective settings and the origin of each."),
    "agents": Command("List the agents of the daemon; * marks the one you use here."),
    "add": Command("Serve another workspace.", "DIR", 1),
    "drop": Command("Stop serving a workspace that `add` registered.", "AGENT|DIR", 1),
    "reload": Command("Reload the configuration."),
    "connect": Command(
        "Be the memory of claude, codex, gemini or openclaw; or test.",
        "[NAME]",
        1,
        (_DRY_RUN,),
        optional=True,
    ),
    "disconnect": Command("Undo `connect`.", "NAME", 1, (_DRY_RUN,)),
    "hook": Command("Answer an event of an agent, given on stdin.", "AGENT EVENT", 2),
    "start": Command(
        "Start memoryd in the background and wait until it is ready.",
        options=(
            Option("--workspace", "workspace", "folder with the agent's memory", _DIR),
            _CONFIG,
        ),
    ),
    "stop": Command("Stop memoryd and wait until it has exited."),
    "restart": Command("Stop memoryd and start it again with the same options."),
    "logs": Command(
        "Print the end of memoryd's log.",
        options=(
            Option("--lines", "lines", "number of lines (default: 40)", _WHOLE),
            Option("--follow", "follow", "keep printing new lines, until interrupted"),
        ),
    ),
    "mcp": Command("Serve memory to an agent by MCP, on stdin and stdout."),
    "ping": Command("Check whether memoryd answers."),
}
