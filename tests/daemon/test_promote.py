"""`memctl promote`: candidates, their scores, and entries that are added to MEMORY.md."""

import json
import re
import sqlite3
import time
from typing import Any

import pytest
from harness import Daemon
from test_recall_counts import BOILER, NOTE, ON, WOUT, ask, fill

from memoryd_client.errors import BadRequestError, NotFoundError

DATED = "memory/2026-11-20.md"
SOURCE = f"{DATED}#L3"
TEXT = "Wout of the Nieuwpoort marina wants phone calls."
DAY = 86_400.0


@pytest.fixture
def recalled(daemon: Daemon) -> Daemon:
    """A running daemon with one candidate, and one entry that is none."""
    daemon.settings += f"\n{ON}"
    fill(daemon)
    daemon.write("MEMORY.md", "# Memory\n\n- I live in Ghent.\n")
    daemon.start().sync()
    ask(daemon, WOUT, BOILER)
    daemon.stop()
    count(daemon, 3)
    return daemon.start()


def count(daemon: Daemon, line: int, **changed: Any) -> None:
    """Give an entry of a stopped daemon the counts of a candidate."""
    now = time.time()
    days = [time.strftime("%Y-%m-%d", time.localtime(now - ago * DAY)) for ago in (6, 4, 0)]
    values = {
        "recalls": 5,
        "total": 4.5,
        "questions": json.dumps(["a", "b", "c", "d"]),
        "days": json.dumps(days),
        "last_at": now,
        **changed,
    }
    with sqlite3.connect(daemon.database) as connection:
        for column, value in values.items():
            connection.execute(
                f"UPDATE recalls SET {column} = ? WHERE first_line = ?", (value, line)
            )
    connection.close()


def memory(daemon: Daemon) -> str:
    return (daemon.workspace / "MEMORY.md").read_text()


def id_of(daemon: Daemon, line: int = 3) -> str:
    with daemon.client() as client:
        found = client.promote().candidates
    return next(each.id for each in found if each.citation == f"{DATED}#L{line}")


def test_candidates_are_shown_and_nothing_is_changed(recalled: Daemon) -> None:
    before = memory(recalled)
    shown = recalled.memctl("promote")
    assert re.fullmatch(rf"[0-9a-f]{{12}}  0\.86  {SOURCE}\n    {TEXT}\n", shown.stdout)
    assert shown.stderr == "recalled, but no candidates: 1; --explain shows why\n"
    everything = recalled.memctl("promote", "--explain").stdout
    assert (
        "relevance 0.90 · frequency 0.75 · diversity 0.80 · recency 1.00 · consolidation 0.76 ·"
        " concepts 1.00\n    5 recalls, 4 questions, 3 days\n"
    ) in everything
    assert "recalled 1 of 3 times; by 1 of 3 questions" in everything
    found = recalled.memctl_json("promote")
    assert found["tracking"] is True
    assert found["memoryBytes"] == len(before)
    first = found["candidates"][0]
    assert (first["text"], first["origin"], first["date"]) == (TEXT, "owner", "2026-11-20")
    # .30 * .9 + .24 * .747222 + .15 * .8 + .15 + .10 * .761148 + .06
    assert first["score"] == pytest.approx(0.855448, abs=1e-4)
    assert memory(recalled) == before


def test_an_entry_is_added_once_and_taken_back(recalled: Daemon) -> None:
    before = memory(recalled)
    done = recalled.memctl("promote", "--apply")
    assert done.stdout == f"MEMORY.md#L7  from {SOURCE}\n"
    comment = f"conversation={SOURCE}; observed=2026-11-20 -->"
    assert memory(recalled).startswith(f"{before}\n## From dated notes\n\n- {TEXT} <!-- memoryd:")
    assert "; origin=owner; " in memory(recalled)
    assert comment in memory(recalled)
    with recalled.client() as client:
        hits = client.search("Nieuwpoort marina phone").results
        assert "MEMORY.md" in {hit.path for hit in hits}
    after = memory(recalled)
    again = recalled.memctl("promote", "--apply")
    assert (again.stdout, again.stderr.splitlines()[0]) == ("", "no candidates")
    named = recalled.memctl("promote", id_of(recalled), "--apply", code=1)
    assert named.stderr == f"not added: {SOURCE}: MEMORY.md has it already\n"
    recalled.stop()
    count(recalled, 3, promoted_at=None)  # as after a crash between both
    recalled.start().sync()
    assert recalled.memctl("promote", "--apply").stdout == ""
    assert memory(recalled) == after
    assert "MEMORY.md has it already" in recalled.memctl("promote", "--explain").stdout
    recalled.memctl("note", "--undo")
    assert memory(recalled) == before
    # A person who names it may change their mind.
    assert recalled.memctl("promote", id_of(recalled), "--apply").stdout == done.stdout
    recalled.assert_healthy()


def test_what_a_person_has_copied_is_no_candidate(recalled: Daemon) -> None:
    recalled.write("MEMORY.md", f"* {TEXT.upper().replace(' ', '   ')} He says so.\n")
    recalled.sync()
    assert recalled.memctl("promote", "--apply").stdout == ""
    recalled.write("MEMORY.md", "- Nothing of this.\n")
    recalled.sync()
    assert recalled.memctl("promote", "--apply").stdout


