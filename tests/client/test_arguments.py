import pytest

from memoryd_client.arguments import COMMANDS, Arguments, UsageError, help_text, parse


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


def test_get_takes_a_path_and_lines() -> None:
    assert parse(["get", "MEMORY.md", "--from", "5", "--lines", "9"]) == Arguments(
        command="get", words=["MEMORY.md"], start_line=5, lines=9
    )


@pytest.mark.parametrize(
    "line",
    [
        "--json --socket /s --timeout 2.5 --wait 0 ping",
        "ping --json --socket /s --timeout 2.5 --wait 0",
        "--json --socket=/s ping --timeout=2.5 --wait=0",
    ],
)
def test_general_options_go_before_and_after_the_command(line: str) -> None:
    assert parse(line.split()) == Arguments(
        command="ping", json=True, socket="/s", timeout_s=2.5, wait_s=0
    )


def test_switches() -> None:
    assert parse(["index", "--force"]).force
    assert parse(["sync", "--no-vectors"]).no_vectors


def test_after_a_double_dash_everything_is_a_word() -> None:
    assert parse(["search", "--", "--json", "-x"]).words == ["--json", "-x"]


def test_a_value_may_begin_with_a_dash() -> None:
    assert parse(["search", "tea", "--path", "-x"]).path_glob == "-x"
    assert parse(["search", "tea", "--path=--x"]).path_glob == "--x"
    assert parse(["search", "tea", "--min-score", "-1"]).min_score == -1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "say what to do: search, get, "),
        ("--json", "say what to do"),
        ("serch tea", "no command 'serch'; did you mean search?"),
        ("search", "search needs QUERY…"),
        ("get", "get needs PATH"),
        ("get a b", "get doesn't know what to do with 'b'"),
        ("ping x", "ping doesn't know what to do with 'x'"),
        ("search tea --max-result 3", "unknown option --max-result; did you mean --max-results?"),
        ("search -q tea", "unknown option -q; put -- before a query that begins with a dash"),
        ("ping --force", "unknown option --force"),
        ("--max-results 3 search tea", "unknown option --max-results"),
        ("search tea --max-results", "--max-results takes a whole number from 1"),
        ("search tea --max-results --json", "--max-results takes a whole number from 1"),
        ("search tea --max-results 0", "--max-results takes a whole number from 1, not '0'"),
        ("search tea --max-results few", "--max-results takes a whole number from 1, not 'few'"),
        ("search tea --min-score nan", "--min-score takes a number, not 'nan'"),
        ("search tea --since 20260101", "--since takes a date like 2026-11-28, not '20260101'"),
        ("search tea --until 2026-02-30", "--until takes a date like 2026-11-28"),
        ("ping --timeout -1", "--timeout takes a number of seconds, not '-1'"),
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
