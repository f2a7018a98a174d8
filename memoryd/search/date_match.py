"""The date that a question names: chunks of that date become candidates and rank first."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

from memoryd.index.catalog import FileRow
from memoryd.index.driver import Connection
from memoryd.messages import FileKey
from memoryd.search.evidence import Question, Weigher
from memoryd.search.fuse import Candidate, score_of
from memoryd.search.gather import Gathered, ReadChunk, gather
from memoryd.search.index_answers import remembered
from memoryd.search.lexical import count_plain
from memoryd.search.retrievers import EncodedQuery, FileIds, Retrievers
from memoryd.text import periods
from memoryd.text.date_words import date_words, tokens_of
from memoryd.text.dates import NO_DATES, Dates, find_dates
from memoryd.text.fold import has_unspaced
from memoryd.text.periods import Date, Period, read_period
from memoryd.text.stem import is_plain
from memoryd.text.tokenize import index_words, query_terms

MOST_CHARS = 400
"""A longer query is a text, and what dates are in it do not say what it is about."""
OF_DAY, OF_WEEK, OF_MONTH = 2.0, 1.3, 0.7
"""Strength of a chunk of the date that is asked for; a chunk with all words has about 2 to 3. Who
names a month is less sure, and much of it may be told later. A weekday beside other words adds as
little as a month."""
ITS_WEEK, ITS_MONTH, LONG = 0.5, 0.4, 0.6
"""Share of that for a file of the week or the month around a day, and for one of many days, such as
a long transcript."""
NEXT_DAY, SOON_AFTER, DAY_BEFORE = 0.35, 0.2, 0.15
"""Share for a file of the next day, of the week after, which may tell of it, and of the day before,
because not everybody's day ends at midnight."""
MENTION = 0.4
"""Share for a date in the text, where it may be another event's."""
MOST_YEARS = 10
"""Years back in which a date without a year is looked for."""
LEAST_CANDIDATES = 24
MOST_ROWS = 40
MOST_MENTIONS = 5
"""Numbers in a chunk around which a date is looked for."""
_AROUND = 24
"""Characters before and after the number of a day within which its month stands."""


_NUMBER = re.compile(r"\d+")
_dates_near = lru_cache(maxsize=1024)(find_dates)
"""The same, for the few words around a number: headings repeat in the chunks of a file."""


@dataclass(frozen=True)
class AskedDate:
    """The dates of a question, as on the day `today`."""

    dates: Dates
    today: Date

    def __bool__(self) -> bool:
        return bool(self.dates)

    @property
    def is_past(self) -> bool:
        """Return whether it is over: of today's notes, the newer one still counts more."""
        past = all(period.last < self.today for period in self.dates.periods)
        return bool(self) and past and not self.dates.is_weekday

    def without_its_words(self, question: Question) -> Question:
        """Return the question's words without those of the date, which no chunk need have.

        A weekday beside other words may be what always holds on it, and stays.
        """
        if not self:
            return question
        gone = {term for words in self.dates.words for term in query_terms(words)}
        if self.dates.is_weekday and not gone.issuperset(question.terms):
            return question
        units = tuple(
            unit for unit in question.units if not any(words in unit for words in self.dates.words)
        )
        return replace(
            question,
            terms=tuple(term for term in question.terms if term not in gone),
            pairs=tuple(pair for pair in question.pairs if gone.isdisjoint(pair)),
            units=units,
            strings=question.strings.intersection(units),
        )

    def files(self, rows: Iterable[FileRow], among: FileIds) -> frozenset[int]:
        """Return the files that have a day in common with the date."""
        asked = [(str(each.first), str(each.last)) for each in self.dates.periods]
        found: set[int] = set()
        for row in rows:
            if (date := row.facts.date) and (among is None or row.file_id in among):
                # The first and the last day stand at the ends of the text and compare like dates.
                start, end = date[:10], date[-10:]
                for first, last in asked:
                    if start <= last and first <= end:
                        found.add(row.file_id)
                        break
        return frozenset(found)

    def strengths(
        self, gathered: Gathered, rows: Mapping[FileKey, FileRow], question: Question
    ) -> dict[int, float]:
        """Return the strength that the date adds to each candidate, without those it does not."""
        days = min(period.days for period in self.dates.periods)
        most = OF_DAY if days <= 2 else OF_WEEK if days <= 7 else OF_MONTH
        if self.dates.is_weekday and question.terms:
            most = OF_MONTH
        of_files: dict[int, tuple[Period | None, float]] = {}
        found: dict[int, float] = {}
        for row_id, chunk in gathered.chunks.items():
            file_id = chunk.stored.facts.file_id
            if file_id not in of_files:
                known = rows.get(chunk.stored.key)
                own = None if known is None else read_period(known.facts.date)
                of_files[file_id] = own, self._share_of_file(own)
            if share := self._share(chunk, *of_files[file_id]):
                found[row_id] = most * share
        return found

    def _share(self, chunk: ReadChunk, own: Period | None, best: float) -> float:
        """Return how well a chunk meets the date, 0 to 1; `own` is the date of its file."""
        if best == 1.0 or self._numbers.isdisjoint(chunk.stored.numbers):
            return best
        if self._stands_in(chunk.stored.headings, own):
            return 1.0
        if best < MENTION and self._stands_in(chunk.stored.text, own):
            return MENTION
        return best

    def _share_of_file(self, own: Period | None) -> float:
        """Return how well a file with a date meets the date."""
        return 0.0 if own is None else max(_share_of(own, asked) for asked in self.dates.periods)

    def _stands_in(self, text: str, own: Period | None) -> bool:
        """Return whether a date of the question stands in a text."""
        count = 0
        for match in _NUMBER.finditer(text):
            if match[0] not in self._numbers:
                continue
            if (count := count + 1) > MOST_MENTIONS:
                break
            start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - _AROUND)
            end = min(text.find("\n", match.end()) % (len(text) + 1), match.end() + _AROUND)
            while start and start < match.start() and not text[start - 1].isspace():
                start += 1  # not within a word or a number
            around = text[start:end]
            if len(match[0]) < 8 and not self._has_month(around):
                continue
            found = _dates_near(around, self.today if own is None else own.last)
            for period in found.periods:
                if any(period.within(asked) for asked in self.dates.periods):
                    return True
        return False

    def _has_month(self, text: str) -> bool:
        """Return whether a month of the date may stand in a text; far cheaper than reading it."""
        if has_unspaced(text):
            return True
        return not self._months.isdisjoint(token[0] for token in tokens_of(text.lower()))

    @cached_property
    def _months(self) -> frozenset[str]:
        """The numbers of the months in question, and the words with which their names begin."""
        numbers = {date.month for asked in self.dates.periods for date in asked}
        return frozenset().union(*map(_signs_of_month, numbers))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """The numbers that every date in question has: of a day, its day, else the year."""
        found: set[str] = set()
        for first, last in self.dates.periods:
            if first == last:
                found |= {str(first.day), f"{first.day:02}", f"{first:%Y%m%d}"}
            else:
                found |= {str(first.year), str(last.year)}
        return frozenset(found)

    def expression(self, connection: Connection) -> str:
        """Return the FTS5 expression of texts in which the date may stand.

        Each form takes FTS5 0.01 ms, so it has only the names of months that the index has.
        """
        forms = dict.fromkeys(
            form
            for asked in self.dates.periods
            for form in _forms(asked, remembered(connection, _names_in_index, asked.first.month))
        )
        return '"' + '" OR "'.join(forms) + '"'


