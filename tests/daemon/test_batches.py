"""Batch APIs end to end: a real daemon, the vendor's double, and kill -9."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from harness import Daemon
from serving import serving
from vendors import Double, Fault, GeminiDouble, OpenAiDouble, VoyageDouble
from waiting import eventually

from memoryd.embed.scale import REFERENCE
from memoryd_client.schema.memory import Check
from memoryd_client.schema.status import BatchStatus, StatusResult

KEY = "sk-double-Zq7Zq7Zq7Zq7"
DOUBLES: dict[str, tuple[Callable[[], Any], str]] = {
    "openai": (lambda: OpenAiDouble(key=KEY), "OPENAI_API_KEY"),
    "gemini": (lambda: GeminiDouble(key=KEY), "GEMINI_API_KEY"),
    "voyage": (lambda: VoyageDouble(key=KEY), "VOYAGE_API_KEY"),
}
NOTES = 40


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY)) as double:
        yield double


def asking(
    daemon: Daemon, double: Double, *, vendor: str = "openai", batch: str = "enabled = true"
) -> Daemon:
    """Configure a daemon for a vendor's batch API, with notes to embed."""
    daemon.provider = vendor
    daemon.settings = (
        f'[defaults.remote]\nbase_url = "{double.url}"\n'
        f"[defaults.remote.batch]\npoll_interval_ms = 10\n{batch}\n"
    )
    daemon.variables[DOUBLES[vendor][1]] = KEY
    for number in range(NOTES):
        daemon.write(f"memory/{number}.md", f"the plumber of house {number} is called Ada\n")
    return daemon


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def batch(daemon: Daemon) -> BatchStatus:
    return status(daemon).batch


def all_embedded(daemon: Daemon, failures: int = 0) -> Callable[[], bool]:
    def check() -> bool:
        shown = status(daemon)
        return shown.pending_vectors == 0 and shown.vector.in_memory == NOTES - failures

    return check


def each_once(double: Double) -> None:
    """Check that every note was embedded exactly once."""
    notes = {text: n for text, n in double.embedded.items() if text.startswith("the plumber")}
    assert len(notes) == NOTES
    assert set(notes.values()) == {1}


def batch_check(daemon: Daemon) -> Check:
    with daemon.client() as client:
        return next(check for check in client.probe().checks if check.name == "batch")


@pytest.mark.parametrize("vendor", DOUBLES)
def test_one_job_embeds_many_files(daemon: Daemon, vendor: str) -> None:
    with serving(DOUBLES[vendor][0]()) as double:
        double.batch.outcome = "stuck"
        double.batch.reorder = True
        asking(daemon, double, vendor=vendor).start()
        daemon.sync()
        assert daemon.paths("house 7")  # by keywords, meanwhile
        eventually(lambda: bool(double.batch.jobs) and double.batch.jobs[0].polls > 2)
        jobs = list(double.batch.jobs)
        double.batch.outcome = "completed"
        eventually(all_embedded(daemon))
        eventually(lambda: batch(daemon).jobs == [])
        result = daemon.search("plumber of house 7")
        assert (result.mode, result.results[0].path) == ("hybrid", "memory/7.md")
        assert len(jobs) == 1
        assert double.batch.jobs in (jobs, [])  # Gemini's is deleted
        each_once(double)
        assert all(len(texts) == 1 for texts in double.asked_for)  # queries only
        shown = batch(daemon)
        assert (shown.enabled, shown.supported, shown.failures, shown.jobs) == (True, True, 0, [])
        embedding = status(daemon).embedding
        assert embedding is not None
        assert (embedding.requests, embedding.items) == (3, NOTES + 1 + 2 * len(REFERENCE))
        assert "enabled" in daemon.memctl("status").stdout
        eventually(lambda: not double.batch.files)
        eventually(lambda: rows(daemon) == [])


def rows(daemon: Daemon) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT key FROM batch_jobs").fetchall()


