"""Dates in a question, in some forty languages. Pure.

Only what is a date for certain counts: a month that is another word too, such as `may`, needs a
number or a preposition, and an abbreviated weekday is none. Versions, times, fractions, amounts and
addresses are not dates.
"""

import datetime
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from memoryd.text import periods
from memoryd.text.date_words import NUMBER, DateWords, date_words, tokens_of, words_of
from memoryd.text.numeric_dates import (
    CountedFrom,
    DateInText,
    dates_without_year,
    full_year,
    months_without_year,
    numeric_dates,
)
from memoryd.text.periods import Date, Period

_ORDINAL = r"(?:st|nd|rd|th|er|re|º|ª|°|-?(?:го|е|й|ое|ого)|\.)?"
_LINK = r"(?:of the|of|de|del|di|da|den|ta['’]|d['’]|l['’]|-|/|,)?"
_DAY_BEFORE = re.compile(
    rf"(?<![\w.,:/-])(?P<d>\d{{1,2}}){_ORDINAL}\s*{_LINK}[ ]?(?P<he>ב)?$", re.IGNORECASE
)
_YEAR_BEFORE = re.compile(
    r"(?<![\w.,:/-])(?P<y>\d{4})(?:\.|,| m\.|\.? gada|年)?[ -]?$", re.IGNORECASE
)
_DAY_AFTER = re.compile(
    r"\.?,? ?(?:the )?(?P<d>\d{1,2})(?!\d|[.:/]\d|,\d{1,3}(?!\d)|\s?%|\s?[ap]m\b)"
    rf"{_ORDINAL}(?!\w)",
    re.IGNORECASE,
)
_YEAR_AFTER = re.compile(
    r"\.?(?:,|\.| of| de| del| do| г\.?)? ?(?P<y>\d{4}|['’]\d{2})(?![\w:/]|[.,-]\d)"
    r"(?: ?(?:г|года|році|року|m|год)\b\.?)?",
    re.IGNORECASE,
)
_ENGLISH = frozenset(
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec")
)
_MEANING = re.compile(r"([a-z:]+)([+-]?)(.*)")
_WEEKDAY = re.compile(r"w\d")
_DAY = datetime.timedelta(days=1)
_NUMBER = re.compile(r"[0-9]+|다섯|여섯|일곱|여덟|아홉|[^\W\d_]")
MAX_AGO = 400
"""Greatest number of days, weeks or months in a phrase; a greater one is an amount."""
_NEAR = 2
"""Words before and after an uncertain word among which one must confirm it."""
_BESIDE = re.compile(r"[\s,.()]*(?:(?:the|der|den|dem|le|el|il|am)\s+)?", re.IGNORECASE)


class Dates(NamedTuple):
    """The dates of a text, the parts of it that name them (`words`), and the `rest` of the text.

    `is_without_year`: none of them has a year, so that an earlier one may be meant. `is_weekday`:
    it is a weekday alone, which may mean any such day.
    """

    periods: tuple[Period, ...]
    words: tuple[str, ...]
    rest: str
    is_without_year: bool = False
    is_weekday: bool = False

    def __bool__(self) -> bool:
        return bool(self.periods)

    def a_year_before(self) -> "Dates":
        """Return the dates of the year before; a day that it lacks is left out."""
        earlier = [before for each in self.periods if (before := each.a_year_before()) is not None]
        return self._replace(periods=tuple(earlier))


NO_DATES = Dates((), (), "")


def find_dates(text: str, today: Date) -> Dates:
    """Return the dates of a text as on the day `today`, which relative words count from.

    If it has a date with its year, other dates are of that year, and relative words count for
    nothing: in `last Friday, on 23 January 2022` they are not counted from today.
    """
    normal = unicodedata.normalize("NFKC", text).replace("’", "'").replace("ʼ", "'")
    taken = _found(normal, today)
    years = [found.periods[0].last for found in taken if found.kind is CountedFrom.FULL]
    if years and any(found.kind is CountedFrom.WITHOUT_YEAR for found in taken):
        taken = _found(normal, years[0].replace(month=12, day=31))
    if years:
        taken = [found for found in taken if found.kind < CountedFrom.RELATIVE]
    if not taken:
        return Dates((), (), text)
    kept = [found for found in taken if not _is_implied(found, taken, normal)]
    rest, at = "", 0
    for found in taken:
        rest += normal[at : found.start] + " "
        at = found.end
    return Dates(
        tuple(dict.fromkeys(period for found in kept for period in found.periods)),
        tuple(normal[found.start : found.end] for found in taken),
        " ".join((rest + normal[at:]).split()),
        all(found.kind is CountedFrom.WITHOUT_YEAR for found in kept),
        all(found.kind is CountedFrom.WEEKDAY for found in kept),
    )


