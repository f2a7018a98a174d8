"""Requests to each vendor, over HTTP to its double, and the parsing of its answers."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from remotes import KEY, NAMES, VENDORS, WITH_KEY, clear, double_of, remote, set_keys
from vendors import Double, Fault, GeminiDouble, OllamaDouble, OpenAiDouble, Seen, embedding

from memoryd.config.settings import Remote, Settings
from memoryd.config.validate import ConfigError
from memoryd.embed.provider import FloatMatrix, PermanentError, utf8_bytes
from memoryd.embed.vendors.api import RequestOptions
from memoryd.embed.vendors.credentials import BATCH_VENDORS, KEY_NAMES, key_origin
from memoryd.embed.vendors.factory import APIS, BATCH_APIS, is_secret_header, make_remote
from memoryd.embed.vendors.remote import LARGE_BYTES

TEXTS = ["one", "two three", 'four "quoted" 漢字 🦭']
INDEXED = ("openai", "voyage", "mistral")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_keys(monkeypatch)


def same(rows: FloatMatrix, texts: list[str], dims: int = 8) -> bool:
    expected = np.array([embedding(text, dims) for text in texts], np.float32)
    return rows.shape == expected.shape and bool(np.allclose(rows, expected, atol=1e-6))


def sent_texts(seen: Seen) -> list[str]:
    """Return the texts of a request, as the vendor reads them."""
    if "requests" in seen.body:
        return [request["content"]["parts"][0]["text"] for request in seen.body["requests"]]
    return list(seen.body["input"])


async def asked(name: str, double: Double, **settings: Any) -> tuple[Seen, Seen]:
    """Return the double's view of TEXTS as documents, and of a query."""
    async with remote(name, double.url, **settings) as provider:
        await provider.embed_documents(TEXTS)
        await provider.embed_query("why?")
    documents, query = double.requests
    return documents, query


# Requests


def test_the_vendors_are_those_whose_keys_are_known() -> None:
    assert APIS.keys() == KEY_NAMES.keys()
    assert {name: make().key_names for name, make in APIS.items()} == KEY_NAMES
    assert BATCH_APIS.keys() == BATCH_VENDORS


@pytest.mark.parametrize("name", NAMES)
async def test_documents_and_queries_go_to_the_vendors_path_with_its_default_model(
    name: str,
) -> None:
    vendor = VENDORS[name]
    async with double_of(name) as double:
        documents, query = await asked(name, double)
    for seen in (documents, query):
        assert (seen.method, seen.path, seen.query) == ("POST", vendor.path, {})
        assert seen.headers["content-type"] == "application/json"
        assert seen.headers["user-agent"] == "memoryd"
        if name != "gemini":
            assert seen.body["model"] == vendor.model
    assert sent_texts(documents) == TEXTS


@pytest.mark.parametrize("name", NAMES)
async def test_vectors_come_back_in_order_with_their_tokens(name: str) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        assert provider.dims is None
        rows = await provider.embed_documents(TEXTS)
        assert rows.dtype == np.float32
        assert same(rows, TEXTS)
        counted = provider.tokens_used
        assert (counted > 0) == (name != "gemini")  # Gemini reports none
        await provider.embed_documents(TEXTS)
        assert provider.tokens_used == 2 * counted