def _share_of(own: Period, asked: Period) -> float:
    """Return how well the date of a file meets a date that is asked for."""
    if own.within(asked):
        return 1.0
    if asked.within(own):
        if own.days <= 2:
            return 1.0
        return ITS_WEEK if own.days <= 7 else ITS_MONTH
    if own.meets(asked):
        return LONG
    after, before = (own.first - asked.last).days, (asked.first - own.last).days
    if 0 < after <= 7:
        return NEXT_DAY if after == 1 else SOON_AFTER
    return DAY_BEFORE if before == 1 and asked.days == 1 else 0.0


_WORDS = re.compile(r"\w+")


def _in_words(form: str) -> str:
    return " ".join(_WORDS.findall(index_words(form)))


def _forms(asked: Period, names: Iterable[str]) -> Iterable[str]:
    """Yield the forms in which a date is written, as the index has their words.

    `names` are those of the month of its first day.
    """
    if asked.days == 1:
        date = asked.first
        day, month, year = date.day, date.month, date.year
        for form in (
            *(f"{date:%Y-%m-%d}", f"{date:%Y%m%d}", f"{date:%d.%m.%Y}", f"{date:%m/%d/%Y}"),
            *(f"{day}.{month}.{year}", f"{month}/{day}/{year}", f"{year}-{month}-{day}"),
            *(f"{month}月{day}日", f"{month}월 {day}일"),
        ):
            yield _in_words(form)
        for name in names:
            yield f"{day} {name}"
            yield f"{name} {day}"
    elif asked == periods.month(asked.first.year, asked.first.month):
        yield _in_words(f"{asked.first:%Y-%m}")
        yield _in_words(f"{asked.first.year}年{asked.first.month}月")
        for name in names:
            yield f"{name} {asked.first.year}"
    elif asked.days <= 7:
        year, week, _ = asked.first.isocalendar()
        yield _in_words(f"{year}-W{week:02}")
        for number in range(asked.first.toordinal(), asked.last.toordinal() + 1):
            yield _in_words(f"{Date.fromordinal(number):%Y-%m-%d}")


def _names_in_index(connection: Connection, number: int) -> tuple[str, ...]:
    """Return the names of a month that stand in some text, as the index has their words."""
    names = dict.fromkeys(map(_in_words, _names_of_month(number, "m")))
    counts = count_plain(connection, [name for name in names if is_plain(name)])
    having = {name for name, count in counts.items() if count}
    others = [name for name in names if name not in counts]
    if not _stands(connection, '"' + '" OR "'.join(others) + '"'):  # most memories have none
        others = []
    having |= {name for name in others if _stands(connection, f'"{name}"')}
    return tuple(name for name in names if name in having)


