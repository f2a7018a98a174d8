"""Parser and help of the command line of `memctl`.

It reads a small table (`commands`) instead of using argparse, which costs about 6 ms: nearly as
much as starting Python.
"""

from collections.abc import Iterator

from msgspec import Struct

from memctl.commands import COMMANDS, GENERAL_OPTIONS, Option
from memoryd_client.schema.facts import FactCategory
from memoryd_client.schema.notes import NoteAction, NoteKind
from memoryd_client.schema.search import Origin

__all__ = ["COMMANDS", "Arguments", "UsageError", "help_text", "parse"]


FACT_ACTIONS = {
    **dict.fromkeys(("store", "recall", "forget", "search"), "text"),
    **dict.fromkeys(("export", "import"), "file"),
    **dict.fromkeys(("list", "stats"), ""),
}
"""Actions of `memctl facts`, and what they need."""


class UsageError(Exception):
    """An invalid command line; `command` is the command whose help explains it."""

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class Arguments(Struct):
    """A valid command line. `words` are the command's own words: a query or a path."""

    command: str = ""
    words: list[str] = []
    help: bool = False
    version: bool = False
    json: bool = False
    agent: str | None = None
    socket: str | None = None
    timeout_s: float | None = None
    wait_s: float | None = None
    max_results: int | None = None
    min_score: float | None = None
    min_confidence: float | None = None
    sources: list[str] | None = None
    origins: list[str] | None = None
    path_glob: str | None = None
    since: str | None = None
    until: str | None = None
    visibility: str | None = None
    mode: str | None = None
    max_chars: int | None = None
    explain: bool = False
    trusted: bool = False
    full: bool = False
    session: str | None = None
    chat_type: str | None = None
    raw: bool = False
    match: str | None = None
    dry_run: bool = False
    delete_source: bool = False
    gone: bool = False
    yes: bool = False
    open_hit: int | None = None
    start_line: int = 1
    lines: int | None = None
    state: str = "indexed"
    why: str | None = None
    force: bool = False
    provider: str | None = None
    no_vectors: bool = False
    kinds: list[str] | None = None
    workspace: str | None = None
    config: str | None = None
    follow: bool = False
    file: str = "today"
    heading: str | None = None
    note_kind: NoteKind | None = None
    action: NoteAction = "write"
    origin: Origin = Origin.AGENT
    conversation: str | None = None
    supersedes: str | None = None
    apply: bool = False
    category: FactCategory | None = None
    importance: float = 0.7
    owner: str = ""


def parse(argv: list[str]) -> Arguments:
    """Parse a command line. Raises `UsageError`."""
    arguments = Arguments()
    rest = iter(argv)
    for word in rest:
        if word == "--":
            arguments.words.extend(rest)
        elif word.startswith("-") and word != "-":
            _read_option(arguments, "--help" if word == "-h" else word, rest)
        elif arguments.command:
            arguments.words.append(word)
        elif word in COMMANDS:
            arguments.command = word
        else:
            raise UsageError(f"unknown command {word!r}{_nearest(word, list(COMMANDS))}")
    if not (arguments.help or arguments.version):
        _check(arguments)
    return arguments


def _read_option(arguments: Arguments, word: str, rest: Iterator[str]) -> None:
    command = arguments.command
    flag, equals, value = word.partition("=")
    known = GENERAL_OPTIONS + (COMMANDS[command].options if command else ())
    option = next((option for option in known if option.flag == flag), None)
    if option is None:
        hint = _nearest(flag, [option.flag for option in known])
        words = {"search": "query", "recall": "message", "note": "text", "facts": "text"}
        if not hint and (what := words.get(command)) is not None:
            hint = f"; put -- before a {what} that begins with a dash"
        raise UsageError(f"unknown option {flag}{hint}", command=command)
    if option.kind is None:
        if equals:
            raise UsageError(f"{flag} takes no value", command=command)
        setattr(arguments, option.field, option.value)
        return
    if not equals:
        value = next(rest, "--")
        if value.startswith("--"):
            raise UsageError(f"{flag} {option.kind.must}", command=command)
    try:
        converted = option.kind.convert(value)
    except ValueError:
        message = f"{flag} {option.kind.must} (got {value!r})"
        raise UsageError(message, command=command) from None
    if option.kind.repeats:
        converted = [*(getattr(arguments, option.field) or ()), converted]
    setattr(arguments, option.field, converted)


def _check(arguments: Arguments) -> None:
    if not arguments.command:
        raise UsageError("no command given. Commands: " + ", ".join(COMMANDS))
    command = COMMANDS[arguments.command]
    if command.max_words and not (arguments.words or command.optional):
        raise UsageError(f"{arguments.command} needs {command.words}", command=arguments.command)
    if len(arguments.words) > command.max_words:
        extra = arguments.words[int(command.max_words)]
        message = f"{arguments.command} takes no argument {extra!r}"
        raise UsageError(message, command=arguments.command)
    if arguments.command == "note":
        _check_note(arguments)
    if arguments.command == "facts":
        _check_facts(arguments.words[0], arguments.words[1:])
    if arguments.json and arguments.open_hit:
        raise UsageError("--open and --json can't be combined", command="search")


def _check_note(arguments: Arguments) -> None:
    writes = arguments.action == "write"
    if writes and not arguments.words:
        raise UsageError("note needs TEXT…|-", command="note")
    if arguments.words and not writes:
        raise UsageError(f"note takes no text with --{arguments.action}", command="note")


def _check_facts(action: str, words: list[str]) -> None:
    if action not in FACT_ACTIONS:
        known = ", ".join(FACT_ACTIONS)
        raise UsageError(f"facts can't {action!r}; the actions are {known}", command="facts")
    needed = FACT_ACTIONS[action]
    if bool(needed) != bool(words):
        needs = f"needs a {needed}" if needed else "takes no text"
        raise UsageError(f"facts {action} {needs}", command="facts")


def _nearest(word: str, words: list[str]) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(word, words, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def help_text(name: str) -> str:
    """Return the help of a command, or of `memctl` itself for ""."""
    if name:
        command = COMMANDS[name]
        words = [name, command.words, "[options]"]
        blocks = ["usage: memctl " + " ".join(filter(None, words)), command.summary]
        if options := command.options:
            blocks.append("options:\n" + _columns([(_signature(o), o.help) for o in options]))
    else:
        blocks = ["usage: memctl COMMAND [options]"]
        blocks.append("Command-line client of memoryd, the memory daemon for AI agents.")
        commands = [(f"{key} {value.words}", value.summary) for key, value in COMMANDS.items()]
        blocks.append("commands:\n" + _columns(commands))
    general = [(_signature(option), option.help) for option in GENERAL_OPTIONS]
    blocks.append("general options, before or after the command:\n" + _columns(general))
    if not name:
        blocks.append(
            "exit status: 0 success, 1 failure, 2 bad command line, 3 no daemon, 4 not found,\n"
            "130 interrupted"
        )
    return "\n\n".join(blocks) + "\n"


def _signature(option: Option) -> str:
    return f"{option.flag} {option.kind.metavar}" if option.kind else option.flag


def _columns(rows: list[tuple[str, str]]) -> str:
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"  {left:<{width}}  {right}" for left, right in rows)
