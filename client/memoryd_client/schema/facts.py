"""Bodies of requests about facts, which stand beside the notes and are in no file of them."""

from typing import Literal

from msgspec import field

from memoryd_client.schema.search import Origin
from memoryd_client.wire.protocol import Body

FactCategory = Literal["preference", "fact", "decision", "entity", "other"]


class Fact(Body):
    """One fact. `created_at` is in Unix seconds, `importance` from 0 to 1."""

    id: str
    text: str
    importance: float
    category: FactCategory
    created_at: float
    origin: Origin
    owner: str


class FactMatch(Body):
    """A fact and its score for a query: 1 / (1 + distance), by keywords the share of the words."""

    fact: Fact
    score: float


class FactStoreBody(Body):
    """A fact to store: `text` (at most 500 characters, on one line), and what is known about it.

    `owner` "" means the agent that is asked. `created_at` None means now; an import gives it.
    """

    text: str
    importance: float = 0.7
    category: FactCategory = "other"
    origin: Origin = Origin.AGENT
    owner: str = ""
    created_at: float | None = None


class FactStoreResult(Body):
    """The stored fact. `duplicate`: nothing was stored, because `fact` says nearly the same.

    `masked`: the text contained a secret, which was left out.
    """

    fact: Fact
    duplicate: bool = False
    masked: bool = False
    warnings: list[str] = field(default_factory=list)


class FactRecallBody(Body):
    """A question to facts, of which the first 1,000 characters count.

    `limit` is 1 to 100. `min_score` None means 0.5, and any shared word without vectors.
    """

    query: str
    limit: int = 5
    min_score: float | None = None
    owner: str = ""


class FactRecallResult(Body):
    """Facts, best first. `mode` is `vector`, or `keyword` if nothing could be embedded."""

    facts: list[FactMatch]
    mode: Literal["vector", "keyword"] = "vector"
    warnings: list[str] = field(default_factory=list)


class FactCaptureBody(Body):
    """A message of a turn, from which facts may be taken, and whose words it has."""

    text: str
    origin: Origin = Origin.OWNER


class FactCaptureResult(Body):
    """The sentences, at most three, that are stored as facts meanwhile."""

    captured: list[str] = field(default_factory=list)


class FactForgetBody(Body):
    """Exactly one of the `id` of a fact and a `query`.

    A query removes the one fact whose score is above 0.9. Otherwise nothing is removed.
    """

    id: str | None = None
    query: str | None = None
    owner: str = ""


class FactForgetResult(Body):
    """The fact that was removed for good, or else `candidates` whose ids can be given."""

    forgotten: list[Fact]
    candidates: list[FactMatch] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class FactsBody(Body):
    """One page of facts, oldest first, after the id `after`.

    `text` selects facts that contain it, ignoring case. `limit` is 1 to 1,000.
    """

    text: str = ""
    category: FactCategory | None = None
    owner: str = ""
    after: str | None = None
    limit: int = 500


class FactsResult(Body):
    """Facts and counts: the owner's facts by category, and all facts without a vector yet."""

    facts: list[Fact]
    store: str
    owner: str
    categories: dict[str, int]
    without_vector: int = 0
    next_after: str | None = None
    warnings: list[str] = field(default_factory=list)