def _names_of_month(number: int, *kinds: str) -> list[str]:
    """Return the names of a month in full (`m`), abbreviated (`a`), or both."""
    months = date_words().months
    return [" ".join(phrase.tokens) for kind in kinds for phrase in months.of(f"{kind}{number}")]


@cache
def _signs_of_month(number: int) -> frozenset[str]:
    """Return the numbers of a month, and the words with which its names begin."""
    names = _names_of_month(number, "m", "a")
    return frozenset({str(number), f"{number:02}", *(name.split()[0] for name in names)})


def asked_date(
    connection: Connection,
    text: str,
    today: Date,
    rows: Callable[[], Mapping[FileKey, FileRow]],
    *,
    in_texts: bool,
) -> AskedDate:
    """Return the date of a question, of which the memory has something; else none.

    If it has no year and nothing is of the latest one, an earlier year is meant. `rows` returns all
    files; `in_texts`: the keyword tables can say in which texts the date stands.
    """
    nothing = AskedDate(NO_DATES, today)
    if len(text) > MOST_CHARS:
        return nothing
    dates = find_dates(text, today)
    if not dates:
        return nothing
    asked = AskedDate(dates, today)
    if (found := _with_files(asked, rows().values())) is not None:
        return found
    if in_texts and _stands(connection, asked.expression(connection)):
        return asked
    return nothing


def _with_files(asked: AskedDate, rows: Collection[FileRow]) -> AskedDate | None:
    """Return the latest year's date of which there are files, or None; blocks for all files."""
    dates = asked.dates
    for _ in range(MOST_YEARS):
        if not asked or asked.files(rows, None):
            return asked
        if not dates.is_without_year:
            break
        asked = replace(asked, dates=asked.dates.a_year_before())
    return None


def _stands(connection: Connection, expression: str) -> bool:
    """Return whether any text matches an FTS5 expression."""
    found = connection.execute(
        "SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1", (expression,)
    )
    return found.fetchone() is not None


def gather_dated(
    connection: Connection,
    asked: AskedDate,
    retrievers: Retrievers,
    encoded: EncodedQuery,
    rows: Mapping[FileKey, FileRow],
    among: FileIds,
    weigher: Weigher | None,
    *,
    most: int,
) -> Gathered:
    """Read the best chunks of the files of the date, and those in which it stands."""
    of_date = asked.files(rows.values(), among)
    found = retrievers.retrieve(connection, LEAST_CANDIDATES, of_date, encoded)
    more = _rows(
        connection,
        files=sorted(of_date),
        among=among,
        expression="" if weigher is None else asked.expression(connection),
        trusted=retrievers.trusted,
    )
    return gather(
        connection, retrievers, found, of_date, weigher, weighted=False, most=most, more=more
    )


def _rows(
    connection: Connection,
    files: Sequence[int],
    among: FileIds,
    expression: str,
    *,
    trusted: bool,
) -> list[int]:
    """Return the first chunk of each file, and chunks in whose headings or text the date stands."""
    found: list[int] = []
    and_trusted = " AND origin <> 'untrusted'" if trusted else ""
    for file_id in files[-MOST_ROWS:]:
        first = connection.execute(
            f"SELECT row_id FROM chunks WHERE file_id = ?{and_trusted} ORDER BY start_line LIMIT 1",
            (file_id,),
        ).fetchone()
        found += first or ()
    if not expression:
        return found
    rows = _rows_with(connection, expression, and_trusted)
    if len(rows) <= MOST_ROWS:
        return found + _of_files(rows, among)
    for column in ("context", "body"):
        rows = _rows_with(connection, f"{{{column}}} : ({expression})", and_trusted)
        found += _of_files(rows, among)[:MOST_ROWS]
    return found


def _rows_with(connection: Connection, expression: str, and_trusted: str) -> list[tuple[int, int]]:
    """Return the chunks that match, with their files."""
    return connection.execute(
        "SELECT chunks_fts.rowid, file_id FROM chunks_fts"
        " JOIN chunks ON chunks.row_id = chunks_fts.rowid"
        f" WHERE chunks_fts MATCH ?{and_trusted} LIMIT ?",
        (expression, 20 * MOST_ROWS),
    ).fetchall()


def _of_files(rows: Iterable[tuple[int, int]], among: FileIds) -> list[int]:
    return [row for row, file_id in rows if among is None or file_id in among]


def with_date(candidate: Candidate, more: float) -> Candidate:
    """Return a candidate with the strength that its date adds."""
    if not more:
        return candidate
    strength = candidate.strength + more
    score = score_of(strength)

    return candidate._replace(
        strength=strength,
        words=candidate.words + more,
        score=score,
        unaged_score=score,
    )
