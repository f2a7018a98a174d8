"""Limits on what goes to a provider on another machine: a day's budget, and a yes before much."""

from collections.abc import Iterator

import pytest
from harness import Daemon
from serving import on_the_lan, serving
from vendors import OpenAiDouble
from waiting import eventually

from memoryd_client.schema.status import EmbeddingStatus

NOTE = "note {} says that the ferry leaves at nine\n"
USED_UP = "The day's budget of {} tokens for embed.lan:8000 is used up"


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=None)) as double:
        yield double


@pytest.fixture
def remote(hybrid: Daemon, openai: OpenAiDouble) -> Daemon:
    on_the_lan(hybrid, openai)
    hybrid.provider = "openai"
    return hybrid


def write_notes(daemon: Daemon, count: int) -> None:
    for number in range(count):
        daemon.write(f"memory/{number}.md", NOTE.format(number))


def embedding(daemon: Daemon) -> EmbeddingStatus:
    with daemon.client() as client:
        found = client.status().embedding
    assert found is not None
    return found


def test_a_used_up_budget_pauses_embedding_and_words_answer(
    remote: Daemon, openai: OpenAiDouble
) -> None:
    one_by_one = "batch_tokens = 60, batch_items = 1, non_batch_concurrency = 1"
    remote.settings = f"remote = {{ max_tokens_per_day = 60, {one_by_one} }}"
    write_notes(remote, 10)
    remote.start().sync()
    sent = openai.embedded.total()
    assert 0 < sent < 10
    shown = embedding(remote)
    assert shown.max_tokens_per_day == 60
    assert shown.tokens_today is not None
    assert 0 < shown.tokens_today <= 60
    with remote.client() as client:
        found = client.search("ferry nine")
        assert found.results
        assert any(USED_UP.format(60) in warning for warning in found.warnings)
        assert any(USED_UP.format(60) in line for line in client.status().degraded)
    assert remote.log().count(USED_UP.format(60)) == 1
    assert remote.stop() == 0
    remote.start().sync()
    assert openai.embedded.total() == sent
    assert embedding(remote).tokens_today == shown.tokens_today
    assert remote.stop() == 0
    remote.settings = "remote = { max_tokens_per_day = 100000 }"
    remote.start().sync()
    assert openai.embedded.total() == 10


def test_a_large_upload_waits_for_a_yes(remote: Daemon, openai: OpenAiDouble) -> None:
    remote.settings = (
        "remote = { confirm_above_tokens = 100, price_per_million_tokens = 2.0 }\n"
        "chunking = { tokens = 40, overlap = 0 }"
    )
    write_notes(remote, 20)
    remote.start().sync()
    with remote.client() as client:
        found = client.search("ferry nine")
        (warning,) = [line for line in found.warnings if "would go to embed.lan:8000" in line]
        assert found.results
        assert warning.startswith("20 chunks, about ")
        assert "for about 0.00" in warning
        assert "`memctl index --yes`" in warning
        assert warning in client.status().degraded
        result = client.index()
        assert result.unconfirmed == warning
        assert result.pending_vectors == 20
    tokens = embedding(remote).unconfirmed_tokens
    assert tokens is not None
    assert tokens > 100
    assert "would go to" in remote.memctl("index").stderr
    assert openai.embedded.total() == 0
    assert remote.memctl_json("index", "--yes")["unconfirmed"] is None
    assert openai.embedded.total() == 20
    with remote.client() as client:
        assert client.search("ferry nine").mode == "hybrid"
    assert remote.stop() == 0
    write_notes(remote, 60)
    remote.start().sync()
    assert embedding(remote).unconfirmed_tokens is None
    assert openai.embedded.total() > 55


def test_a_small_upload_is_not_asked_about(remote: Daemon, openai: OpenAiDouble) -> None:
    remote.settings = "remote = { confirm_above_tokens = 1000 }"
    write_notes(remote, 5)
    remote.start().sync()
    assert openai.embedded.total() == 5
    assert embedding(remote).unconfirmed_tokens is None


def test_another_provider_waits_for_a_yes_too(remote: Daemon, openai: OpenAiDouble) -> None:
    remote.provider = "auto"
    remote.settings = (
        "remote = { confirm_above_tokens = 100 }\nchunking = { tokens = 40, overlap = 0 }"
    )
    write_notes(remote, 20)
    remote.start().sync()
    assert len(remote.embedded()) >= 20
    done = remote.memctl("index", "--provider", "openai")
    assert "would go to embed.lan:8000" in done.stderr
    assert openai.embedded.total() == 0
    with remote.client() as client:
        assert client.search("ferry nine").results
    assert openai.embedded.total() == 0
    assert remote.memctl_json("index", "--yes")["unconfirmed"] is None
    eventually(lambda: openai.embedded.total() == 20)
