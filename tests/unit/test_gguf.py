"""GGUF models without llama.cpp: the properties of a file and the messages about it."""

import asyncio
import importlib.util
import io
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import MODULES, imports

from memoryd.embed import gguf
from memoryd.embed.gguf import gguf_engine
from memoryd.embed.gguf_facts import GgufError, read_facts
from memoryd.embed.gguf_file import MAGIC, content_digest
from memoryd.embed.local import LocalProvider
from memoryd.embed.provider import PermanentError, Prefixes, prefixes
from memoryd.embed.route import INSIDE

MIB = 2**20


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "find_spec", lambda _: object())


def model_file(folder: Path, *, name: str = "tiny.gguf", rest: bytes = b"weights") -> Path:
    path = folder / name
    path.write_bytes(MAGIC + rest)
    return path


def refusal_of(path: Path) -> str:
    """Embed with the file as a model. Return the error, which precedes any process start."""

    async def embed() -> str:
        provider = LocalProvider(gguf_engine(path))
        try:
            with pytest.raises(PermanentError) as refused:
                await provider.embed_query("hello")
            assert provider.stats().state == "failed"
            assert provider.stats().pid is None
            return str(refused.value)
        finally:
            await provider.close()

    return asyncio.run(embed())


# Errors of a model


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "find_spec", lambda _: None)
    refusal = refusal_of(model_file(tmp_path))
    assert "pip install --require-hashes -r requirements/gguf.txt" in refusal


@pytest.mark.usefixtures("installed")
def test_a_missing_file_is_named_with_the_way_to_get_one(tmp_path: Path) -> None:
    refusal = refusal_of(tmp_path / "none.gguf")
    assert str(tmp_path / "none.gguf") in refusal
    assert "memoryd download-model" in refusal


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("content", [b"", b"GGU", b"<html>no model</html>"])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "page.gguf").write_bytes(content)
    assert "is not a GGUF model file" in refusal_of(tmp_path / "page.gguf")


@pytest.mark.usefixtures("installed")
def test_a_folder_is_no_model(tmp_path: Path) -> None:
    assert "can't be read" in refusal_of(tmp_path)


@pytest.mark.usefixtures("installed")
def test_a_file_that_changed_since_the_start_is_not_used(tmp_path: Path) -> None:
    engine = gguf_engine(model_file(tmp_path))
    engine.check()
    model_file(tmp_path, rest=b"other weights")
    with pytest.raises(PermanentError, match="restart memoryd") as refused:
        engine.check()
    assert not refused.value.for_good


@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="needs xllamacpp")
def test_the_daemon_never_loads_llama_cpp(tmp_path: Path) -> None:
    # Other tests may have loaded llama.cpp, so this needs a separate process.
    program = """
import sys
from pathlib import Path
from memoryd.embed.gguf import gguf_engine

gguf_engine(Path(sys.argv[1])).check()
assert "xllamacpp" not in sys.modules
assert "memoryd.embed.gguf_facts" not in sys.modules
"""
    command = [sys.executable, "-c", program, str(model_file(tmp_path))]
    subprocess.run(command, check=True, timeout=60)


def test_only_the_models_process_interprets_a_model_file() -> None:
    importers = [
        (module.stem, name.split(".")[2])
        for module in MODULES
        for name in set(imports(module))
        if name.startswith(("memoryd.embed.gguf_facts.", "memoryd.embed.gguf_worker."))
    ]
    assert set(importers) == {("gguf_worker", "gguf_facts")}


# Identity of the vectors


def test_an_engine_is_named_after_the_file(tmp_path: Path) -> None:
    provider = LocalProvider(gguf_engine(model_file(tmp_path, name="Some-Model.Q8_0.gguf")))
    assert (provider.name, provider.model, provider.dims) == ("local", "Some-Model.Q8_0", None)
    assert (provider.route, provider.remote) == (INSIDE, False)


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = model_file(tmp_path)
    assert gguf_engine(Path("~/tiny.gguf")).key == gguf_engine(path).key != ""


