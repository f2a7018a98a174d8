"""Calls of the asyncio client about facts; see docs/facts.md."""

from memoryd_client.schema.facts import (
    FactCaptureBody,
    FactCaptureResult,
    FactCategory,
    FactForgetBody,
    FactForgetResult,
    FactRecallBody,
    FactRecallResult,
    FactsBody,
    FactsResult,
    FactStoreBody,
    FactStoreResult,
)
from memoryd_client.schema.search import Origin
from memoryd_client.transport.async_turns import AsyncCalls
from memoryd_client.wire import requests


class AsyncFactCalls(AsyncCalls):
    """Methods of a client that store, recall and forget facts."""

    async def fact_store(
        self,
        text: str,
        *,
        importance: float = 0.7,
        category: FactCategory = "other",
        origin: Origin = Origin.AGENT,
        owner: str = "",
        created_at: float | None = None,
        timeout_s: float | None = None,
    ) -> FactStoreResult:
        """Store a fact, unless one says nearly the same; see `FactStoreBody`."""
        body = FactStoreBody(text, importance, category, origin, owner, created_at)
        return await self._run(requests.fact_store(body), timeout_s)

    async def fact_recall(
        self,
        query: str,
        *,
        limit: int = 5,
        min_score: float | None = None,
        owner: str = "",
        timeout_s: float | None = None,
    ) -> FactRecallResult:
        """Return the facts that fit a question best; see `FactRecallBody`."""
        body = FactRecallBody(query, limit, min_score, owner)
        return await self._run(requests.fact_recall(body), timeout_s)

    async def fact_forget(
        self,
        *,
        fact_id: str | None = None,
        query: str | None = None,
        owner: str = "",
        timeout_s: float | None = None,
    ) -> FactForgetResult:
        """Forget a fact for good, or return candidates; see `FactForgetBody`."""
        body = FactForgetBody(fact_id, query, owner)
        return await self._run(requests.fact_forget(body), timeout_s)

    async def fact_capture(
        self, text: str, *, origin: Origin = Origin.OWNER, timeout_s: float | None = None
    ) -> FactCaptureResult:
        """Have facts taken from a message, if the configuration allows it; does not wait."""
        body = FactCaptureBody(text, origin)
        return await self._run(requests.fact_capture(body), timeout_s)

    async def facts_page(
        self,
        text: str = "",
        *,
        category: FactCategory | None = None,
        owner: str = "",
        after: str | None = None,
        limit: int = 500,
        timeout_s: float | None = None,
    ) -> FactsResult:
        """Return one page of facts, oldest first, and counts; see `FactsBody`."""
        body = FactsBody(text, category, owner, after, limit)
        return await self._run(requests.facts(body), timeout_s)
