"""Recall on the set `recall`: 60 messages with one right entry, 60 with none, in eight languages.

Each message is asked twice. The first time shows how long it takes; the second answer counts, for
which the local model has had its time, however busy the machine is. One run is without a model.
"""

import datetime
import json
import time
from dataclasses import dataclass

from bench.daemon import daemon, place, until_ready
from bench.figures import Report, at_least, at_most
from bench.quality.own import DATA, read_notes
from bench.quality.scoring import mean
from memoryd_client import Client, RecallResult

NO_DATE = datetime.date(2026, 1, 1)
PAUSE_S = 0.2
"""Seconds for the local model between the two times that a message is asked."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message, and the note with the right entry and a piece of it; None: nothing fits."""

    number: int
    text: str
    right: tuple[str, str] | None

    def is_answered(self, result: RecallResult) -> bool:
        """Return whether the right entry comes first; without one, whether anything comes."""
        if self.right is None or not result.entries:
            return bool(result.entries) and self.right is None
        path, piece = self.right
        first = result.entries[0]
        return first.citation.startswith(f"{path}#") and piece in first.text


def messages() -> list[Message]:
    """Return the messages of the set."""
    lines = (DATA / "recall.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Message(
            case["id"], case["message"], (case["path"], case["answer"]) if "path" in case else None
        )
        for case in map(json.loads, lines)
    ]


def run(report: Report) -> None:
    """Measure with the bundled model and with words alone."""
    for provider, name in (("local", "recall"), ("none", "recall by words alone")):
        with place() as where:
            where.configure(f'provider = "{provider}"')
            for path, text in read_notes("recall", today=NO_DATE).items():
                file = where.workspace / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            with daemon(where):
                until_ready(where)
                with where.client() as client:
                    client.index()
                    _measure(report, name, client, by_words=provider == "none")


def _measure(report: Report, name: str, client: Client, *, by_words: bool) -> None:
    asked = messages()
    # The model starts, and learns the kinds of messages and the entries.
    for message in asked[:10]:
        client.recall(message.text)
        time.sleep(PAUSE_S)
    times_s: list[float] = []
    answered: dict[int, bool] = {}
    for message in asked:
        started = time.perf_counter()
        client.recall(message.text)
        times_s.append(time.perf_counter() - started)
        time.sleep(0.0 if by_words else PAUSE_S)
        answered[message.number] = message.is_answered(client.recall(message.text))
    report.add_times(name, times_s[10:], None if by_words else at_most(20.0, checked=False))
    for half, kept in (("", (0, 1)), (" of the kept half", (0,))):
        some = [message for message in asked if message.number % 2 in kept]
        right = mean(answered[one.number] for one in some if one.right)
        wrong = mean(answered[one.number] for one in some if not one.right)
        goal = not by_words and not half
        report.add(f"{name}: right entry first{half}", right, "", at_least(0.9) if goal else None)
        report.add(f"{name}: anything for others{half}", wrong, "", None if half else at_most(0.05))
