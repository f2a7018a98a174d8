import pytest

from memctl.arguments import COMMANDS, Arguments, UsageError, help_text, parse


def test_search_takes_words_and_filters() -> None:
    line = (
        "search --max-results 3 when is --min-score=0.5 --source memory --source sessions"
        " --path memory/** --since 2026-01-01 --until 2026-02-01 tea"
    )
    assert parse(line.split()) == Arguments(
        command="search",
        words=["when", "is", "tea"],
        max_results=3,
        min_score=0.5,
        sources=["memory", "sessions"],
        path_glob="memory/**",
        since="2026-01-01",
        until="2026-02-01",
    )


def test_search_takes_the_number_of_a_hit_to_open() -> None:
    assert parse(["search", "tea", "--open", "2"]).open_hit == 2


def test_get_takes_a_path_and_lines() -> None:
    assert parse(["get", "MEMORY.md", "--from", "5", "--lines", "9"]) == Arguments(
        command="get", words=["MEMORY.md"], start_line=5, lines=9
    )


@pytest.mark.parametrize(
    "line",
    [
        "--json --agent a --socket /s --timeout 2.5 --wait 0 ping",
        "ping --json --agent a --socket /s --timeout 2.5 --wait 0",
        "--json --agent=a --socket=/s ping --timeout=2.5 --wait=0",
    ],
)
def test_general_options_go_before_and_after_the_command(line: str) -> None:
    assert parse(line.split()) == Arguments(
        command="ping", json=True, agent="a", socket="/s", timeout_s=2.5, wait_s=0
    )


def test_switches() -> None:
    assert parse(["index", "--force"]).force
    assert parse(["sync", "--no-vectors"]).no_vectors
    assert parse(["logs", "--follow"]).follow


@pytest.mark.parametrize("state", ["skipped", "failed", "remarked"])
def test_files_are_those_of_one_state(state: str) -> None:
    assert parse(["files"]).state == "indexed"
    assert parse(["files", f"--{state}"]).state == state


def test_events_take_kinds() -> None:
    line = ["events", "--kind", "indexed", "--kind=searched"]
    assert parse(line).kinds == ["indexed", "searched"]


def test_start_takes_what_the_daemon_is_to_serve() -> None:
    line = ["start", "--workspace", "notes", "--config", "c.toml", "--agent", "work"]
    assert parse(line) == Arguments(
        command="start", workspace="notes", config="c.toml", agent="work"
    )


def test_after_a_double_dash_everything_is_a_word() -> None:
    assert parse(["search", "--", "--json", "-x"]).words == ["--json", "-x"]


def test_a_value_may_begin_with_a_dash() -> None:
    assert parse(["search", "tea", "--path", "-x"]).path_glob == "-x"
    assert parse(["search", "tea", "--path=--x"]).path_glob == "--x"
    assert parse(["search", "tea", "--min-score", "-1"]).min_score == -1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "no command given. Commands: search, get, "),
        ("--json", "no command given"),
        ("serch tea", "unknown command 'serch'; did you mean search?"),
        ("search", "search needs QUERY…"),
        ("get", "get needs PATH"),
        ("get a b", "get takes no argument 'b'"),
        ("ping x", "ping takes no argument 'x'"),
        ("search tea --max-result 3", "unknown option --max-result; did you mean --max-results?"),
        ("search -q tea", "unknown option -q; put -- before a query that begins with a dash"),
        ("ping --force", "unknown option --force"),
        ("--max-results 3 search tea", "unknown option --max-results"),
        ("search tea --max-results", "--max-results must be a whole number of at least 1"),
        ("search tea --max-results --json", "--max-results must be a whole number of at least 1"),
        (
            "search tea --max-results 0",
            "--max-results must be a whole number of at least 1 (got '0')",
        ),
        (
            "search tea --max-results few",
            "--max-results must be a whole number of at least 1 (got 'few')",
        ),
        ("search tea --min-score nan", "--min-score must be a number (got 'nan')"),
        ("search tea --since 20260101", "--since must be a date like 2026-11-28 (got '20260101')"),
        ("search tea --until 2026-02-30", "--until must be a date like 2026-11-28"),
        ("ping --timeout -1", "--timeout must be a number of seconds (got '-1')"),
        ("search tea --open 0", "--open must be a whole number of at least 1 (got '0')"),
        ("search tea --open 1 --json", "--open and --json can't be combined"),
        ("add", "add needs DIR"),
        ("drop", "drop needs AGENT|DIR"),
        ("drop a b", "drop takes no argument 'b'"),
        ("files --skiped", "unknown option --skiped; did you mean --skipped?"),
        ("files --skipped=yes", "--skipped takes no value"),
        ("events --kind", "--kind needs a kind of event"),
        ("start --workspace", "--workspace needs a folder"),
        ("stop --workspace x", "unknown option --workspace"),
        ("logs --lines all", "--lines must be a whole number of at least 1 (got 'all')"),
        ("ping --json=yes", "--json takes no value"),
    ],
)
def test_mistakes_are_told_plainly(line: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line.split())
    assert complaint in str(caught.value)


def test_help_wins_over_what_is_missing() -> None:
    assert parse(["search", "--help"]) == Arguments(command="search", help=True)
    assert parse(["-h"]).help
    assert parse(["--version"]).version


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_every_option(command: str) -> None:
    text = help_text(command)
    assert text.startswith(f"usage: memctl {command}")
    for option in COMMANDS[command].options:
        assert f"\n  {option.flag}" in text
    assert "--socket PATH" in text


def test_general_help_lists_every_command_and_exit_status() -> None:
    text = help_text("")
    assert all(f"\n  {command}" in text for command in COMMANDS)
    assert "130 interrupted" in text


def test_no_help_line_is_wider_than_a_terminal() -> None:
    lines = [line for name in ("", *COMMANDS) for line in help_text(name).split("\n")]
    assert max(map(len, lines)) <= 80
