"""The set `parts`: ids, numbers and names asked for by their start, compounds by a part, emoji.

Numbers and ids that are no part of each other are made by chance; the others are written.
"""

import random
import string
from collections.abc import Callable

from bench.quality.made.model import Made
from bench.quality.model import Question

_ASKED = 20
_PER_KIND = 30
_HEX = "0123456789abcdef"
_CAMEL = """
getUserById fetchInvoiceTotals parseTariffCode renderTideCurve openLedgerBatch
mergeNightReport splitCargoManifest loadSensorFrame writeAuditTrail buildRouteGraph
sendPagerAlert retryWebhookCall lockDeviceSlot readMeterValue packSampleCrate
scanBadgeQueue trimVideoFrame syncCalendarFeed countSeatRows drawFloorPlan
mapCourierZone tagPhotoAlbum hashVoucherPin sortParcelLane pollWeatherGrid
bookMeetingRoom dropStaleToken wrapGiftOrder checkFuelLevel pinHarborChart
"""
_COMPOUNDS = (
    ("Heine", "Heinestraße"),
    ("Kessel", "Kesseldruckventil"),
    ("Zahnarzt", "Zahnarztrechnung"),
    ("Garten", "Gartenschlauchhalter"),
    ("Fahrrad", "Fahrradanhängerkupplung"),
    ("Versicherung", "Versicherungsnummer"),
    ("Urlaub", "Urlaubsvertretung"),
    ("Miet", "Mietkautionskonto"),
    ("Schlüssel", "Schlüsselübergabe"),
    ("Strom", "Stromzählerstand"),
    ("Winter", "Winterreifenlager"),
    ("Kinder", "Kindersitzgröße"),
    ("Sommer", "Sommerfestkasse"),
    ("Abfall", "Abfallkalender"),
    ("sjukhus", "sjukhusräkningen"),
    ("tandläkar", "tandläkartiden"),
    ("verjaardag", "verjaardagscadeau"),
    ("huisarts", "huisartsenpost"),
    ("bibliotek", "bibliotekskortet"),
    ("kjeller", "kjellerboden"),
)
_EMOJI = "🎉🐙🌊🎂🚲🧯🪴🎻🧭🛶🧵🪁🥁🧊🪗🦉🪵🧲🛎🧇"
_SENTENCES = (
    "{x} is done since Tuesday, the rest can wait.",
    "Ask about {x} before the weekend.",
    "{x}: noted after the call, nothing else to do.",
    "The paper says {x}, keep it in the green folder.",
    "Found {x} again in the second drawer.",
    "Please look at {x} first thing on Monday.",
)


def _commit(chance: random.Random) -> tuple[str, str]:
    whole = "".join(chance.choices(_HEX, k=chance.choice((16, 40))))
    return whole[: chance.choice((7, 8, 10))], whole


def _parcel(chance: random.Random) -> tuple[str, str]:
    digits = "".join(chance.choices(string.digits, k=9))
    whole = "".join(chance.choices(string.ascii_uppercase, k=2)) + digits + "RU"
    return whole[: chance.choice((6, 7))], whole


def _phone(chance: random.Random) -> tuple[str, str]:
    groups = ["".join(chance.choices(string.digits, k=3)) for _ in range(3)]
    country, gap = chance.choice(("+351", "+49", "+90")), chance.choice((" ", "-", "."))
    asked = chance.choice(("", " ")).join(groups)
    return asked, f"{country} {gap.join(groups)}"


_MADE: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "commit": _commit,
    "parcel": _parcel,
    "phone": _phone,
}


def make() -> Made:
    """Return the set: part and whole of each kind, one note for each whole."""
    chance = random.Random("parts")
    kinds = {kind: [one(chance) for _ in range(_PER_KIND)] for kind, one in _MADE.items()}
    kinds["camelCase"] = [(_start(name), name) for name in _CAMEL.split()]
    kinds["compound"] = list(_COMPOUNDS)
    kinds["emoji"] = [(emoji, emoji) for emoji in _EMOJI]
    notes: dict[str, str] = {}
    questions: list[Question] = []
    for kind, pairs in kinds.items():
        for number, (part, whole) in enumerate(pairs):
            path = f"memory/{kind.lower()}/{number}.md"
            sentence = _SENTENCES[number % len(_SENTENCES)]
            notes[path] = f"# Note {number}\n\n{sentence.format(x=whole)}\n"
            if number < _ASKED:
                questions.append(Question(part, kind=kind, notes=frozenset([path])))
    return Made(notes, questions)


def _start(name: str) -> str:
    """Return the first two words of a name in camel case."""
    capitals = [at for at, letter in enumerate(name) if letter.isupper()]
    return name[: capitals[1]]
