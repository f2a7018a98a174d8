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


def prefixes(model: str, *, query: str | None = None, document: str | None = None) -> Prefixes:
    """Return what the model of this name wants before texts; nothing for one that is not known.

    What is given, as configured, takes the place of what the model wants.
    The name is looked for in the last segment of a path, in any case: `hf.co/Qwen/Qwen3-Embedding`.
    """
    segment = model.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    wanted = next((known for name, known in _BY_MODEL.items() if name in segment), Prefixes())
    return Prefixes(
        wanted.query if query is None else query,
        wanted.document if document is None else document,
    )
