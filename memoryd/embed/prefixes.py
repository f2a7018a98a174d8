"""What some models want to read before a query or a document. Pure."""

from typing import NamedTuple


class Prefixes(NamedTuple):
    """What is put before each text, byte for byte."""

    query: str = ""
    document: str = ""


_BY_MODEL = {
    "embeddinggemma": Prefixes("task: search result | query: ", "title: none | text: "),
    "nomic-embed-text": Prefixes("search_query: "),
    "mxbai-embed-large": Prefixes("Represent this sentence for searching relevant passages: "),
    "qwen3-embedding": Prefixes(
        "Instruct: Given a user query, retrieve relevant memory notes and documents\nQuery:"
    ),
}
"""Documents go raw, but for embeddinggemma, whose model card asks for a title."""


def prefixes(model: str) -> Prefixes:
    """Return what the model of this name wants before texts; nothing for one that is not known.

    The name is looked for in the last segment of a path, in any case: `hf.co/Qwen/Qwen3-Embedding`.
    """
    segment = model.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    for name, wanted in _BY_MODEL.items():
        if name in segment:
            return wanted
    return Prefixes()
