"""The scoring of `bench/quality`, and its data sets as described in their README."""

import datetime
import math
import re
from collections import Counter

import pytest

from bench.quality import own
from bench.quality.model import Evidence, Question
from bench.quality.options import of_the_index, read, to_toml
from bench.quality.rating import Rated, lost, rating_figures
from bench.quality.scoring import (
    area_under_roc,
    calibration_error,
    half_of,
    hit_at,
    mean,
    ndcg_at,
    reciprocal_rank,
)
from bench.quality.workspace import key_of
from memoryd.config.validate import ConfigError
from memoryd_client.schema.search import Hit

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


def test_area_is_one_in_order_a_half_for_equals_and_zero_against_it() -> None:
    assert area_under_roc([0.1, 0.9, 0.8], [False, True, True]) == 1.0
    assert area_under_roc([0.5, 0.5, 0.5], [False, True, True]) == 0.5
    assert area_under_roc([0.9, 0.1], [False, True]) == 0.0


def test_area_is_the_share_of_pairs_in_order() -> None:
    scores, right = [0.1, 0.4, 0.35, 0.8, 0.4], [False, False, True, True, True]
    # Of six pairs (right, wrong) four are in order, one is equal, one is not.
    assert area_under_roc(scores, right) == pytest.approx(4.5 / 6)


def test_area_needs_both_kinds() -> None:
    with pytest.raises(ValueError, match="right and wrong"):
        area_under_roc([0.1, 0.2], [True, True])


def test_calibration_error_is_the_mean_distance_of_equal_bins() -> None:
    right = [False] * 4 + [True] * 6
    assert calibration_error([float(one) for one in right], right) == 0.0
    assert calibration_error([0.75] * 10, [True, False] * 5) == pytest.approx(0.25)
    # Two bins: 0.2 promised against none right, 0.6 against all.
    error = calibration_error([0.6, 0.2, 0.2, 0.6], [True, False, False, True], bins=2)
    assert error == pytest.approx((0.2 + 0.4) / 2)
    assert calibration_error([], []) == 0.0


def answer(
    rating: str,
    confidence: float,
    *,
    answerable: bool = True,
    right: bool = True,
    across: bool = False,
) -> Rated:
    found = answerable and right
    return Rated(answerable, found, found, rating, confidence, across)


def test_ratings_are_counted_for_found_answers_and_for_questions_without_one() -> None:
    answers = [
        answer("high", 0.9),
        answer("low", 0.1),
        answer("medium", 0.6, across=True),
        answer("high", 0.8, right=False),
        answer("medium", 0.5, answerable=False),
        answer("none", 0.0, answerable=False),
    ]
    figures = {figure.name: figure for figure in rating_figures(answers)}
    assert figures["found, rated high or medium"].value == 0.5
    assert figures["found across languages, rated high or medium"].value == 1.0
    assert figures["without an answer, rated high or medium"].value == 0.5
    # Three right first results against three wrong ones.
    assert figures["area under the ROC curve"].value == pytest.approx(6 / 9)
    assert figures["calibration error"].at_most is None, "too few questions for a target"
    assert rating_figures([answer("", 0.0)]) == [], "a daemon that does not rate"


def test_of_paraphrased_questions_nobody_asks_to_be_sure() -> None:
    [found, *_] = rating_figures([answer("low", 0.1)], paraphrased=True)
    assert (found.value, found.at_least) == (0.0, None)


def test_lost_answers_are_those_that_only_the_uncut_run_finds() -> None:
    cut = [answer("", 0, right=right) for right in (True, False, False)]
    uncut = [answer("", 0, right=right) for right in (True, True, False)]
    assert lost(cut, uncut) == 0.5
    assert lost(cut[2:], uncut[2:]) == 0.0


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


@pytest.mark.parametrize("name", own.WRITTEN)
def test_own_sets_load_and_their_ids_count_up(name: str) -> None:
    ids = [case["id"] for case in own.read_cases(name, today=TODAY)]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
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


def test_half_of_the_abstention_questions_are_paraphrases() -> None:
    with_answer = own.read_cases("paraphrase", today=TODAY)
    without = own.read_cases("abstention", today=TODAY)
    assert (len(with_answer), len(without)) == (50, 50)
    assert own.read_notes("paraphrase", today=TODAY) == own.read_notes("abstention", today=TODAY)


@pytest.mark.parametrize(("name", "each"), [("sample", 28), ("unanswerable", 40)])
def test_the_sample_workspace_is_asked_in_eight_languages(name: str, each: int) -> None:
    cases = own.read_cases(name, today=TODAY)
    languages = Counter(case["language"] for case in cases)
    assert languages == dict.fromkeys(("en", "de", "es", "tr", "ru", "zh", "ja", "ko"), each)
    assert len({case["query"] for case in cases}) == len(cases)
    assert all(("answer" in case) == (name == "sample") for case in cases)
