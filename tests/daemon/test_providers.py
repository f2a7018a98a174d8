"""HTTP providers end to end: a real daemon and the vendor's double."""

import json
import stat
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gate import Gate
from harness import Daemon
from peers import Peer
from serving import serving
from vendors import (
    Double,
    Fault,
    GeminiDouble,
    MistralDouble,
    OllamaDouble,
    OpenAiDouble,
    RateLimit,
    VoyageDouble,
)
from waiting import eventually

from memoryd.embed.scale import REFERENCE
from memoryd_client.errors import BadRequestError
from memoryd_client.schema.memory import Check
from memoryd_client.schema.search import SearchBody
from memoryd_client.schema.status import StatusResult
from memoryd_client.wire.protocol import Cancel, Request, raw

KEY = "sk-double-Zq7Zq7Zq7Zq7"
DOUBLES: dict[str, tuple[Callable[[], Double], str | None]] = {
    "openai": (lambda: OpenAiDouble(key=KEY), "OPENAI_API_KEY"),
    "gemini": (lambda: GeminiDouble(key=KEY), "GEMINI_API_KEY"),
    "voyage": (lambda: VoyageDouble(key=KEY), "VOYAGE_API_KEY"),
    "mistral": (lambda: MistralDouble(key=KEY), "MISTRAL_API_KEY"),
    "ollama": (lambda: OllamaDouble(), None),
}


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY)) as double:
        yield double


def asking(daemon: Daemon, double: Double, *, more: str = "", key: str | None = KEY) -> Daemon:
    """Configure a daemon for OpenAI at the double."""
    daemon.provider = "openai"
    daemon.settings = f'{more}\n[defaults.remote]\nbase_url = "{double.url}"\n'
    if key is not None:
        daemon.variables["OPENAI_API_KEY"] = key
    return daemon


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def embedding_check(daemon: Daemon) -> Check:
    with daemon.client() as client:
        return next(check for check in client.probe().checks if check.name == "embedding")


@pytest.mark.parametrize("vendor", DOUBLES)
def test_every_vendor_embeds_notes_and_queries(daemon: Daemon, vendor: str) -> None:
    make, key_name = DOUBLES[vendor]
    with serving(make()) as double:
        daemon.provider = vendor
        daemon.settings = f'[defaults.remote]\nbase_url = "{double.url}"\n'
        if key_name is not None:
            daemon.variables[key_name] = KEY
        for number in range(5):
            daemon.write(f"memory/{number}.md", f"the plumber of house {number} is called Ada\n")
        daemon.start().sync()
        result = daemon.search("plumber of house 3")
        assert (result.mode, result.warnings) == ("hybrid", [])
        assert result.results[0].path == "memory/3.md"
        assert result.results[0].vector_score is not None
        shown = status(daemon)
        assert shown.embedding is not None
        reference = 2 * len(REFERENCE)
        assert (shown.provider, shown.embedding.items) == (vendor, 6 + reference)
        assert shown.vector.dims == double.dims
        assert shown.pending_vectors == 0
        assert embedding_check(daemon).ok
        # The double counts a text when it has sent its vector.
        eventually(lambda: sum(double.embedded.values()) == 7 + reference)


def test_a_key_in_a_file_works_and_may_be_rotated(daemon: Daemon, openai: OpenAiDouble) -> None:
    file = daemon.folder / "key"
    file.write_text("wrong\n")
    file.chmod(0o600)
    asking(daemon, openai, key=None)
    daemon.settings += f'api_key_file = "{file}"\n'
    daemon.write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    shown = status(daemon)
    assert shown.pending_vectors == 1
    assert shown.custom.provider_state == "unavailable"
    assert daemon.search("ferry").results
    file.write_text(f"{KEY}\n")
    assert embedding_check(daemon).ok
    daemon.sync()
    assert status(daemon).pending_vectors == 0


