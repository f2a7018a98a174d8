"""Checks of the doubles with the vendors' own SDKs, in an environment that has the SDKs.

Run `python -m vendors.sdk_checks` from the folder above; it exits with 0 if all checks pass.
"""

import asyncio
import json
from typing import Any

import mistralai.client  # type: ignore[import-not-found]
import mistralai.client.errors  # type: ignore[import-not-found]
import ollama  # type: ignore[import-not-found]
import openai  # type: ignore[import-not-found]
import voyageai  # type: ignore[import-not-found]
import voyageai.error  # type: ignore[import-not-found]

from vendors import Fault, MistralDouble, OllamaDouble, OpenAiDouble, RateLimit, VoyageDouble
from vendors.sdk_expect import TEXTS, WRONG, near, refused
from vendors.sdk_gemini import gemini_batches, gemini_embeds


def openai_client(double: OpenAiDouble | VoyageDouble, key: str = "sk-double") -> Any:
    """Return OpenAI's client of a double."""
    return openai.AsyncOpenAI(api_key=key, base_url=double.url, max_retries=0)


async def openai_embeds() -> None:
    """Check floats, base64 (the SDK's default), dimensions, and the SDK's own error classes."""
    async with OpenAiDouble() as double, openai_client(double) as client:
        create, model = client.embeddings.create, double.default_model
        for options in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            answer = await create(model=model, input=TEXTS, **options)
            assert [item.index for item in answer.data] == [0, 1, 2]
            if options.get("encoding_format") != "base64":
                near([item.embedding for item in answer.data], TEXTS)
        assert double.requests[0].body["encoding_format"] == "base64"
        assert answer.usage.total_tokens > 0
        answer = await create(model=model, input="one", dimensions=16)
        near([answer.data[0].embedding], ["one"], 16)

        async def ask(**options: Any) -> None:
            await create(**({"model": model, "input": TEXTS} | options))

        async with openai_client(double, WRONG) as stranger:
            error = await refused(
                openai.AuthenticationError,
                lambda: stranger.embeddings.create(model=model, input=TEXTS),
                "Incorrect API key",
            )
            assert error.code == "invalid_api_key"
        error = await refused(openai.NotFoundError, lambda: ask(model="nope"), "`nope`")
        assert error.code == "model_not_found"
        await refused(openai.BadRequestError, lambda: ask(input=[""]))
        double.max_items = 2
        await refused(openai.BadRequestError, ask, "maximum length 2")
        double.max_items = None
        for fault, kind in (
            (RateLimit(2), openai.RateLimitError),
            (Fault.QUOTA, openai.RateLimitError),
            (Fault.FORBIDDEN, openai.PermissionDeniedError),
            (Fault.SERVER_ERROR, openai.InternalServerError),
            (Fault.OVERLOADED, openai.InternalServerError),
            (Fault.HTML_502, openai.InternalServerError),
            (Fault.DROPPED, openai.APIConnectionError),
            (Fault.TOO_LARGE, openai.APIStatusError),
        ):
            double.fail(fault)
            error = await refused(kind, ask)
            if isinstance(fault, RateLimit):
                assert error.response.headers["retry-after"] == "2"
            if fault is Fault.QUOTA:
                assert error.code == "insufficient_quota"
        patient = client.with_options(max_retries=3)
        double.fail(RateLimit(0.01, form="ms"))
        double.fail(Fault.DROPPED)
        double.fail(RateLimit(0, form="date"))
        await patient.embeddings.create(model=model, input=["patience"])
        assert double.embedded["patience"] == 1


