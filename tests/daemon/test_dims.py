"""A provider changes the dimensions of its vectors under the same name: they never mix."""

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from harness import Daemon
from serving import serving
from vendors import Double, OllamaDouble, OpenAiDouble
from vendors.double import Asked
from vendors.faults import Row
from waiting import eventually

from memoryd.index.quantize import is_embedding
from memoryd_client.schema.status import StatusResult

Spoil = Callable[[str, list[float]], list[float]]
KEY = "sk-double-Zq7Zq7Zq7Zq7"
NOTES = 12
OLD, NEW = 8, 16
"""Twice as many dimensions: by its bytes alone, a new vector would pass for two old ones."""


@pytest.fixture(params=["openai", pytest.param("ollama", marks=pytest.mark.long)])
def double(request: pytest.FixtureRequest) -> Iterator[Double]:
    made = OpenAiDouble(key=KEY, dims=OLD) if request.param == "openai" else OllamaDouble(dims=OLD)
    with serving(made) as serving_double:
        yield serving_double


class Spoiled(OpenAiDouble):
    """A double that modifies vectors with `spoil`, by text."""

    spoil: Spoil = staticmethod(lambda text, vector: vector)

    def embeddings(self, asked: Asked, rows: list[Row]) -> Any:
        """Return the JSON of an answer."""
        rows = [(index, self.spoil(asked.texts[index], vector)) for index, vector in rows]
        return super().embeddings(asked, rows)


@pytest.fixture
def spoiled() -> Iterator[Spoiled]:
    with serving(Spoiled(key=KEY, dims=OLD)) as double:
        yield double


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY, dims=OLD)) as double:
        yield double


def asking(daemon: Daemon, double: Double) -> Daemon:
    """Index some notes with the old dims."""
    daemon.provider = "openai" if isinstance(double, OpenAiDouble) else "ollama"
    daemon.variables["OPENAI_API_KEY"] = KEY
    daemon.settings += f'\n[defaults.remote]\nbase_url = "{double.url}"\n'
    for number in range(NOTES):
        daemon.write(f"memory/{number}.md", f"note {number} about word{number}\n")
    daemon.start().sync()
    assert vectors(daemon) == {OLD: NOTES}
    return daemon


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def vectors(daemon: Daemon) -> dict[int, int]:
    """Return the number of chunks by dimensions; each vector must have length 1."""
    query = "SELECT e.dims, embedding, e.hash FROM chunks JOIN embedding_cache e USING (vector_id)"
    with closing(sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)) as index:
        rows = index.execute(query).fetchall()
    assert all(is_embedding(embedding, dims, digest) for dims, embedding, digest in rows)
    return dict(Counter(dims for dims, *_ in rows))


def cached(daemon: Daemon) -> dict[int, int]:
    """Return the number of cached vectors by dimensions."""
    query = "SELECT dims, count(*) FROM embedding_cache GROUP BY 1"
    with closing(sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)) as index:
        return dict(index.execute(query).fetchall())


def has_moved_on(daemon: Daemon, *, dims: int) -> bool:
    now = status(daemon)
    return now.vector.dims == dims and now.rebuild is None and not now.dirty


def is_whole(daemon: Daemon, *, dims: int, chunks: int, without: int = 0) -> None:
    """Check that both retrievers use vectors of these dims only, and that the doctor agrees.

    `without` chunks have no vector, of which a search warns.
    """
    found = daemon.search("what of word3")
    now = status(daemon)
    assert (found.mode, found.warnings) == ("hybrid", now.degraded)
    assert found.results[0].path == "memory/3.md"
    assert (now.vector.dims, now.vector.in_memory) == (dims, chunks)
    assert (now.without_vector, len(now.degraded)) == (without, bool(without))
    daemon.assert_healthy()
    assert vectors(daemon) == {dims: chunks}
    assert "Traceback" not in daemon.log()


