"""The written sets that ship with the project; `data/README.md` has the rules for writing them.

`<set>.notes` holds all notes of a set in one file, each below a line `==== path`. In paths and
texts `{3 days ago}` stands for that date. `<set>.jsonl` has one question a line: its `query`, and
the `path` of the note and a piece of the line that answers it (`answer`), further ones in `also`.
`across` marks a question in another language than all of these lines. A question without a `path`
has no answer.
"""

import datetime
import json
import re
from pathlib import Path
from typing import Any

from bench.quality.asked import Goals, asked
from bench.quality.following import MOST_UNRELATED, following, unrelated
from bench.quality.model import Evidence, QualitySet, Question
from bench.quality.scoring import Half, half_of

DATA = Path(__file__).parent / "data"
SAMPLE = Path(__file__).parents[2] / "examples/workspace"
"""The sample workspace, which two sets ask about."""
WRITTEN = ("exact", "recency", "paraphrase", "abstention", "sample", "unanswerable", "companions")
_GOALS = {
    "exact": Goals(first=0.99),
    "recency": Goals(first=0.90),
    "paraphrase": Goals(among_six=0.77, paraphrased=True),
    "abstention": Goals(),
    "sample": Goals(),
    "unanswerable": Goals(),
}
_FILES = {"paraphrase": "abstention"}
"""Sets that share the files of another one."""
_ON_THE_SAMPLE = ("sample", "unanswerable")
_DAYS_AGO = re.compile(r"\{(\d+) days ago\}")
_HEAD = "==== "


def load(name: str, *, half: Half, today: datetime.date | None = None) -> QualitySet:
    """Return one of `WRITTEN`; `today` is what dates are relative to."""
    day = today or datetime.date.today()
    notes = read_notes(name, today=day)
    questions = [_question(case, notes) for case in read_cases(name, today=day)]
    if name == "companions":
        return following(
            name,
            notes,
            half_of(questions, half),
            judge=unrelated,
            figure="unrelated results",
            most=MOST_UNRELATED,
        )
    lasting = name in _ON_THE_SAMPLE or _DAYS_AGO.search(_text(name, "notes")) is None
    return asked(name, notes, half_of(questions, half), _GOALS[name], lasting=lasting)


def read_notes(name: str, *, today: datetime.date) -> dict[str, str]:
    """Return the notes of a set by path."""
    if name in _ON_THE_SAMPLE:
        files = sorted(SAMPLE.rglob("*.md"))
        return {f.relative_to(SAMPLE).as_posix(): f.read_text(encoding="utf-8") for f in files}
    sections = _dated(_text(name, "notes"), today).split(f"\n{_HEAD}")
    sections[0] = sections[0].removeprefix(_HEAD)
    parts = [section.partition("\n") for section in sections]
    return {path: text.strip("\n") + "\n" for path, _, text in parts}


def read_cases(name: str, *, today: datetime.date) -> list[dict[str, Any]]:
    """Return the questions of a set, in the order of their ids."""
    cases = [json.loads(x) for x in _dated(_text(name, "jsonl"), today).split("\n") if x]
    if name in ("paraphrase", "abstention"):
        return [case for case in cases if ("answer" in case) == (name == "paraphrase")]
    return cases


def _text(name: str, ending: str) -> str:
    return (DATA / f"{_FILES.get(name, name)}.{ending}").read_text(encoding="utf-8")


def _dated(text: str, today: datetime.date) -> str:
    def date(match: re.Match[str]) -> str:
        return (today - datetime.timedelta(days=int(match[1]))).isoformat()

    return _DAYS_AGO.sub(date, text)


def _question(case: dict[str, Any], notes: dict[str, str]) -> Question:
    kind = case.get("kind") or case.get("language", "")
    if "answer" not in case:
        return Question(case["query"], kind=kind)
    places = [(case["path"], case["answer"]), *case.get("also", ())]
    evidence = tuple(
        Evidence(path, number, line)
        for path, answer in places
        for number, line in enumerate(notes[path].split("\n"), 1)
        if answer in line
    )
    if {line.path for line in evidence} != {path for path, _ in places}:
        raise ValueError(f"{case['path']} has no line with {case['answer']!r}")
    return Question(case["query"], evidence, kind, case.get("across", False))
