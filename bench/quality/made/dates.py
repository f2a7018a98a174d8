"""The set `dates`: diaries whose files are named in nine ways, asked for days and months."""

import datetime
import random
from collections.abc import Callable
from itertools import islice

from bench.quality.made.diaries import DIARIES, Diary
from bench.quality.made.model import Made
from bench.quality.model import Question

_DAYS_ASKED = 21
"""Days a language; with three days told from today and two months this is an even number."""
_FARTHEST_DAYS = 330
"""A day without its year is one day only."""
_UNASKED_DAYS = 40
_LINES_A_DAY = 3
_WEEKEND = 5

_Named = Callable[[datetime.date], tuple[str, str]]
"""Function that returns the path of a day's note, and its front matter."""


def _path(layout: str) -> _Named:
    return lambda day: (f"memory/{day.strftime(layout)}.md", "")


def _property(name: str, layout: str) -> _Named:
    front = f"---\ntags: [log]\n{name}: {{:{layout}}}\n---\n"
    return lambda day: (f"memory/log/entry-{day.toordinal() % 9973}.md", front.format(day))


CONVENTIONS: tuple[_Named, ...] = (
    _path("%Y-%m-%d"),
    _path("journals/%Y_%m_%d"),
    _path("dendron/daily.%Y.%m.%d"),
    _path("%Y%m%d"),
    _path("diary/%Y/%m/%d"),
    _path("meetings/Meeting %Y-%m-%d"),
    _path("log/%d-%m-%Y"),
    _property("date", "%Y-%m-%d"),
    _property("created", "%Y-%m-%dT09:15:00"),
)


def make(today: datetime.date) -> Made:
    """Return the set as of today."""
    chance = random.Random("dates")
    last_week = today - datetime.timedelta(days=7 if today.weekday() >= _WEEKEND else 5)
    near = [today - datetime.timedelta(days=1), today - datetime.timedelta(days=2), last_week]
    earlier = [today - datetime.timedelta(days=age) for age in range(9, _FARTHEST_DAYS)]
    asked = chance.sample(earlier, len(DIARIES) * _DAYS_ASKED + _UNASKED_DAYS)
    languages = [language for language in DIARIES for _ in range(_DAYS_ASKED)]
    others = chance.choices(list(DIARIES), k=len(near) + _UNASKED_DAYS)
    days = dict(zip([*asked, *near], [*languages, *others], strict=True))
    paths: dict[datetime.date, str] = {}
    notes: dict[str, str] = {}
    for number, (day, language) in enumerate(days.items()):
        path, front = CONVENTIONS[number % len(CONVENTIONS)](day)
        lines = chance.sample(DIARIES[language].lines, _LINES_A_DAY)
        if number % 4 == 0:  # younger notes that name the day of another one
            lines.append(f"→ {chance.choice(asked).isoformat()}")
        paths[day] = path
        notes[path] = front + "".join(f"- {line}\n" for line in lines)
    questions = []
    for number, (language, diary) in enumerate(DIARIES.items()):
        own = asked[number * _DAYS_ASKED : (number + 1) * _DAYS_ASKED]
        wanted = [(_on(diary, day, at), {day}) for at, day in enumerate(own)]
        wanted += zip(_relative(diary, last_week), [{day} for day in near], strict=True)
        months = {day.month: day for day in own}
        wanted += [_in_month(diary, day, set(days)) for day in islice(months.values(), 2)]
        questions += [
            Question(text, kind=language, notes=frozenset(paths[day] for day in right))
            for text, right in wanted
        ]
    return Made(notes, questions)


def _on(diary: Diary, day: datetime.date, number: int) -> str:
    return diary.on[number % len(diary.on)].format(
        y=day.year, m=day.month, d=day.day, month=diary.months[day.month - 1], iso=day.isoformat()
    )


def _relative(diary: Diary, last_week: datetime.date) -> list[str]:
    weekday = diary.weekdays[last_week.weekday()]
    return [diary.yesterday, diary.before_yesterday, diary.last_week.format(weekday=weekday)]


def _in_month(
    diary: Diary, day: datetime.date, days: set[datetime.date]
) -> tuple[str, set[datetime.date]]:
    name = (diary.in_months or diary.months)[day.month - 1]
    held = {each for each in days if (each.year, each.month) == (day.year, day.month)}
    return diary.in_month.format(month=name), held
