"""The doubles over plain HTTP: counters, refusals, faults and gates."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import numpy as np
import pytest

from vendors import (
    TRANSIENT,
    AnyFault,
    Double,
    Fault,
    GeminiDouble,
    MistralDouble,
    OllamaDouble,
    OpenAiDouble,
    RateLimit,
    VoyageDouble,
    embedding,
)

KEY = {"Authorization": "Bearer sk-double"}
VENDORS = (OpenAiDouble, VoyageDouble, MistralDouble, GeminiDouble, OllamaDouble)
Status = tuple[int, Any]


async def embed(http: aiohttp.ClientSession, double: Double, texts: list[str]) -> Status:
    """Request vectors of a double's default model."""
    model = double.default_model
    path, body = {
        GeminiDouble: (
            f"/models/{model}:batchEmbedContents",
            {"requests": [{"content": {"parts": [{"text": text}]}} for text in texts]},
        ),
        OllamaDouble: ("/api/embed", {"model": model, "input": texts}),
    }.get(type(double), ("/embeddings", {"model": model, "input": texts}))
    async with http.post(double.url + path, json=body, headers=KEY) as answer:
        raw = await answer.read()
        return answer.status, json.loads(raw) if answer.content_type.endswith("json") else raw


def vectors(body: Any) -> list[list[float]]:
    """Return the vectors of any vendor's answer."""
    if "data" in body:
        return [item["embedding"] for item in sorted(body["data"], key=lambda item: item["index"])]
    return [item["values"] if isinstance(item, dict) else item for item in body["embeddings"]]


def test_texts_that_share_words_are_near_and_all_are_of_length_1() -> None:
    boiler, near, far, empty = (
        np.array(embedding(text, 64))
        for text in ("the boiler is loud", "The boiler is old", "quarterly tax return", "")
    )
    assert boiler @ near > 0.6
    assert abs(boiler @ far) < 0.4
    assert np.linalg.norm(empty) == pytest.approx(1, abs=1e-4)
    assert np.array(embedding("成语接龙", 64)) @ np.array(embedding("玩成语", 64)) > 0.4


@pytest.mark.parametrize("vendor", VENDORS)
async def test_vectors_come_and_are_counted(
    vendor: Callable[[], Double], http: aiohttp.ClientSession
) -> None:
    async with vendor() as double:
        status, body = await embed(http, double, ["a b", "c"])
        assert (status, vectors(body)) == (200, [embedding("a b", 8), embedding("c", 8)])
        assert double.inputs == [["a b", "c"]]
        assert double.embedded == {"a b": 1, "c": 1}
        assert double.requests[0].headers["content-type"] == "application/json"
        assert double.most_at_once == 1


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("fault", [*Fault, RateLimit(2), RateLimit(2, form="date")], ids=str)
async def test_a_fault_hits_one_request_and_is_over(
    vendor: Callable[[], Double], fault: AnyFault, http: aiohttp.ClientSession
) -> None:
    async with vendor() as double:
        double.fail(fault)
        if fault is Fault.SLOW:
            asked = asyncio.create_task(embed(http, double, ["a", "b"]))
            while not double.requests:
                await asyncio.sleep(0)
            assert not asked.done()
            asked.cancel()
            while not double.cancelled:
                await asyncio.sleep(0)
        elif fault in (Fault.DROPPED, Fault.BROKEN_OFF):
            with pytest.raises(
                (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, OSError)
            ):
                await embed(http, double, ["a", "b"])
        elif fault in (Fault.TRUNCATED, Fault.EMPTY):
            with pytest.raises(json.JSONDecodeError):
                await embed(http, double, ["a", "b"])
        else:
            status, body = await embed(http, double, ["a", "b"])
            if isinstance(body, bytes):
                assert body.startswith(b"<html>")
            elif status == 200:
                first, *second = vectors(body)
                good = [embedding("a", 8), embedding("b", 8)]
                assert (fault is Fault.REORDERED) == ([first, *second] == good)
                assert double.embedded["b"] == (fault is not Fault.WRONG_COUNT)
                assert double.embedded["a"] == (fault is Fault.REORDERED)
            else:
                assert status == (429 if isinstance(fault, RateLimit) else status) >= 400
                assert body.get("error") or body.get("detail") or body.get("message")
        before = dict(double.embedded)
        status, body = await embed(http, double, ["z"])
        assert (status, double.embedded) == (200, before | {"z": 1})