def test_files_that_cannot_be_deleted_are_told_and_deleted_after_a_restart(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.fail(Fault.FORBIDDEN, times=100, path="/files/")
    openai.batch.outcome = "failed"  # its texts are embedded as usual
    asking(daemon, openai).start().sync()
    eventually(all_embedded(daemon))
    eventually(lambda: batch(daemon).undeleted_error is not None)
    assert batch(daemon).undeleted == 1
    assert "of 1 ended job not deleted" in daemon.memctl("status").stdout
    with daemon.client() as client:
        found = client.forget(match="no such text")
    assert any("files of 1 batch job are not deleted" in line for line in found.remains)
    assert openai.batch.files
    daemon.kill()
    openai.heal()
    daemon.start()
    eventually(lambda: not openai.batch.files)
    eventually(lambda: batch(daemon).undeleted == 0)
    assert rows(daemon) == []


@pytest.mark.parametrize("outcome", ["failed", "expired"])
def test_files_of_a_job_that_comes_to_nothing_are_deleted(
    daemon: Daemon, openai: OpenAiDouble, outcome: Any
) -> None:
    openai.batch.outcome = outcome
    asking(daemon, openai).start().sync()
    eventually(all_embedded(daemon))
    eventually(lambda: not openai.batch.files)


def test_a_job_is_shown_while_it_runs(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.batch.outcome = "stuck"
    asking(daemon, openai).start().sync()
    eventually(lambda: any(job.state == "in_progress" for job in batch(daemon).jobs))
    (job,) = batch(daemon).jobs
    assert (job.id, job.texts) == (openai.batch.jobs[0].id, NOTES)
    assert f"{job.id}: in_progress, {NOTES} texts" in daemon.memctl("status").stdout
    assert daemon.stop() == 0


def test_a_job_survives_a_kill_and_is_not_paid_twice(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.batch.outcome = "stuck"
    asking(daemon, openai).start().sync()
    eventually(lambda: bool(openai.batch.jobs) and openai.batch.jobs[0].polls > 2)
    daemon.kill()
    openai.batch.outcome = "completed"
    openai.batch.polls = 0
    daemon.start()
    eventually(all_embedded(daemon))
    assert len(openai.batch.jobs) == 1
    each_once(openai)
    assert openai.inputs == []


def test_a_job_whose_id_was_never_heard_is_found_by_its_name(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.batch.outcome = "stuck"
    asking(daemon, openai).start().sync()
    eventually(lambda: len(batch(daemon).jobs) == 1 and bool(openai.batch.jobs))
    eventually(lambda: openai.batch.jobs[0].polls > 0)
    daemon.kill()
    import sqlite3

    with sqlite3.connect(daemon.database) as connection:
        connection.execute("UPDATE batch_jobs SET remote_id = NULL")
    connection.close()
    openai.batch.outcome = "completed"
    openai.batch.polls = 0
    daemon.start()
    eventually(all_embedded(daemon))
    assert len(openai.batch.jobs) == 1
    each_once(openai)


def test_a_job_that_never_reached_the_provider_is_made_again(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    asking(daemon, openai)
    openai.gate = asyncio.Event()  # the double answers no request
    daemon.start().sync()
    eventually(lambda: any(r.path.endswith("/files") for r in openai.requests))
    daemon.kill()
    openai.gate = None
    daemon.start()
    eventually(all_embedded(daemon))
    each_once(openai)


def test_good_lines_are_kept_and_bad_ones_embedded_otherwise(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.batch.partial = {"3", "17"}
    asking(daemon, openai).start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert len(openai.batch.jobs) == 1
    assert sum(map(len, openai.inputs)) == 2
    shown = batch(daemon)
    assert (shown.failures, shown.enabled) == (0, True)
    assert shown.last_error


@pytest.mark.parametrize("outcome", ["failed", "expired", "cancelled", "canceled"])
def test_a_job_that_fails_costs_no_text(daemon: Daemon, openai: OpenAiDouble, outcome: Any) -> None:
    openai.batch.outcome = outcome
    asking(daemon, openai).start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert batch(daemon).failures == 1


def test_completed_with_nothing_but_errors_is_a_failure(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.batch.error_only = True
    asking(daemon, openai).start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert batch(daemon).failures == 1


def test_two_failures_turn_it_off_until_a_probe(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.batch.outcome = "failed"
    asking(daemon, openai).start()
    eventually(all_embedded(daemon))
    daemon.write("memory/0.md", "the plumber of house 0 is called Bob\n")
    eventually(lambda: batch(daemon).off_reason is not None)
    shown = batch(daemon)
    assert (shown.enabled, shown.failures) == (False, 2)
    reason = shown.last_error
    fix = "`memctl probe` turns it on again if it works"
    assert reason is not None
    assert (shown.wait, shown.last_provider) == (False, "openai")
    assert shown.timeout_ms == 60 * 60_000
    assert shown.off_reason == f"{reason.rstrip('.')}; {fix}"
    assert any("the batch API is disabled" in line for line in status(daemon).degraded)
    eventually(all_embedded(daemon))
    daemon.write("memory/1.md", "the plumber of house 1 is called Bob\n")
    daemon.sync()
    assert all_embedded(daemon)()
    assert len(openai.batch.jobs) == 2
    openai.batch.outcome = "completed"
    assert batch_check(daemon).ok
    assert batch(daemon).enabled
    daemon.write("memory/2.md", "the plumber of house 2 is called Bob\n")
    eventually(lambda: len(openai.batch.jobs) == 3)
    eventually(all_embedded(daemon))


def test_no_batch_api_at_all_turns_it_off_at_once(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.batch.fail_create = 404
    asking(daemon, openai).start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert "There is no batch API" in (batch(daemon).off_reason or "")


def test_a_file_that_is_too_large_is_halved(daemon: Daemon, openai: OpenAiDouble) -> None:
    asking(daemon, openai)
    openai.batch.max_file_bytes = 3_000
    daemon.start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert len(openai.batch.jobs) > 1
    assert openai.inputs == []
    assert batch(daemon).failures == 0


def test_a_job_that_takes_too_long_is_run_once_more(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.batch.outcome = "stuck"
    asking(daemon, openai, batch="enabled = true\ntimeout_minutes = 0.002").start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert len(openai.batch.jobs) == 2
    assert all(job.status == "cancelled" for job in openai.batch.jobs)
    shown = batch(daemon)
    assert shown.off_reason is not None
    assert "It was not done in 0.002 minutes, twice; " in shown.off_reason


def test_what_a_cancelled_job_has_done_is_kept(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.batch.outcome = "stuck"
    openai.batch.partial = {str(number) for number in range(10)}  # unprocessed when cancelled
    asking(daemon, openai, batch="enabled = true\ntimeout_minutes = 0.002").start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert len(openai.batch.jobs) == 2
    assert [len(job.lines) for job in openai.batch.jobs] == [NOTES, 10]


def test_auto_uses_it_only_for_much(daemon: Daemon, openai: OpenAiDouble) -> None:
    asking(daemon, openai, batch=f'enabled = "auto"\nmin_texts = {NOTES}').start()
    eventually(all_embedded(daemon))
    assert len(openai.batch.jobs) == 1
    daemon.write("memory/0.md", "the plumber of house 0 is called Bob\n")
    daemon.sync()
    assert all_embedded(daemon)()
    assert len(openai.batch.jobs) == 1


def test_secrets_do_not_go_into_a_job(daemon: Daemon, openai: OpenAiDouble) -> None:
    asking(daemon, openai)
    daemon.write("memory/0.md", "the plumber has password=hunter2hunter2\n")
    daemon.start()
    eventually(all_embedded(daemon))
    lines = str(openai.batch.jobs[0].lines)
    assert "the plumber has password=" in lines
    assert "hunter2hunter2" not in lines


def test_status_requests_that_fail_are_repeated(daemon: Daemon, openai: OpenAiDouble) -> None:
    from vendors import Fault

    openai.batch.polls = 3
    openai.fail(Fault.SERVER_ERROR, times=4, path="/batches/")
    asking(daemon, openai).start()
    eventually(all_embedded(daemon))
    each_once(openai)
    assert batch(daemon).failures == 0


def test_a_rebuild_for_another_model_leaves_vectors_to_a_job(
    hybrid: Daemon, openai: OpenAiDouble
) -> None:
    hybrid.write("memory/0.md", "the plumber of house 0 is called Ada\n")
    hybrid.start().sync()
    hybrid.stop()
    asking(hybrid, openai).start()
    eventually(all_embedded(hybrid))
    assert status(hybrid).provider == "openai"
    assert openai.inputs == []
    each_once(openai)