def _found(text: str, today: Date) -> list[DateInText]:
    """Return the dates of a text in order, without those that overlap an earlier one."""
    taken: list[DateInText] = []
    for found in (*numeric_dates(text, today), *_by_words(text, today)):
        if all(found.end <= other.start or other.end <= found.start for other in taken):
            taken.append(found)
    return sorted(taken)


def _is_implied(found: DateInText, all_found: list[DateInText], text: str) -> bool:
    """Return whether a word only stands beside its date, as in `Monday, March 23`."""
    if any(map(str.isdecimal, text[found.start : found.end])):
        return False
    return any(
        any(map(str.isdecimal, text[other.start : other.end]))
        and other.periods[0].days == 1
        and _BESIDE.fullmatch(text[min(found.end, other.end) : max(found.start, other.start)])
        for other in all_found
    )


class _Word(NamedTuple):
    start: int
    end: int
    meanings: tuple[str, ...]
    number: int


def _by_words(text: str, today: Date) -> Iterator[DateInText]:
    """Yield the dates that have words."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    table = date_words()
    for word in (*_unspaced(lower, table), *_spaced(lower, table)):
        for meaning in word.meanings:
            if meaning[0] in "ma" and meaning[1:].isdigit():
                yield from _named_month(lower, word, int(meaning[1:]), meaning[0] == "m", today)
        meant = [p for m in word.meanings for p in _relative(m, word.number, today)]
        if meant:
            is_weekday = _WEEKDAY.fullmatch(word.meanings[0]) is not None
            kind = CountedFrom.WEEKDAY if is_weekday else CountedFrom.RELATIVE
            yield DateInText(word.start, word.end, tuple(meant), kind)


def _unspaced(text: str, table: DateWords) -> Iterator[_Word]:
    """Yield the phrases in scripts without spaces, and in Korean, where spaces vary."""
    if text.isascii():
        return
    at = 0
    while at < len(text):
        known = table.unspaced.of(text[at])
        if text[at].isdecimal() or text[at] in table.numbers:
            known = (*table.unspaced.of(NUMBER), *known)
        for phrase in known:
            if (found := _spelt(text, at, phrase.tokens, table)) is not None:
                yield _Word(at, found[0], phrase.meanings, found[1])
                at = found[0]
                break
        else:
            at += 1


def _spelt(text: str, at: int, parts: tuple[str, ...], table: DateWords) -> tuple[int, int] | None:
    """Return the end and the number of a phrase that begins at a character."""
    number = 0
    for part in parts:
        while at < len(text) and text[at] == " ":
            at += 1
        if part == NUMBER:
            match = _NUMBER.match(text, at)
            if match is None:
                return None
            number = int(match[0]) if match[0].isdecimal() else table.numbers.get(match[0], 0)
            if not 0 < number <= MAX_AGO:
                return None
            at = match.end()
        elif text.startswith(part, at):
            at += len(part)
        else:
            return None
    return at, number


def _spaced(text: str, table: DateWords) -> Iterator[_Word]:
    words, begin, numbers = words_of(text), table.spaced.tokens, table.numbers
    tokens: list[re.Match[str]] = []
    end = 0
    for at, word in enumerate(words):
        if at < end or not (word in begin or word in numbers or word.isdigit()):
            continue
        if (found := _phrase_at(words, at, table)) is None:
            continue
        length, meanings, number = found
        end = at + length
        if _is_certain(words, at, length, meanings, table):
            tokens = tokens or tokens_of(text)
            yield _Word(tokens[at].start(), tokens[end - 1].end(), meanings, number)


def _phrase_at(
    words: list[str], at: int, table: DateWords
) -> tuple[int, tuple[str, ...], int] | None:
    """Return the length, the meanings and the number of the longest phrase at a word."""
    first = words[at]
    known = table.spaced.of(first)
    if first.isdigit() or first in table.numbers:
        second = words[at + 1] if at + 1 < len(words) else ""
        known = (*table.after_number.of(second), *known)
    for phrase in known:
        number = 0
        for token, word in zip(phrase.tokens, words[at : at + len(phrase.tokens)], strict=False):
            if token == NUMBER:
                number = int(word) if word.isdecimal() else table.numbers.get(word, 0)
                if not 0 < number <= MAX_AGO:
                    break
            elif token != word:
                break
        else:
            if at + len(phrase.tokens) <= len(words):
                return len(phrase.tokens), phrase.meanings, number
    return None


def _is_certain(
    words: list[str], at: int, length: int, meanings: tuple[str, ...], table: DateWords
) -> bool:
    """Return whether a phrase of one word is a date where it stands."""
    before = words[max(0, at - _NEAR) : at]
    is_weekday = _WEEKDAY.fullmatch(meanings[0]) is not None
    if is_weekday and before and before[-1] in table.blocked["weekday"]:
        return False
    if length > 1:
        return True
    word = words[at]
    if before and before[-1] in table.blocked.get(word, ()):
        return False
    if (needed := table.needs.get(word)) is None or meanings[0][0] in "ma":
        return True  # months are examined with what stands beside them
    near = words if meanings[0].startswith("day") else [*before, *words[at + 1 : at + 1 + _NEAR]]
    return not needed.isdisjoint(near)


def _named_month(
    text: str, word: _Word, number: int, in_full: bool, today: Date
) -> Iterator[DateInText]:
    """Yield the day or the month that a month's name is part of."""
    start, end = word.start, word.end
    name = text[start:end]
    needed = date_words().needs.get(name)
    day = year = None
    before = text[max(0, start - 16) : start]
    offset = start - len(before)
    if match := _DAY_BEFORE.search(before):
        day, start = match["d"], offset + match.start()
    elif match := _YEAR_BEFORE.search(before):
        year, start = match["y"], offset + match.start()
    if day is None and (in_full or name in _ENGLISH) and (match := _DAY_AFTER.match(text, end)):
        day, end = match["d"], match.end()
        # `2026. március 23.`
    if year is None and (match := _YEAR_AFTER.match(text, end)):
        year, end = match["y"].lstrip("'’"), match.end()
    if day is None and year is None:
        if not in_full or (needed is not None and not _is_confirmed(text, word, needed)):
            return
    elif year is None and needed is not None and not needed:
        return
    try:
        if year is None:
            if day is None:
                meant = months_without_year(number, today)
            else:
                meant = dates_without_year(number, int(day), today)
        elif day is None:
            meant = [periods.month(full_year(year, today), number)]
        else:
            meant = [periods.day(Date(full_year(year, today), number, int(day)))]
    except ValueError:
        return
    kind = CountedFrom.WITHOUT_YEAR if year is None else CountedFrom.FULL
    yield DateInText(start, end, tuple(meant), kind)


