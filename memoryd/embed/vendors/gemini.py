"""Google's Gemini embeddings and batch API.

https://ai.google.dev/api/embeddings
https://ai.google.dev/api/batch-api
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, BinaryIO

import msgspec

from memoryd.embed.batch.api import UPLOAD_S, JobState, Line, at, list_at, text_at
from memoryd.embed.provider import PermanentError, ProviderError
from memoryd.embed.vendors.api import Api, EmbeddedRows, Purpose, RequestOptions
from memoryd.embed.vendors.credentials import KEY_NAMES
from memoryd.embed.vendors.decode import JsonVector, matrix, read_json
from memoryd.embed.vendors.openai import OpenAiBatch, row, streamed, unless_missing

TASKS: Mapping[Purpose, str] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}

_MAX_PAGES = 20
"""Maximum pages of the list of files, which holds those of 48 hours."""
_DONE = ("SUCCEEDED", "COMPLETED", "DONE")
_FAILED = ("FAILED", "CANCELLED", "CANCELED", "EXPIRED")
_PREFIXES = ("BATCH_STATE_", "JOB_STATE_")
"""Prefixes of the states of a batch job."""


class GeminiEmbedding(msgspec.Struct):
    """One vector."""

    values: JsonVector


class GeminiEmbeddings(msgspec.Struct):
    """An answer; vectors are in the order of the texts."""

    embeddings: list[GeminiEmbedding]


class GeminiApi(Api):
    """Gemini. The key may also be a JSON object with an OAuth token under `token`."""

    name = "gemini"
    default_model = "gemini-embedding-001"
    default_url = "https://generativelanguage.googleapis.com/v1beta"
    url_name = "GOOGLE_GEMINI_BASE_URL"
    key_names = KEY_NAMES["gemini"]
    max_items = 100
    max_input_bytes = 2_048
    """2,048 tokens, each at least one byte; Gemini silently cuts longer texts."""

    def model(self, name: str) -> str:
        """Return the name without the prefixes that other tools need."""
        for prefix in ("models/", "gemini/", "google/"):
            name = name.removeprefix(prefix)
        return name

    def url(self, base_url: str) -> str:
        """Return the address with the version and without the part for OpenAI's clients."""
        base_url = base_url.removesuffix("/").removesuffix("/openai")
        return base_url if "/v1" in base_url else f"{base_url}/v1beta"

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the header that carries a key."""
        if key.startswith("{"):
            try:
                oauth = msgspec.json.decode(key, type=dict[str, Any])
            except (msgspec.MsgspecError, RecursionError):
                oauth = {}
            if token := oauth.get("token"):
                return super().key_headers(token)
        return {"x-goog-api-key": key}

    def path(self, options: RequestOptions) -> str:
        """Return the path of the endpoint."""
        return f"/models/{options.model}:batchEmbedContents"

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request."""
        return {"requests": [_request(text, purpose, options) for text in texts]}

    def read(self, body: bytes, count: int) -> EmbeddedRows:
        """Read an answer; it reports no tokens."""
        answer = read_json(self.name, body, GeminiEmbeddings)
        vectors = [embedding.values for embedding in answer.embeddings]
        return EmbeddedRows(matrix(self.name, vectors, count), 0)


