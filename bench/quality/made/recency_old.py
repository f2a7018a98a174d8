"""The set `recency-old`: two old notes state the same with another value; the newer one holds.

Both are so old that age alone no longer tells them apart. Half of the newer notes keep the wording
of the older one, half have another.
"""

import datetime
import random

from bench.quality.made.diaries import DIARIES
from bench.quality.made.model import Made
from bench.quality.model import Question

AGES = ((40, 80), (40, 200), (100, 400))
"""Days, of the newer note and of the older one."""
_SUBJECTS_PER_FACT = 6
_UNRELATED = 40
_SYLLABLES = "ba den fi gor hal jo ka lin mer no pel ra sil tan vo wex zu dri"

_FACTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "en": (
        (
            "{x} listens on port {v}.",
            "We moved {x}: it answers on {v} now.",
            "which port does {x} listen on?",
        ),
        ("{x} sits at desk {v}.", "New place for {x} in the office: {v}.", "where does {x} sit?"),
        (
            "The {x} subscription costs {v} euros a month.",
            "From this month we pay {v} euros for {x}.",
            "what does the {x} subscription cost?",
        ),
    ),
    "de": (
        (
            "{x} lauscht auf Port {v}.",
            "{x} ist umgezogen und antwortet jetzt auf {v}.",
            "Auf welchem Port lauscht {x}?",
        ),
        ("{x} sitzt an Tisch {v}.", "Neuer Platz für {x} im Büro: {v}.", "Wo sitzt {x}?"),
        (
            "Das Abo von {x} kostet {v} Euro im Monat.",
            "Ab diesem Monat zahlen wir für {x} {v} Euro.",
            "Was kostet das Abo von {x}?",
        ),
    ),
    "es": (
        (
            "{x} escucha en el puerto {v}.",
            "Hemos movido {x}: ahora responde en {v}.",
            "¿en qué puerto escucha {x}?",
        ),
        (
            "{x} se sienta en la mesa {v}.",
            "Sitio nuevo para {x} en la oficina: {v}.",
            "¿dónde se sienta {x}?",
        ),
        (
            "La suscripción de {x} cuesta {v} euros al mes.",
            "Desde este mes pagamos {v} euros por {x}.",
            "¿cuánto cuesta la suscripción de {x}?",
        ),
    ),
    "tr": (
        (
            "{x} {v} portunu dinliyor.",
            "{x} taşındı, artık {v} üzerinden yanıt veriyor.",
            "{x} hangi portu dinliyor?",
        ),
        ("{x} {v} numaralı masada oturuyor.", "{x} için yeni yer: {v}.", "{x} nerede oturuyor?"),
        (
            "{x} aboneliği ayda {v} avro.",
            "Bu aydan itibaren {x} için {v} avro ödüyoruz.",
            "{x} aboneliği ne kadar?",
        ),
    ),
    "ru": (
        (
            "{x} слушает порт {v}.",
            "Мы перенесли {x}: теперь отвечает на {v}.",
            "Какой порт слушает {x}?",
        ),
        ("{x} сидит за столом {v}.", "Новое место для {x} в офисе: {v}.", "Где сидит {x}?"),
        (
            "Подписка на {x} стоит {v} евро в месяц.",
            "С этого месяца платим за {x} {v} евро.",
            "Сколько стоит подписка на {x}?",
        ),
    ),
    "zh": (
        ("{x} 监听端口 {v}。", "{x} 搬家了，现在用 {v} 应答。", "{x} 监听哪个端口"),
        ("{x} 坐在 {v} 号桌。", "{x} 在办公室换了新座位：{v}。", "{x} 坐在哪里"),
        ("{x} 的订阅每月 {v} 欧元。", "从这个月起我们给 {x} 付 {v} 欧元。", "{x} 的订阅要多少钱"),
    ),
    "ja": (
        (
            "{x} はポート {v} で待ち受ける。",
            "{x} は引っ越して、今は {v} で応答する。",
            "{x} はどのポートで待ち受けている？",
        ),
        (
            "{x} さんの席は {v} です。",
            "{x} さんは新しい場所に移った：{v}。",
            "{x} さんの席はどこ？",
        ),
        (
            "{x} の購読料は月 {v} ユーロ。",
            "今月から {x} に {v} ユーロ払う。",
            "{x} の購読料はいくら？",
        ),
    ),
    "ko": (
        (
            "{x}는 포트 {v}에서 듣는다.",
            "{x}를 옮겼고 이제 {v}에서 응답한다.",
            "{x}는 어느 포트에서 들어?",
        ),
        ("{x} 씨 자리는 {v}이다.", "{x} 씨가 새 자리로 옮겼다: {v}.", "{x} 씨 자리가 어디야?"),
        (
            "{x} 구독료는 한 달에 {v} 유로.",
            "이번 달부터 {x}에 {v} 유로를 낸다.",
            "{x} 구독료가 얼마야?",
        ),
    ),
}
"""By language: what the older note says, the newer one in other words, and the question."""


def make(today: datetime.date) -> Made:
    """Return the set as of today."""
    chance = random.Random("recency-old")
    names = _names(chance)
    notes: dict[str, str] = {}
    questions = []
    for number in range(_SUBJECTS_PER_FACT):
        newer_age, older_age = AGES[number % len(AGES)]
        is_reworded = number // len(AGES) % 2 == 1
        kind = f"{newer_age}/{older_age} days, {'other' if is_reworded else 'same'} wording"
        for language, facts in _FACTS.items():
            lines = DIARIES[language].lines
            for fact, (said, reworded, question) in enumerate(facts):
                name = names.pop()
                older, newer = (chance.randrange(1000, 9999) for _ in range(2))
                key = f"{language}-{fact}{number}"
                old = f"memory/{_ago(today, older_age)}-{key}.md"
                new = f"memory/{_ago(today, newer_age)}-{key}.md"
                said_now = reworded if is_reworded else said
                notes[old] = _note(said.format(x=name, v=older), chance.sample(lines, 2))
                notes[new] = _note(said_now.format(x=name, v=newer), chance.sample(lines, 2))
                text = question.format(x=name)
                questions.append(Question(text, kind=kind, notes=frozenset([new])))
    for number in range(_UNRELATED):
        lines = DIARIES[chance.choice(list(DIARIES))].lines
        path = f"memory/{_ago(today, chance.randrange(1, 500))}-{number}.md"
        notes[path] = _note(chance.choice(lines), chance.sample(lines, 3))
    return Made(notes, questions)


def _names(chance: random.Random) -> list[str]:
    """Return as many made-up names as there are pairs, each of three syllables."""
    found: dict[str, None] = {}
    while len(found) < len(_FACTS) * len(AGES) * _SUBJECTS_PER_FACT:
        found["".join(chance.sample(_SYLLABLES.split(), 3)).capitalize()] = None
    return list(found)


def _ago(today: datetime.date, days: int) -> str:
    return (today - datetime.timedelta(days=days)).isoformat()


def _note(fact: str, others: list[str]) -> str:
    return "".join(f"- {line}\n" for line in (others[0], fact, *others[1:]))
