"""Generate memoryd/text/date_words.json from CLDR, whose data the library Babel carries.

Run `make date-words`. What CLDR lacks, because it has the words that programs print and not those
that people ask with, is in `date_words_more.json` beside this file.

The output maps a phrase in lower case, its words between spaces, to its meanings; in scripts
without spaces each character is a word. `m3` is March in full and `a3` abbreviated,
`w5` a Friday; `day-1` is yesterday, `week-1` and `month-1` likewise; `last5` is the latest Friday,
`next5` the coming one and `week-1:5` the Friday of the last week; `weekend` is the latest one.
`<n>` stands for a number in phrases of the meanings `ago:…` and `past:…`, with `day`, `week` or
`month`.
"""

import json
import re
import unicodedata
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

from babel import Locale

from memoryd.text.date_words import NUMBER, tokens_of
from memoryd.text.fold import is_unspaced

HERE = Path(__file__).parent
MORE = HERE / "date_words_more.json"
OUTPUT = HERE.parent / "memoryd/text/date_words.json"
LANGUAGES = (
    *("en", "de", "es", "fr", "it", "pt", "nl", "sv", "da", "nb", "fi", "pl", "cs", "sk", "hu"),
    *("ro", "ru", "uk", "bg", "el", "tr", "ar", "he", "fa", "hi", "id", "ms", "vi", "th", "zh"),
    *("zh_Hant", "ja", "ko", "ca", "hr", "sr", "sr_Latn", "sl", "lt", "lv", "et", "bn"),
)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FOLDED_LETTERS = 5
"""Latin words of so many letters are known without their accents too."""
LAST_WEEK = frozenset({"sv", "vi", "zh", "zh_Hant", "ja"})
"""Languages whose phrase for the last Friday says "the Friday of last week"."""
LEADING = re.compile(
    r"^(?:la|le|el|l['’]|los|las|de|d['’]|в|во|на|w|we|au|en|em|a|o|på|för|for|am)\s+|^d['’]"
)
_PAST = re.compile(r"\{0\}")


def main() -> None:
    """Write the file."""
    more: dict[str, Any] = json.loads(MORE.read_text(encoding="utf-8"))
    meanings: dict[str, set[str]] = defaultdict(set)
    for language in LANGUAGES:
        for phrase, meaning in _phrases(Locale.parse(language), more.get(language, {})):
            text = " ".join(phrase.lower().replace("’", "'").replace("ʼ", "'").split()).rstrip(".")
            if len(text) > 1 and not text.isdigit():
                meanings[text].add(meaning)
    for phrase in more["not"]:
        meanings.pop(phrase, None)
    for found in meanings.values():  # a name in full is more than an abbreviation
        found -= {f"a{meaning[1:]}" for meaning in found if meaning[0] == "m"}
    spaced: dict[str, list[str]] = {}
    unspaced: dict[str, list[str]] = {}
    for phrase in sorted(meanings):
        if any(map(is_unspaced, phrase)):
            unspaced[" ".join(re.findall(f"{NUMBER}|\\S", phrase))] = sorted(meanings[phrase])
            continue
        for form in sorted({phrase, _folded(phrase)}):
            tokens = [token[0] for token in tokens_of(form.replace(NUMBER, " 0 "))]
            spaced[" ".join(NUMBER if token == "0" else token for token in tokens)] = sorted(
                meanings[phrase]
            )
    table = {
        "spaced": spaced,
        "unspaced": unspaced,
        "numbers": more["numbers"],
        "needs": more["needs"],
        "blocked": more["blocked"],
    }
    text = json.dumps(table, ensure_ascii=False, indent=0, separators=(",", ":"))
    OUTPUT.write_text(re.sub(r"\[\n([^\]]*)\n\]", _one_line, text) + "\n", encoding="utf-8")


def _folded(text: str) -> str:
    """Return a text as people type it without accents; short Latin words keep theirs."""
    return re.sub(r"[^\W\d_]+", _fold_word, text)


def _fold_word(match: re.Match[str]) -> str:
    word = match[0]
    if word[0] < "\u0300" and len(word) < FOLDED_LETTERS:
        return word
    apart = unicodedata.normalize("NFD", word)
    # Vowel signs of Indian scripts are letters, not accents.
    return "".join(
        char for char in apart if not ("\u0300" <= char <= "\u036f" or "\u0653" <= char <= "\u0655")
    )


def _one_line(match: re.Match[str]) -> str:
    return f"[{match[1].replace(chr(10), '')}]"


def _phrases(locale: Locale, more: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the phrases of one language with their meanings."""
    found: list[tuple[str, str]] = []
    fields = locale._data["date_fields"]
    for kind, width in product(("format", "stand-alone"), ("wide", "abbreviated")):
        for number, name in locale.months[kind][width].items():
            text = LEADING.sub("", name)
            if not text[0].isdigit():
                found.append((text, f"{'m' if width == 'wide' else 'a'}{number}"))
    weekdays: dict[int, set[str]] = defaultdict(set)
    for kind in ("format", "stand-alone"):
        for number, name in locale.days[kind]["wide"].items():
            weekdays[number + 1] |= {name.lower(), LEADING.sub("", name.lower())}
    for number, names in more.get("weekdays", {}).items():
        weekdays[int(number)] |= set(names)
    found += [(name, f"w{number}") for number, names in weekdays.items() for name in names]
    for unit in ("day", "week", "month"):
        for offset, phrase in fields[unit].get("relative", {}).items():
            found += [(text, f"{unit}{offset:+d}") for text in {phrase, LEADING.sub("", phrase)}]
        for phrase in fields[unit].get("past", {}).values():
            if "{0}" in phrase and "(" not in phrase:
                found.append((_PAST.sub(" <n> ", LEADING.sub("", phrase)), f"ago:{unit}"))
    of_last_week = str(locale) in LAST_WEEK
    for number, day in enumerate(DAYS, start=1):
        relative = fields.get(day, {}).get("relative", {})
        for offset, phrase in relative.items():
            text = LEADING.sub("", phrase.lower())
            if text in weekdays[number]:
                continue
            name = f"week{offset:+d}:{number}"
            if offset and not of_last_week:
                name = f"{'last' if offset < 0 else 'next'}{number}"
            found.append((text, name))
        for name in weekdays[number]:
            for last in more.get("last", ()):
                found.append((last.replace("*", name), f"last{number}"))
            for week in more.get("last week", ()):
                found.append((week.replace("*", name), f"week-1:{number}"))
            for coming in more.get("next", ()):
                found.append((coming.replace("*", name), f"next{number}"))
    for meaning, phrases in more.get("phrases", {}).items():
        found += [(phrase, meaning) for phrase in phrases]
    return found


if __name__ == "__main__":
    main()