def notes_paid(double: Double) -> Counter[str]:
    """Return how often each note was embedded."""
    return Counter({text: n for text, n in double.embedded.items() if text.startswith("note ")})


def test_other_dims_after_a_stop_found_by_a_new_note(daemon: Daemon, double: Double) -> None:
    asking(daemon, double).stop()
    double.dims = NEW
    daemon.write("memory/new.md", "note new about quolls\n")
    daemon.start()
    eventually(lambda: has_moved_on(daemon, dims=NEW))
    is_whole(daemon, dims=NEW, chunks=NOTES + 1)
    # Each text was embedded once for each dims. The vector that revealed the change is kept too.
    assert notes_paid(double)["note new about quolls"] == 1
    assert set(notes_paid(double).values()) == {1, 2}


def test_other_dims_after_a_stop_found_by_a_question(daemon: Daemon, double: Double) -> None:
    asking(daemon, double).stop()
    double.dims = NEW
    daemon.start()
    found = daemon.search("word3")
    while found.warnings == ["vector search is off: the vectors are still loading"]:
        found = daemon.search("word3")
    assert (found.mode, found.results[0].path) == ("keyword", "memory/3.md")
    (warning,) = found.warnings
    assert f"gives vectors of {NEW} dimensions now, and the index has some of {OLD}" in warning
    eventually(lambda: has_moved_on(daemon, dims=NEW))
    is_whole(daemon, dims=NEW, chunks=NOTES)


def test_other_dims_while_it_runs(daemon: Daemon, double: Double) -> None:
    asking(daemon, double)
    assert daemon.search("word3").mode == "hybrid"
    double.dims = NEW
    daemon.write("memory/new.md", "note new about quolls\n")
    eventually(lambda: has_moved_on(daemon, dims=NEW))
    is_whole(daemon, dims=NEW, chunks=NOTES + 1)
    assert daemon.search("word3").mode == "hybrid"  # without the old cached query vector
    asked = len(double.asked_for)
    assert daemon.stop() == 0
    daemon.start().sync()
    is_whole(daemon, dims=NEW, chunks=NOTES + 1)
    assert len(double.asked_for) == asked + 1  # only the query: no rebuild


@pytest.mark.long
def test_back_and_forth_is_paid_for_once_each(daemon: Daemon, openai: OpenAiDouble) -> None:
    asking(daemon, openai)
    for dims in (NEW, OLD, NEW):
        openai.dims = dims
        daemon.search(f"a question for {dims}")
        eventually(partial(has_moved_on, daemon, dims=dims))
        is_whole(daemon, dims=dims, chunks=NOTES)
    assert set(notes_paid(openai).values()) == {2}


BAD_VECTORS: dict[str, tuple[Callable[[list[float]], list[float]], str]] = {
    "twice as long": (lambda vector: vector * 2, "vectors of different lengths|elsewhere"),
    "without a number": (lambda vector: [], "vectors of different lengths|empty vectors"),
    "not a number": (lambda vector: [math.nan, *vector[1:]], "zero or not finite"),
    "infinite": (lambda vector: [math.inf, *vector[1:]], "zero or not finite"),
    "too large for 32 bits": (lambda vector: [1e300, *vector[1:]], "zero or not finite"),
    "all zeros": (lambda vector: [0.0] * len(vector), "zero or not finite"),
}


@pytest.mark.parametrize(
    "what",
    [
        what if what == "twice as long" else pytest.param(what, marks=pytest.mark.long)
        for what in BAD_VECTORS
    ],
)
def test_a_text_with_a_vector_that_is_none_is_set_aside_and_no_other(
    daemon: Daemon, spoiled: Spoiled, what: str
) -> None:
    spoil, said = BAD_VECTORS[what]
    asking(daemon, spoiled)
    spoiled.spoil = lambda text, vector: spoil(vector) if "wombat" in text else vector
    for name in ("good", "wombat", "fine"):
        daemon.write(f"memory/{name}.md", f"note {name} about quolls\n")
    eventually(lambda: status(daemon).failure_count == 1 and status(daemon).pending_vectors == 0)
    (failure,) = status(daemon).failures
    assert re.search(said, failure.reason), failure
    is_whole(daemon, dims=OLD, chunks=NOTES + 2, without=1)
    assert daemon.paths("wombat", mode="keyword") == ["memory/wombat.md"]