BODIES: dict[str, tuple[Any, Any]] = {
    "openai": (
        {"model": "text-embedding-3-small", "input": TEXTS},
        {"model": "text-embedding-3-small", "input": ["why?"]},
    ),
    "voyage": (
        {"model": "voyage-4-large", "input": TEXTS, "input_type": "document"},
        {"model": "voyage-4-large", "input": ["why?"], "input_type": "query"},
    ),
    "mistral": (
        {"model": "mistral-embed", "input": TEXTS},
        {"model": "mistral-embed", "input": ["why?"]},
    ),
    "ollama": (
        {"model": "nomic-embed-text", "input": TEXTS},
        {"model": "nomic-embed-text", "input": ["search_query: why?"]},
    ),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_says_no_more_than_it_must(name: str) -> None:
    async with double_of(name) as double:
        documents, query = await asked(name, double)
    assert (documents.body, query.body) == BODIES[name]


async def test_gemini_is_told_the_task_of_each_text() -> None:
    async with double_of("gemini") as double:
        documents, query = await asked("gemini", double)
    assert documents.body == {
        "requests": [
            {
                "model": "models/gemini-embedding-001",
                "content": {"parts": [{"text": text}]},
                "taskType": "RETRIEVAL_DOCUMENT",
            }
            for text in TEXTS
        ]
    }
    (request,) = query.body["requests"]
    assert request["taskType"] == "RETRIEVAL_QUERY"


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("openai", "dimensions"),
        ("gemini", "outputDimensionality"),
        ("voyage", "output_dimension"),
        ("mistral", "output_dimension"),
        ("ollama", "dimensions"),
    ],
)
async def test_dimensions_are_asked_for_in_the_vendors_words(name: str, field: str) -> None:
    async with (
        double_of(name) as double,
        remote(name, double.url, output_dimensionality=16) as provider,
    ):
        assert provider.dims == 16
        assert same(await provider.embed_documents(TEXTS), TEXTS, dims=16)
        body = double.requests[0].body
    for part in body.get("requests", [body]):
        assert part[field] == 16


@pytest.mark.parametrize(
    ("settings", "document", "query"),
    [
        ({"input_type": "both"}, "both", "both"),
        ({"query_input_type": "q", "document_input_type": "d"}, "d", "q"),
        ({"input_type": "both", "query_input_type": "q"}, "both", "q"),
    ],
)
async def test_input_types_are_sent_as_configured(
    settings: dict[str, str], document: str, query: str
) -> None:
    async with double_of("openai") as double:
        seen = await asked("openai", double, **settings)
    assert [part.body["input_type"] for part in seen] == [document, query]
    async with double_of("gemini") as double:
        seen = await asked("gemini", double, **settings)
    assert [part.body["requests"][0]["taskType"] for part in seen] == [document, query]


async def test_mistral_and_ollama_are_sent_no_input_type_that_they_do_not_know() -> None:
    for name in ("mistral", "ollama"):
        async with double_of(name) as double:
            seen = await asked(name, double, input_type="query")
        assert all(part.body.keys() == {"model", "input"} for part in seen)


@pytest.mark.parametrize("name", NAMES)
async def test_prefixes_go_before_each_text_byte_for_byte(name: str) -> None:
    async with double_of(name) as double:
        documents, query = await asked(name, double, query_prefix="Q: ", document_prefix="D:\n")
    assert sent_texts(documents) == [f"D:\n{text}" for text in TEXTS]
    assert sent_texts(query) == ["Q: why?"]


@pytest.mark.parametrize(
    ("model", "query"),
    [
        ("mxbai-embed-large", "Represent this sentence for searching relevant passages: why?"),
        (
            "ollama/qwen3-embedding",
            "Instruct: Given a user query, retrieve relevant memory notes and documents\n"
            "Query:why?",
        ),
    ],
)
async def test_a_model_gets_the_prefixes_that_it_was_trained_with(model: str, query: str) -> None:
    async with double_of("ollama") as double:
        seen = await asked("ollama", double, model=model)
        assert [sent_texts(part) for part in seen] == [TEXTS, [query]]
        double.requests.clear()
        seen = await asked("ollama", double, model=model, query_prefix="")
        assert [sent_texts(part) for part in seen] == [TEXTS, ["why?"]]


async def test_a_lone_surrogate_is_sent_as_something_that_json_can_hold() -> None:
    async with double_of("openai") as double, remote("openai", double.url) as provider:
        assert (await provider.embed_documents(["a\ud800b"])).shape == (1, 8)
    assert double.inputs == [["a?b"]]