class GeminiBatch(OpenAiBatch):
    """Batch jobs with the steps of OpenAI's, in another protocol."""

    number_field = "key"
    count_field = "pageSize"

    async def submit(self, lines: BinaryIO, key: str) -> str:
        """Upload the lines and create a job from them. Returns its name."""
        import aiohttp  # a daemon with a local model does without it

        name = f"memoryd-{key}"
        with aiohttp.MultipartWriter("related") as parts:
            parts.append_json({"file": {"displayName": name, "mimeType": "application/jsonl"}})
            parts.append(lines, {"Content-Type": "application/jsonl"})
        url = self._at("/upload", "/files", uploadType="multipart")
        uploaded = await self._http.json("POST", url, timeout_s=UPLOAD_S, data=parts)
        file = text_at(uploaded, "file", "name") or text_at(uploaded, "name")
        if file is None:
            raise ProviderError("gemini returned an uploaded file without a name.")
        body = {"batch": {"displayName": name, "inputConfig": {"fileName": file}}}
        path = f"/models/{self._options.model}:asyncBatchEmbedContent"
        return self._named(await self._ask("POST", path, body), "name")

    async def find(self, key: str) -> str | None:
        """Return the name of the job with our display name."""
        listed = await self._jobs(100)
        for job in list_at(listed, "operations") or list_at(listed, "batches"):
            shown = text_at(job, "displayName") or text_at(job, "metadata", "displayName")
            if shown == f"memoryd-{key}" and (name := text_at(job, "name")):
                return name
        return None

    async def state(self, job_id: str) -> JobState:
        """Return the state of a job."""
        job = await self._ask("GET", f"/{job_id}")
        state, output = self._http.mask(_state(job)), _output(job)
        message = self._http.mask(text_at(job, "error", "message") or "")
        done = state in _DONE or (not state and job.get("done"))
        if state in _FAILED or (done and message):
            message = message or f"it is {state.lower()}"
            return JobState("failed", state or "done", output, None, message)
        if done:
            return JobState("done", state or "done", output)
        return JobState("running", state.lower() or "unknown", output)

    async def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        await self._ask("POST", f"/{job_id}:cancel")

    async def delete_files(self, job_id: str | None, key: str) -> None:
        """Delete the files of a job, then the job.

        Gemini answers "no permission" for a missing file too. So the job is deleted even then: the
        next try finds only files that exist. An output that it refuses to delete expires by itself.
        """
        refused: PermanentError | None = None
        try:
            await super().delete_files(job_id, key)
        except PermanentError as error:
            refused = error
        if job_id is not None:
            with unless_missing():
                await self._ask("DELETE", f"/{job_id}")
        if refused is not None:
            raise refused

    async def _uploads(self, key: str) -> list[str]:
        """Return the ids of all uploaded files with our display name."""
        found: list[str] = []
        page: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            listed = await self._ask("GET", "/files", pageSize="100", **page)
            for file in list_at(listed, "files"):
                name = text_at(file, "name")
                if name and text_at(file, "displayName") == f"memoryd-{key}":
                    found.append(name)
            if (token := text_at(listed, "nextPageToken")) is None:
                break
            page = {"pageToken": token}
        return found

    async def lines(self, file_id: str, max_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a file."""
        name = file_id if file_id.startswith("files/") else f"files/{file_id}"
        url = self._at("/download", f"/{name}:download", alt="media")
        async with aclosing(streamed(self._http, url, max_bytes)) as lines:
            async for line in lines:
                yield line

    def read(self, line: bytes) -> Line:
        """Read a line: its key and an embedding or an error, in one of several places."""
        found = msgspec.json.decode(line)
        key = next(found[name] for name in ("key", "custom_id", "request_id") if name in found)
        response = found.get("response") or {}
        if error := found.get("error") or response.get("error"):
            message = error.get("message") if isinstance(error, dict) else error
            return Line(int(key), None, self._http.mask(str(message or "it was refused")))
        embedding = found.get("embedding") or response.get("embedding") or {}
        if not embedding.get("values"):
            return Line(int(key), None, "there is no vector in the answer")
        return Line(int(key), row(self._api.name, embedding["values"]), None)

    def _request(self, text: str) -> dict[str, Any]:
        sent = self._options.sent(text, "document")
        return {"request": _request(sent, "document", self._options)}

    def _at(self, before: str, path: str, **query: str) -> Any:
        """Return an address of the file service, whose path precedes the API's version."""
        base = self._http.base.path.rstrip("/")
        version = base.rpartition("/")[2]
        above = base.removesuffix(f"/{version}")
        return self._http.url(path, base_path=f"{above}{before}/{version}", **query)


def _request(text: str, purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
    """Return the request for one text's vector."""
    request: dict[str, Any] = {
        "model": f"models/{options.model}",
        "content": {"parts": [{"text": text}]},
        "taskType": options.input_type(purpose) or TASKS[purpose],
    }
    if options.dimensions is not None:
        request["outputDimensionality"] = options.dimensions
    return request


def _state(job: dict[str, Any]) -> str:
    """Return the state in capitals and without a prefix, "" if there is none."""
    state = (text_at(job, "state") or text_at(job, "metadata", "state") or "").upper()
    for prefix in _PREFIXES:
        state = state.removeprefix(prefix)
    return state


def _output(job: dict[str, Any]) -> str | None:
    """Return the name of the file with the answers."""
    for place in (job, at(job, "metadata"), at(job, "response")):
        for name in ("outputConfig", "output", "dest"):
            for file in ("responsesFile", "file", "fileId", "fileName"):
                if found := text_at(place, name, file):
                    return found
        if found := text_at(place, "responsesFile"):
            return found
    return None
