"""The process of a GGUF model: `python -m memoryd.embed.gguf_worker THREADS PATH CONTEXT_TOKENS`.

The only interface of `xllamacpp` is llama.cpp's server, which needs a socket to listen on: it gets
one in a private folder, which is removed before the first text arrives.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from memoryd.embed.confinement import confine
from memoryd.embed.gguf_facts import GgufError, Value, read_facts
from memoryd.embed.worker import LoadedModel, serve
from memoryd_client.shared.safe_open import open_regular

_SOCKET = "unused.sock"
"""Relative, because a whole path may be too long for a socket."""
_ERRORS_ONLY = 1
_MEAN, _RANK = 1, 4
"""Values of llama.cpp's `enum llama_pooling_type`."""
_TOO_LONG = re.compile(r"\((?P<tokens>\d+) tokens\)\D+(?P<limit>\d+)")
"""Matches `input (3002 tokens) is larger than the max context size (64 tokens)`."""
_BLANK = "."
"""Replaces a text of white space, which may have no tokens and then has no vector."""


def load(threads: int, path: Path, context_tokens: int) -> LoadedModel:
    """Load the model at an absolute path. Exits with the reason if it can't be used."""
    with tempfile.TemporaryDirectory(prefix="memoryd-") as folder:
        return _load(threads, path, context_tokens, Path(folder))


def _load(threads: int, path: Path, context_tokens: int, folder: Path) -> LoadedModel:
    # On a crash, llama.cpp would attach a debugger, if installed: that takes half a minute, and
    # keeps our pipes open.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    import xllamacpp

    # Before anything reads the file, which may be made to break its reader.
    unconfined = confine(sockets_in=folder)
    import numpy as np

    facts = _facts(path)
    context_tokens = min(context_tokens, _fact(facts, "context_length") or context_tokens)
    pooling = _fact(facts, "pooling_type")
    if pooling == _RANK:
        sys.exit(f"{path.name} ranks documents; it is not an embedding model")
    options = xllamacpp.CommonParams()
    options.model.path = str(path)
    options.embedding = True
    # One whole text at a time: an embedding can't be combined from two halves.
    options.n_ctx = options.n_batch = options.n_ubatch = context_tokens
    options.n_parallel = 1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
    options.n_threads_http = 1
    options.verbosity = _ERRORS_ONLY
    # A text's vector must not depend on texts embedded before it.
    options.cache_prompt = False
    options.cache_ram_mib = 0
    options.ui = False
    options.hostnames = [_SOCKET]
    if not pooling:
        options.pooling_type = xllamacpp.llama_pooling_type(_MEAN)
    os.chdir(folder)
    try:
        server = xllamacpp.Server(options)
    except RuntimeError as error:
        sys.exit(f"llama.cpp can't load {path.name}: {error}")
    finally:
        os.chdir("/")

    def encode(texts: list[str]) -> bytes:
        return np.array([_embed(server, text) for text in texts], "<f4").tobytes()

    return LoadedModel(encode, unconfined)


def _facts(path: Path) -> dict[str, Value]:
    try:
        with open_regular(path) as file:
            return read_facts(file)
    except (OSError, GgufError) as error:
        sys.exit(f"{path.name} can't be read: {error}")


def _fact(facts: dict[str, Value], name: str) -> int | None:
    value = facts.get(f"{facts.get('general.architecture')}.{name}")
    return value if isinstance(value, int) else None


def _embed(server: Any, text: str) -> list[float]:
    """Return the vector of a text, or of as much as fits into the model's context."""
    text = text if text.strip() else _BLANK
    while True:
        answer = server.handle_embeddings({"input": text})
        if "error" not in answer:
            vector: list[float] = answer["data"][0]["embedding"]
            return vector
        problem = str(answer["error"].get("message"))
        if (counts := _TOO_LONG.search(problem)) is None:
            raise ValueError(problem)
        text = shortened(text, int(counts["tokens"]), int(counts["limit"]))


def shortened(text: str, tokens: int, limit: int) -> str:
    """Return about the first `limit` tokens of a text of `tokens` tokens.

    The result is always shorter than the text. Raises ValueError if no character is left.
    """
    kept = min(len(text) - 1, len(text) * limit // tokens)
    if kept < 1:
        raise ValueError(f"a text of {tokens} tokens can't be cut to {limit}")
    return text[:kept]


if __name__ == "__main__":
    _threads, _path, _context_tokens = sys.argv[1:]
    serve(lambda: load(int(_threads), Path(_path), int(_context_tokens)))
    # llama.cpp's own exit may hang.
    sys.stderr.flush()
    os._exit(0)