def test_the_key_is_that_of_the_content_wherever_it_is(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    assert gguf_engine(model_file(tmp_path)).key == gguf_engine(model_file(there)).key


def test_a_file_that_is_not_there_has_no_key(tmp_path: Path) -> None:
    assert gguf_engine(tmp_path / "none.gguf").key == ""


def test_all_that_decides_about_vectors_is_in_the_key(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    engines = [
        gguf_engine(path),
        gguf_engine(path, context_tokens=512),
        gguf_engine(path, document_prefix="passage: "),
        gguf_engine(model_file(tmp_path, name="other.gguf", rest=b"others")),
    ]
    assert len({engine.key for engine in engines}) == len(engines)
    assert gguf_engine(path, query_prefix="query: ").key == engines[0].key


@pytest.mark.parametrize("at", [0, MIB - 1, 2 * MIB, 3 * MIB - 1])
def test_a_digest_changes_with_the_first_and_the_last_mib(tmp_path: Path, at: int) -> None:
    content = bytearray(3 * MIB)
    path = tmp_path / "model"
    path.write_bytes(content)
    before = content_digest(path)
    content[at] = 1
    path.write_bytes(content)
    assert content_digest(path) != before


def test_a_digest_changes_with_the_size(tmp_path: Path) -> None:
    digests = set()
    for size in (0, 1, MIB, 2 * MIB, 3 * MIB, 4 * MIB):
        (tmp_path / "model").write_bytes(bytes(size))
        digests.add(content_digest(tmp_path / "model"))
    assert len(digests) == 6


# Prefixes


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("embeddinggemma", "task: search result | query: ", "title: none | text: "),
        (
            "embeddinggemma-300m-qat-Q8_0",
            "task: search result | query: ",
            "title: none | text: ",
        ),
        ("nomic-embed-text", "search_query: ", ""),
        ("nomic-embed-text:latest", "search_query: ", ""),
        ("text-embedding-nomic-embed-text-v1.5", "search_query: ", ""),
        (
            "mixedbread-ai/MXBAI-Embed-Large-v1",
            "Represent this sentence for searching relevant passages: ",
            "",
        ),
        (
            "hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF",
            "Instruct: Given a user query, retrieve relevant memory notes and documents\nQuery:",
            "",
        ),
        ("text-embedding-3-small", "", ""),
        ("nomic-embed-text/other-model", "", ""),
        ("", "", ""),
    ],
)
def test_prefixes_go_by_the_last_segment_of_the_name(model: str, query: str, document: str) -> None:
    assert prefixes(model) == Prefixes(query, document)


def test_an_engine_has_the_prefixes_of_its_model_unless_others_are_set(tmp_path: Path) -> None:
    path = model_file(tmp_path, name="embeddinggemma-300m.gguf")
    assert gguf_engine(path).prefixes == prefixes("embeddinggemma")
    own = gguf_engine(path, query_prefix="", document_prefix="passage: ").prefixes
    assert own == Prefixes("", "passage: ")


# Metadata of a file


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def head(*pairs: bytes, version: int = 3) -> bytes:
    return MAGIC + struct.pack("<IQQ", version, 7, len(pairs)) + b"".join(pairs)


NUMBERS = struct.pack("<IQ", 4, 3) + bytes(12)
WORDS = struct.pack("<IQ", 8, 2) + text("one") + text("two")
HEAD = head(
    pair("general.architecture", 8, text("bert")),
    pair("general.tags", 9, WORDS),
    pair("bert.context_length", 4, struct.pack("<I", 512)),
    pair("bert.numbers", 9, NUMBERS),
    pair("bert.attention.causal", 7, b"\0"),
    pair("bert.eps", 6, struct.pack("<f", 0.5)),
    pair("bert.big", 10, struct.pack("<Q", 2**40)),
    pair("tokenizer.ggml.tokens", 9, b"what comes here is not read"),
)


def test_facts_are_read_up_to_the_vocabulary() -> None:
    assert read_facts(io.BytesIO(HEAD)) == {
        "general.architecture": "bert",
        "bert.context_length": 512,
        "bert.attention.causal": False,
        "bert.eps": 0.5,
        "bert.big": 2**40,
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\3\4", "does not start with GGUF"),
        (head(version=1), "its version 1 is not supported"),
        (head(pair("a", 13, b"")), "unknown type 13"),
        (head(text("a" * 70_000)), "too long"),
        (head(pair("a", 9, struct.pack("<IQ", 9, 1))), "unknown type 9"),
    ],
)
def test_a_damaged_head_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(GgufError, match=reason):
        read_facts(io.BytesIO(content))


@given(cut=st.integers(0, HEAD.index(b"tokenizer.") - 1))
def test_a_head_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(GgufError):
        read_facts(io.BytesIO(HEAD[:cut]))


@given(at=st.integers(0, len(HEAD) - 1), value=st.integers(0, 255))
def test_a_head_with_a_wrong_byte_is_read_or_refused(at: int, value: int) -> None:
    damaged = bytearray(HEAD)
    damaged[at] = value
    try:
        read_facts(io.BytesIO(damaged))
    except GgufError:
        return