def _is_confirmed(text: str, word: _Word, needed: frozenset[str]) -> bool:
    near = [token[0] for token in tokens_of(text[: word.start])[-1:]]
    near += [token[0] for token in tokens_of(text[word.end : word.end + 40])[:1]]
    return not needed.isdisjoint(near)


def _relative(meaning: str, number: int, today: Date) -> list[Period]:
    """Return the periods of a meaning of `date_words.json`, none for a month's name."""
    kind, sign, rest = _MEANING.fullmatch(meaning).groups()  # type: ignore[union-attr]
    if kind.startswith("ago:"):
        return [_ago(kind, number, today)]
    if kind.startswith("past:"):
        length = number * {"past:day": 1, "past:week": 7, "past:month": 30}[kind]
        return [Period(today - length * _DAY, today)]
    if kind in ("w", "last", "next"):
        return _weekdays(kind, int(rest), today)
    if kind == "weekend":
        # That of another week, or the latest one that has begun.
        steps = int(sign + rest) if sign else -(today.isoweekday() < 6)
        saturday = periods.week(today + 7 * steps * _DAY).first + 5 * _DAY
        return [Period(saturday, saturday + _DAY)]
    if not sign:
        return []
    amount, _, weekday = rest.partition(":")
    steps = int(sign + amount)
    if kind == "day":
        return [periods.day(today + steps * _DAY)]
    if kind == "week":
        found = periods.week(today + 7 * steps * _DAY)
        return [periods.day(found.first + (int(weekday) - 1) * _DAY) if weekday else found]
    date = periods.months_before(today, -steps)
    return [periods.month(date.year, date.month)]


def _ago(kind: str, number: int, today: Date) -> Period:
    """Return a period as exact as the unit: who says "two weeks ago" does not mean that day."""
    if kind == "ago:day":
        return periods.day(today - number * _DAY)
    if kind == "ago:week":
        return _around(today - 7 * number * _DAY, 3)
    return _around(periods.months_before(today, number), 15)


def _weekdays(kind: str, number: int, today: Date) -> list[Period]:
    if kind == "next":
        return [periods.day(today + ((number - today.isoweekday() - 1) % 7 + 1) * _DAY)]
    latest = today - ((today.isoweekday() - number - 1) % 7 + 1) * _DAY
    if kind == "w" and today.isoweekday() == number:
        return [periods.day(today), periods.day(latest)]
    return [periods.day(latest)]


def _around(date: Date, days: int) -> Period:
    return Period(date - days * _DAY, date + days * _DAY)
