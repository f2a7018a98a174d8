"""OpenAI's embeddings and batch API; also for compatible servers.

https://platform.openai.com/docs/api-reference/embeddings
https://platform.openai.com/docs/api-reference/batch
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from memoryd.embed.batch.api import (
    ASK_S,
    MAX_BYTES,
    MAX_LINE_BYTES,
    MAX_REQUESTS,
    UPLOAD_S,
    JobState,
    Line,
    at,
    list_at,
    text_at,
)
from memoryd.embed.provider import PermanentError, ProviderError, RetryableError
from memoryd.embed.vendors.api import Api, EmbeddedRows, Purpose, RequestOptions
from memoryd.embed.vendors.credentials import KEY_NAMES
from memoryd.embed.vendors.decode import JsonVector, in_order, matrix, read_json

if TYPE_CHECKING:
    from memoryd.embed.vendors.http import Http

_FAILED = ("failed", "expired", "cancelled", "canceled")
"""States of a batch job."""


class OpenAIEmbedding(msgspec.Struct):
    """One vector of an answer."""

    embedding: JsonVector
    index: int | None = None


class Usage(msgspec.Struct):
    """Tokens that an answer has cost."""

    total_tokens: int | None = None


class OpenAIEmbeddings(msgspec.Struct):
    """An answer, in the format that most vendors have adopted."""

    data: list[OpenAIEmbedding]
    usage: Usage | None = None


class OpenAiApi(Api):
    """OpenAI, LM Studio, vLLM, llama.cpp's server, Azure and others."""

    name = "openai"
    default_model = "text-embedding-3-small"
    default_url = "https://api.openai.com/v1"
    url_name: str | None = "OPENAI_BASE_URL"
    key_names = KEY_NAMES["openai"]
    max_items = 2_048
    max_input_bytes = 8_000
    """8,192 tokens, each at least one byte."""
    dimensions_field = "dimensions"
    has_input_types = True

    def url(self, base_url: str) -> str:
        """Return the address without the endpoint that some users add."""
        return base_url.removesuffix("/").removesuffix("/embeddings")

    def path(self, options: RequestOptions) -> str:
        """Return the path of the endpoint."""
        return "/embeddings"

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request; no `encoding_format`, because many servers reject it."""
        body: dict[str, Any] = {"model": options.model, "input": texts}
        if options.dimensions is not None:
            body[self.dimensions_field] = options.dimensions
        input_type = self.input_type(purpose, options)
        if self.has_input_types and input_type is not None:
            body["input_type"] = input_type
        return body

    def input_type(self, purpose: Purpose, options: RequestOptions) -> str | None:
        """Return the input type to send to a vendor that has them, None for none."""
        return options.input_type(purpose)

    def read(self, body: bytes, count: int) -> EmbeddedRows:
        """Read an answer; its vectors may be in any order."""
        answer = read_json(self.name, body, OpenAIEmbeddings)
        vectors = [item.embedding for item in answer.data]
        ordered = in_order(self.name, vectors, [item.index for item in answer.data])
        tokens = answer.usage.total_tokens if answer.usage is not None else None
        return EmbeddedRows(matrix(self.name, ordered, count), tokens or 0)


class OpenAiBatch:
    """Batch jobs: upload a file, create a job from it, poll, download."""

    max_requests = MAX_REQUESTS
    max_bytes = MAX_BYTES
    window = "24h"
    number_field = "custom_id"
    count_field = "limit"

    def __init__(self, http: "Http", api: Api, options: RequestOptions) -> None:
        self._http = http
        self._api = api
        self._options = options

    def line(self, number: int, text: str) -> bytes:
        """Return the line of the input for one text."""
        return msgspec.json.encode({self.number_field: str(number), **self._request(text)}) + b"\n"

    def renumbered(self, line: bytes, number: int) -> bytes:
        """Return the line, renumbered."""
        renumbered = {**msgspec.json.decode(line), self.number_field: str(number)}
        return msgspec.json.encode(renumbered) + b"\n"

    async def submit(self, lines: BinaryIO, key: str) -> str:
        """Upload the lines and create a job from them. Returns its id."""
        import aiohttp  # a daemon with a local model does without it

        form = aiohttp.FormData()
        form.add_field("purpose", "batch")
        form.add_field(
            "file",
            lines,
            filename=_file_name(key),
            content_type="application/jsonl",
        )
        url = self._http.url("/files")
        uploaded = await self._http.json("POST", url, timeout_s=UPLOAD_S, data=form)
        body = {
            "input_file_id": self._named(uploaded, "id"),
            "endpoint": "/v1/embeddings",
            "completion_window": self.window,
            "metadata": {"source": "memoryd", "job": key},
            **self._job_options(),
        }
        return self._named(await self._ask("POST", "/batches", body), "id")

    async def find(self, key: str) -> str | None:
        """Return the id of the job whose metadata contains our name."""
        listed = list_at(await self._jobs(100), "data")
        ours = (job for job in listed if at(job, "metadata", "job") == key)
        return next((name for job in ours if (name := text_at(job, "id"))), None)

    async def state(self, job_id: str) -> JobState:
        """Return the state of a job."""
        job = await self._ask("GET", f"/batches/{job_id}")
        shown = self._http.mask(text_at(job, "status") or "unknown")
        output, errors = text_at(job, "output_file_id"), text_at(job, "error_file_id")
        files = {"output": output, "errors": errors, "input": text_at(job, "input_file_id")}
        if shown == "completed":
            return JobState("done", shown, **files)
        if shown in _FAILED:
            message = self._http.mask(_message(job) or f"it is {shown}")
            return JobState("failed", shown, message=message, **files)
        return JobState("running", shown, **files)

    async def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        await self._ask("POST", f"/batches/{job_id}/cancel")

    async def delete_files(self, job_id: str | None, key: str) -> None:
        """Delete the input, also of attempts that failed, and the output of a job."""
        named: list[str | None] = []
        with unless_missing():
            if job_id is not None:
                state = await self.state(job_id)
                if state.state == "running":
                    raise RetryableError(f"{self._api.name} has not ended the job yet.")
                named = [state.input, state.output, state.errors]
        refused: PermanentError | None = None
        for file in dict.fromkeys(filter(None, [*await self._uploads(key), *named])):
            try:
                with unless_missing():
                    await self._ask("DELETE", f"/files/{file.removeprefix('files/')}")
            except PermanentError as error:  # the others may be deleted
                refused = error
        if refused is not None:
            raise refused

    async def _uploads(self, key: str) -> list[str]:
        """Return the ids of all uploaded files with our name."""
        listed = list_at(await self._ask("GET", "/files", purpose="batch"), "data")
        ours = (file for file in listed if text_at(file, "filename") == _file_name(key))
        return [name for file in ours if (name := text_at(file, "id"))]

    async def lines(self, file_id: str, max_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a file."""
        url = self._http.url(f"/files/{file_id}/content")
        async with aclosing(streamed(self._http, url, max_bytes)) as lines:
            async for line in lines:
                yield line

    def read(self, line: bytes) -> Line:
        """Read a line: `{custom_id, response: {status_code, body}, error}`."""
        found = msgspec.json.decode(line)
        number = int(found["custom_id"])
        response = found.get("response") or {}
        if found.get("error") or response.get("status_code", 200) != 200:
            return Line(number, None, self._http.mask(_error(found) or "it was refused"))
        body = response["body"]
        tokens = int((body.get("usage") or {}).get("total_tokens") or 0)
        return Line(number, row(self._api.name, body["data"][0]["embedding"]), None, tokens)

    async def check(self) -> None:
        """List one job, to verify that the API answers."""
        await self._jobs(1)

    async def _jobs(self, most: int) -> Any:
        return await self._ask("GET", "/batches", **{self.count_field: str(most)})

    async def _ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        url = self._http.url(path, **query)
        return await self._http.json(method, url, timeout_s=ASK_S, json=body)

    def _request(self, text: str) -> dict[str, Any]:
        sent = self._options.sent(text, "document")
        body = self._api.body([sent], "document", self._options)
        return {"method": "POST", "url": "/v1/embeddings", "body": {**body, "input": sent}}

    def _job_options(self) -> dict[str, Any]:
        return {}

    def _named(self, answer: Any, name: str) -> str:
        if (found := text_at(answer, name)) is None:
            raise ProviderError(f"{self._api.name} returned a batch job without {name}.")
        return found


