"""Bodies about MEMORY.md: entries of dated notes to add, and entries that may be out of date."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class PromoteBody(Body):
    """Entries of dated notes that agents recall often, as candidates for MEMORY.md.

    `candidate` names one, by at least 4 characters of its id; `limit` is the maximum number, 1
    to 500. With `apply`, those that pass all gates are added to MEMORY.md; nothing is added
    otherwise.
    """

    apply: bool = False
    candidate: str | None = None
    limit: int | None = None


class ScoreParts(Body):
    """Parts of a candidate's score, each 0 to 1; see docs/promotion.md for their weights."""

    relevance: float
    frequency: float
    diversity: float
    recency: float
    consolidation: float
    concepts: float


class PromotionCandidate(Body):
    """An entry of a dated note. `text` is what would be added, "" if the entry is gone.

    `missed` has the reasons why it is not added, none if it can be. `questions` counts those that
    found it, `days` those on which it was recalled; `last_recalled` and `promoted_at` are Unix
    times.
    """

    id: str
    citation: str
    text: str
    date: str
    origin: str
    score: float
    parts: ScoreParts
    recalls: int
    questions: int
    days: int
    last_recalled: float
    missed: list[str] = field(default_factory=list)
    promoted_at: float | None = None


class PromotedEntry(Body):
    """An entry that was added to MEMORY.md: its citation there, and that of its source."""

    id: str
    citation: str
    source: str
    text: str


class RefusedEntry(Body):
    """An entry that was not added, and why."""

    id: str
    source: str
    reason: str


class PromoteResult(Body):
    """Candidates, those that can be added first, by score; or what was added and refused.

    `tracking`: recalls are counted now. `omitted` counts candidates beyond the limit.
    `memory_bytes` is the size of MEMORY.md after the request, `memory_max_bytes` its budget.
    """

    candidates: list[PromotionCandidate] = field(default_factory=list)
    applied: list[PromotedEntry] = field(default_factory=list)
    refused: list[RefusedEntry] = field(default_factory=list)
    tracking: bool = True
    omitted: int = 0
    memory_bytes: int = 0
    memory_max_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
