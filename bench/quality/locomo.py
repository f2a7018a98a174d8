"""LoCoMo: questions about long conversations, one note a session (Maharana et al., 2024)."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.quality.asked import asked
from bench.quality.model import (
    QUICK_QUESTIONS,
    Ask,
    Evidence,
    Measured,
    Outcome,
    QualitySet,
    Question,
    existing,
)
from bench.quality.rating import rated, rating_figures
from bench.quality.scoring import Half, half_of, hit_at, mean, reciprocal_rank

ADVERSARIAL = 5
"""The category of questions that the conversation doesn't answer."""
_EVIDENCE_ID = re.compile(r"D:?(\d+):0*(\d+)")
_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation: its notes by path, and the questions about it."""

    notes: dict[str, str]
    questions: list[Question]


def conversations(data: Path) -> list[Conversation]:
    """Read all conversations. Raises `MissingSetError`."""
    file = existing(data / "locomo/locomo.json")
    return [_conversation(sample) for sample in json.loads(file.read_text(encoding="utf-8"))]


def load(data: Path, *, half: Half, quick: bool) -> QualitySet:
    """Return the set with all conversations in one workspace."""
    read = conversations(data)
    notes = {path: text for one in read for path, text in one.notes.items()}
    questions = half_of([question for one in read for question in one.questions], half)
    if quick:
        questions = questions[:: max(1, len(questions) // QUICK_QUESTIONS)]
    return QualitySet("locomo", notes, lambda ask: _measure(ask, questions))


def load_abstention(data: Path, *, half: Half, quick: bool) -> QualitySet:
    """Return a set that asks the notes of one conversation the questions of another.

    The first conversation's own questions are the answerable ones.
    """
    first, second = conversations(data)[:2]
    most = QUICK_QUESTIONS if quick else None
    answerable = half_of(first.questions, half)[:most]
    unanswerable = [Question(q.text) for q in half_of(second.questions, half)[:most]]
    return asked("abstention-locomo", first.notes, [*answerable, *unanswerable])


def _conversation(sample: dict[str, Any]) -> Conversation:
    said: dict[str, Evidence] = {}
    notes: dict[str, str] = {}
    talk = sample["conversation"]
    for key, turns in talk.items():
        if (match := _SESSION.fullmatch(key)) is None or not turns:
            continue
        held_at = talk[f"{key}_date_time"]
        day = datetime.strptime(held_at.split(" on ")[1], "%d %B, %Y")
        path = f"memory/{sample['sample_id']}/{day:%Y-%m-%d}-s{match[1]}.md"
        lines = [f"# Session {match[1]}: {held_at}"]
        for turn in turns:
            lines.append(_line(turn))
            said[turn["dia_id"]] = Evidence(path, len(lines), lines[-1])
        notes[path] = "\n".join(lines) + "\n"
    questions = [
        Question(qa["question"], evidence)
        for qa in sample["qa"]
        if qa["category"] != ADVERSARIAL and (evidence := _evidence(qa, said))
    ]
    return Conversation(notes, questions)


def _line(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    text = f"{turn['speaker']}: {turn['text']}" + (f" [image: {caption}]" if caption else "")
    return " ".join(text.split("\n"))


def _evidence(qa: dict[str, Any], said: dict[str, Evidence]) -> tuple[Evidence, ...]:
    names = [
        f"D{session}:{turn}"
        for named in qa.get("evidence", ())
        for session, turn in _EVIDENCE_ID.findall(named)
    ]
    return tuple(said[name] for name in dict.fromkeys(names) if name in said)


def _measure(ask: Ask, questions: list[Question]) -> Outcome:
    at_1, at_6, shown, recall, ranks, chars = [], [], [], [], [], []
    answers, misses = [], []
    for question in questions:
        result = ask(question.text)
        hits = result.results
        right = question.right(hits)
        shows = [any(line.is_shown(hit) for line in question.evidence) for hit in hits]
        covered = [any(line.is_covered(hit) for hit in hits[:6]) for line in question.evidence]
        answers.append(rated(result, right))
        at_1.append(hit_at(1, right))
        at_6.append(hit_at(6, right))
        shown.append(hit_at(6, shows))
        recall.append(mean(map(float, covered)))
        ranks.append(reciprocal_rank(right))
        chars.append(float(sum(len(hit.snippet) for hit in hits)))
        if not any(shows[:6]):
            kind = "not in the snippet" if any(right[:6]) else "not found"
            misses.append(f"{kind}: {question.text} ({question.evidence[0].text[:120]})")
    figures = [
        Measured("hit@1", mean(at_1), at_least=0.70),
        Measured("hit@6", mean(at_6), at_least=0.93),
        Measured("snippet hit@6", mean(shown), at_least=0.865),
        Measured("evidence recall@6", mean(recall)),
        Measured("MRR", mean(ranks)),
        Measured("returned a question", mean(chars), unit="characters"),
        *rating_figures(answers),
        Measured("questions", len(questions), unit=""),
    ]
    return Outcome(figures, answers, misses)
