"""Checks of Gemini's double with Google's SDK."""

import io
import json
from typing import Any

from google import genai  # type: ignore[import-not-found]
from google.genai import errors, types  # type: ignore[import-not-found]

from vendors import Fault, GeminiDouble, RateLimit
from vendors.sdk_expect import TEXTS, WRONG, near, refused


def gemini_client(double: GeminiDouble, key: str = "sk-double") -> Any:
    """Return Google's client of a double."""
    options = types.HttpOptions(base_url=double.url.removesuffix("/v1beta"), api_version="v1beta")
    return genai.Client(api_key=key, http_options=options).aio


async def gemini_embeds() -> None:
    """Check vectors, dimensions, and Google's statuses."""
    async with GeminiDouble() as double:
        client, model = gemini_client(double), double.default_model

        async def ask(client: Any = client, model: str = model, **options: Any) -> Any:
            return await client.models.embed_content(
                model=model, contents=TEXTS, config=types.EmbedContentConfig(**options)
            )

        for task in ("RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"):
            answer = await ask(task_type=task)
            near([item.values for item in answer.embeddings], TEXTS)
        answer = await ask(output_dimensionality=16)
        near([item.values for item in answer.embeddings], TEXTS, 16)
        error = await refused(
            errors.ClientError,
            lambda: ask(gemini_client(double, WRONG)),
            "API_KEY_INVALID",
        )
        assert (error.code, error.status) == (400, "INVALID_ARGUMENT")
        error = await refused(errors.ClientError, lambda: ask(model="nope"), "ListModels")
        assert (error.code, error.status) == (404, "NOT_FOUND")
        double.fail(RateLimit(34))
        error = await refused(errors.ClientError, ask, "'retryDelay': '34s'")
        assert (error.code, error.status) == (429, "RESOURCE_EXHAUSTED")
        double.fail(Fault.OVERLOADED)
        assert (await refused(errors.ServerError, ask)).status == "UNAVAILABLE"


async def gemini_batches() -> None:
    """Check batches from an uploaded file, with inline requests, and with a cancellation."""
    async with GeminiDouble() as double:
        client, model = gemini_client(double), double.default_model
        requests = [
            {"key": str(i), "request": {"content": {"parts": [{"text": text}]}}}
            for i, text in enumerate(TEXTS)
        ]
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        file = await client.files.upload(
            file=io.BytesIO(lines.encode()),
            config={"mime_type": "application/jsonl", "display_name": "memory"},
        )
        assert file.name.startswith("files/")
        assert (await client.files.get(name=file.name)).size_bytes == file.size_bytes
        double.batch.polls = 2
        double.batch.partial = {"2"}
        job = await client.batches.create_embeddings(
            model=model, src={"file_name": file.name}, config={"display_name": "check"}
        )
        states = [job.state.name]
        while not job.done:
            job = await client.batches.get(name=job.name)
            states.append(job.state.name)
        assert states == ["JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"]
        content = await client.files.download(file=job.dest.file_name)
        results = [json.loads(line) for line in content.decode().splitlines()]
        assert [result["key"] for result in results] == ["0", "1", "2"]
        near([one["response"]["embedding"]["values"] for one in results[:2]], TEXTS[:2])
        assert results[2]["error"]["code"] == 3
        assert double.embedded == dict.fromkeys(TEXTS[:2], 1)

        double.batch.partial = set()
        inline = await client.batches.create_embeddings(
            model=model, src={"inlined_requests": {"contents": TEXTS}}
        )
        while not inline.done:
            inline = await client.batches.get(name=inline.name)
        answers = inline.dest.inlined_embed_content_responses
        near([answer.response.embedding.values for answer in answers], TEXTS)

        double.batch.outcome = "stuck"
        stuck = await client.batches.create_embeddings(model=model, src={"file_name": file.name})
        await client.batches.cancel(name=stuck.name)
        stuck = await client.batches.get(name=stuck.name)
        assert stuck.state.name == "JOB_STATE_CANCELLED"
        pages = await client.batches.list(config={"page_size": 2})
        assert [job.name async for job in pages] == [stuck.name, inline.name, job.name]
        await refused(errors.ClientError, lambda: client.batches.get(name="batches/none"))
        files = await client.files.list(config={"page_size": 1})
        assert {found.name async for found in files} == {file.name, job.dest.file_name}
        for name in (file.name, job.dest.file_name):
            await client.files.delete(name=name)
        await refused(errors.ClientError, lambda: client.files.delete(name=file.name))
        await client.batches.delete(name=job.name)
        await refused(errors.ClientError, lambda: client.batches.get(name=job.name))
        assert not double.batch.files
        await refused(
            errors.ClientError,
            lambda: client.batches.create_embeddings(model=model, src={"file_name": file.name}),
        )
