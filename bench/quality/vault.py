"""Sets on the help of Obsidian, a vault that has every page in five languages.

`titles-LL`: the pages of one language, asked with their file names. `language`: the pages of all,
asked with headings that stand in one language only.
"""

import random
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path, PurePosixPath

from bench.quality.asked import Goals, asked
from bench.quality.model import QUICK_QUESTIONS, MissingSetError, QualitySet, Question
from bench.quality.scoring import Half, half_of

_FOLDER = "obsidian-help"
_WHAT_IS = {
    "en": "what is {}?",
    "de": "was ist {}?",
    "ja": "{}とは何ですか",
    "ko": "{} 뜻이 뭐야?",
    "zh": "{}是什么",
}
_HOW = {
    "en": "how does this work: {}",
    "de": "wie geht das: {}",
    "ja": "{}について教えて",
    "ko": "{} 어떻게 해?",
    "zh": "{}怎么弄",
}
TITLES = {f"titles-{language}": language for language in _WHAT_IS}
NAMES = (*TITLES, "language")
_LEAST_FIRST, _LEAST_FIRST_OF_OTHERS, _LEAST_AMONG_SIX = 0.95, 0.90, 0.99
_LEAST_IN_LANGUAGE = 0.95
_HEADINGS_PER_LANGUAGE = 80
_HEADING = re.compile(r"^#{1,6} (.+?) *$", re.MULTILINE)
_PLAIN = re.compile(r"[^\W\d_][\w ,'’()?!？、，-]+")
"""Headings that a person would type: no code, no markup, no number in front."""
_LEAST_CHARS = {"zh": 4, "ja": 5, "ko": 6}
_LEAST_CHARS_OF_OTHERS = 12


def load(data: Path, name: str, *, half: Half, quick: bool) -> QualitySet:
    """Return one of `NAMES`. Raises `MissingSetError`."""
    if not (data / _FOLDER).is_dir():
        raise MissingSetError(f"no such folder: {data / _FOLDER}")
    if name in TITLES:
        language = TITLES[name]
        notes = pages(data, language)
        questions = by_title(notes, language, half)
        goals = Goals(
            first=_LEAST_FIRST if language == "en" else _LEAST_FIRST_OF_OTHERS,
            among_six=_LEAST_AMONG_SIX,
        )
    else:
        notes = {path: text for each in _WHAT_IS for path, text in pages(data, each).items()}
        questions = half_of(by_heading(notes), half)
        goals = Goals(first_of_each=_LEAST_IN_LANGUAGE)
    return asked(name, notes, questions[: QUICK_QUESTIONS if quick else None], goals)


def pages(data: Path, language: str) -> dict[str, str]:
    """Return the pages in one language, by their path in the workspace."""
    folder = data / _FOLDER
    files = sorted((folder / language).rglob("*.md"))
    return {
        f"memory/{file.relative_to(folder).as_posix()}": file.read_text(encoding="utf-8")
        for file in files
    }


def by_title(notes: Mapping[str, str], language: str, half: Half) -> list[Question]:
    """Return two questions a name: the name, and what it is. Notes with one name are all right."""
    named: dict[str, set[str]] = {}
    for path in notes:
        named.setdefault(PurePosixPath(path).stem, set()).add(path)
    titles = half_of(sorted(named), half)
    forms = {"title": "{}", "what is": _WHAT_IS[language]}
    return [
        Question(form.format(title), kind=kind, notes=frozenset(named[title]))
        for kind, form in forms.items()
        for title in titles
    ]


def by_heading(notes: Mapping[str, str]) -> list[Question]:
    """Return headings of each language, half of them in a question; its pages are right."""
    pages: dict[str, dict[str, str]] = {language: {} for language in _WHAT_IS}
    for path, text in notes.items():
        pages[path.split("/")[1]][path] = text
    texts = {language: "\n".join(held.values()).casefold() for language, held in pages.items()}
    questions = []
    for language, held in pages.items():
        least = _LEAST_CHARS.get(language, _LEAST_CHARS_OF_OTHERS)
        headings = sorted(
            {
                heading
                for text in held.values()
                for heading in _HEADING.findall(text)
                if len(heading) >= least and _PLAIN.fullmatch(heading)
            }
        )
        random.Random(language).shuffle(headings)
        others = [texts[other] for other in texts if other != language]
        own = (h for h in headings if not any(h.casefold() in other for other in others))
        for number, heading in enumerate(islice(own, _HEADINGS_PER_LANGUAGE)):
            # Both forms are in both halves.
            text = _HOW[language].format(heading.lower()) if number // 2 % 2 else heading
            questions.append(Question(text, kind=language, notes=frozenset(held)))
    return questions
