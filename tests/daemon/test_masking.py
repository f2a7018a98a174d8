"""New rules for masking reach the index: transcripts are read again, without forgotten messages."""

import json
import sqlite3

from harness import Daemon

SETTINGS = """
sessions = { enabled = true, paths = ["~/chats"] }
sync = { watch_debounce_ms = 20, sessions = { idle_seconds = 3600 } }
"""
SECRET = "the ticket of the walk is ACME-4711"
TOKEN = "gh" + "p_" + "a1B2c3D4e5" * 4


def say(daemon: Daemon, name: str, *texts: str) -> None:
    with (daemon.folder / "chats" / name).open("a", encoding="utf-8") as chat:
        chat.writelines(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)


def chunks(daemon: Daemon) -> list[str]:
    connection = sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)
    rows = connection.execute("SELECT text FROM chunks ORDER BY text").fetchall()
    connection.close()
    return [text for (text,) in rows]


def test_transcripts_of_earlier_rules_are_masked_again(hybrid: Daemon) -> None:
    (hybrid.folder / "chats").mkdir()
    hybrid.settings = SETTINGS
    say(hybrid, "a.jsonl", SECRET, "a forgotten quincunx")
    say(hybrid, "b.jsonl", "a plain pear")
    hybrid.start().sync()
    assert hybrid.memctl_json("forget", "--match", "quincunx")["messages"] == 1
    hybrid.sync()
    assert chunks(hybrid) == ["User: a plain pear", f"User: {SECRET}"]
    assert hybrid.stop() == 0
    # The index as an earlier version left it: the secret was not known.
    with sqlite3.connect(hybrid.database) as connection:
        connection.execute(
            "UPDATE files SET hash = 'x', transcript = json_set(transcript, '$.reading', 'x')"
        )
    connection.close()
    hybrid.settings = f'{SETTINGS}redact = {{ patterns = ["ACME-[0-9]+"] }}\n'
    embedded = len(hybrid.embedded())
    hybrid.start().sync()
    masked = "User: the ticket of the walk is …[redacted: custom pattern]"
    assert chunks(hybrid) == ["User: a plain pear", masked]
    again = [line for line in hybrid.embedded()[embedded:] if "User: " in line]
    assert again == [repr(masked)], "unchanged chunks keep their vectors"
    assert hybrid.search("ticket of the walk").results[0].path.endswith("a.jsonl")
    hybrid.assert_healthy()


def test_a_mask_tells_the_kind_and_the_rest_of_the_line_is_found(hybrid: Daemon) -> None:
    (hybrid.folder / "chats").mkdir()
    hybrid.settings = SETTINGS
    say(hybrid, "a.jsonl", f"the deploy of the pear uses {TOKEN} since May")
    hybrid.start().sync()
    (result,) = hybrid.search("deploy pear May").results
    assert f"uses {TOKEN[:6]}…[redacted: GitHub token] since May" in result.snippet
    assert TOKEN not in " ".join(hybrid.embedded())