def test_room_for_the_longest_prefix_is_left_in_what_a_model_reads() -> None:
    settings = Settings(provider="openai", query_prefix="é" * 50, document_prefix="x")
    assert make_remote("openai", settings).max_input_bytes == 8_000 - utf8_bytes("é" * 50)


# Models


@pytest.mark.parametrize(
    ("name", "given", "sent"),
    [
        ("gemini", "models/gemini-embedding-2-preview", "gemini-embedding-2-preview"),
        ("gemini", "gemini/text-embedding-004", "text-embedding-004"),
        ("gemini", "google/text-embedding-004", "text-embedding-004"),
        ("ollama", "ollama/mxbai-embed-large", "mxbai-embed-large"),
        ("voyage", "voyage/voyage-large-2", "voyage-large-2"),
        ("mistral", "mistral/mistral-embed", "mistral-embed"),
        ("openai", "openai/text-embedding-3-small", "text-embedding-3-small"),
        ("openai", "openai/openai/text-embedding-3-small", "openai/text-embedding-3-small"),
        ("openai", "intfloat/e5", "intfloat/e5"),
        ("ollama", "mxbai-embed-large:latest", "mxbai-embed-large:latest"),
        ("openai", "text-embedding-3-large", "text-embedding-3-large"),
        ("voyage", "voyage-code-3", "voyage-code-3"),
        ("mistral", "codestral-embed", "codestral-embed"),
    ],
)
async def test_a_models_name_loses_what_other_tools_put_before_it(
    name: str, given: str, sent: str
) -> None:
    async with double_of(name) as double, remote(name, double.url, model=given) as provider:
        double.models.add(sent)
        await provider.embed_query("why?")
        assert provider.model == sent
    (seen,) = double.requests
    if name == "gemini":
        assert seen.path == f"/v1beta/models/{sent}:batchEmbedContents"
        assert seen.body["requests"][0]["model"] == f"models/{sent}"
    else:
        assert seen.body["model"] == sent


async def test_a_model_of_another_maker_keeps_its_path_at_a_compatible_server() -> None:
    async with double_of("openai") as double:
        double.models.add("openai/BAAI/bge-m3")
        seen, _ = await asked("openai", double, model="openai/BAAI/bge-m3")
    assert seen.body["model"] == "openai/BAAI/bge-m3"


# Keys and headers


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("openai", "authorization", f"Bearer {KEY}"),
        ("voyage", "authorization", f"Bearer {KEY}"),
        ("mistral", "authorization", f"Bearer {KEY}"),
        ("gemini", "x-goog-api-key", KEY),
    ],
)
async def test_the_key_is_in_the_vendors_header_and_nowhere_else(
    name: str, header: str, value: str
) -> None:
    async with double_of(name) as double:
        documents, query = await asked(name, double)
    for seen in (documents, query):
        assert [h for h, v in seen.headers.items() if KEY in v] == [header]
        assert seen.headers[header] == value
        assert KEY not in json.dumps([seen.path, seen.query, seen.body])


def test_geminis_oauth_token_is_a_bearers() -> None:
    api = APIS["gemini"]()
    assert api.key_headers('{"token": "ya29.x"}') == {"Authorization": "Bearer ya29.x"}
    for other in ('{"token": ""}', '{"other": 1}', "{no json", "{}"):
        assert api.key_headers(other) == {"x-goog-api-key": other}