async def openai_batch(double: OpenAiDouble | VoyageDouble, line: Any, **create: Any) -> None:
    """Run batches with OpenAI's SDK, which Voyage recommends for its own batches too."""
    async with openai_client(double) as client:
        data = "".join(json.dumps(line(i, text)) + "\n" for i, text in enumerate(TEXTS))
        file = await client.files.create(
            file=("memory.jsonl", data.encode(), "application/jsonl"), purpose="batch"
        )
        assert file.purpose == "batch"
        assert file.bytes == len(data.encode())
        assert (await client.files.retrieve(file.id)).filename == "memory.jsonl"
        double.batch.polls = 3
        double.batch.partial = {"2"}
        made = {"input_file_id": file.id, "endpoint": "/v1/embeddings", **create}
        job = await client.batches.create(**made, metadata={"source": "check"})
        states = [job.status]
        while job.status not in ("completed", "failed"):
            job = await client.batches.retrieve(job.id)
            states.append(job.status)
        assert states == ["validating", "in_progress", "finalizing", "completed"]
        assert job.metadata == {"source": "check"}
        counts = job.request_counts
        assert (counts.total, counts.completed, counts.failed) == (3, 2, 1)
        assert double.embedded == {}
        content = await client.files.content(job.output_file_id)
        results = [json.loads(one) for one in content.text.splitlines()]
        assert [one["custom_id"] for one in results] == ["0", "1"]
        near([one["response"]["body"]["data"][0]["embedding"] for one in results], TEXTS[:2])
        assert double.embedded == dict.fromkeys(TEXTS[:2], 1)
        errors = await client.files.content(job.error_file_id)
        (error,) = [json.loads(one) for one in errors.text.splitlines()]
        assert (error["custom_id"], error["response"]["status_code"]) == ("2", 400)

        double.batch.outcome = "stuck"
        second = await client.batches.create(**made)
        assert (await client.batches.cancel(second.id)).status == "cancelling"
        assert (await client.batches.retrieve(second.id)).status == "cancelled"
        listed = [job.id async for job in client.batches.list(limit=1)]
        assert listed == [second.id, job.id]
        await refused(openai.NotFoundError, lambda: client.batches.retrieve("batch_none"))
        inputs = [found.id async for found in client.files.list(purpose="batch", limit=1)]
        assert inputs == [file.id]
        every = {found.id async for found in client.files.list()}
        assert every >= {file.id, job.output_file_id, job.error_file_id}
        for id_ in every:
            assert (await client.files.delete(id_)).deleted
        await refused(openai.NotFoundError, lambda: client.files.delete(file.id))
        assert not double.batch.files
        await refused(openai.BadRequestError, lambda: client.batches.create(**made))


async def openai_batches() -> None:
    """Check a complete OpenAI batch, and one with invalid input."""
    async with OpenAiDouble() as double:

        def line(number: int, text: str) -> Any:
            body = {"model": double.default_model, "input": text}
            url = "/v1/embeddings"
            return {"custom_id": str(number), "method": "POST", "url": url, "body": body}

        await openai_batch(double, line, completion_window="24h")
        async with openai_client(double) as client:
            lines = (json.dumps(line(7, "twice")) + "\n") * 2
            file = await client.files.create(file=("m.jsonl", lines.encode()), purpose="batch")
            job = await client.batches.create(
                input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h"
            )
            double.batch.outcome, double.batch.polls = "completed", 1
            job = await client.batches.retrieve(job.id)
            assert (job.status, job.errors.data[0].code) == ("failed", "duplicate_custom_id")
            assert job.errors.data[0].line == 2


