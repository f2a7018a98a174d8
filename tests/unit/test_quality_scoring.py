"""The scoring of `bench/quality`, and its data sets as described in their README."""

import datetime
import math
import re
from collections import Counter

import pytest

from bench.quality import own
from bench.quality.model import Evidence, Question
from bench.quality.options import of_the_index, read, to_toml
from bench.quality.scoring import (
    CurvePoint,
    curve,
    half_of,
    hit_at,
    mean,
    ndcg_at,
    quietest,
    reciprocal_rank,
)
from bench.quality.workspace import key_of
from memoryd.config.validate import ConfigError
from memoryd_client.schema.memory import Hit

TODAY = datetime.date(2026, 3, 1)


def hit(path: str, start: int, end: int, snippet: str = "") -> Hit:
    return Hit(path, start, end, 0.5, snippet, start, end, "memory", f"{path}#L{start}")


def test_hit_at_looks_at_the_first_k() -> None:
    right = [False, False, True]
    assert (hit_at(2, right), hit_at(3, right), hit_at(1, [])) == (0.0, 1.0, 0.0)


def test_reciprocal_rank_is_of_the_first_right_one() -> None:
    assert reciprocal_rank([False, True, True]) == 0.5
    assert reciprocal_rank([False]) == 0.0


def test_ndcg_is_one_for_the_best_order_and_zero_without_any() -> None:
    grades = {"a": 2, "b": 1}
    assert ndcg_at(10, ["a", "b", "c"], grades) == pytest.approx(1.0)
    assert ndcg_at(10, ["c", "d"], grades) == 0.0
    assert ndcg_at(10, ["a"], {}) == 0.0


def test_ndcg_discounts_by_rank_and_stops_at_k() -> None:
    assert ndcg_at(10, ["x", "a"], {"a": 1}) == pytest.approx(1 / math.log2(3))
    assert ndcg_at(1, ["x", "a"], {"a": 1}) == 0.0
    swapped = (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))
    assert ndcg_at(10, ["b", "a"], {"a": 2, "b": 1}) == pytest.approx(swapped)


def test_ndcg_takes_no_more_than_k_for_the_ideal() -> None:
    assert ndcg_at(1, ["a"], {"a": 1, "b": 1}) == pytest.approx(1.0)


def test_curve_counts_noise_and_what_is_lost() -> None:
    answered = {0.0: [True, True, False, False], 0.5: [True, False, False, False]}
    noisy = {0.0: [True, True], 0.5: [False, True]}
    assert curve(answered, noisy) == [
        CurvePoint(0.0, noise=1.0, lost=0.5, lost_by_threshold=0.0),
        CurvePoint(0.5, noise=0.5, lost=0.75, lost_by_threshold=0.5),
    ]


def test_quietest_point_keeps_to_the_bound() -> None:
    points = [
        CurvePoint(0.0, 0.9, 0.0, 0.0),
        CurvePoint(0.2, 0.4, 0.02, 0.02),
        CurvePoint(0.3, 0.4, 0.03, 0.03),
        CurvePoint(0.4, 0.0, 0.5, 0.5),
    ]
    assert quietest(points, max_lost=0.03) == points[1]
    assert quietest(points[3:], max_lost=0.03) is None


def test_halves_are_every_other_one() -> None:
    items = [1, 2, 3, 4, 5]
    assert half_of(items, "tuned") == [1, 3, 5]
    assert half_of(items, "kept") == [2, 4]
    assert half_of(items, "all") == items


def test_mean_of_nothing_is_zero() -> None:
    assert mean([]) == 0.0


def test_evidence_is_covered_by_lines_and_shown_by_text() -> None:
    long = "x" * 130
    line = Evidence("a.md", 3, long)
    assert line.is_covered(hit("a.md", 1, 3))
    assert not line.is_covered(hit("a.md", 4, 9))
    assert not line.is_covered(hit("b.md", 1, 3))
    assert line.is_shown(hit("a.md", 1, 3, f"before\n{long[:120]}"))
    assert not line.is_shown(hit("a.md", 1, 3, long[:119]))


def test_any_evidence_makes_a_hit_right() -> None:
    question = Question("?", (Evidence("a.md", 1, "one"), Evidence("b.md", 2, "two")))
    hits = [hit("c.md", 1, 9), hit("b.md", 1, 2), hit("a.md", 1, 1)]
    assert question.right(hits) == [False, True, True]


def test_options_are_toml_or_text() -> None:
    options = read(None, ["query.min_score=0.2", "provider = none", "sync.watch=false"])
    assert options == {"query.min_score": 0.2, "provider": "none", "sync.watch": False}
    assert to_toml(options).splitlines()[1:] == ['provider = "none"', "sync.watch = false"]
    with pytest.raises(ConfigError, match="key=value"):
        read(None, ["provider"])


def test_what_is_kept_depends_on_notes_and_index_settings_alone() -> None:
    notes = {"memory/a.md": "a\n", "memory/b.md": "b\n"}
    key = key_of(notes, {})
    assert key == key_of(dict(reversed(notes.items())), {"query.min_score": 0.9})
    assert key != key_of(notes, {"chunking.tokens": 100})
    assert key != key_of({**notes, "memory/a.md": "b\n"}, {})
    assert of_the_index({"query.hybrid.enabled": False}) == {}


@pytest.mark.parametrize(("name", "cases"), [("exact", 100), ("recency", 40), ("abstention", 100)])
def test_own_sets_load_and_are_of_their_size(name: str, cases: int) -> None:
    read_cases = own.read_cases(name, today=TODAY)
    assert [case["id"] for case in read_cases] == list(range(1, cases + 1))
    assert own.load(name, half="all", today=TODAY).notes


def test_every_exact_string_stands_in_one_note() -> None:
    notes = own.read_notes("exact", today=TODAY)
    for case in own.read_cases("exact", today=TODAY):
        # A version may follow a `v`; otherwise the answer must be the whole string.
        pattern = rf"(?<![a-uw-z0-9_])v?{re.escape(case['answer'])}(?![a-z0-9_])"
        found = [path for path, text in notes.items() if re.search(pattern, text, re.I)]
        assert found == [case["path"]], case


def test_exact_has_four_questions_a_kind() -> None:
    kinds = Counter(case["kind"] for case in own.read_cases("exact", today=TODAY))
    assert set(kinds.values()) == {4}
    assert len(own.read_notes("exact", today=TODAY)) == 150


def test_recency_is_dated_from_today() -> None:
    cases = own.read_cases("recency", today=TODAY)
    assert cases[0]["path"] == "memory/2026-02-25-01.md"
    ages = {
        case["id"]: (TODAY - datetime.date.fromisoformat(case["path"][7:17])).days for case in cases
    }
    for case in cases:
        young = case["kind"] == "current"
        assert (2 <= ages[case["id"]] <= 8) if young else (ages[case["id"]] >= 120)
    assert Counter(case["kind"] for case in cases) == {"current": 30, "old exact": 10}


def test_abstention_has_as_many_with_as_without_an_answer() -> None:
    cases = own.read_cases("abstention", today=TODAY)
    assert sum("answer" in case for case in cases) == 50