async def test_an_oauth_token_is_sent_to_gemini(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", json.dumps({"token": "ya29.token", "project": "p"}))
    async with GeminiDouble(key="ya29.token") as double:
        seen, _ = await asked("gemini", double)
    assert seen.headers["authorization"] == "Bearer ya29.token"
    assert "x-goog-api-key" not in seen.headers


async def test_api_key_header_takes_the_place_of_the_vendors_own() -> None:
    async with double_of("openai") as double:
        seen, _ = await asked("openai", double, of_remote={"api_key_header": "api-key"})
    assert seen.headers["api-key"] == KEY
    assert "authorization" not in seen.headers


@pytest.mark.parametrize("name", NAMES)
async def test_extra_headers_are_sent_with_every_request(name: str) -> None:
    headers = {"X-Team": "seals", "User-Agent": "mine"}
    async with double_of(name) as double:
        documents, query = await asked(name, double, of_remote={"headers": headers})
    for seen in (documents, query):
        assert (seen.headers["x-team"], seen.headers["user-agent"]) == ("seals", "mine")


async def test_a_key_that_is_there_counts_more_than_an_extra_header() -> None:
    headers = {"Authorization": "Bearer old"}
    async with double_of("openai") as double:
        seen, _ = await asked("openai", double, of_remote={"headers": headers})
    assert seen.headers["authorization"] == f"Bearer {KEY}"


async def test_an_ollama_of_ones_own_is_sent_no_key_of_the_environment() -> None:
    async with double_of("ollama") as double:
        documents, query = await asked("ollama", double)
    for seen in (documents, query):
        assert KEY not in json.dumps(seen.headers)


async def test_ollama_is_sent_a_key_that_the_configuration_names(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("ollama-key\n")
    file.chmod(0o600)
    async with OllamaDouble(key="ollama-key") as double:
        seen, _ = await asked("ollama", double, of_remote={"api_key_file": str(file)})
    assert seen.headers["authorization"] == "Bearer ollama-key"


@pytest.mark.parametrize(
    ("url", "origin"), [("https://ollama.com", "OLLAMA_API_KEY"), ("http://10.0.0.1:11434", None)]
)
async def test_ollamas_cloud_is_sent_the_key(url: str, origin: str | None) -> None:
    async with remote("ollama", url) as provider:
        key = provider.http.check_key()
    assert (key.origin if key else None) == origin


async def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)
    async with OpenAiDouble(key=None) as double:
        seen, _ = await asked("openai", double)
    assert "authorization" not in seen.headers


@pytest.mark.parametrize("name", WITH_KEY)
async def test_without_a_key_a_vendor_is_not_asked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear(monkeypatch)
    async with remote(name, None) as provider:
        with pytest.raises(PermanentError, match=f"There is no key for {name}: set .*_API_KEY"):
            await provider.embed_query("why?")
        with pytest.raises(PermanentError, match="There is no key"):
            provider.http.check_key()


async def test_a_key_that_is_rotated_counts_at_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with double_of("openai") as double, remote("openai", double.url) as provider:
        await provider.embed_query("why?")
        double.key = "sk-another-key"
        monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key")
        await provider.embed_query("why?")


@pytest.mark.parametrize(
    ("name", "secret"),
    [("X-API-Key", True), ("Cookie", True), ("Authorization", True), ("OpenAI-Project", False)],
)
def test_secret_headers_are_told_by_their_names(name: str, *, secret: bool) -> None:
    assert is_secret_header(name) == secret


# Addresses


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("openai", "/"),
        ("openai", "/embeddings"),
        ("openai", "/embeddings/"),
        ("voyage", "/embeddings"),
        ("mistral", "/"),
        ("gemini", "/"),
        ("gemini", "/openai"),
        ("gemini", "/openai/"),
        ("ollama", "/"),
        ("ollama", "/v1"),
        ("ollama", "/v1/"),
        ("ollama", "/api"),
    ],
)
async def test_addresses_are_put_right(name: str, suffix: str) -> None:
    async with (
        double_of(name) as double,
        remote(name, f"{double.url}{suffix}") as provider,
    ):
        assert same(await provider.embed_documents(TEXTS), TEXTS)
    assert double.requests[0].path == VENDORS[name].path


async def test_gemini_without_a_version_gets_one() -> None:
    async with double_of("gemini") as double:
        base = double.url.removesuffix("/v1beta")
        async with remote("gemini", base) as provider:
            await provider.embed_query("why?")
    assert double.requests[0].path == VENDORS["gemini"].path


