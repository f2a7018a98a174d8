"""The set `phrases`: quoted words whose text has markup between them, and excluded phrases."""

from itertools import product

from bench.quality.made.model import Made
from bench.quality.model import Question

_MARKUP = (
    "{a}{gap}**{b}**",
    "*{a}*{gap}{b}",
    "{a}{gap}`{b}`",
    "{a}{gap}[{b}](https://shop.example/{n})",
    "[[list-{n}|{a}]]{gap}__{b}__",
)
_WORDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]] = {
    "en": (
        " ",
        ("spare", "brass", "folding", "wooden", "rusty"),
        ("key", "lamp", "ladder", "bracket"),
        "Number {n}: the {x} lies in the shed, behind the paint.",
    ),
    "de": (
        " ",
        ("kleine", "rote", "alte", "runde", "flache"),
        ("Lampe", "Kiste", "Tasche", "Decke"),
        "Nummer {n}: die {x} liegt im Schuppen, hinter der Farbe.",
    ),
    "es": (
        " ",
        ("lámpara", "caja", "bolsa", "manta"),
        ("roja", "vieja", "redonda", "pequeña", "plana"),
        "Número {n}: la {x} está en el trastero, detrás de la pintura.",
    ),
    "ru": (
        " ",
        ("красная", "старая", "круглая", "плоская", "складная"),
        ("лампа", "коробка", "сумка", "лестница"),
        "Номер {n}: {x} лежит в сарае, за краской.",
    ),
    "zh": (
        "",
        ("备用", "红色", "折叠", "木头", "圆形"),
        ("钥匙", "台灯", "梯子", "箱子"),
        "第{n}号：{x}放在棚子里，油漆后面。",
    ),
}
"""By language: what stands between the two words, first words, second words, and the sentence."""
_EXCLUDED_PER_LANGUAGE = 4


def make() -> Made:
    """Return the set: one note for each pair of words, all pairs of the same words.

    An excluded phrase leaves the other notes with its second word.
    """
    notes: dict[str, str] = {}
    questions: list[Question] = []
    for language, (gap, firsts, seconds, sentence) in _WORDS.items():
        paths = {}
        for number, (a, b) in enumerate(product(firsts, seconds)):
            path = f"memory/{language}/{number}.md"
            marked = _MARKUP[number // 2 % len(_MARKUP)].format(a=a, b=b, gap=gap, n=number)
            notes[path] = sentence.format(n=number, x=marked) + "\n"
            paths[a, b] = path
        questions += [
            Question(f'"{a}{gap}{b}"', kind=f"phrase, {language}", notes=frozenset([path]))
            for (a, b), path in paths.items()
        ]
        for a, b in list(zip(firsts, seconds, strict=False))[:_EXCLUDED_PER_LANGUAGE]:
            others = frozenset(path for (x, y), path in paths.items() if y == b and x != a)
            never = frozenset([paths[a, b]])
            text = f'{b} -"{a}{gap}{b}"'
            questions.append(Question(text, kind="excluded", notes=others, never=never))
    return Made(notes, questions)
