"""Operations on facts. The first one of an agent loads what they need."""

from collections.abc import Awaitable
from typing import TypeVar

from memoryd.agent.agent import Agent
from memoryd.agent.facts import PLACE, facts_of
from memoryd.errors import RequestFailedError, bad_request, unavailable
from memoryd_client.schema.facts import (
    FactCaptureBody,
    FactCaptureResult,
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
from memoryd_client.wire.protocol import ErrorCode

T = TypeVar("T")
MAX_LIMIT, MAX_PAGE = 100, 1_000
MAX_OWNER_CHARS = 200


async def store(agent: Agent, body: FactStoreBody) -> FactStoreResult:
    """Store a fact. Raises `RequestFailedError`."""
    _check_owner(body.owner)
    return await _answered(facts_of(agent).add(body))


async def recall(agent: Agent, body: FactRecallBody) -> FactRecallResult:
    """Return the facts that fit a question. Raises `RequestFailedError`."""
    _check_owner(body.owner)
    if not 1 <= body.limit <= MAX_LIMIT:
        raise bad_request(f"limit must be from 1 to {MAX_LIMIT}")
    recalled = facts_of(agent).recall(
        body.query, limit=body.limit, min_score=body.min_score, owner=body.owner
    )
    return await _answered(recalled)


async def forget(agent: Agent, body: FactForgetBody) -> FactForgetResult:
    """Forget a fact by its id, or the one that a query means. Raises `RequestFailedError`."""
    _check_owner(body.owner)
    facts = facts_of(agent)
    if body.id is not None and body.query is None:
        forgotten = await _answered(facts.forget(body.id, body.owner))
        if forgotten is None:
            raise RequestFailedError(
                ErrorCode.NOT_FOUND, "there is no fact with this id", "`memctl facts list`"
            )
        return forgotten
    if body.query is None or body.id is not None:
        raise bad_request("give exactly one of id and query")
    return await _answered(facts.forget_match(body.query, body.owner))


async def capture(agent: Agent, body: FactCaptureBody) -> FactCaptureResult:
    """Store facts of a message in the background, if the configuration allows it.

    Nothing is taken from untrusted words.
    """
    if not agent.config.settings.facts.capture or body.origin != Origin.OWNER:
        return FactCaptureResult()
    from memoryd.facts.capture import captured

    found = await agent.look_up(captured, body.text, at=PLACE)
    if found:
        facts_of(agent).add_later(found)
    return FactCaptureResult([text for text, _ in found])


async def page(agent: Agent, body: FactsBody) -> FactsResult:
    """Return one page of facts. Raises `RequestFailedError`."""
    _check_owner(body.owner)
    if not 1 <= body.limit <= MAX_PAGE:
        raise bad_request(f"limit must be from 1 to {MAX_PAGE}")
    return await _answered(facts_of(agent).page(body))


def _check_owner(owner: str) -> None:
    if len(owner) > MAX_OWNER_CHARS or not owner.isprintable():
        raise bad_request(f"owner has at most {MAX_OWNER_CHARS} printable characters")


async def _answered(work: Awaitable[T]) -> T:
    from memoryd.facts.store import FactStoreError

    try:
        return await work
    except FactStoreError as error:
        raise unavailable(error.message, error.hint) from error
