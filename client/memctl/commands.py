"""The commands of `memctl`, their options, and what those take: a table for `arguments`."""

import math
from collections.abc import Callable
from datetime import date

from msgspec import Struct


class Kind(Struct, frozen=True):
    """What an option's value has to be. `convert` raises `ValueError` for anything else."""

    metavar: str
    takes: str
    convert: Callable[[str], object] = str


class Option(Struct, frozen=True):
    """One option: the field of `Arguments` it sets, and to what.

    With a `kind` that is the value it is given, else, as a switch, `value`.
    """

    flag: str
    field: str
    help: str
    kind: Kind | None = None
    repeats: bool = False
    value: object = True


class Command(Struct, frozen=True):
    """One command: its own words as its usage line shows them, and how many it takes."""

    summary: str
    words: str = ""
    min_words: int = 0
    max_words: float = 0
    options: tuple[Option, ...] = ()


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


_DATE = Kind("DATE", "a date like 2026-11-28", _date)
_DIR = Kind("DIR", "a folder")
_PATH = Kind("PATH", "a path")
_SECONDS = Kind("SECONDS", "a number of seconds", _seconds)
_WHOLE = Kind("N", "a whole number from 1", _whole)

_CONFIG = Option("--config", "config", "the configuration file", Kind("FILE", "a path"))

GENERAL_OPTIONS = (
    Option("--json", "json", "print JSON, errors too"),
    Option("--agent", "agent", "which agent; else by folder", Kind("ID", "an agent's id")),
    Option("--socket", "socket", "where memoryd listens", _PATH),
    Option("--timeout", "timeout_s", "how long to wait for the answer", _SECONDS),
    Option("--wait", "wait_s", "how long to wait for memoryd to start", _SECONDS),
    Option("--help", "help", "show help, after a command: of that command"),
    Option("--version", "version", "show the version"),
)

COMMANDS: dict[str, Command] = {
    "search": Command(
        "Search memory and print cited snippets, best first.",
        "QUERY…",
        1,
        math.inf,
        (
            Option("--max-results", "max_results", "at most so many results", _WHOLE),
            Option(
                "--min-score",
                "min_score",
                "only results with at least this score",
                Kind("X", "a number", _finite),
            ),
            Option(
                "--source",
                "sources",
                "only from this source; may be repeated",
                Kind("NAME", "the name of a source"),
                repeats=True,
            ),
            Option("--path", "path_glob", "only from matching paths", Kind("GLOB", "a pattern")),
            Option("--since", "since", "nothing older than this day", _DATE),
            Option("--until", "until", "nothing newer than this day", _DATE),
            Option(
                "--visibility",
                "visibility",
                "transcripts of: self, agent or all",
                Kind("V", "self, agent or all"),
            ),
            Option("--session", "session", "the session that self means", Kind("ID", "an id")),
            Option(
                "--mode",
                "mode",
                "hybrid, keyword or vector",
                Kind("M", "hybrid, keyword or vector"),
            ),
            Option("--max-chars", "max_chars", "at most so much text in all", _WHOLE),
            Option("--explain", "explain", "show why each result is where it is"),
            Option("--open", "open_hit", "open result N in $EDITOR at its line", _WHOLE),
        ),
    ),
    "get": Command(
        "Print lines of a memory file.",
        "PATH",
        1,
        1,
        (
            Option("--from", "start_line", "the first line (1)", _WHOLE),
            Option("--lines", "lines", "how many lines", _WHOLE),
            Option("--raw", "raw", "of a transcript: the records themselves"),
        ),
    ),
    "status": Command("Show how all agents and the daemon are, or --agent alone."),
    "files": Command(
        "List the files in the index, or others the agent knows.",
        options=(
            Option("--skipped", "state", "those that are no memory, and why", value="skipped"),
            Option("--failed", "state", "those that can't be read, and why", value="failed"),
            Option("--remarked", "state", "those with something to know", value="remarked"),
        ),
    ),
    "sessions": Command("List the transcripts, and what of each waits."),
    "forget": Command(
        "Forget transcripts, or messages in them, for good.",
        options=(
            Option("--session", "session", "all of this session", Kind("ID", "an id")),
            Option("--path", "path_glob", "this transcript", Kind("NAME", "a name")),
            Option("--match", "match", "messages that have this text", Kind("TEXT", "a text")),
            Option("--dry-run", "dry_run", "only show what it would be"),
            Option("--delete-source", "delete_source", "delete the transcripts' files too"),
            Option("--yes", "yes", "don't ask before files are deleted"),
        ),
    ),
    "index": Command(
        "Compare disk and index now.",
        options=(
            Option("--force", "force", "build the index anew"),
            Option(
                "--provider",
                "provider",
                "who embeds from now on; auto: look again",
                Kind("NAME", "a provider's name"),
            ),
        ),
    ),
    "sync": Command(
        "Wait until every change made so far is searchable.",
        options=(Option("--no-vectors", "no_vectors", "by keywords is enough"),),
    ),
    "probe": Command("Try out what a search needs, and say what to do if it fails."),
    "doctor": Command(
        "Find out what is wrong, and how to put it right.",
        options=(_CONFIG,),
    ),
    "events": Command(
        "Show what happens, as it happens, until interrupted.",
        options=(
            Option(
                "--kind",
                "kinds",
                "only events of this kind; may be repeated",
                Kind("K", "the kind of an event"),
                repeats=True,
            ),
        ),
    ),
    "config": Command("Print the effective settings and where each comes from."),
    "agents": Command("List the agents that the daemon serves; * is the one you get."),
    "add": Command("Serve one more workspace.", "DIR", 1, 1),
    "drop": Command("Stop serving a workspace that was added.", "AGENT|DIR", 1, 1),
    "reload": Command("Read the configuration again."),
    "start": Command(
        "Start memoryd in the background and wait until it is ready.",
        options=(
            Option("--workspace", "workspace", "the folder of the agent's memory", _DIR),
            _CONFIG,
        ),
    ),
    "stop": Command("Stop memoryd and wait until it is gone."),
    "restart": Command("Stop memoryd and start it again as it was started."),
    "logs": Command(
        "Print the end of memoryd's log.",
        options=(
            Option("--lines", "lines", "how many lines (40)", _WHOLE),
            Option("--follow", "follow", "and what is added, until interrupted"),
        ),
    ),
    "ping": Command("Ask whether memoryd is alive."),
}
