"""Facts of an agent: stored, recalled, forgotten and listed, in whichever store they are."""

import asyncio
import logging
import re
import time
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from memoryd.errors import RequestFailedError, bad_request
from memoryd.facts.ranking import (
    MIN_SCORE,
    SAME_SCORE,
    SURE_SCORE,
    by_keywords,
    same_claim,
    same_text,
    score_of,
)
from memoryd.facts.refusal import refusal
from memoryd.facts.store import FactStore, FactStoreError, Vector
from memoryd.fs.hang import retrieve_error
from memoryd_client.schema.facts import (
    Fact,
    FactCategory,
    FactForgetResult,
    FactMatch,
    FactRecallResult,
    FactsBody,
    FactsResult,
    FactStoreBody,
    FactStoreResult,
)
from memoryd_client.schema.search import Origin
from memoryd_client.shared.humanize import counted

log = logging.getLogger(__name__)

MAX_TEXT_CHARS = 500
LATEST_S = 32_472_144_000
"""Unix seconds of the year 2999: any later time is a mistake, as in milliseconds."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
MAX_QUERY_CHARS = 1_000
"""Characters of a question that are embedded, so that a whole prompt costs no more."""
CANDIDATES = 5
EMBED_AT_ONCE = 32
CLOSE_S = 2.0
"""Seconds that captured facts have to be stored when the agent stops."""
CATCH_UP_S = 5.0
"""Seconds that a recall waits for the vectors of facts that have none, as after a new model."""


class FactModelError(Exception):
    """A text can't be embedded now; the message says why."""


class FactModel(Protocol):
    """The embedding model of an agent. Its methods raise `FactModelError`."""

    @property
    def dims(self) -> int | None:
        """The length of its vectors, None until it is known."""

    def key(self, dims: int) -> str:
        """Return a name for the model's vectors of these dims."""

    async def documents(self, texts: list[str]) -> Mapping[str, Vector]:
        """Return the vectors of texts. A text that can't be embedded alone has none."""

    async def query(self, text: str) -> Vector:
        """Return the vector of a question."""

    def calibrate(self, cosine: float) -> float:
        """Map a cosine to 0 for unrelated and 1 for equal texts."""


