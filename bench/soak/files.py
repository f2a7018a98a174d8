"""A constantly changing workspace, and the words that a search must find in it."""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from bench.corpus import Prose

NOTES = 400
"""Approximate number of notes, kept constant so that the index has no reason to grow."""
TRANSCRIPTS = 8
MESSAGES_AT_MOST = 60
"""Maximum messages of a transcript before it starts again, as a new conversation does."""


@dataclass(slots=True)
class Files:
    """Notes and transcripts. `words` has the unique word of each text.

    `gone` are the words of the last few texts that were deleted or replaced.
    """

    workspace: Path
    transcripts: Path
    dice: random.Random
    words: dict[Path, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    changes: int = 0
    _prose: Prose = field(default_factory=Prose)
    _messages: dict[Path, int] = field(default_factory=dict)

    def change(self) -> Path:
        """Change one file as people and agents do; return its path."""
        self.changes += 1
        notes = [path for path in self.words if path.suffix == ".md"]
        many = len(notes) >= NOTES
        kind = self.dice.choices(
            ("new", "edit", "delete", "rename", "message"),
            (1 if many else 4, 4, 3 if many else 1, 1, 1),
        )[0]
        if kind == "message":
            return self.say()
        if kind == "new" or len(notes) < NOTES // 2:
            return self._write(self._new_path())
        path = self.dice.choice(notes)
        if kind == "edit":
            return self._write(path)
        word = self.words.pop(path)
        if kind == "delete":
            path.unlink()
            self._forget(word)
        else:
            path = path.rename(self._new_path())
            self.words[path] = word
        return path

    def save(self, path: Path, text: str) -> None:
        """Write a note."""
        path.write_text(text, encoding="utf-8")

    def question(self) -> str:
        """Return words that occur in some notes."""
        return " ".join(self._prose.words(3))

    def _new_path(self) -> Path:
        folder = self.workspace / "memory" / f"{self.dice.randrange(20)}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"note{self.changes}.md"

    def _write(self, path: Path) -> Path:
        if path in self.words:
            self._forget(self.words[path])
        word = self.words[path] = self._word()
        self.save(path, f"# {word}\n\n{self._prose.note(1)}\n")
        return path

    def say(self) -> Path:
        """Append a message to a transcript."""
        number = self.dice.randrange(TRANSCRIPTS)
        path = self.transcripts / f"{number}.jsonl"
        written = self._messages.get(path, 0)
        if written >= MESSAGES_AT_MOST:
            path.unlink()
            self._forget(self.words.pop(path))
            written = 0
        self._messages[path] = written + 1
        word = self.words[path] = self._word()
        text = f"{word} {' '.join(self._prose.words(20))}"
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"role": "user", "content": text}) + "\n")
        return path

    def _word(self) -> str:
        return f"zq{self.changes}zq"

    def _forget(self, word: str) -> None:
        self.gone = [*self.gone[-99:], word]
