"""Realistic notes, and an index of them that is built without embedding.

Words follow Zipf's law over a made-up vocabulary, so keyword search meets common and rare words.
Every section of a note becomes one chunk.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memoryd.agent.factories import wanted_identity
from memoryd.chunk.parser import ChunkOptions, parse
from memoryd.config.load import AgentConfig
from memoryd.embed.local import LocalProvider
from memoryd.embed.worker import DIMS
from memoryd.index import statements
from memoryd.index.driver import bundled_extension
from memoryd.index.schema import merge_segments
from memoryd.index.store import Store, StoreOptions
from memoryd.index.writer import MERGE_ALL_AFTER_FILES
from memoryd.messages import FileChanged, ParsedFile
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.read import read_file

SECTIONS_PER_NOTE = 10
WORDS_PER_SECTION = 180
WORDS_PER_LINE = 12
VOCABULARY = 20_000
ZIPF_SHIFT = 2.7
"""Shift in Mandelbrot's form of the law, as fitted to English."""
_ONSETS = ("b", "ch", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
_RHYMES = ("a", "an", "ar", "e", "el", "en", "i", "in", "o", "on", "or", "u", "um")


class Prose:
    """An endless source of words, the same for the same seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        syllables = [onset + rhyme for onset in _ONSETS for rhyme in _RHYMES]
        pairs = ("".join(pair) for pair in itertools.product(syllables, syllables))
        self.vocabulary = list(itertools.islice(pairs, VOCABULARY))
        self._random.shuffle(self.vocabulary)
        frequency = 1.0 / (np.arange(VOCABULARY) + ZIPF_SHIFT)
        self._cumulated = np.cumsum(frequency / frequency.sum())

    def words(self, count: int) -> list[str]:
        """Return the next words."""
        ranks = np.searchsorted(self._cumulated, self._random.random(count))
        return [self.vocabulary[min(rank, VOCABULARY - 1)] for rank in ranks]

    def note(self, sections: int = SECTIONS_PER_NOTE) -> str:
        """Return a note in Markdown: a heading and a paragraph per section."""
        return "\n".join(self._section() for _ in range(sections))

    def question(self) -> str:
        """Return a query of four words, common and rare ones alike.

        Leaves out the 30 most common words, which stand for stop words; the most common one left
        occurs in two sections of five.
        """
        ranks = np.exp(self._random.uniform(np.log(30), np.log(VOCABULARY / 2), size=4))
        return " ".join(self.vocabulary[int(rank)] for rank in ranks)

    def _section(self) -> str:
        words = self.words(WORDS_PER_SECTION)
        lines = (
            " ".join(words[start : start + WORDS_PER_LINE])
            for start in range(0, len(words), WORDS_PER_LINE)
        )
        return "# {}\n\n{}\n".format(" ".join(self.words(3)), "\n".join(lines))


def write_notes(
    folder: Path, count: int, prose: Prose, *, sections: int = SECTIONS_PER_NOTE, first: int = 0
) -> None:
    """Write notes to `folder/memory/`, a hundred to a folder, numbered from `first`."""
    for number in range(first, first + count):
        path = folder / "memory" / f"{number // 100:03d}" / f"note-{number:05d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(prose.note(sections), encoding="utf-8")


def unit_vectors(count: int, *, dims: int = DIMS, seed: int = 11) -> NDArray[np.float32]:
    """Return random directions, shape (count, dims), each of length 1."""
    vectors = np.random.default_rng(seed).standard_normal((count, dims), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def open_store(config: AgentConfig) -> Store:
    """Return the store that the daemon would use for this configuration, not yet open."""
    provider = None if config.settings.provider == "none" else LocalProvider()
    options = StoreOptions(
        config.db_path, config.workspace, bundled_extension(), None, cache_max_entries=None
    )
    return Store(options, wanted_identity(config, provider))


async def build_index(config: AgentConfig) -> int:
    """Index the workspace as the daemon would, with random vectors in place of the model's.

    Uses the writer's functions, so that a daemon on this index has nothing to do. Returns the
    number of chunks.
    """
    store = open_store(config)
    await store.open()
    chunks = written = 0
    try:
        files = _parsed(config, store)
        while group := list(itertools.islice(files, statements.GROUP_FILES)):
            texts = [statements.text_hash(chunk.text) for file in group for chunk in file.chunks]
            tables = store.tables
            if store.identity.dims is not None:
                vectors = unit_vectors(len(texts), seed=chunks).astype("<f4")
                named = [(text, v.tobytes()) for text, v in zip(texts, vectors, strict=True)]
                await store.database.run(
                    partial(statements.put_vectors, tables=tables, vectors=named)
                )
            write = partial(statements.write_files, tables=tables, files=group)
            await store.database.run_steps(write)
            chunks += len(texts)
            written += len(group)
        begin_all = written >= MERGE_ALL_AFTER_FILES
        while await store.database.run(partial(merge_segments, begin_all=begin_all)):
            begin_all = False
    finally:
        await store.close()
    return chunks


def _parsed(config: AgentConfig, store: Store) -> Iterator[ParsedFile]:
    identity = store.identity
    options = ChunkOptions(
        identity.chunk_tokens, identity.chunk_overlap, max_bytes=identity.max_input_bytes
    )
    scan = Discovery(config.workspace, config.settings.extra_paths).scan()
    for key, (path, _) in scan.files.items():
        parsed = parse(FileChanged(key, path), read_file, options)
        assert isinstance(parsed, ParsedFile)
        yield parsed
