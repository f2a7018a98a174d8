"""The sets that programs make for `bench/quality`."""

import datetime
import re
from collections import Counter

import pytest

from bench.quality import made
from bench.quality.following import near_copies, unrelated
from bench.quality.made import dates, parts, phrases, recency_old, repeats, unspaced
from bench.quality.made.model import Made
from bench.quality.model import Evidence, Question
from memoryd_client.schema.search import Hit

TODAY = datetime.date(2026, 3, 1)
SETS: dict[str, tuple[Made, Made, int]] = {
    "dates": (dates.make(TODAY), dates.make(TODAY), 208),
    "recency-old": (recency_old.make(TODAY), recency_old.make(TODAY), 144),
    "unspaced": (unspaced.make(), unspaced.make(), 200),
    "parts": (parts.make(), parts.make(), 120),
    "phrases": (phrases.make(), phrases.make(), 120),
    "repeats": (repeats.make(), repeats.make(), 96),
}


def hit(snippet: str, path: str = "memory/a.md") -> Hit:
    return Hit(path, 1, 1, 0.5, snippet, 1, 1, "memory", f"{path}#L1")


def test_all_sets_are_checked() -> None:
    assert set(SETS) == set(made.NAMES)
    assert made.load("repeats", half="tuned").notes == SETS["repeats"][0].notes


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_the_same_each_time_and_its_answers_exist(name: str) -> None:
    one, again, count = SETS[name]
    assert one == again
    assert len(one.questions) == count
    for question in one.questions:
        assert question.notes
        assert question.notes | question.never <= set(one.notes)


@pytest.mark.parametrize("name", SETS)
def test_both_halves_have_as_many_of_each_kind(name: str) -> None:
    kinds = [question.kind for question in SETS[name][0].questions]
    assert Counter(kinds[::2]) == Counter(kinds[1::2])


@pytest.mark.parametrize("today", [TODAY + datetime.timedelta(days=7 + n) for n in range(7)])
def test_a_day_is_asked_for_by_its_date_alone(today: datetime.date) -> None:
    one = dates.make(today)
    texts = Counter(question.text for question in one.questions)
    assert max(texts.values()) == 1, "two days of one language have one question"
    yesterday = next(q for q in one.questions if "yesterday?" in q.text)
    [path] = yesterday.notes
    digits = re.sub(r"\D", "", path + one.notes[path])
    assert (today - datetime.timedelta(days=1)).strftime("%Y%m%d") in digits


def test_newer_notes_are_right_and_have_their_ages() -> None:
    one = SETS["recency-old"][0]
    for question in one.questions:
        [path] = question.notes
        age = (TODAY - datetime.date.fromisoformat(path[7:17])).days
        older = next(p for p in one.notes if p != path and p.endswith(path[17:]))
        gap = (TODAY - datetime.date.fromisoformat(older[7:17])).days
        assert question.kind.startswith(f"{age}/{gap} days")


def test_a_part_stands_in_one_note() -> None:
    one = SETS["parts"][0]
    for question in one.questions:
        part = re.sub(r"\W", "", question.text) or question.text
        having = {p for p, text in one.notes.items() if part in re.sub(r"[\s.-]", "", text)}
        assert having == question.notes, question.text


def test_no_note_has_its_phrase_as_plain_text() -> None:
    one = SETS["phrases"][0]
    for question in one.questions:
        plain = question.text.split('"')[1]
        assert all(plain not in text for text in one.notes.values())


def test_a_note_with_an_excluded_phrase_spoils_the_answer() -> None:
    question = Question("lamp", notes=frozenset(["a.md"]), never=frozenset(["b.md"]))
    assert question.right([hit("", "a.md"), hit("", "c.md")]) == [True, False]
    assert question.right([hit("", "a.md"), hit("", "b.md")]) == [False, False]


def test_near_copies_share_most_of_the_shorter_snippet() -> None:
    block = "one two three four five six seven eight nine ten"
    hits = [
        hit(f"before {block} after and more"),
        hit(f"other {block}"),
        hit("one two three is all that is here of it and nothing else"),
        hit("每个打开的瓶子都要在标签上写日期"),
        hit("每个打开的瓶子都要在标签上写日期!再说一次"),
    ]
    assert near_copies(Question("?"), hits) == [True, False, False, True]
    assert near_copies(Question("?"), []) == []


def test_results_of_other_folders_are_unrelated() -> None:
    question = Question("?", (Evidence("memory/choir/a.md", 1, "x"),))
    hits = [hit("", path) for path in ("memory/choir/a.md", "memory/tax/a.md", "memory/choir/b.md")]
    assert unrelated(question, hits) == [True, False]
