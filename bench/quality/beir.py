"""Sets in the layout of BEIR (Thakur et al., 2021): `corpus.jsonl`, `queries.jsonl`, `qrels.tsv`.

One note per document. The figures of the first six results are those of a user's search; nDCG asks
for more results, because several may be parts of one document.
"""

import json
import re
from pathlib import Path
from typing import Any

from bench.quality.model import QUICK_QUESTIONS, Ask, Measured, Outcome, QualitySet, existing
from bench.quality.rating import rated, rating_figures
from bench.quality.scoring import Half, half_of, hit_at, mean, ndcg_at

TARGETS: dict[str, dict[str, float]] = {
    "scifact": {"nDCG@10": 0.684},
    "de-xquad": {"hit@6": 0.975},
    "ru-xquad": {"hit@6": 0.97},
    "zh-xquad": {"hit@6": 0.99},
    "zh-tw-drcd": {"hit@6": 0.99},
    "ja-jsquad": {"hit@6": 0.965},
    "xl-tr-en": {"hit@6": 0.935},
    "xl-ru-en": {"hit@6": 0.95},
    "xl-en-de": {"hit@6": 0.985},
    "xl-zh-en": {"hit@6": 0.94},
}
ACROSS = "xl-"
"""Beginning of the names of sets whose questions are in another language than their notes."""
RESULTS_FOR_TEN_DOCUMENTS = 20
FILES_PER_FOLDER = 500
QUICK_DOCUMENTS = 400
_NOT_IN_NAMES = re.compile(r"[^\w.-]")
_Judged = list[tuple[str, dict[str, int]]]
"""Questions, each with the grades of the relevant notes by path."""


def load(data: Path, name: str, *, half: Half, quick: bool) -> QualitySet:
    """Return one of the sets in `TARGETS`. Raises `MissingSetError`."""
    documents = _json_lines(existing(data / name / "corpus.jsonl"))
    path_of = {
        one[
            "_id"
        ]: f"memory/{number // FILES_PER_FOLDER:03}/{_NOT_IN_NAMES.sub('-', one['_id'])}.md"
        for number, one in enumerate(documents)
    }
    grades: dict[str, dict[str, int]] = {}
    rows = existing(data / name / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for query_id, document_id, grade in (row.split("\t") for row in rows):
        grades.setdefault(query_id, {})[path_of[document_id]] = int(grade)
    queries = _json_lines(existing(data / name / "queries.jsonl"))
    judged = half_of([(one["text"], grades[one["_id"]]) for one in queries], half)
    notes = {path_of[one["_id"]]: _note(one) for one in documents}
    if quick:
        judged = judged[:QUICK_QUESTIONS]
        kept = {path for _, relevant in judged for path in relevant}
        kept.update(list(notes)[:QUICK_DOCUMENTS])
        notes = {path: text for path, text in notes.items() if path in kept}
    across = name.startswith(ACROSS)
    return QualitySet(name, notes, lambda ask: _measure(ask, judged, TARGETS[name], across=across))


def _json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


def _note(document: dict[str, Any]) -> str:
    title = document.get("title", "")
    return f"# {title}\n\n{document['text']}\n" if title else f"{document['text']}\n"


def _measure(ask: Ask, judged: _Judged, targets: dict[str, float], *, across: bool) -> Outcome:
    answers = []
    values: dict[str, list[float]] = {"nDCG@10": [], "hit@1": [], "hit@6": []}
    misses = []
    for text, grades in judged:
        result = ask(text)
        right = [hit.path in grades for hit in result.results]
        answers.append(rated(result, right, across=across))
        many = ask(text, max_results=RESULTS_FOR_TEN_DOCUMENTS).results
        ranking = list(dict.fromkeys(hit.path for hit in many))
        values["nDCG@10"].append(ndcg_at(10, ranking, grades))
        values["hit@1"].append(hit_at(1, right))
        values["hit@6"].append(hit_at(6, right))
        if not any(right[:6]):
            misses.append(f"not found: {text} ({', '.join(grades)})")
    figures = [
        Measured(name, mean(each), at_least=targets.get(name)) for name, each in values.items()
    ]
    figures += [*rating_figures(answers), Measured("questions", len(judged), unit="")]
    return Outcome(figures, answers, misses)