async def test_rate_limits_tell_how_long_to_wait(http: aiohttp.ClientSession) -> None:
    assert RateLimit(2).headers() == {"Retry-After": "2"}
    assert RateLimit(0.5, form="ms").headers() == {"retry-after-ms": "500"}
    assert RateLimit(2, form="date").headers()["Retry-After"].endswith("GMT")
    async with GeminiDouble() as double:
        double.fail(RateLimit(34))
        status, body = await embed(http, double, ["a"])
        assert (status, body["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
        assert body["error"]["details"][-1]["retryDelay"] == "34s"


@pytest.mark.parametrize(
    ("vendor", "status", "word"),
    [
        (OpenAiDouble, 401, "invalid_api_key"),
        (VoyageDouble, 401, "Provided API key is invalid."),
        (MistralDouble, 401, "Unauthorized"),
        (GeminiDouble, 400, "API_KEY_INVALID"),
        (lambda key: OllamaDouble(key=key), 401, "unauthorized"),
    ],
)
async def test_a_wrong_key_is_refused(
    vendor: Callable[..., Double], status: int, word: str, http: aiohttp.ClientSession
) -> None:
    async with vendor(key="sk-another") as double:
        refused, body = await embed(http, double, ["a"])
        assert refused == status
        assert word in json.dumps(body)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_limits_models_and_bad_texts(
    vendor: Callable[[], Double], http: aiohttp.ClientSession
) -> None:
    async with vendor() as double:
        double.max_items, double.max_text_chars, double.bad_texts = 2, 5, {"bad"}
        for texts in (["a", "b", "c"], ["a", "too long"], ["a", "bad"]):
            assert (await embed(http, double, texts))[0] == 400
        assert (await embed(http, double, ["a", "b"]))[0] == 200
        double.models.clear()
        status, body = await embed(http, double, ["a"])
        assert status in (400, 404)
        assert double.default_model in json.dumps(body)


async def test_failures_at_random_are_the_same_for_a_seed(http: aiohttp.ClientSession) -> None:
    seen = []
    for _ in range(2):
        async with OpenAiDouble() as double:
            double.fail_at_random(0.5, 7, [Fault.SERVER_ERROR])
            seen.append([(await embed(http, double, ["a"]))[0] for _ in range(20)])
            double.heal()
            assert (await embed(http, double, ["a"]))[0] == 200
    assert seen[0] == seen[1]
    assert {200, 500} == set(seen[0])
    assert Fault.SLOW not in TRANSIENT


async def test_a_gate_holds_requests_and_sees_who_leaves(http: aiohttp.ClientSession) -> None:
    async with OpenAiDouble() as double:
        double.gate = asyncio.Event()
        asked = [asyncio.create_task(embed(http, double, [text])) for text in "abc"]
        while len(double.requests) < 3:
            await asyncio.sleep(0)
        assert double.most_at_once == 3
        asked[0].cancel()
        while not double.cancelled:
            await asyncio.sleep(0)
        double.gate.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert (double.cancelled, double.embedded) == (1, {"b": 1, "c": 1})


async def test_openai_answers_base64_unless_it_knows_none(http: aiohttp.ClientSession) -> None:
    async with OpenAiDouble() as double:
        body = {"model": double.default_model, "input": "a", "encoding_format": "base64"}
        for base64, kind in ((True, str), (False, list)):
            double.base64 = base64
            async with http.post(f"{double.url}/embeddings", json=body, headers=KEY) as answer:
                assert type((await answer.json())["data"][0]["embedding"]) is kind


async def test_what_a_vendor_does_not_know_is_refused(http: aiohttp.ClientSession) -> None:
    for vendor, status in ((VoyageDouble, 400), (MistralDouble, 422)):
        async with vendor() as double:
            body = {"model": double.default_model, "input": ["a"], "dimensions": 4}
            async with http.post(f"{double.url}/embeddings", json=body, headers=KEY) as answer:
                assert answer.status == status
                assert "dimensions" in await answer.text()
