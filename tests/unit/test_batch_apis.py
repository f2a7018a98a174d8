"""Batch APIs of the vendors over HTTP against their doubles, in every known spelling."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from vendors import STATE_STYLES, Fault, GeminiDouble, OpenAiDouble, StateStyle, VoyageDouble

from memoryd.config.settings import Remote, Settings
from memoryd.embed.batch.api import BatchApi, JobState, Line
from memoryd.embed.provider import BatchTooLargeError, PermanentError, RetryableError
from memoryd.embed.vendors.factory import make_batch, make_remote

VENDORS: dict[str, Any] = {"openai": OpenAiDouble, "voyage": VoyageDouble, "gemini": GeminiDouble}
TEXTS = ["one", "two", "three", 'four "quoted" 漢字 🦭']


@asynccontextmanager
async def api(vendor: str, double: Any) -> AsyncIterator[BatchApi]:
    settings = Settings(provider=vendor, remote=Remote(base_url=double.url))  # type: ignore[arg-type]
    provider = make_remote(vendor, settings)
    batch = make_batch(provider)
    assert batch is not None
    try:
        yield batch
    finally:
        await provider.close()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "VOYAGE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-double")


def input_of(batch: BatchApi) -> io.BytesIO:
    return io.BytesIO(b"".join(batch.line(number, text) for number, text in enumerate(TEXTS)))


async def until_done(batch: BatchApi, job: str) -> JobState:
    while (state := await batch.state(job)).state == "running":
        pass
    return state


async def results(batch: BatchApi, state: JobState) -> list[Line]:
    found = []
    for file in (state.output, state.errors):
        if file is not None:
            found += [batch.read(line) async for line in batch.lines(file, 1_000_000)]
    return sorted(found, key=lambda line: line.number)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_job_goes_there_and_comes_back(vendor: str) -> None:
    async with VENDORS[vendor](key="sk-double") as double, api(vendor, double) as batch:
        double.batch.polls = 3
        job = await batch.submit(input_of(batch), "our-name")
        assert await batch.find("our-name") == job
        assert await batch.find("another-name") is None
        state = await until_done(batch, job)
        assert state.state == "done"
        found = await results(batch, state)
        assert [(line.number, line.error) for line in found] == [(n, None) for n in range(4)]
        assert all(line.vector is not None and line.vector.shape == (8,) for line in found)
        assert dict(double.embedded) == dict.fromkeys(TEXTS, 1)
        await batch.check()


@pytest.mark.parametrize("style", STATE_STYLES, ids=str)
async def test_every_spelling_of_geminis_answers(style: StateStyle) -> None:
    async with GeminiDouble(key="sk-double") as double, api("gemini", double) as batch:
        double.batch.state_style = style
        double.batch.polls = 2
        job = await batch.submit(input_of(batch), "k")
        state = await until_done(batch, job)
        assert state.state == "done"
        assert [line.number for line in await results(batch, state)] == [0, 1, 2, 3]


@pytest.mark.parametrize("style", [STATE_STYLES[0], replace(STATE_STYLES[0], where="top")])
@pytest.mark.parametrize("outcome", ["failed", "expired", "cancelled", "canceled"])
async def test_geminis_failures(style: StateStyle, outcome: Any) -> None:
    async with GeminiDouble(key="sk-double") as double, api("gemini", double) as batch:
        double.batch.state_style = style
        double.batch.outcome = outcome
        state = await until_done(batch, await batch.submit(input_of(batch), "k"))
        assert state.state == "failed"
        assert state.message


@pytest.mark.parametrize("vendor", VENDORS)
async def test_lines_that_fail_say_why(vendor: str) -> None:
    async with VENDORS[vendor](key="sk-double") as double, api(vendor, double) as batch:
        double.batch.partial = {"1", "3"}
        state = await until_done(batch, await batch.submit(input_of(batch), "k"))
        found = {line.number: line for line in await results(batch, state)}
        assert [n for n, line in found.items() if line.error] == [1, 3]
        assert [n for n, line in found.items() if line.vector is not None] == [0, 2]


@pytest.mark.parametrize("vendor", VENDORS)
async def test_what_a_cancelled_job_has_done_can_be_had(vendor: str) -> None:
    async with VENDORS[vendor](key="sk-double") as double, api(vendor, double) as batch:
        double.batch.outcome = "stuck"
        double.batch.partial = {"3"}
        job = await batch.submit(input_of(batch), "k")
        assert (await batch.state(job)).state == "running"
        await batch.cancel(job)
        state = await until_done(batch, job)
        assert state.state == "failed"
        assert "cancel" in state.shown.lower()


@pytest.mark.parametrize("vendor", VENDORS)
async def test_the_files_of_a_job_are_deleted(vendor: str) -> None:
    async with VENDORS[vendor](key="sk-double") as double, api(vendor, double) as batch:
        files = double.batch.files
        for _ in range(2):  # the first attempt's answer was lost
            job = await batch.submit(input_of(batch), "ours")
        double.batch.outcome = "stuck"
        with pytest.raises(RetryableError, match="not ended"):
            await batch.delete_files(job, "ours")
        assert len(files) == 2
        double.batch.outcome, double.batch.partial = "completed", {"1"}
        await until_done(batch, job)
        other = await batch.submit(input_of(batch), "another")
        left = set(files)
        double.fail(Fault.SERVER_ERROR, path="/files/")
        with pytest.raises(RetryableError):
            await batch.delete_files(job, "ours")
        double.fail(Fault.FORBIDDEN, path="/files/")
        with pytest.raises(PermanentError):
            await batch.delete_files(job, "ours")
        assert set(files) < left
        for _ in range(2):
            await batch.delete_files(job, "ours")
        assert len(files) == 1, "that of another job"
        await batch.delete_files(None, "another")
        assert not files
        assert (await batch.state(other)).state in ("running", "done")


@pytest.mark.parametrize("vendor", VENDORS)
async def test_errors_of_creating_a_job(vendor: str) -> None:
    async with VENDORS[vendor](key="sk-double") as double, api(vendor, double) as batch:
        for status, error in (
            (404, PermanentError),
            (413, BatchTooLargeError),
            (500, RetryableError),
            (429, RetryableError),
        ):
            double.batch.fail_create = status
            with pytest.raises(error):
                await batch.submit(input_of(batch), "k")
        double.batch.fail_create = None
        double.key = "sk-other"
        with pytest.raises(PermanentError, match="is refused"):
            await batch.check()


async def test_a_status_that_can_not_be_read_is_tried_again() -> None:
    async with OpenAiDouble(key="sk-double") as double, api("openai", double) as batch:
        job = await batch.submit(input_of(batch), "k")
        for fault in (Fault.HTML_502, Fault.HTML_200, Fault.TRUNCATED, Fault.SERVER_ERROR):
            double.fail(fault, path="/batches/")
            with pytest.raises(RetryableError):
                await batch.state(job)
        assert (await batch.state(job)).state == "done"


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b'{"custom_id": "x"}', b'{"custom_id": "0", "response": {"body": {}}}'],
)
async def test_a_line_that_is_none_is_an_error_of_that_line(line: bytes) -> None:
    async with OpenAiDouble(key="sk-double") as double, api("openai", double) as batch:
        with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
            batch.read(line)


def test_custom_ids_are_what_vendors_allow() -> None:
    line = msgspec.json.decode(b'{"custom_id": "0"}')
    assert line["custom_id"].isalnum()
