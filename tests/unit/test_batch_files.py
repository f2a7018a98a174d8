"""Files of batch jobs: each text once, numbered from 0, each file within the provider's limits."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.config.settings import Batch
from memoryd.embed.batch.files import BatchFile, collect, halves
from memoryd.embed.batch.jobs import Batches
from memoryd.embed.batch.mode import BatchMode
from memoryd.embed.provider_client import ProviderClient
from memoryd.embed.vendors.api import RequestOptions
from memoryd.embed.vendors.credentials import KeySource
from memoryd.embed.vendors.http import Http
from memoryd.embed.vendors.openai import OpenAiApi, OpenAiBatch
from memoryd.embed.vendors.voyage import VoyageApi, VoyageBatch
from memoryd.messages import Text, ToWriter


def api(kind: type[OpenAiBatch] = OpenAiBatch) -> OpenAiBatch:
    vendor = VoyageApi() if kind is VoyageBatch else OpenAiApi()
    http = Http(
        vendor.name,
        vendor.default_url,
        headers={},
        source=KeySource(()),
        key_headers=vendor.key_headers,
        key_required=True,
    )
    return kind(http, vendor, RequestOptions(model="m"))


async def pages(texts: list[Text], size: int) -> AsyncIterator[list[Text]]:
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def lines(file: BatchFile) -> list[dict[str, object]]:
    with file.opened() as opened:
        return [msgspec.json.decode(line) for line in opened]


def inputs(file: BatchFile) -> list[object]:
    return [line["body"]["input"] for line in lines(file)]  # type: ignore[index]


@settings(max_examples=50)
@given(
    st.lists(st.text(max_size=400), max_size=60),
    st.integers(1, 20),
    st.integers(4_000, 9_000),
    st.integers(1, 7),
)
def test_no_text_is_lost_and_no_file_too_large(
    texts: list[str], max_requests: int, max_bytes: int, page: int
) -> None:
    batch = api()
    batch.max_requests, batch.max_bytes = max_requests, max_bytes
    named = [(str(number), text) for number, text in enumerate(texts)]

    async def scenario() -> None:
        found: list[Text] = []
        async for file in collect(pages(named, page), batch, ready=str, folder=Path("/tmp")):
            assert 1 <= len(file.hashes) <= max_requests
            assert file.file.tell() <= max_bytes
            assert [line["custom_id"] for line in lines(file)] == [
                str(number) for number in range(len(file.hashes))
            ]
            found += zip(file.hashes, map(str, inputs(file)), strict=True)
            file.close()
        assert found == [(n, t.encode("utf-8", "replace").decode()) for n, t in named]

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [OpenAiBatch, VoyageBatch])
async def test_halves_are_numbered_anew(tmp_path: Path, kind: type[OpenAiBatch]) -> None:
    batch = api(kind)
    texts = [(str(number), f"text {number}") for number in range(5)]
    async for whole in collect(pages(texts, 2), batch, ready=str, folder=tmp_path):
        first, second = halves(whole, batch, tmp_path)
        assert (first.hashes, second.hashes) == (["0", "1", "2"], ["3", "4"])
        assert [line["custom_id"] for line in lines(second)] == ["0", "1"]
        assert inputs(second) == ["text 3", "text 4"]
        assert whole.file.closed
        first.close()
        second.close()
    assert list(tmp_path.iterdir()) == []


async def test_what_is_not_ready_to_be_sent_is_made_so(tmp_path: Path) -> None:
    async for file in collect(pages([("a", "key")], 1), api(), ready=str.upper, folder=tmp_path):
        assert inputs(file) == ["KEY"]
        file.close()


def test_the_bounds_are_the_vendors() -> None:
    assert (api().max_requests, api().max_bytes) == (50_000, 190 * 1024 * 1024)


async def test_a_file_that_can_not_be_written_is_a_failure_of_batching(tmp_path: Path) -> None:
    mode = BatchMode()
    batches = Batches(
        asyncio.Queue[ToWriter](),
        cast(Any, SimpleNamespace(path=tmp_path / "gone" / "index")),
        api=api(),
        mode=mode,
        calls=cast(ProviderClient, SimpleNamespace(ready=str, tokens_left=None)),
        settings=Batch(),
    )
    await batches.submit(pages([("a", "text")], 1))
    assert mode.failures == 1
    assert "No such file or directory" in (mode.last_error or "")
    assert batches.held == set()
