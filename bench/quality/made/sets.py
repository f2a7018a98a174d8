"""The made sets by name, with their goals."""

import datetime
from collections.abc import Callable

from bench.quality.asked import Goals, asked
from bench.quality.following import MOST_COPIES, following, near_copies
from bench.quality.made import dates, parts, phrases, recency_old, repeats, unspaced
from bench.quality.made.model import Made
from bench.quality.model import QualitySet
from bench.quality.scoring import Half, half_of

_FOUND = Goals(among_six=0.95)
_OF_A_DAY: dict[str, tuple[Callable[[datetime.date], Made], Goals]] = {
    "dates": (dates.make, _FOUND),
    "recency-old": (recency_old.make, Goals(first=0.90)),
}
"""Sets with dates relative to the day of the run, whose index is not kept."""
_LASTING: dict[str, tuple[Callable[[], Made], Goals]] = {
    "unspaced": (unspaced.make, _FOUND),
    "parts": (parts.make, _FOUND),
    "phrases": (phrases.make, _FOUND),
}
NAMES = (*_OF_A_DAY, *_LASTING, "repeats")


def load(name: str, *, half: Half, today: datetime.date | None = None) -> QualitySet:
    """Return one of `NAMES`; `today` is what dates are relative to."""
    if name == "repeats":
        made = repeats.make()
        questions = half_of(made.questions, half)
        return following(
            name,
            made.notes,
            questions,
            judge=near_copies,
            figure="near copies among results",
            most=MOST_COPIES,
        )
    if name in _OF_A_DAY:
        make, goals = _OF_A_DAY[name]
        made = make(today or datetime.date.today())
    else:
        made_once, goals = _LASTING[name]
        made = made_once()
    questions = half_of(made.questions, half)
    return asked(name, made.notes, questions, goals, lasting=name in _LASTING)
