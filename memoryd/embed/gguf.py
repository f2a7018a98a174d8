"""Engine for GGUF model files, which llama.cpp runs."""

import hashlib
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec

from memoryd.embed.gguf_file import content_digest, is_gguf
from memoryd.embed.local import Engine
from memoryd.embed.provider import PermanentError, Prefixes, prefixes

BINDING = "xllamacpp"
_WORKER = "memoryd.embed.gguf_worker"
"""Not imported, because its dependencies are for its own process."""
_REASON_MARK = "error loading model: "
_LOAD_TIMEOUT_S = 300.0
"""Seconds; a slow disk may have to read gigabytes."""
_ANSWER_TIMEOUT_S = 300.0
"""Seconds; a model with billions of weights reads about ten tokens a second on one thread."""


def gguf_engine(
    path: Path,
    *,
    context_tokens: int = 2_048,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
) -> Engine:
    """Return the engine of a model file; the key is "" if the file does not exist yet.

    The model reads at most `context_tokens` of a text, or as many as it was trained for. A prefix
    that is None is the model's own.
    """
    path = path.expanduser().absolute()
    texts = prefixes(path.stem, query=query_prefix, document=document_prefix)
    key = ""
    with suppress(OSError):
        key = _key(content_digest(path), context_tokens, texts)
    return Engine(
        model=path.stem,
        key=key,
        dims=None,
        calibration=None,
        module=_WORKER,
        arguments=(str(path), str(context_tokens)),
        check=partial(_check, path, context_tokens, texts, key),
        reason_mark=_REASON_MARK,
        prefixes=texts,
        # A text takes about a second: small batches let queries go first and vectors be stored.
        batch_items=8,
        piece_items=1,
        piece_bytes=1,
        query_timeout_s=_ANSWER_TIMEOUT_S,
        load_timeout_s=_LOAD_TIMEOUT_S,
        answer_timeout_s=_ANSWER_TIMEOUT_S,
    )


def _key(digest: str, context_tokens: int, texts: Prefixes) -> str:
    """Return a hash of all that determines the vectors of documents."""
    facts = msgspec.json.encode([digest, context_tokens, texts.document])
    return hashlib.sha256(facts).hexdigest()[:16]


def _check(path: Path, context_tokens: int, texts: Prefixes, key: str) -> None:
    """Raise `PermanentError` if the model can't run, or has changed since its engine was made."""
    if find_spec(BINDING) is None:
        raise PermanentError(
            "GGUF models need llama.cpp; run `pip install --require-hashes -r"
            " requirements/gguf.txt` in memoryd's repository, or remove local.model_path from the"
            " configuration."
        )
    try:
        if not is_gguf(path):
            raise PermanentError(f"{path} is not a GGUF model file.")
        digest = content_digest(path)
    except FileNotFoundError as error:
        raise PermanentError(
            f"There is no model file {path}; set local.model_path, or download one with"
            " `memoryd download-model`."
        ) from error
    except OSError as error:
        raise PermanentError(f"{path} can't be read: {error.strerror}.") from error
    if _key(digest, context_tokens, texts) != key:
        raise PermanentError(
            f"{path} has changed since the start; restart memoryd.", for_good=False
        )
