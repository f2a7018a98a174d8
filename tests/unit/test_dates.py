"""Dates in questions: what they mean, and what only looks like one."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.dates import find_dates
from memoryd.text.periods import Period, read_period

SUNDAY = datetime.date(2026, 11, 29)
MARCH_23 = "2026-03-23"
YESTERDAY = "2026-11-28"
THE_DAY_BEFORE = "2026-11-27"
LAST_WEEK = "2026-11-16/2026-11-22"
LAST_MONTH = "2026-10-01/2026-10-31"
MARCH = "2026-03-01/2026-03-31"


def meaning(text: str, today: datetime.date = SUNDAY) -> list[str]:
    return [str(period) for period in find_dates(text, today).periods]


@pytest.mark.parametrize(
    "text",
    [
        *("2026-03-23", "2026/03/23", "2026.03.23", "2026_03_23", "20260323", "2026-3-23"),
        *("2026-03-23T14:05", "(2026-03-23)", "memory/2026-03-23.md", "23.3.2026", "23.03.26"),
        *("23. 3. 2026", "3/23/2026", "23/03/2026", "3/23/26", "23-03-2026", "am 23.03."),
        *("2026年3月23日", "3月23日我们做了什么", "三月二十三日", "3月23號", "2026년 3월 23일"),
        *("3월 23일에 뭐 했어?", "2026. 3. 23.", "ngày 23 tháng 3", "ngày 23 tháng 3 năm 2026"),
        *("what did we do on March 23?", "March 23, 2026", "23 March 2026", "23rd of March"),
        *("Mar 23", "23 Mar 2026", "Monday, March 23", "march 23rd", "March 23 '26"),
        *("23. März", "am Montag, den 23. März", "23 de marzo"),
        *("el 23 de marzo de 2026", "le 23 mars", "23 marzo 2026", "23 de março", "23 maart"),
        *("den 23 mars", "23. marts", "23. maaliskuuta", "23 marca 2026 r.", "23. března"),
        *("23. marca", "március 23.", "2026. március 23.", "23 martie", "23 марта 2026 г."),
        *("23 березня", "23 март", "23 Μαρτίου", "23 Mart", "23 مارس", "23 במרץ"),
        *("23 मार्च", "23 Maret 2026", "23 มีนาคม", "23 de març", "23. ožujka", "23 марта"),
    ],
)
def test_a_day_is_understood_in_any_form_and_language(text: str) -> None:
    assert meaning(text) == [MARCH_23]


@pytest.mark.parametrize(
    "text",
    [
        *("yesterday", "last night", "gestern", "ayer", "anoche", "on a fait quoi hier", "ieri"),
        *("ontem", "gisteren", "igår", "i går", "eilen", "wczoraj", "včera", "tegnap", "вчера"),
        *("вчора", "χθες", "dün ne yaptık", "أمس", "אתמול", "دیروز", "kemarin", "hôm qua"),
        *("เมื่อวาน", "昨天我们做了什么", "昨日", "어제는 뭐 했지", "a day ago", "há 1 dia", "1天前"),
    ],
)
def test_yesterday(text: str) -> None:
    assert meaning(text) == [YESTERDAY]


@pytest.mark.parametrize(
    "text",
    [
        *("two days ago", "2 days ago", "the day before yesterday", "vorgestern", "vor zwei Tagen"),
        *("anteayer", "hace dos días", "avant-hier", "il y a deux jours", "l'altro ieri"),
        *("2 giorni fa", "anteontem", "eergisteren", "przedwczoraj", "позавчера", "2 дня назад"),
        *(
            "προχθές",
            "iki gün önce",
            "前天",
            "两天前",
            "おととい",
            "2日前",
            "그저께",
        ),
        *("last Friday", "on Friday", "letzten Freitag", "el viernes pasado", "vendredi dernier"),
        *("venerdì scorso", "sexta-feira passada", "afgelopen vrijdag", "i fredags"),
        *("viime perjantaina", "w zeszły piątek", "minulý pátek", "múlt pénteken"),
        *("в прошлую пятницу", "минулої п'ятниці", "geçen cuma", "يوم الجمعة الماضي"),
        *("지난 금요일", "この前の金曜日", "周五", "am Freitag", "el viernes", "в пятницу"),
    ],
)
def test_two_days_ago_was_a_friday(text: str) -> None:
    assert meaning(text) == [THE_DAY_BEFORE]


@pytest.mark.parametrize(
    "text",
    [
        *("last week", "letzte Woche", "la semana pasada", "la semaine dernière"),
        *("la settimana scorsa", "semana passada", "vorige week", "förra veckan", "sidste uge"),
        *("viime viikolla", "w zeszłym tygodniu", "minulý týden", "múlt héten"),
        *("на прошлой неделе", "минулого тижня", "geçen hafta", "الأسبوع الماضي", "tuần trước"),
        *(
            "pekan lalu",
            "上周",
            "上星期",
            "上週",
            "先週",
            "지난주에",
            "지난 주",
        ),
        "2026-W47",
    ],
)
def test_the_last_week(text: str) -> None:
    assert meaning(text) == [LAST_WEEK]


@pytest.mark.parametrize(
    "text",
    [
        *("last month", "letzten Monat", "el mes pasado", "le mois dernier", "il mese scorso"),
        *("в прошлом месяце", "geçen ay", "上个月", "先月", "지난달", "October 2026", "in October"),
        *("2026-10", "2026年10月", "10월", "октябрь 2026", "w październiku", "tháng 10"),
    ],
)
def test_the_last_month(text: str) -> None:
    assert meaning(text) == [LAST_MONTH]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("上周五", ["2026-11-20"]),
        ("先週の金曜日", ["2026-11-20"]),
        ("지난주 금요일", ["2026-11-20"]),
        ("today", ["2026-11-29"]),
        ("this week", ["2026-11-23/2026-11-29"]),
        ("next Friday", ["2026-12-04"]),
        ("on Sunday", ["2026-11-29", "2026-11-22"]),
        ("last Sunday", ["2026-11-22"]),
        ("last weekend", ["2026-11-21/2026-11-22"]),
        ("in the last 3 days", ["2026-11-26/2026-11-29"]),
        ("a week ago", ["2026-11-19/2026-11-25"]),
        ("कल", ["2026-11-30", "2026-11-28"]),
        ("去年3月", ["2025-03-01/2025-03-31"]),
        ("3/4/2026", ["2026-03-04", "2026-04-03"]),
        ("from March 3 to March 10", ["2026-03-03", "2026-03-10"]),
        ("in March", [MARCH]),
        ("what was decided in May", ["2026-05-01/2026-05-31"]),
    ],
)
def test_other_periods(text: str, days: list[str]) -> None:
    assert meaning(text) == days


def test_a_day_without_a_year_is_the_latest_one_or_a_near_one() -> None:
    assert meaning("December 25") == ["2025-12-25"]
    assert meaning("December 3") == ["2026-12-03", "2025-12-03"]
    assert meaning("February 29") == ["2024-02-29"]


@pytest.mark.parametrize(
    "text",
    [
        *("may I ask", "she may come", "march to the sea", "mar de plata", "the sun is out"),
        *("Mon ami", "sat nav", "May", "June's phone number", "call April", "set 10 values"),
        *("5 out of 10", "python 1.2.3", "version 2026.4.10", "v2.10.2026", "10.15.7"),
        *("meeting at 10:30", "+49 170 1234567", "+351 912 345 678", "912345678", "3/4 cup"),
        *("1/2 tsp", "192.168.1.10", "10.12.24.5", "room 3.2.", "chapter 3.2.1", "24/7 support"),
        *("gpt-4o-2024-08-06", "claude-sonnet-4-20250514", "10-12 people", "$12.50", "2026"),
        *("where do they meet on Wednesdays", "every Friday", "jeden Freitag", "los viernes"),
        *("was ist hier los", "am Morgen", "por la mañana", "3个月", "3号线", "第784次训练"),
        *("TX-3381", "JD014600003RU", "2026-13-45", "32.13.2026", "", "  ", "a", "0"),
        *("python on 3.11", "iPhone 12", "port 8443", "100 %", "12345678", "99999999"),
    ],
)
def test_no_date(text: str) -> None:
    found = find_dates(text, SUNDAY)
    assert (found.periods, found.rest) == ((), text)


@pytest.mark.parametrize(
    ("text", "words", "rest"),
    [
        ("what did we do on March 23?", ("March 23",), "what did we do on ?"),
        ("昨天我们做了什么", ("昨天",), "我们做了什么"),
        ("2026-03-23", ("2026-03-23",), ""),
        ("Monday, March 23: boiler", ("Monday", "March 23"), ", : boiler"),
    ],
)
def test_the_words_of_the_date_are_told_from_the_rest(
    text: str, words: tuple[str, ...], rest: str
) -> None:
    found = find_dates(text, SUNDAY)
    assert (found.words, found.rest) == (words, rest)


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    found = find_dates(text, SUNDAY)
    assert all(period.first <= period.last for period in found.periods)
    assert bool(found.periods) == bool(found.words)


@given(st.dates(datetime.date(1950, 1, 1), datetime.date(2150, 1, 1)))
def test_every_day_with_its_year_is_found(day: datetime.date) -> None:
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    forms = [
        f"{day:%Y-%m-%d}",
        f"{day.day}.{day.month}.{day.year}",
        f"{months[day.month - 1]} {day.day}, {day.year}",
        f"{day.year}年{day.month}月{day.day}日",
    ]
    assert [meaning(f"notes of {form} please") for form in forms] == [[str(day)]] * 4


@given(st.dates(), st.integers(0, 400))
def test_a_period_is_read_as_it_was_written(first: datetime.date, days: int) -> None:
    last = min(first.toordinal() + days, datetime.date.max.toordinal())
    period = Period(first, datetime.date.fromordinal(last))
    assert read_period(str(period)) == period


@pytest.mark.parametrize("text", ["", "x", "2026-03-23/2026-03-22", "/", "2026"])
def test_anything_else_is_no_period(text: str) -> None:
    assert read_period(text) is None
