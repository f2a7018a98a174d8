"""The three sets that ship with the project; `data/README.md` has the rules for writing them.

`<set>.notes` holds all notes of a set in one file, each below a line `==== path`. In paths and
texts `{3 days ago}` stands for that date. `<set>.jsonl` has one question a line: its `query`, and
the `path` of the note and a piece of the line that answers it (`answer`); a question without them
has no answer.
"""

import datetime
import json
import re
from pathlib import Path
from typing import Any

from bench.quality.abstention import abstention
from bench.quality.model import Ask, Evidence, Measured, Outcome, QualitySet, Question
from bench.quality.scoring import Half, half_of, hit_at, mean

DATA = Path(__file__).parent / "data"
TARGETS = {"exact": 0.99, "recency": 0.95}
_DAYS_AGO = re.compile(r"\{(\d+) days ago\}")
_HEAD = "==== "


def load(name: str, *, half: Half, today: datetime.date | None = None) -> QualitySet:
    """Return `exact`, `recency` or `abstention`; `today` is what dates are relative to."""
    day = today or datetime.date.today()
    notes = read_notes(name, today=day)
    cases = read_cases(name, today=day)
    answerable = half_of([_question(case, notes) for case in cases if "answer" in case], half)
    unanswerable = half_of([case["query"] for case in cases if "answer" not in case], half)
    if unanswerable:
        return abstention(name, notes, answerable, unanswerable)
    return QualitySet(
        name,
        notes,
        lambda ask: _first(ask, answerable, TARGETS[name]),
        lasting=_DAYS_AGO.search(_text(f"{name}.notes")) is None,
    )


def read_notes(name: str, *, today: datetime.date) -> dict[str, str]:
    """Return the notes of a set by path."""
    sections = _dated(_text(f"{name}.notes"), today).split(f"\n{_HEAD}")
    sections[0] = sections[0].removeprefix(_HEAD)
    parts = [section.partition("\n") for section in sections]
    return {path: text.strip("\n") + "\n" for path, _, text in parts}


def read_cases(name: str, *, today: datetime.date) -> list[dict[str, Any]]:
    """Return the questions of a set, in the order of their ids."""
    lines = _dated(_text(f"{name}.jsonl"), today).split("\n")
    return [json.loads(line) for line in lines if line]


def _text(file: str) -> str:
    return (DATA / file).read_text(encoding="utf-8")


def _dated(text: str, today: datetime.date) -> str:
    def date(match: re.Match[str]) -> str:
        return (today - datetime.timedelta(days=int(match[1]))).isoformat()

    return _DAYS_AGO.sub(date, text)


def _question(case: dict[str, Any], notes: dict[str, str]) -> Question:
    evidence = tuple(
        Evidence(case["path"], number, line)
        for number, line in enumerate(notes[case["path"]].split("\n"), 1)
        if case["answer"] in line
    )
    if not evidence:
        raise ValueError(f"{case['path']} has no line with {case['answer']!r}")
    return Question(case["query"], evidence, case.get("kind", ""))


def _first(ask: Ask, questions: list[Question], target: float) -> Outcome:
    """Measure the first result of each question, in total and by kind of question."""
    firsts: dict[str, list[float]] = {}
    misses = []
    for question in questions:
        hits = ask(question.text)
        first = hit_at(1, question.right(hits))
        firsts.setdefault(question.kind, []).append(first)
        if not first:
            got = hits[0].path if hits else "nothing"
            misses.append(f"{question.kind}: {question.text} → {got}")
    everything = [value for values in firsts.values() for value in values]
    figures = [
        Measured("hit@1", mean(everything), at_least=target),
        *(Measured(f"hit@1, {kind}", mean(values)) for kind, values in firsts.items()),
        Measured("questions", len(questions), unit=""),
    ]
    return Outcome(figures, misses=misses)
