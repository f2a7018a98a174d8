"""Counting of what agents were shown, once an answer is built. It never delays or changes one."""

from memoryd.agent.agent import Agent
from memoryd.agent.recall_counter import ShownLines
from memoryd.api.visibility import is_direct
from memoryd.source.notes.discover import SOURCE
from memoryd.source.transcripts.strip import own_words
from memoryd_client.schema.recall import RecallBody, RecallResult
from memoryd_client.schema.search import Origin, SearchBody, SearchResult
from memoryd_client.shared.citation import read_citation

COUNTED = "agent"
"""The kind of clients whose searches count."""
LEAST_SCORE = 0.5
"""Least score of a result that counts: weaker ones are there because nothing better is."""


def count_search(agent: Agent, body: SearchBody, result: SearchResult) -> None:
    """Count the notes that a search returned to an agent.

    In groups and channels nothing counts, because strangers ask there too.
    """
    if agent.recalls is None or not is_direct(body.chat_type):
        return
    agent.recalls.add(
        body.query,
        (
            ShownLines(
                hit.path,
                hit.snippet_start_line,
                hit.snippet_end_line,
                hit.snippet,
                hit.score,
            )
            for hit in result.results
            if hit.source == SOURCE and hit.origin != Origin.UNTRUSTED and hit.score >= LEAST_SCORE
        ),
    )


def count_recall(agent: Agent, body: RecallBody, result: RecallResult) -> None:
    """Count the entries that an agent got for a message."""
    if agent.recalls is None:
        return
    cited = [(read_citation(entry.citation), entry) for entry in result.entries]
    agent.recalls.add(
        own_words(body.message),
        [
            ShownLines(place.path, place.first, place.last, entry.text, entry.confidence)
            for place, entry in cited
            if place is not None and entry.origin != Origin.UNTRUSTED
        ],
    )
