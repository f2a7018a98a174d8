"""Answers of batch APIs: jobs, lists of jobs, and the lines of their files."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from identities import identity

from memoryd.embed.batch.api import BatchApi, JobState
from memoryd.embed.batch.files import download_output
from memoryd.embed.provider import ProviderError
from memoryd.embed.vendors.api import RequestOptions
from memoryd.embed.vendors.credentials import KeySource
from memoryd.embed.vendors.gemini import GeminiApi, GeminiBatch
from memoryd.embed.vendors.http import Http, decoded
from memoryd.embed.vendors.openai import OpenAiApi, OpenAiBatch
from memoryd.embed.vendors.voyage import VoyageApi, VoyageBatch
from memoryd.messages import BatchJobRow, Embedded, ToWriter

SEEDS = [
    b'{"id":"b","status":"completed","output_file_id":"f","error_file_id":null}\n'
    b'{"custom_id":"0","response":{"status_code":200,"body":{"data":[{"embedding":[1,2]}],'
    b'"usage":{"total_tokens":3}}},"error":null}\n',
    b'{"data":[{"id":"b","metadata":{"job":"ours"}}],"status":"failed","errors":{"data":[{"message'
    b'":"no"}]}}\n{"custom_id":"1","error":{"message":"bad"}}\n',
    b'{"name":"batches/b","metadata":{"state":"BATCH_STATE_SUCCEEDED","output":{"responsesFile":'
    b'"files/f"}},"done":true}\n{"key":"0","response":{"embedding":{"values":[1,2]}}}\n',
    b'{"operations":[{"name":"b","metadata":{"displayName":"memoryd-ours"}}],"error":{"message":'
    b'"x"},"state":"JOB_STATE_FAILED"}\n{"key":"1","error":"x"}\n',
]
DICTIONARY = [b'"status":', b'"metadata":', b'"response":', b'"error":', b'"errors":', b'"data":']
DICTIONARY += [
    b'"custom_id":',
    b'"embedding":',
    b'"values":',
    b'"body":',
    b'"usage":',
    b"completed",
]
DICTIONARY += [b"SUCCEEDED", b"FAILED", b'"output":', b'"dest":', b'"state":', b"9" * 30, b"null"]
DICTIONARY += [b'"operations":', b'"batches":', b'"message":', b'"total_tokens":', b"NaN", b"\n"]
MAX_BYTES = 2_048
_IDENTITY = identity("openai", "m", dims=None, provider_key="")
_JOB = BatchJobRow("ours", "openai", "m", "", 0.0, ["hash of one", "hash of two"])


class _Content:
    def __init__(self, data: bytes) -> None:
        self.content = self
        self._data = data

    async def iter_any(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), 100):
            yield self._data[at : at + 100]


class _Answers(Http):
    """A replacement for the network that answers each request with the same bytes."""

    def __init__(self, answer: bytes, file: bytes) -> None:
        super().__init__(
            "vendor",
            "http://host/v1",
            headers={},
            source=KeySource((), environment={}),
            key_headers=OpenAiApi().key_headers,
            key_required=False,
        )
        self._answer, self._file = answer, file

    async def json(self, *_: Any, **__: Any) -> Any:
        return decoded(self.vendor, self._answer)

    @asynccontextmanager
    async def request(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield _Content(self._file)


def check(data: bytes) -> None:
    """Answer every request with the first line, and every file download with the rest."""
    answer, _, file = data.partition(b"\n")
    http = _Answers(answer, file)
    options = RequestOptions(model="m")
    _loop.run_until_complete(_ask(OpenAiBatch(http, OpenAiApi(), options)))
    _loop.run_until_complete(_ask(VoyageBatch(http, VoyageApi(), options)))
    _loop.run_until_complete(_ask(GeminiBatch(http, GeminiApi(), options)))


_loop = asyncio.new_event_loop()


async def _ask(api: BatchApi) -> None:
    with suppress(ProviderError):
        found = await api.find("ours")
        assert found is None or isinstance(found, str)
    for state in (await _state(api), JobState("done", "done", "output", "errors")):
        if state is None:
            continue
        assert isinstance(state.shown, str)
        for text in (state.output, state.errors, state.message):
            assert text is None or isinstance(text, str)
        with suppress(ProviderError):
            output = await download_output(
                api, _JOB, state, writer=cast(Any, _Writer()), identity=lambda: _IDENTITY
            )
            assert output.good <= set(_JOB.hashes)
            assert output.error is None or isinstance(output.error, str)


async def _state(api: BatchApi) -> JobState | None:
    with suppress(ProviderError):
        return await api.state("b")
    return None


class _Writer:
    async def put(self, message: ToWriter) -> None:
        assert isinstance(message, Embedded)
        message.committed.set_result(None)