def test_no_key_is_ever_shown(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.key = "sk-another"  # so that errors are reported too
    asking(daemon, openai)
    daemon.settings += '[defaults.remote.headers]\nX-Token = "hdr-secret-4711"\n'
    daemon.write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    shown = [
        daemon.memctl(*command, code=code).stdout
        for command, code in (
            (("status",), 0),
            (("status", "--json"), 0),
            (("probe",), 1),
            (("config",), 0),
            (("config", "--json"), 0),
            (("search", "ferry", "--json"), 0),
        )
    ]
    shown.append(daemon.log())
    shown += [path.read_bytes().decode("latin-1") for path in daemon.database.parent.glob("*.*")]
    for text in shown:
        assert KEY not in text
        assert "hdr-secret" not in text
    assert "OPENAI_API_KEY" in shown[0]
    assert openai.requests[0].headers["x-token"] == "hdr-secret-4711"
    assert stat.S_IMODE(daemon.database.stat().st_mode) == 0o600


def test_secrets_in_notes_do_not_reach_a_provider(daemon: Daemon, openai: OpenAiDouble) -> None:
    asking(daemon, openai, more='[defaults.redact]\npatterns = ["ACME-[0-9]{6}"]')
    daemon.write(
        "MEMORY.md", "deploy with OPENAI_API_KEY=sk-proj-Zz9Zz9Zz9Zz9Zz9Zz9 by ACME-123456\n"
    )
    daemon.start().sync()
    daemon.search("is password=hunter2hunter2 right?")
    sent = json.dumps([request.body for request in openai.requests], ensure_ascii=False)
    assert "deploy with OPENAI_API_KEY=" in sent
    for secret in ("Zz9Zz9", "123456", "hunter2hunter2"):
        assert secret not in sent
    # The note belongs to its owner: memoryd stores and shows it unchanged.
    assert "sk-proj-Zz9Zz9" in daemon.search("deploy").results[0].snippet


def test_a_bad_key_leaves_keywords_and_says_what_to_do(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.key = "sk-rotated"
    asking(daemon, openai).write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    result = daemon.search("ferry")
    assert (result.mode, len(result.results)) == ("keyword", 1)
    assert any("the key from OPENAI_API_KEY is refused" in w for w in result.warnings)
    before = len(openai.requests)
    for _ in range(5):
        daemon.search("ferry")
    assert len(openai.requests) == before  # searches do not repeat a failed request
    openai.key = KEY
    assert embedding_check(daemon).ok
    daemon.sync()
    assert daemon.search("ferry").mode == "hybrid"


def test_a_provider_without_its_key_is_told_by_probe(daemon: Daemon) -> None:
    daemon.provider = "voyage"
    daemon.write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    check = embedding_check(daemon)
    assert not check.ok
    assert "There is no key for voyage: set VOYAGE_API_KEY" in (check.reason or "")
    assert daemon.search("ferry").results


def test_a_model_with_a_short_context_gets_parts_and_its_limit_is_learned(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.max_text_chars = 1_000
    for number in range(12):
        lines = [f"Line {line} of house {number}: the plumber is Ada.\n" for line in range(80)]
        daemon.write(f"memory/{number:02}.md", "".join(lines))
    asking(daemon, openai).start().sync()
    shown = status(daemon)
    assert shown.vector.in_memory == shown.chunks > 12
    assert (shown.without_vector, shown.failures, shown.dirty) == (0, [], False)
    assert (shown.errors, shown.degraded) == ([], [])
    assert openai.embedded.keys() == {t for t in openai.embedded if len(t) <= 1_000}
    result = daemon.search("Line 79 of house 3")
    assert (result.mode, result.warnings) == ("hybrid", [])
    # What was learned holds for later notes: nothing is refused.
    failures = shown.embedding.failures if shown.embedding else -1
    daemon.write("memory/later.md", "".join(f"Later line {line} is new.\n" for line in range(200)))
    daemon.sync()
    later = status(daemon)
    assert later.embedding is not None
    assert (later.embedding.failures, later.pending_vectors) == (failures, 0)


def test_what_gets_no_vector_is_counted_warned_of_and_named_by_file_and_line(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.bad_texts = {"the ferry leaves at nine"}
    daemon.write("memory/ferry.md", "\n\nthe ferry leaves at nine\n")
    daemon.write("memory/train.md", "the train leaves at ten\n")
    asking(daemon, openai).start().sync()
    shown = status(daemon)
    assert (shown.without_vector, shown.pending_vectors, shown.chunks) == (1, 0, 2)
    assert [(failure.what, failure.reason) for failure in shown.failures] == [
        ("memory/ferry.md", "no vector for line 3: " + shown.failures[0].reason.split(": ", 1)[1])
    ]
    assert shown.errors == []  # the provider works
    (warning,) = daemon.search("ferry").warnings
    assert warning.startswith("1 of 2 chunks (50%) get no vector, because the provider gives none")
    assert warning in shown.degraded
    assert "No vector" in daemon.memctl("status").stdout
    listed = daemon.memctl("files", "--failed").stdout
    assert "memory/ferry.md" in listed
    assert "no vector for line 3: openai answered 400" in listed
    daemon.write("memory/ferry.md", "the ferry leaves at eight\n")
    daemon.sync()
    mended = status(daemon)
    assert (mended.without_vector, mended.failures, mended.degraded) == (0, [], [])


# The choice of memoryd: tests/daemon/test_leaving.py has more


def test_auto_remote_takes_the_key_it_finds_and_keeps_to_it(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    daemon.provider = "auto-remote"
    daemon.variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": openai.url}
    daemon.write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    shown = status(daemon)
    assert (shown.provider, shown.requested_provider) == ("openai", "auto-remote")
    assert shown.embedding is not None
    assert shown.embedding.chosen_because == "its key was found in OPENAI_API_KEY"
    daemon.stop()
    # Without its key, vectors pause: no other provider takes over.
    asked = len(openai.requests)
    daemon.variables = {"OPENAI_BASE_URL": openai.url, "MISTRAL_API_KEY": "mk"}
    daemon.start()
    daemon.write("memory/new.md", "the train leaves at ten\n")
    daemon.sync()
    result = daemon.search("train")
    assert (result.mode, result.provider) == ("keyword", "openai")
    assert result.warnings
    assert status(daemon).rebuild is None
    daemon.stop()
    daemon.variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": openai.url}
    daemon.start().sync()
    assert daemon.search("train").mode == "hybrid"
    texts = [text for texts in openai.inputs for text in texts]
    assert texts.count("the ferry leaves at nine") == 1
    assert len(openai.requests) > asked


def test_auto_remote_that_found_no_key_stays_on_this_machine(hybrid: Daemon) -> None:
    hybrid.provider = "auto-remote"
    hybrid.write("MEMORY.md", "the ferry leaves at nine\n")
    hybrid.start().sync()
    hybrid.stop()
    hybrid.variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    hybrid.start().sync()
    assert status(hybrid).provider == "local"
    assert hybrid.search("ferry").mode == "hybrid"
    with hybrid.client() as client:
        probe = client.probe()
    assert [(c.provider, c.passed_over) for c in probe.candidates] == [
        ("local (GGUF)", "local.model_path is not set"),
        ("openai", None),
    ]
    assert "a new index would get:" in hybrid.memctl("probe").stdout


def test_another_provider_by_request(hybrid: Daemon, openai: OpenAiDouble) -> None:
    hybrid.provider = "auto"
    hybrid.write("MEMORY.md", "the ferry leaves at nine\n")
    hybrid.variables = {"OPENAI_BASE_URL": openai.url}
    hybrid.start().sync()
    assert status(hybrid).provider == "local"
    hybrid.stop()
    hybrid.variables["OPENAI_API_KEY"] = KEY
    hybrid.start()
    done = hybrid.memctl_json("index", "--provider", "openai")
    assert (done["rebuilt"], done["embedded"]) == (True, 1)
    assert hybrid.search("ferry").provider == "openai"
    again = hybrid.memctl_json("index", "--provider", "openai")
    assert (again["embedded"], openai.embedded["the ferry leaves at nine"]) == (0, 1)
    hybrid.stop()
    hybrid.start().sync()
    assert hybrid.search("ferry").provider == "openai"
    # The earlier vectors still exist.
    back = hybrid.memctl_json("index", "--provider", "local")
    assert (back["rebuilt"], back["embedded"]) == (True, 0)
    assert hybrid.search("ferry").provider == "local"


@pytest.mark.parametrize(
    ("configured", "asked", "words"),
    [
        ("auto", "nonsense", "no such provider: 'nonsense'; valid providers: auto, auto-remote"),
        ("auto", "gemini", "There is no key for gemini: set GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("none", "local", 'the configuration sets provider = "none"'),
    ],
)
def test_a_provider_that_can_not_be_had_changes_nothing(
    hybrid: Daemon, configured: str, asked: str, words: str
) -> None:
    hybrid.provider = configured
    hybrid.start().sync()
    before = status(hybrid).provider
    with hybrid.client() as client, pytest.raises(BadRequestError) as caught:
        client.index(provider=asked)
    assert words in str(caught.value)
    assert status(hybrid).provider == before


# Failures


def test_a_fallback_takes_over_for_good_and_goes_back_on_request(
    hybrid: Daemon, openai: OpenAiDouble
) -> None:
    asking(hybrid, openai, more='fallback = "local"')
    hybrid.write("MEMORY.md", "the ferry leaves at nine\n")
    hybrid.start().sync()
    assert hybrid.search("ferry").provider == "openai"
    openai.key = "sk-revoked"
    hybrid.write("memory/new.md", "the train leaves at ten\n")
    eventually(lambda: _provider(hybrid) == "local")
    hybrid.sync()
    result = hybrid.search("train")
    assert result.mode == "hybrid"
    assert any("the fallback provider local is in use" in warning for warning in result.warnings)
    assert result.fallback == "local"
    assert "local, since openai failed" in (status(hybrid).fallback or "")
    hybrid.stop()
    hybrid.start().sync()
    assert hybrid.search("train").provider == "local"
    openai.key = KEY
    hybrid.memctl("index", "--provider", "openai")
    assert hybrid.search("train").provider == "openai"
    assert status(hybrid).fallback is None
    assert openai.embedded["the ferry leaves at nine"] == 1


def _provider(daemon: Daemon) -> str | None:
    from memoryd_client.errors import MemorydError

    try:
        return status(daemon).provider
    except MemorydError:  # the agent is restarting
        return None


def test_a_rate_limit_is_no_reason_for_the_fallback(hybrid: Daemon, openai: OpenAiDouble) -> None:
    openai.fail(RateLimit(600.0), times=99)
    asking(hybrid, openai, more='fallback = "local"')
    hybrid.write("MEMORY.md", "the ferry leaves at nine\n")
    hybrid.start().sync()
    shown = status(hybrid)
    assert (shown.provider, shown.fallback) == ("openai", None)
    (error,) = [error for error in shown.errors if error.what == "embedding"]
    assert error.retry_in_s is not None
    assert 500 < error.retry_in_s <= 600
    assert any("embedding is paused" in line for line in shown.degraded)


def test_one_bad_text_is_set_aside_and_listed(daemon: Daemon, openai: OpenAiDouble) -> None:
    openai.bad_texts = {"the poison note"}
    asking(daemon, openai)
    daemon.write("memory/bad.md", "the poison note\n")
    for number in range(20):
        daemon.write(f"memory/{number}.md", f"note number {number}\n")
    daemon.start().sync()
    shown = status(daemon)
    assert (shown.pending_vectors, shown.vector.in_memory, shown.failure_count) == (0, 20, 1)
    assert daemon.paths("poison") == ["memory/bad.md"]
    asked = len(openai.requests)
    daemon.stop()
    daemon.start().sync()
    assert len(openai.requests) == asked


@pytest.mark.parametrize(
    "fault", [Fault.SERVER_ERROR, Fault.DROPPED, Fault.HTML_200, Fault.TRUNCATED, Fault.NAN]
)
def test_what_passes_is_tried_again(daemon: Daemon, openai: OpenAiDouble, fault: Fault) -> None:
    openai.fail(fault, times=2)
    asking(daemon, openai)
    daemon.write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    shown = status(daemon)
    assert (shown.pending_vectors, shown.vector.in_memory, shown.failure_count) == (0, 1, 0)
    assert shown.embedding is not None
    assert shown.embedding.retries >= 1


def test_a_search_that_is_given_up_takes_its_request_back(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    asking(daemon, openai).write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    openai.fail(Fault.SLOW, times=5)
    asked = len(openai.inputs)
    peer = Peer(str(daemon.socket)).greet()
    peer.send(Request(1, "search", raw(SearchBody("when does it leave?"))))
    eventually(lambda: len(openai.inputs) > asked)
    peer.send(Cancel(1))
    eventually(lambda: openai.cancelled > 0)
    peer.close()


def test_agents_with_the_same_provider_share_its_bounds(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    gate = openai.gate = Gate()
    asking(daemon, openai)
    folders = [daemon.workspace, daemon.add_agent("second"), daemon.add_agent("third")]
    for folder in folders:
        (folder / "memory").mkdir()
        for number in range(60):
            text = f"{folder.name} has a note {number} " + "word " * 700
            (folder / "memory" / f"{number}.md").write_text(text)
    daemon.start()
    eventually(lambda: openai.most_at_once > 1)
    gate.open_up()
    for agent in ("main", "second", "third"):
        with daemon.client(agent) as client:
            client.sync()
            assert client.status().pending_vectors == 0
    assert openai.most_at_once <= 4


def test_models_and_options_that_a_server_of_ones_own_wants(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    openai.key = None
    openai.models = {"hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF"}
    more = (
        'model = "hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF"\n'
        'document_input_type = "passage"\noutput_dimensionality = 16'
    )
    asking(daemon, openai, more=more, key=None)
    daemon.write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    daemon.search("ferry")
    bodies: list[dict[str, Any]] = [request.body for request in openai.requests]
    assert bodies.pop()["input"][0] == REFERENCE[0][0]
    assert bodies[0]["input"] == ["the ferry leaves at nine"]
    assert (bodies[0]["input_type"], bodies[0]["dimensions"]) == ("passage", 16)
    assert bodies[-1]["input"][0].startswith("Instruct: Given a user query, retrieve relevant")
    assert "authorization" not in openai.requests[0].headers
    assert status(daemon).vector.dims == 16


@pytest.mark.parametrize("url", ["nonsense", "127.0.0.1:9", "http://u:p@127.0.0.1/v1"])
def test_an_address_that_is_none_is_told(daemon: Daemon, url: str) -> None:
    daemon.provider = "openai"
    daemon.variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(60) == 78
    assert "OPENAI_BASE_URL must be a URL like https://host/v1" in daemon.log()
    assert "Traceback" not in daemon.log()


def test_passwords_of_other_programs_are_left_alone(daemon: Daemon, openai: OpenAiDouble) -> None:
    (daemon.folder / ".netrc").write_text("default login bob password hunter2\n")
    asking(daemon, openai).write("MEMORY.md", "the ferry leaves at nine\n")
    daemon.start().sync()
    assert status(daemon).pending_vectors == 0
    assert openai.requests[0].headers["authorization"] == f"Bearer {KEY}"