@pytest.mark.parametrize("suffix", ["", "/", "/embeddings", "/embeddings/"])
async def test_azures_api_version_stays(suffix: str) -> None:
    async with double_of("openai") as double:
        url = f"{double.url}{suffix}?api-version=2024-02-01"
        async with remote("openai", url, of_remote={"api_key_header": "api-key"}) as provider:
            await provider.embed_documents(TEXTS)
    (seen,) = double.requests
    assert (seen.path, seen.query) == ("/v1/embeddings", {"api-version": "2024-02-01"})


async def test_geminis_query_stays_behind_the_version() -> None:
    async with double_of("gemini") as double:
        base = double.url.removesuffix("/v1beta")
        async with remote("gemini", f"{base}?route=a") as provider:
            await provider.embed_query("why?")
    (seen,) = double.requests
    assert (seen.path, seen.query) == (VENDORS["gemini"].path, {"route": "a"})


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai", "OPENAI_BASE_URL"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL"),
        ("ollama", "OLLAMA_HOST"),
    ],
)
async def test_the_vendors_own_variable_gives_the_address(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with double_of(name) as double:
        monkeypatch.setenv(variable, double.url)
        async with remote(name, None) as provider:
            assert same(await provider.embed_documents(TEXTS), TEXTS)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.7", "10.0.0.7:11434"),
        ("10.0.0.7:8080", "10.0.0.7:8080"),
        ("0.0.0.0", "127.0.0.1:11434"),
        ("http://0.0.0.0:11434", "127.0.0.1:11434"),
        ("https://o.example.com/", "o.example.com"),
    ],
)
async def test_ollama_host_may_lack_a_scheme_and_a_port(
    host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    async with remote("ollama", None) as provider:
        assert provider.route.address == address


@pytest.mark.parametrize("url", ["ftp://host/v1", "https://user:secret@host/v1", "https://", "no"])
def test_an_address_of_the_environment_that_is_none_is_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL must be a URL") as caught:
        make_remote("openai", Settings(provider="openai"))
    assert "secret" not in str(caught.value)


def test_default_addresses_are_the_vendors() -> None:
    addresses = {name: make_remote(name, Settings()).route.address for name in NAMES}
    assert addresses == {
        "openai": "api.openai.com",
        "gemini": "generativelanguage.googleapis.com",
        "voyage": "api.voyageai.com",
        "mistral": "api.mistral.ai",
        "ollama": "127.0.0.1:11434",
    }


# Answers


@pytest.mark.parametrize("name", INDEXED)
async def test_base64_is_read_as_well_as_floats(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        monkeypatch.setattr(double, "in_base64", lambda _: True)
        assert same(await provider.embed_documents(TEXTS), TEXTS)


@pytest.mark.parametrize("name", INDEXED)
async def test_vectors_are_put_into_the_order_of_their_indexes(name: str) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        double.fail(Fault.REORDERED)
        assert same(await provider.embed_documents(TEXTS), TEXTS)
        assert len(double.requests) == 1


async def test_a_large_answer_is_read_like_a_small_one() -> None:
    texts = [f"text {number}" for number in range(64)]
    async with OpenAiDouble(key=KEY, dims=1_024) as double, remote("openai", double.url) as asked:
        assert same(await asked.embed_documents(texts), texts, dims=1_024)
    assert 64 * 1_024 * len("0.1,") > LARGE_BYTES


@pytest.mark.parametrize("name", INDEXED)
def test_usage_that_says_nothing_costs_no_vectors(name: str) -> None:
    api = APIS[name]()
    row = {"embedding": [1.0, 2.0], "index": 0}
    for usage in (None, {}, {"total_tokens": None}):
        answer = api.read(json.dumps({"data": [row], "usage": usage}).encode(), 1)
        assert (answer.rows.tolist(), answer.tokens) == ([[1.0, 2.0]], 0)
    assert api.read(json.dumps({"data": [row]}).encode(), 1).tokens == 0


def test_servers_that_give_no_index_are_read_by_position() -> None:
    rows = [{"embedding": [1.0, 0.0]}, {"embedding": base64_of([0.0, 1.0])}]
    answer = APIS["openai"]().read(json.dumps({"data": rows}).encode(), 2)
    assert answer.rows.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def base64_of(vector: list[float]) -> str:
    return base64.b64encode(np.array(vector, "<f4").tobytes()).decode()


# Other properties of a provider


@pytest.mark.parametrize(
    ("name", "items", "concurrency"),
    [
        ("openai", 2_048, 4),
        ("gemini", 100, 4),
        ("voyage", 1_000, 4),
        ("mistral", 512, 4),
        ("ollama", 2_048, 1),
    ],
)
def test_bounds_are_the_configured_ones_within_the_vendors(
    name: str, items: int, concurrency: int
) -> None:
    usual = make_remote(name, Settings())
    assert (usual.batch_items, usual.batch_bytes) == (64, 8_000)
    assert usual.concurrency == concurrency
    wide = Remote(batch_items=2_048, batch_tokens=99_999, non_batch_concurrency=7)
    most = make_remote(name, Settings(remote=wide))
    assert (most.batch_items, most.batch_bytes, most.concurrency) == (items, 99_999, 7)


def test_a_fallback_inherits_nothing_of_the_first_provider(tmp_path: Path) -> None:
    settings = Settings(
        provider="openai",
        model="text-embedding-3-large",
        output_dimensionality=256,
        query_prefix="Q: ",
        input_type="both",
        remote=Remote(
            base_url="http://10.0.0.1/v1",
            api_key_file=str(tmp_path / "none"),
            api_key_header="api-key",
            headers={"X-Team": "seals"},
            batch_items=3,
        ),
    )
    provider = make_remote("voyage", settings, own=False)
    assert provider.route.address == "api.voyageai.com"
    assert provider.options == RequestOptions("voyage-4-large")
    assert provider.batch_items == 64
    key = provider.http.check_key()
    assert key is not None
    assert key.origin == "VOYAGE_API_KEY"
    assert provider.key == make_remote("voyage", Settings()).key


AT = "http://h/v1"
IDENTITIES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {"base_url": "http://h/v1/"}, False),
    ({}, {"base_url": "http://h/v1/embeddings"}, False),
    ({}, {"base_url": "http://other/v1"}, True),
    ({}, {"base_url": "http://h/v1?api-version=2"}, True),
    ({"output_dimensionality": 64}, {}, True),
    ({"query_prefix": "Q"}, {}, True),
    ({"input_type": "both"}, {}, True),
    ({}, {"headers": {"X-Team": "seals"}}, True),
    ({}, {"headers": {"X-API-Key": "seals"}}, False),
    ({}, {"headers": {"Authorization": "seals"}}, False),
    ({}, {"batch_items": 3, "requests_per_minute": 5}, False),
]


@pytest.mark.parametrize(("of_settings", "of_remote", "changes"), IDENTITIES)
def test_the_identity_is_of_what_decides_about_vectors(
    of_settings: dict[str, Any],
    of_remote: dict[str, Any],
    *,
    changes: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = make_remote("openai", Settings(remote=Remote(base_url=AT))).key
    settings = Settings(remote=Remote(**{"base_url": AT} | of_remote), **of_settings)
    assert (make_remote("openai", settings).key != plain) == changes
    monkeypatch.setenv("OPENAI_API_KEY", "sk-rotated")
    assert make_remote("openai", Settings(remote=Remote(base_url=AT))).key == plain


@pytest.mark.parametrize("name", NAMES)
def test_where_a_key_is_found_is_told_without_the_key(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert key_origin(name) == VENDORS[name].variable
    clear(monkeypatch)
    assert key_origin(name) is None


def test_geminis_second_name_for_its_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    assert key_origin("gemini") == "GOOGLE_API_KEY"