def test_what_was_added_and_removed_is_added_only_by_its_id(recalled: Daemon) -> None:
    recalled.memctl("promote", "--apply")
    recalled.write("MEMORY.md", "- Nothing of this.\n")
    recalled.memctl("note", "--dismiss")
    assert recalled.memctl("promote", "--apply").stdout == ""
    assert "it was added before" in recalled.memctl("promote", "--explain").stdout
    assert recalled.memctl("promote", id_of(recalled), "--apply").stdout


def test_what_an_editor_removed_can_be_restored(recalled: Daemon) -> None:
    before = memory(recalled)
    recalled.memctl("promote", "1", "--apply")
    recalled.write("MEMORY.md", before)
    recalled.memctl("note", "--restore")
    assert TEXT in memory(recalled)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (NOTE.replace("phone calls", "letters"), 1),
        (NOTE.replace(f"- {TEXT}\n", ""), 1),
        (None, 1),
        (f"Another first line.\n{NOTE}", 0),
        (f'<<<EXTERNAL_UNTRUSTED_CONTENT id="a">>>\n{NOTE}', 1),
    ],
)
def test_a_changed_source_is_refused_and_a_moved_one_is_not(
    recalled: Daemon, change: str | None, code: int
) -> None:
    name, before = id_of(recalled), memory(recalled)
    if change is None:
        (recalled.workspace / DATED).unlink()
    else:
        recalled.write(DATED, change)
    done = recalled.memctl("promote", name, "--apply", code=code)
    if code:
        assert "its text has changed or is gone" in done.stderr
        assert memory(recalled) == before
        assert recalled.memctl("promote", "--apply").stdout == ""
    else:
        assert done.stdout == f"MEMORY.md#L7  from {DATED}#L4\n"


def test_an_entry_below_a_gate_is_refused(recalled: Daemon) -> None:
    before = memory(recalled)
    done = recalled.memctl("promote", id_of(recalled, 4), "--apply", code=1)
    assert "recalled 1 of 3 times" in done.stderr
    assert memory(recalled) == before


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"recalls": 2, "total": 2.0}, "recalled 2 of 3 times"),
        ({"questions": '["a", "b"]'}, "by 2 of 3 questions"),
        ({"last_at": 1_000_000_000.0, "total": 2.5}, "is below 0.75"),
    ],
)
def test_each_gate_keeps_an_entry_out(
    recalled: Daemon, changed: dict[str, Any], missed: str
) -> None:
    recalled.stop()
    count(recalled, 3, **changed)
    recalled.start()
    with recalled.client() as client:
        found = {each.citation: each.missed for each in client.promote().candidates}
        assert missed in " ".join(found[SOURCE])
        assert not client.promote(apply=True).applied


def test_the_budget_of_memory_is_kept(recalled: Daemon) -> None:
    recalled.stop()
    recalled.settings += f"\npromotion.memory_max_bytes = {len(memory(recalled)) + 150}"
    recalled.start()
    before = memory(recalled)
    done = recalled.memctl("promote", "--apply", code=1)
    assert "more than promotion.memory_max_bytes" in done.stderr
    assert "shorten MEMORY.md, or raise the setting" in done.stderr
    assert memory(recalled) == before
    refused = recalled.memctl_json("promote", "--apply", code=1)["refused"]
    assert [each["source"] for each in refused] == [SOURCE]


def test_untrusted_entries_are_not_added_whatever_is_counted(recalled: Daemon) -> None:
    recalled.write(DATED, NOTE.replace("calls.", "calls. <!-- memoryd: id=1; origin=untrusted -->"))
    assert recalled.memctl("promote", "--apply").stdout == ""
    assert TEXT not in memory(recalled)
    # A comment of an agent lowers the trust of what is added, too.
    recalled.write(DATED, NOTE.replace("calls.", "calls. <!-- memoryd: id=1; origin=agent -->"))
    recalled.memctl("promote", "--apply")
    assert "; origin=agent; " in memory(recalled)


def test_a_note_that_memoryd_wrote_today_is_no_duplicate(recalled: Daemon) -> None:
    with recalled.client() as client:
        client.note(TEXT)
    recalled.memctl("promote", "--apply")
    assert TEXT in memory(recalled)


def test_wrong_requests(recalled: Daemon) -> None:
    with recalled.client() as client:
        with pytest.raises(NotFoundError, match="no candidate has the id ffffffffffff"):
            client.promote(candidate="ffffffffffff")
        for wrong in ("abc", "x" * 12, "../../x", "f" * 13):
            with pytest.raises(BadRequestError, match="an id has 4 to 12 characters"):
                client.promote(candidate=wrong)
        for limit in (0, -1, 501):
            with pytest.raises(BadRequestError, match="limit must be from 1 to 500"):
                client.promote(limit=limit)
        assert len(client.promote(limit=1).candidates) == 1
        assert client.promote(limit=1).omitted == 1
    assert recalled.memctl("promote", "ffffffffffff", code=4).stdout == ""


def test_without_counting_there_are_no_candidates(daemon: Daemon) -> None:
    daemon.start()
    done = daemon.memctl("promote")
    assert done.stderr == "no candidates\nrecalls are not counted: promotion.tracking is off\n"


def test_a_memory_that_cannot_be_written_is_an_error(recalled: Daemon) -> None:
    (recalled.workspace / "MEMORY.md").unlink()
    (recalled.workspace / "MEMORY.md").mkdir()
    done = recalled.memctl("promote", "--apply", code=1)
    assert done.stderr.startswith("memctl: nothing was written: ")
    assert "Traceback" not in recalled.log()
