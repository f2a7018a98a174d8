"""The set `repeats`: notes that repeat a block, asked for words of it."""

import random

from bench.quality.made.diaries import DIARIES
from bench.quality.made.model import Made
from bench.quality.model import Question

_NOTES_PER_BLOCK = 8
_BEFORE, _AFTER = 6, 5
"""Other lines around the block."""
_ASKED_PER_LINE = 2
_BLOCKS: dict[str, tuple[tuple[str, ...], ...]] = {
    "en": (
        (
            "You are the assistant of a small bookshop; answer in two sentences at most.",
            "Check the stock list before you promise a title to a customer.",
            "Orders above 80 euros are sent without postage.",
            "Never give away the telephone number of another customer.",
            "Second-hand books can be returned within fourteen days.",
            "If a title is out of print, offer to search the catalogue of the wholesaler.",
            "Gift wrapping is free in December and costs one euro otherwise.",
            "The shop is closed on Mondays and during the fair.",
        ),
        (
            "Before each release, run the smoke test against the staging cluster.",
            "Announce the maintenance window in the status channel an hour ahead.",
            "Drain the workers one by one and watch the error budget.",
            "Roll back at once if the latency doubles for five minutes.",
            "Write the changelog from the merged requests, not from memory.",
            "Tag the image with the commit and the date of the build.",
            "Ask a second engineer to confirm the database migration.",
            "Close the ticket only after the dashboards have been quiet for a day.",
        ),
    ),
    "de": (
        (
            "Vor dem Verleih den Reifendruck und die Bremsen prüfen.",
            "Die Kaution beträgt fünfzig Euro und wird bar hinterlegt.",
            "Ausweise werden nie kopiert, nur die Nummer wird notiert.",
            "Helme liegen im Regal neben der Werkbank.",
            "Bei Regen bekommt jeder Gast eine Satteldecke dazu.",
            "Schäden sofort fotografieren und ins Buch eintragen.",
            "Zurückgegebene Räder werden am selben Abend gewaschen.",
            "Der Schlüssel zum Schuppen hängt hinter der Kasse.",
        ),
    ),
    "es": (
        (
            "Antes de abrir, revisar la temperatura de las cámaras.",
            "Las reservas de más de ocho personas piden una señal.",
            "La carta sin gluten está en el cajón de la barra.",
            "Los perros pueden entrar solo en la terraza.",
            "El pan de ayer se guarda para las sopas.",
            "Cada botella abierta lleva la fecha en la etiqueta.",
            "Las propinas se reparten los domingos al cerrar.",
            "Las quejas se apuntan en el cuaderno azul.",
        ),
    ),
    "zh": (
        (
            "开门之前先检查冷柜的温度并记在表格里。",
            "超过八个人的预订需要提前付定金。",
            "不含麸质的菜单放在吧台的抽屉里面。",
            "狗只可以待在外面的露台上不能进店。",
            "昨天剩下的面包留着做汤不要扔掉。",
            "每个打开的瓶子都要在标签上写日期。",
            "小费每个星期天关门以后平均分给大家。",
            "客人的投诉要写进蓝色的本子里面。",
        ),
    ),
    "ja": (
        (
            "貸し出す前にタイヤの空気とブレーキを必ず確かめる。",
            "保証金は五千円で現金で預かることになっている。",
            "身分証は写しを取らずに番号だけを書き留める。",
            "ヘルメットは作業台の横の棚に置いてある。",
            "雨の日には客に鞍の覆いを一枚ずつ渡す。",
            "傷はすぐに写真を撮って帳面に書き込む。",
            "戻ってきた自転車はその日の夕方に洗う。",
            "物置の鍵はレジの後ろに掛けてある。",
        ),
    ),
}


def make() -> Made:
    """Return the set. Each line of a block is asked for twice, by some of its words."""
    chance = random.Random("repeats")
    notes: dict[str, str] = {}
    questions = []
    for language, blocks in _BLOCKS.items():
        # Lines of other languages: no two notes differ in too little.
        lines = [line for diary in DIARIES.values() for line in diary.lines]
        for number, block in enumerate(blocks):
            paths = []
            for copy in range(_NOTES_PER_BLOCK):
                around = chance.sample(lines, _BEFORE + _AFTER)
                text = [*around[:_BEFORE], *block, *around[_BEFORE:]]
                paths.append(f"memory/{language}/{number}-{copy}.md")
                notes[paths[-1]] = "\n".join(text) + "\n"
            questions += [
                Question(_some_words(line, chance), kind=language, notes=frozenset(paths))
                for line in block
                for _ in range(_ASKED_PER_LINE)
            ]
    return Made(notes, questions)


def _some_words(line: str, chance: random.Random) -> str:
    """Return three or four neighbouring words of a line, or seven characters without spaces."""
    words = line.rstrip(".。").split()
    if len(words) == 1:
        start = chance.randrange(len(words[0]) - 7)
        return words[0][start : start + 7]
    count = min(len(words), chance.choice((3, 4)))
    start = chance.randrange(len(words) - count + 1)
    return " ".join(words[start : start + count])