@contextmanager
def unless_missing() -> Iterator[None]:
    """Ignore that what the block asks for does not exist."""
    try:
        yield
    except PermanentError as error:
        if not error.missing:
            raise


def _file_name(key: str) -> str:
    return f"memory-embeddings.{key}.jsonl"


def row(vendor: str, vector: Any) -> Any:
    """Return a vector of a line, shape (dims,). Raises ValueError."""
    try:
        rows = matrix(vendor, [vector], 1)
    except (ProviderError, TypeError) as error:
        raise ValueError(str(error)) from error
    if rows.ndim != 2:
        raise ValueError("it is not a list of numbers")
    return rows[0]


async def streamed(http: "Http", url: Any, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a download of `max_bytes` or less, none longer than `MAX_LINE_BYTES`."""
    rest = bytearray()
    async with (
        http.request("GET", url, timeout_s=UPLOAD_S) as response,
        aclosing(http.parts(response, max_bytes)) as parts,
    ):
        async for part in parts:
            rest += part
            *complete, last = bytes(rest).split(b"\n") if b"\n" in part else (bytes(rest),)
            rest = bytearray(last)
            for line in complete:
                if line.strip():
                    yield line
            if len(rest) > MAX_LINE_BYTES:
                raise RetryableError(f"{http.vendor} sent a line that is too long.", answered=True)
    if rest.strip():
        yield bytes(rest)


def _message(job: dict[str, Any]) -> str | None:
    """Return the vendor's message about a job that failed."""
    listed = list_at(job, "errors") or list_at(job, "errors", "data")
    return next((message for error in listed if (message := text_at(error, "message"))), None)


def _error(line: dict[str, Any]) -> str | None:
    """Return the error in a line of an error file."""
    body = at(line, "response", "body")
    for error in (at(line, "error"), at(body, "error"), at(body, "detail"), at(body, "message")):
        if error:
            return text_at(error, "message") or str(error)
    return None