async def voyage() -> None:
    """Check Voyage's SDK, which always requests base64; OpenAI's SDK runs the batches."""
    async with VoyageDouble() as double:
        client = voyageai.AsyncClient(api_key="sk-double", base_url=double.url)
        model = double.default_model
        for input_type in (None, "query", "document"):
            answer = await client.embed(TEXTS, model=model, input_type=input_type)
            near(answer.embeddings, TEXTS)
        assert answer.total_tokens > 0
        assert {seen.body["encoding_format"] for seen in double.requests} == {"base64"}
        answer = await client.embed(TEXTS, model=model, output_dimension=16)
        near(answer.embeddings, TEXTS, 16)

        async def ask(model: str = model) -> None:
            await client.embed(TEXTS, model=model)

        stranger = voyageai.AsyncClient(api_key=WRONG, base_url=double.url)
        await refused(
            voyageai.error.AuthenticationError, lambda: stranger.embed(TEXTS, model=model)
        )
        await refused(voyageai.error.InvalidRequestError, lambda: ask("nope"), "not supported")
        for fault, kind in (
            (RateLimit(2), voyageai.error.RateLimitError),
            (Fault.QUOTA, voyageai.error.RateLimitError),
            (Fault.SERVER_ERROR, voyageai.error.ServerError),
            (Fault.OVERLOADED, voyageai.error.ServiceUnavailableError),
            (Fault.DROPPED, voyageai.error.APIConnectionError),
        ):
            double.fail(fault)
            await refused(kind, ask)
    async with VoyageDouble() as double:
        await openai_batch(
            double,
            lambda number, text: {"custom_id": str(number), "body": {"input": text}},
            completion_window="12h",
            extra_body={"request_params": {"model": model, "input_type": "document"}},
        )


async def mistral() -> None:
    """Check Mistral's SDK, which validates every field of an answer."""
    async with MistralDouble() as double:
        url = double.url.removesuffix("/v1")
        client = mistralai.client.Mistral(api_key="sk-double", server_url=url)
        answer = await client.embeddings.create_async(model="mistral-embed", inputs=TEXTS)
        near([item.embedding for item in answer.data], TEXTS)
        assert answer.usage.total_tokens > 0

        async def ask(model: str = "mistral-embed") -> None:
            await client.embeddings.create_async(model=model, inputs=TEXTS)

        stranger = mistralai.client.Mistral(api_key=WRONG, server_url=url)
        kind = mistralai.client.errors.SDKError
        error = await refused(
            kind, lambda: stranger.embeddings.create_async(model="mistral-embed", inputs=TEXTS)
        )
        assert error.status_code == 401
        error = await refused(kind, lambda: ask("nope"), "Invalid model: nope")
        assert error.status_code == 400
        for fault, status in ((RateLimit(2), 429), (Fault.SERVER_ERROR, 500)):
            double.fail(fault)
            assert (await refused(kind, ask)).status_code == status
        await client.embeddings.create_async(
            model="mistral-embed", inputs=TEXTS, encoding_format="float"
        )


async def ollama_embeds() -> None:
    """Check Ollama's SDK, which reports all errors by one class with a status."""
    async with OllamaDouble() as double:
        client = ollama.AsyncClient(host=double.url)
        answer = await client.embed("nomic-embed-text", TEXTS)
        near(answer.embeddings, TEXTS)
        assert answer.prompt_eval_count
        near((await client.embed("nomic-embed-text:latest", "one")).embeddings, ["one"])
        near((await client.embed("nomic-embed-text", "one", dimensions=4)).embeddings, ["one"], 4)
        error = await refused(
            ollama.ResponseError, lambda: client.embed("nope", "one"), "try pulling it first"
        )
        assert error.status_code == 404
        for fault, status in ((Fault.RATE_LIMIT, 429), (Fault.OVERLOADED, 503)):
            double.fail(fault)
            error = await refused(
                ollama.ResponseError, lambda: client.embed("nomic-embed-text", "one")
            )
            assert error.status_code == status
    async with OllamaDouble(key="sk-double") as double:
        client = ollama.AsyncClient(host=double.url)
        error = await refused(
            ollama.ResponseError, lambda: client.embed("nomic-embed-text", "one"), "unauthorized"
        )
        assert error.status_code == 401
        owner = ollama.AsyncClient(host=double.url, headers={"Authorization": "Bearer sk-double"})
        near((await owner.embed("nomic-embed-text", "one")).embeddings, ["one"])


CHECKS = (
    openai_embeds,
    openai_batches,
    voyage,
    mistral,
    ollama_embeds,
    gemini_embeds,
    gemini_batches,
)


def main() -> None:
    """Run every check; the first failure ends the run with its traceback."""
    for check in CHECKS:
        asyncio.run(check())
        print(f"{check.__name__}: satisfied", flush=True)


if __name__ == "__main__":
    main()
