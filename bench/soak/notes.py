"""Notes of many encodings, saved in the ways that editors do."""

from pathlib import Path

from bench.soak.files import Files

_GREETINGS = {
    "utf-8": "Übung – naïve café, 東京 🍅",
    "utf-8-sig": "Ein Vermerk mit Größe",
    "utf-16": "今日は天気がいいので、公園を散歩します。",
    "gb18030": "今天的天气很好，我们去公园散步。",
    "shift_jis": "今日は天気がいいので、公園を散歩します。",
    "euc_kr": "오늘은 날씨가 좋아서 공원을 산책합니다.",
    "cp1251": "Сегодня хорошая погода, и мы идём гулять в парк.",
    "koi8_r": "Сегодня хорошая погода, и мы идём гулять в парк.",
    "cp1252": "Größere Änderungen für die nächste Übung",
}
"""A sentence in each encoding."""


class MixedNotes(Files):
    """Notes of which each save picks an encoding, and either replaces the file or writes into it.

    Some have a line in another encoding than the rest.
    """

    def save(self, path: Path, text: str) -> None:
        """Write a note."""
        encoding = self.dice.choice(list(_GREETINGS))
        data = f"{text}\n{_GREETINGS[encoding]}\n".encode(encoding)
        if encoding != "utf-16" and self.dice.random() < 0.2:
            other = self.dice.choice([name for name in _GREETINGS if name[:3] != "utf"])
            data += f"{_GREETINGS[other]}\n".encode(other)
        if self.dice.random() < 0.5:
            path.write_bytes(data)
            return
        part = path.with_name(f".{path.name}.swp")
        part.write_bytes(data)
        part.replace(path)