class FactMemory:
    """The facts of one agent. `model` is None without an embedding provider."""

    def __init__(
        self,
        store: FactStore,
        model: FactModel | None,
        *,
        mask: Callable[[str], str],
        owner: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.owner = owner
        self._model = model
        self._mask = mask
        self._clock = clock
        self._turn = asyncio.Lock()
        self._catching_up: asyncio.Task[None] | None = None
        self._capturing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop embedding, and release the store."""
        if self._capturing:
            await asyncio.wait(self._capturing, timeout=CLOSE_S)
        running = {*self._capturing, *([self._catching_up] if self._catching_up else [])}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await self.store.close()

    async def add(self, body: FactStoreBody) -> FactStoreResult:
        """Store a fact, unless one says nearly the same. Raises `RequestFailedError`."""
        text, masked = self._checked(body)
        fact = Fact(
            str(uuid.uuid4()),
            text,
            body.importance,
            body.category,
            round(self._clock() if body.created_at is None else body.created_at, 3),
            body.origin,
            body.owner or self.owner,
        )
        vector, key, warnings = None, "", list[str]()
        try:
            vector, key = await self._document(text)
        except FactModelError as error:
            warnings.append(f"stored without a vector: {error}; it is embedded later")
        async with self._turn:
            same = await self._same(fact, vector, key)
            if same is None:
                await self.store.put(fact, vector, key)
        return FactStoreResult(same or fact, same is not None, masked, self._with(warnings))

    def add_later(self, found: list[tuple[str, FactCategory]]) -> None:
        """Store sentences of the owner in the background; a failure goes to the log."""
        task = asyncio.create_task(self._capture(found), name="capture facts")
        self._capturing.add(task)
        task.add_done_callback(self._capturing.discard)

    async def _capture(self, found: list[tuple[str, FactCategory]]) -> None:
        for text, category in found:
            try:
                await self.add(FactStoreBody(text, category=category, origin=Origin.OWNER))
            except RequestFailedError as error:
                log.info("a captured fact was refused: %s", error.message)
            except FactStoreError as error:
                log.warning("a captured fact is lost: %s", error)

    async def recall(
        self, query: str, *, limit: int, min_score: float | None, owner: str
    ) -> FactRecallResult:
        """Return the facts that fit a question best."""
        owner = owner or self.owner
        if not (query := query.strip()[:MAX_QUERY_CHARS]):
            raise bad_request("the query has no text")
        try:
            if self._model is None:
                raise FactModelError("there is no embedding provider")
            vector = await self._model.query(query)
        except FactModelError as error:
            least = 0.0 if min_score is None else min_score
            found = [m for m in by_keywords(query, await self.store.all(owner)) if m.score >= least]
            warning = f"recalled by keywords alone: {error}"
            return FactRecallResult(found[:limit], "keyword", self._with([warning]))
        least = MIN_SCORE if min_score is None else min_score
        key = self._model.key(len(vector))
        missing = await self._catch_up(key)
        matches = await self._nearest(vector, key, owner, limit)
        warnings = []
        if missing:
            warnings.append(f"{counted(missing, 'fact')} without a vector yet can't be recalled")
        found = [match for match in matches if match.score >= least]
        return FactRecallResult(found, "vector", self._with(warnings))

    async def forget(self, fact_id: str, owner: str) -> FactForgetResult | None:
        """Remove one fact for good; None if there is none with this id."""
        async with self._turn:
            removed = await self.store.remove(fact_id.strip().lower(), owner or self.owner)
        return None if removed is None else FactForgetResult([removed], [], self._with([]))

    async def forget_match(self, query: str, owner: str) -> FactForgetResult:
        """Remove the one fact that a query certainly means, else return candidates."""
        found = await self.recall(query, limit=CANDIDATES, min_score=None, owner=owner)
        is_sure = found.mode == "vector"
        sure = [
            match.fact
            for match in found.facts
            if (is_sure and match.score > SURE_SCORE) or same_text(query, match.fact.text)
        ]
        if len(sure) == 1:
            forgotten = await self.forget(sure[0].id, owner)
            if forgotten is not None:
                return forgotten
        return FactForgetResult([], found.facts, found.warnings)

    async def forget_texts(self, has: Callable[[str], bool], *, dry_run: bool) -> list[str]:
        """Remove all facts whose text `has` something; return their ids."""
        if self._capturing:
            await asyncio.wait(self._capturing, timeout=CATCH_UP_S)
        async with self._turn:
            found = [fact for fact in await self.store.erasable(self.owner) if has(fact.text)]
            for fact in [] if dry_run else found:
                await self.store.remove(fact.id, fact.owner)
        return [fact.id for fact in found]

    async def page(self, body: FactsBody) -> FactsResult:
        """Return a page of facts, and counts. Raises `RequestFailedError` for an unknown id."""
        owner = body.owner or self.owner
        everything = await self.store.all(owner)
        wanted = unicodedata.normalize("NFC", body.text).casefold()
        facts = [
            fact
            for fact in everything
            if body.category in (None, fact.category) and wanted in fact.text.casefold()
        ]
        start = 0
        if body.after is not None:
            places = [at for at, fact in enumerate(facts) if fact.id == body.after]
            if not places:
                raise bad_request("`after` is no fact of this list", "list the facts again")
            start = places[0] + 1
        shown = facts[start : start + body.limit]
        more = start + body.limit < len(facts)
        missing, model = 0, self._model
        if model is not None and model.dims is not None:
            _, missing = await self.store.missing(model.key(model.dims), 0)
        return FactsResult(
            shown,
            self.store.name,
            owner,
            dict(sorted(Counter(str(fact.category) for fact in everything).items())),
            missing,
            shown[-1].id if more and shown else None,
            self._with([]),
        )

    def _checked(self, body: FactStoreBody) -> tuple[str, bool]:
        """Return the text to store, and whether a secret in it was masked."""
        shown = _CONTROLS.sub(" ", body.text)
        given = " ".join(unicodedata.normalize("NFC", shown).split())
        text = self._mask(given)
        if not any(map(str.isalnum, text)):
            raise bad_request("the fact has no text")
        if len(text) > MAX_TEXT_CHARS:
            raise bad_request(
                f"a fact has at most {MAX_TEXT_CHARS} characters (got {len(text)})",
                "store several facts, or write a note",
            )
        if not 0 <= body.importance <= 1:
            raise bad_request("importance must be from 0 to 1")
        if not 0 <= (body.created_at or 0) <= LATEST_S:
            raise bad_request("created_at must be Unix seconds, of the years 1970 to 2999")
        if (why := refusal(given)) is not None:
            raise bad_request(
                f"the text reads like an instruction to an agent: {why}; nothing was stored",
                "state what is true, in a sentence about somebody or something",
            )
        return text, text != given

    async def _document(self, text: str) -> tuple[Vector | None, str]:
        if self._model is None:
            return None, ""
        vector = (await self._model.documents([text])).get(text)
        return vector, "" if vector is None else self._model.key(len(vector))

    async def _same(self, fact: Fact, vector: Vector | None, key: str) -> Fact | None:
        """Return a fact of the same owner that says nearly the same, None if there is none."""
        for known in await self.store.all(fact.owner):
            if same_text(known.text, fact.text):
                return known
        if vector is not None:
            for match in await self._nearest(vector, key, fact.owner, 1):
                if match.score >= SAME_SCORE and same_claim(match.fact.text, fact.text):
                    return match.fact
        return None

    async def _nearest(self, vector: Vector, key: str, owner: str, limit: int) -> list[FactMatch]:
        assert self._model is not None  # noqa: S101 - it has made the vector
        found = await self.store.nearest(vector, key, owner, limit)
        return [FactMatch(fact, score_of(c, self._model.calibrate)) for fact, c in found]

    async def _catch_up(self, key: str) -> int:
        """Embed facts without a vector, and wait a moment; return how many are left."""
        _, missing = await self.store.missing(key, 0)
        if not missing:
            return 0
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.create_task(self._embed_missing(key), name="embed facts")
            self._catching_up.add_done_callback(retrieve_error)
        await asyncio.wait({self._catching_up}, timeout=CATCH_UP_S)
        return (await self.store.missing(key, 0))[1]

    async def _embed_missing(self, key: str) -> None:
        assert self._model is not None  # noqa: S101 - `key` is its own
        before = None
        while True:
            facts, missing = await self.store.missing(key, EMBED_AT_ONCE)
            if not facts or missing == before:
                return  # the rest can't be embedded
            before = missing
            try:
                vectors = await self._model.documents([fact.text for fact in facts])
                named = {fact.id: vectors[fact.text] for fact in facts if fact.text in vectors}
                await self.store.embed(named, key)
            except (FactModelError, FactStoreError):
                return  # the next recall tries again

    def _with(self, warnings: list[str]) -> list[str]:
        return [*warnings, *self.store.warnings]
