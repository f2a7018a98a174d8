"""A retriever in the form of LangChain: `invoke(question)` returns documents with their sources.

Usage: langchain_retriever.py QUESTION. With `langchain-core` installed, the retriever is a
`BaseRetriever` and its documents are LangChain's, for any chain; without it, the same classes are
plain ones.
"""

import sys
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from memoryd_client import Client, Hit, MemorydError

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError:

    @dataclass
    class Document:
        """A text and facts about it."""

        page_content: str
        metadata: dict[str, Any] = field(default_factory=dict)

    class BaseRetriever:
        """The part of LangChain's class that a program without it needs."""

        def __init__(self, **fields: Any) -> None:
            vars(self).update(fields)

        def invoke(self, question: str) -> list[Document]:
            """Return the documents for a question."""
            return self._get_relevant_documents(question)

        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            raise NotImplementedError


class MemoryRetriever(BaseRetriever):
    """Retriever of notes and conversations. Raises `MemorydError` rather than finding nothing."""

    client: Any
    max_results: int = 5
    min_confidence: float = 0.3
    trusted: bool = True

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        found = self.client.search(
            query,
            max_results=self.max_results,
            min_confidence=self.min_confidence,
            # A chain does not know whose words a text is, so it gets none of strangers.
            trusted=self.trusted,
        )
        return [document(hit) for hit in found.results]


def document(hit: Hit) -> Document:
    """Return a result as a document."""
    about = {"source": hit.citation, "title": hit.title, "date": hit.date, "origin": hit.origin}
    return Document(page_content=hit.snippet, metadata={**about, "score": hit.score})


if __name__ == "__main__":
    with closing(Client()) as memory:
        try:
            documents = MemoryRetriever(client=memory).invoke(" ".join(sys.argv[1:]))
        except MemorydError as error:
            sys.exit(f"langchain_retriever: {error}")
        for one in documents:
            print(one.metadata["source"], one.page_content.partition("\n")[0], sep="  ")
