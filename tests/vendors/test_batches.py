"""Batch jobs of the doubles over plain HTTP: progress, failures, and spellings."""

import json
from typing import Any

import aiohttp
import pytest

from vendors import STATE_STYLES, Double, Fault, GeminiDouble, OpenAiDouble, StateStyle, embedding

KEY = {"Authorization": "Bearer sk-double"}
Status = tuple[int, Any]


async def call(http: aiohttp.ClientSession, method: str, url: str, **options: Any) -> Status:
    async with http.request(
        method, url, headers=KEY | options.pop("headers", {}), **options
    ) as got:
        raw = await got.read()
        return got.status, json.loads(raw) if got.content_type == "application/json" else raw


async def uploaded(http: aiohttp.ClientSession, double: Double, lines: list[Any]) -> Status:
    form = aiohttp.FormData({"purpose": "batch"})
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    form.add_field("file", text.encode(), filename="m.jsonl", content_type="application/jsonl")
    return await call(http, "POST", f"{double.url}/files", data=form)


def line(custom_id: str, text: str, **changed: Any) -> dict[str, Any]:
    body = {"model": "text-embedding-3-small", "input": text}
    whole = {"custom_id": custom_id, "method": "POST", "url": "/v1/embeddings", "body": body}
    return whole | changed


async def created(http: aiohttp.ClientSession, double: Double, lines: list[Any]) -> Status:
    _, file = await uploaded(http, double, lines)
    body = {
        "input_file_id": file["id"],
        "endpoint": "/v1/embeddings",
        "completion_window": "24h",
    }
    return await call(http, "POST", f"{double.url}/batches", json=body)


@pytest.mark.parametrize("outcome", ["expired", "cancelled", "canceled", "failed"])
async def test_a_job_that_comes_to_nothing_keeps_what_was_done(
    outcome: Any, http: aiohttp.ClientSession
) -> None:
    async with OpenAiDouble() as double:
        double.batch.outcome = outcome
        double.batch.partial = {"1"}
        _, job = await created(http, double, [line("0", "a"), line("1", "b")])
        _, job = await call(http, "GET", f"{double.url}/batches/{job['id']}")
        assert job["status"] == outcome == double.batch.jobs[0].status
        assert bool(job["errors"]) == (outcome == "failed")
        if outcome == "failed":
            assert job["output_file_id"] is job["error_file_id"] is None
            return
        _, output = await call(http, "GET", f"{double.url}/files/{job['output_file_id']}/content")
        _, errors = await call(http, "GET", f"{double.url}/files/{job['error_file_id']}/content")
        assert json.loads(output)["custom_id"] == "0"
        assert json.loads(errors)["error"]["code"] == f"batch_{outcome}"


