"""Scores of candidates for MEMORY.md against values computed by hand, and each gate."""

import pytest

from memoryd.api.promote import MAX_TOKENS, promoted_text
from memoryd.index.recalls import RecalledEntry
from memoryd.search.promotion import (
    WEIGHTS,
    Components,
    components,
    consolidation,
    missed_gates,
    score_of,
)
from memoryd.text.token_estimate import weigh

NOW = 1_790_000_000.0
DAY = 86_400.0


def entry(
    *,
    recalls: int = 5,
    total: float = 4.5,
    questions: int = 4,
    days: tuple[str, ...] = ("2026-09-01", "2026-09-03", "2026-09-07"),
    age_days: float = 14.0,
) -> RecalledEntry:
    asked = tuple(f"q{n}" for n in range(questions))
    path = "memory/2026-08-20.md"
    return RecalledEntry(path, "h", 1, 1, recalls, total, NOW - age_days * DAY, asked, days)


def test_the_parts_are_those_of_the_formulas() -> None:
    parts = components(entry(), "Wout of the Nieuwpoort marina wants phone calls.", NOW)
    # 4.5/5; ln 6/ln 11; 4/5; half after 14 days; .55 ln 3/ln 5 + .45 * 6/7; six words
    assert parts == pytest.approx((0.9, 0.747222, 0.8, 0.5, 0.761148, 1.0), abs=1e-6)
    assert score_of(parts) == pytest.approx(0.780448, abs=1e-6)
    few = components(
        entry(recalls=1, total=0.6, questions=1, days=("2026-09-07",), age_days=0.0), "tea", NOW
    )
    assert few == pytest.approx((0.6, 0.289065, 0.2, 1.0, 0.2, 1 / 6), abs=1e-6)
    assert score_of(few) == pytest.approx(0.459376, abs=1e-6)


def test_no_part_exceeds_its_weight() -> None:
    days = tuple(f"2026-09-{day:02}" for day in range(1, 17))
    many = entry(recalls=10_000, total=20_000.0, questions=32, days=days, age_days=-3.0)
    parts = components(many, " ".join(f"word{n}" for n in range(50)), NOW)
    assert parts == Components(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert score_of(parts) == pytest.approx(1.0)
    assert sum(WEIGHTS) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ((), 0.0),
        (("2026-09-01",), 0.2),
        (("2026-09-01", "2026-09-02"), 0.55 * 0.430677 + 0.45 / 7),
        (("2026-08-01", "2026-09-02"), 0.55 * 0.430677 + 0.45),
        (tuple(f"2026-09-0{n}" for n in range(1, 6)), 0.55 + 0.45 * 4 / 7),
    ],
)
def test_consolidation(days: tuple[str, ...], expected: float) -> None:
    assert consolidation(days) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("changed", "score", "missed"),
    [
        ({}, 0.75, []),
        ({}, 0.7499, ["score 0.75 is below 0.75"]),
        ({"recalls": 2}, 0.9, ["recalled 2 of 3 times"]),
        ({"questions": 2}, 0.9, ["by 2 of 3 questions"]),
        ({"recalls": 3, "questions": 3}, 0.9, []),
    ],
)
def test_each_gate(changed: dict[str, int], score: float, missed: list[str]) -> None:
    assert missed_gates(entry(**changed), score) == missed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- Ana moved.", "Ana moved."),
        ("12. Ana moved.\n    - to Lisbon\n    - in May", "Ana moved.\n- to Lisbon\n- in May"),
        ("A paragraph\nof two lines.", "A paragraph\nof two lines."),
        ("-5 degrees", "-5 degrees"),
    ],
)
def test_the_marker_of_an_entry_is_left_out(text: str, shown: str) -> None:
    assert promoted_text(text) == shown


@pytest.mark.parametrize("word", ["sentence ends here. ", "健身房早上七点开门。", "длинное слово "])
def test_a_long_entry_is_cut(word: str) -> None:
    text = promoted_text(f"- {word * 200}")
    assert text.endswith("…")
    assert weigh(text) <= 4 * MAX_TOKENS
    assert weigh(text) > 2 * MAX_TOKENS
    assert (word * 200).startswith(text[:-1])