def test_questions_that_another_model_answers_are_told_and_rebuild_nothing(
    daemon: Daemon, spoiled: Spoiled
) -> None:
    asking(daemon, spoiled)
    spoiled.spoil = lambda text, vector: vector * 2 if "?" in text else vector
    for number in range(3):
        found = daemon.search(f"what of word3, {number}?")
        assert (found.mode, found.results[0].path) == ("keyword", "memory/3.md")
        (warning,) = found.warnings
        assert f"a question {NEW} dimensions and a text {OLD}; set query_input_type" in warning
    assert "building a new index" not in daemon.log()
    assert set(notes_paid(spoiled).values()) == {1}
    is_whole(daemon, dims=OLD, chunks=NOTES)


@pytest.mark.long
def test_dims_that_change_while_texts_are_on_their_way(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    """The first index is being built, one text a request, four requests at a time."""
    openai.max_items = 1
    daemon.settings += "\nremote.batch.enabled = false"
    openai.latency_s = 0.02
    for number in range(60):
        daemon.write(f"memory/more{number}.md", f"note more{number} about bilbies\n")
    daemon.provider, daemon.variables["OPENAI_API_KEY"] = "openai", KEY
    daemon.settings = f'remote = {{ base_url = "{openai.url}" }}\n'
    daemon.start()
    eventually(lambda: len(openai.embedded) > 20)
    openai.dims = NEW
    eventually(lambda: has_moved_on(daemon, dims=NEW))
    assert vectors(daemon) == {NEW: 60}
    assert sum(notes_paid(openai).values()) < 60 + 60
    daemon.assert_healthy()


def test_dims_that_change_while_an_index_is_built_anew(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    """The rebuild ends, since it would mix the dims; the next one has only the new dims."""
    asking(daemon, openai).stop()
    openai.max_items = 1
    openai.latency_s = 0.05
    daemon.settings = f"""chunking = {{ tokens = 20, overlap = 0 }}
[defaults.remote]
base_url = "{openai.url}"
batch = {{ enabled = false }}
"""
    for number in range(NOTES):
        daemon.write(f"memory/{number}.md", f"note {number} about word{number}\n" * 12)
    asked = len(openai.inputs)
    daemon.start()
    eventually(lambda: len(openai.inputs) > asked + 4)
    openai.dims = NEW
    eventually(lambda: daemon.log().count("building a new index") >= 2)
    eventually(lambda: has_moved_on(daemon, dims=NEW))
    assert set(vectors(daemon)) == {NEW}
    assert daemon.search("what of word3").mode == "hybrid"
    daemon.assert_healthy()


@pytest.mark.long
def test_a_batch_job_of_other_dims_is_not_bought_again_and_again(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    asking(daemon, openai).stop()
    daemon.settings += "[defaults.remote.batch]\nenabled = true\npoll_interval_ms = 10\n"
    openai.batch.outcome = "stuck"
    for number in range(5):
        daemon.write(f"memory/job{number}.md", f"note job{number} about dugongs\n")
    daemon.start()
    eventually(lambda: len(openai.batch.jobs) == 1 and openai.batch.jobs[0].polls > 0)
    openai.dims = NEW
    openai.batch.outcome = "completed"
    openai.batch.polls = 0
    eventually(lambda: has_moved_on(daemon, dims=NEW))
    is_whole(daemon, dims=NEW, chunks=NOTES + 5)
    # The first job was too late for the old index; the second fills the new one.
    assert len(openai.batch.jobs) == 2
    assert max(notes_paid(openai).values()) == 2