async def test_a_job_may_have_errors_only_and_output_in_another_order(
    http: aiohttp.ClientSession,
) -> None:
    async with OpenAiDouble() as double:
        double.batch.error_only = True
        lines = [line("0", "a"), line("1", "b")]
        _, job = await created(http, double, lines)
        _, job = await call(http, "GET", f"{double.url}/batches/{job['id']}")
        assert (job["status"], job["output_file_id"]) == ("completed", None)
        assert job["error_file_id"]
        double.batch.error_only, double.batch.reorder = False, True
        _, job = await created(http, double, lines)
        _, job = await call(http, "GET", f"{double.url}/batches/{job['id']}")
        url = f"{double.url}/files/{job['output_file_id']}/content"
        double.fail(Fault.BROKEN_OFF, path="/content")
        with pytest.raises(aiohttp.ClientPayloadError):
            await call(http, "GET", url)
        assert double.embedded == {}
        for _ in range(2):
            _, output = await call(http, "GET", url)
            assert [json.loads(one)["custom_id"] for one in output.splitlines()] == ["1", "0"]
            assert double.embedded == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([line("a.md:1", "a")], "invalid_custom_id"),
        ([line("0", "a"), line("0", "b")], "duplicate_custom_id"),
        ([line("0", "a", method="GET")], "invalid_method"),
        ([line("0", "a", url="/v1/other")], "mismatched_url"),
        ([line("0", "")], "invalid_request"),
        ([line("0", "a"), "no JSON"], "invalid_json_line"),
        ([line("0", "a", body={"model": "nope", "input": "a"})], "model_not_found"),
        ([line(str(number), "a") for number in range(3)], "too_many_tasks"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_job_fails_by_what_is_wrong_in_its_file(
    lines: list[Any], code: str, http: aiohttp.ClientSession
) -> None:
    async with OpenAiDouble() as double:
        double.batch.max_lines = 2
        _, job = await created(http, double, lines)
        assert job["status"] == "validating"
        _, job = await call(http, "GET", f"{double.url}/batches/{job['id']}")
        assert (job["status"], job["errors"]["data"][0]["code"]) == ("failed", code)


async def test_a_job_may_be_refused_at_once(http: aiohttp.ClientSession) -> None:
    async with OpenAiDouble() as double:
        for status in (404, 413, 500):
            double.batch.fail_create = status
            assert (await created(http, double, [line("0", "a")]))[0] == status
        double.batch.fail_create = None
        body = {"endpoint": "/v1/embeddings", "completion_window": "12h"}
        status, answer = await call(http, "POST", f"{double.url}/batches", json=body)
        assert (status, answer["error"]["param"]) == (400, "completion_window")
        double.batch.max_file_bytes = 10
        assert (await uploaded(http, double, [line("0", "a")]))[0] == 413
        assert double.batch.jobs == []


@pytest.mark.parametrize("style", STATE_STYLES, ids=str)
async def test_gemini_tells_a_job_in_every_style(
    style: StateStyle, http: aiohttp.ClientSession
) -> None:
    async with GeminiDouble() as double:
        double.batch.state_style = style
        double.batch.polls = 2
        root = double.url.removesuffix("/v1beta")
        lines = [
            {"key": key, "request": {"content": {"parts": [{"text": text}]}}}
            for key, text in (("0", "a"), ("1", "b"))
        ]
        jsonl = "".join(json.dumps(one) + "\n" for one in lines)
        head = json.dumps({"file": {"displayName": "m", "mimeType": "application/jsonl"}})
        related = (
            f"--cut\r\nContent-Type: application/json\r\n\r\n{head}\r\n"
            f"--cut\r\nContent-Type: application/jsonl\r\n\r\n{jsonl}\r\n--cut--\r\n"
        )
        _, file = await call(
            http,
            "POST",
            f"{root}/upload/v1beta/files?uploadType=multipart",
            data=related.encode(),
            headers={"Content-Type": "multipart/related; boundary=cut"},
        )
        batch = {"batch": {"inputConfig": {"file_name": file["file"]["name"]}}}
        model = f"{double.url}/models/{double.default_model}"
        _, job = await call(http, "POST", f"{model}:asyncBatchEmbedContent", json=batch)
        states = []
        while not job.get("done"):
            states.append(job.get("state", job["metadata"].get("state")))
            _, job = await call(http, "GET", f"{double.url}/{job['name']}")
        states.append(job.get("state", job["metadata"].get("state")))
        expected = [style.prefix + word for word in ("PENDING", "RUNNING", style.word)]
        assert states == ([None] * 3 if style.where == "done" else expected)
        place: Any = job
        for name in style.output[0].split("."):
            place = place[name]
        url = f"{root}/download/v1beta/{place}:download"
        assert (await call(http, "GET", url))[0] == 400
        assert double.embedded == {}
        _, output = await call(http, "GET", f"{url}?alt=media")
        results = [json.loads(one) for one in output.splitlines()]
        assert [one[style.key] for one in results] == ["0", "1"]
        answers = [one["response"] if style.nested else one for one in results]
        assert answers[0]["embedding"]["values"] == embedding("a", 8)
        assert double.embedded == {"a": 1, "b": 1}


@pytest.mark.parametrize("outcome", ["failed", "expired", "cancelled"])
async def test_a_job_of_gemini_fails_with_its_reason(
    outcome: Any, http: aiohttp.ClientSession
) -> None:
    async with GeminiDouble() as double:
        double.batch.outcome = outcome
        request = {"request": {"content": {"parts": [{"text": "a"}]}}}
        batch = {"batch": {"inputConfig": {"requests": {"requests": [request]}}}}
        model = f"{double.url}/models/{double.default_model}"
        _, job = await call(http, "POST", f"{model}:asyncBatchEmbedContent", json=batch)
        _, job = await call(http, "GET", f"{double.url}/{job['name']}")
        assert job["metadata"]["state"] == f"BATCH_STATE_{outcome.upper()}"
        assert (job["done"], job["error"]["message"]) == (True, f"The batch is {outcome}.")
