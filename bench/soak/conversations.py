"""Conversations with agents of all formats, and what becomes of their transcripts."""

import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from bench.corpus import Prose
from bench.openclaw_store import OpenClawWriter
from bench.opencode_store import OpenCodeWriter

Record = dict[str, Any]
AT_ONCE = 40
"""Conversations that go on at the same time."""
MESSAGES_AT_MOST = 60
_TIME = "2026-11-28T10:00:00.000Z"
_ARCHIVED = "2026-11-28T10-00-00.000Z"
_PLACES = {
    "claude": ".claude/projects/-home-ana/{}.jsonl",
    "codex": ".codex/sessions/2026/11/28/rollout-2026-11-28T10-00-00-{}.jsonl",
    "gemini": ".gemini/tmp/garden/chats/session-2026-11-28T10-00-{}.jsonl",
    "openclaw": ".openclaw/agents/main/sessions/{}.jsonl",
    "pi": ".pi/agent/sessions/--home--/2026-11-28T10-00-00-000Z_{}.jsonl",
    "json5": ".openclaw/sessions/groups/{}.json5",
}


class Conversation(ABC):
    """One conversation. `words` has the unique word of each message that must be found.

    The first `known` of them were there at the last `sync`. `removed` are words that its agent
    removed. Nothing is said any more when it `is_over`; its text stays. `history` has what happened
    to it and the daemon.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.words: list[str] = []
        self.known = 0
        self.removed: list[str] = []
        self.is_over = False
        self.is_forgotten = False
        self.history: list[str] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name}: {', '.join(self.history)}"

    @abstractmethod
    def say(self, text: str) -> None:
        """Append a message."""

    @abstractmethod
    def fates(self) -> dict[str, Callable[[], object]]:
        """Return what may happen to the transcript next, by name."""

    def lose(self) -> None:
        """Note that the transcript is gone: what was not indexed before is lost."""
        self.is_over = True
        del self.words[self.known :]


class InFile(Conversation):
    """A conversation in a file of JSON lines."""

    def __init__(self, name: str, form: str, home: Path) -> None:
        super().__init__(name)
        self.form = form
        self.path = home / _PLACES[form].format(name)
        self.records = _header(form, name)
        self.written = 0
        self._home = home
        self._taken = b""
        self._is_open = False

    def __repr__(self) -> str:
        return f"{self.form} {super().__repr__()}"

    def say(self, text: str) -> None:
        """Append a record, the line end of some only with the next one."""
        number = len(self.records)
        self.records += _message(self.form, self.name, number, text)
        lines = [json.dumps(r, ensure_ascii=False) for r in self.records[self.written :]]
        self.written = len(self.records)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * self._is_open + "\n".join(lines))
            self._is_open = number % 5 == 0
            file.write("" if self._is_open else "\n")

    def fates(self) -> dict[str, Callable[[], object]]:
        """Return what the agent, or somebody, may do to the file."""
        if self._taken:
            return {"restore": self._restore}
        fates: dict[str, Callable[[], object]] = {"purge": self._purge}
        name = self.path.name
        if self.form == "codex":
            if name.endswith(".zst"):
                fates["unpack"] = self._unpack
            else:
                fates["pack"] = self._pack
            if "archived_sessions" not in self.path.parts:
                fates["archive"] = lambda: self._move(
                    self._home / ".codex/archived_sessions" / name
                )
        elif self.form == "openclaw" and name.endswith(".jsonl"):
            fates["reset"] = lambda: self._end(f"{name}.reset.{_ARCHIVED}")
            fates["deleted"] = lambda: self._end(f"{name}.deleted.{_ARCHIVED}")
        return fates

    def _purge(self) -> None:
        self._taken = self.path.read_bytes()
        self.path.unlink()
        self.lose()

    def _restore(self) -> None:
        self.path.write_bytes(self._taken)
        self._taken = b""
        self.is_over = not self.path.name.endswith(".jsonl")

    def _move(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = self.path.rename(path)
        self.is_over = True

    def _end(self, name: str) -> None:
        self._move(self.path.with_name(name))
        if "deleted" in name:
            self._pack()

    def _pack(self) -> None:
        packed = self.path.with_name(f"{self.path.name}.zst")
        packed.write_bytes(zstandard.compress(self.path.read_bytes()))
        self.path.unlink()
        self.path, self.is_over = packed, True

    def _unpack(self) -> None:
        plain = self.path.with_suffix("")
        plain.write_bytes(zstandard.decompress(self.path.read_bytes()))
        self.path.unlink()
        self.path, self.is_over = plain, False


class InDocument(InFile):
    """A chat in OpenClaw's older store, rewritten with each message."""

    def say(self, text: str) -> None:
        """Rewrite the chat with one message more."""
        self.records += [{"role": "user", "content": text, "timestamp": _TIME}]
        self._write()

    def fates(self) -> dict[str, Callable[[], object]]:
        """Return what may happen to the file, a compaction too."""
        return super().fates() | ({} if self._taken else {"compact": self._compact})

    def _restore(self) -> None:
        super()._restore()
        self.is_over = False

    def _compact(self) -> None:
        half = len(self.records) // 2
        if len(self.words) == len(self.records):  # some may have been forgotten
            self.removed += self.words[:half]
            del self.words[:half]
            self.known = max(0, self.known - half)
            del self.records[:half]
            self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        summary = {"role": "system", "content": "a summary", "compactedAt": _TIME}
        chat = {
            "id": self.name,
            "messages": self.records,
            "compactedHistory": [summary | {"originalMessageCount": 9}],
        }
        part = self.path.with_name("part")
        part.write_text(json.dumps(chat), encoding="utf-8")
        part.replace(self.path)


class InOpenClaw(Conversation):
    """A conversation in OpenClaw's store."""

    def __init__(self, name: str, store: OpenClawWriter) -> None:
        super().__init__(name)
        self._store = store
        self._numbers: list[int] = []
        store.begin(name)

    def say(self, text: str) -> None:
        """Append an event, every third one packed."""
        packed = len(self._numbers) % 3 == 0
        self._numbers.append(self._store.say(self.name, text, packed=packed))

    def fates(self) -> dict[str, Callable[[], object]]:
        """Return what the agent may do with the conversation."""
        if self.is_over:
            return {}
        return {
            "delete from a store": lambda: self._end(lambda: self._store.delete(self.name)),
            "cool": lambda: self._end(lambda: self._store.cool(self.name, in_file=False)),
            "cool in a file": lambda: self._end(lambda: self._store.cool(self.name, in_file=True)),
            "rewind": self._rewind,
        }

    def _end(self, how: Callable[[], None]) -> None:
        how()
        self.is_over = True

    def _rewind(self) -> None:
        if len(self.words) == len(self._numbers) > 1:  # some may have been forgotten
            self._store.abandon(self.name, self._numbers.pop())
            self.removed.append(self.words.pop())
            self.known = min(self.known, len(self.words))


class InOpenCode(Conversation):
    """A conversation in OpenCode's store."""

    def __init__(self, name: str, store: OpenCodeWriter) -> None:
        super().__init__(name)
        self._store = store
        store.begin(name)

    def say(self, text: str) -> None:
        """Add a complete message."""
        self._store.say(self.name, text)

    def fates(self) -> dict[str, Callable[[], object]]:
        """Return what a person may do with the conversation."""
        return {} if self.is_over else {"delete from OpenCode": self._delete}

    def _delete(self) -> None:
        for table, column in (("message", "session_id"), ("session", "id")):
            self._store.db.execute(f"DELETE FROM {table} WHERE {column} = ?", (self.name,))
        self.lose()


class Conversations:
    """All conversations in a home folder. `fates` counts what happened to them.

    `forgotten` are words that must not be found again.
    """

    def __init__(self, home: Path, dice: random.Random) -> None:
        self.all: list[Conversation] = []
        self.forgotten: list[str] = []
        self.fates: Counter[str] = Counter()
        self._home = home
        self._dice = dice
        self._prose = Prose(11)
        self._said = 0
        self._openclaw = OpenClawWriter(home / ".openclaw/agents/main/agent/openclaw-agent.sqlite")
        self._opencode = OpenCodeWriter(home / ".local/share/opencode/opencode.db")

    @property
    def words(self) -> list[str]:
        """The words that must be found."""
        return [word for talk in self.all for word in talk.words]

    @property
    def gone(self) -> list[str]:
        """The words that must not be found."""
        return self.forgotten + [word for talk in self.all for word in talk.removed]

    def go_on(self) -> None:
        """Say something in one of the conversations, or let something happen to one."""
        going = [talk for talk in self.all if not talk.is_over]
        for talk in going:
            talk.is_over |= len(talk.words) >= MESSAGES_AT_MOST
        if len(going) < AT_ONCE:
            self.all.append(self._begun())
            self._say(self.all[-1])
        elif self._dice.random() < 0.9:
            self._say(self._dice.choice(going))
        else:
            self._happen()

    def synced(self) -> None:
        """Note that all words so far are in the index."""
        for talk in self.all:
            talk.known = len(talk.words)

    def note(self, event: str) -> None:
        """Add an event of the daemon to the history of all."""
        for talk in self.all:
            if talk.history[-1:] != [event]:
                talk.history.append(event)

    def some(self) -> Conversation:
        """Return one that has words in the index."""
        return self._dice.choice([talk for talk in self.all if talk.known] or self.all)

    def forget(self, talk: Conversation, word: str = "") -> None:
        """Note that a conversation was forgotten, or one word of it."""
        gone = [word] if word else talk.words
        talk.history.append(f"forgotten: {word or 'all'}")
        self.forgotten += gone
        talk.words = [other for other in talk.words if other not in gone]
        talk.known = len(talk.words)
        if not word:
            talk.is_over = talk.is_forgotten = True

    def _begun(self) -> Conversation:
        name = f"{len(self.all):08x}-0000-4000-8000-000000000000"
        match self._dice.choice([*_PLACES, "store", "opencode"]):
            case "store":
                return InOpenClaw(name, self._openclaw)
            case "opencode":
                return InOpenCode(name, self._opencode)
            case "json5":
                return InDocument(name, "json5", self._home)
            case form:
                return InFile(name, form, self._home)

    def _say(self, talk: Conversation) -> None:
        self._said += 1
        word = f"zk{self._said}zk"
        talk.say(f"{word} {' '.join(self._prose.words(30))}")
        (self.forgotten if talk.is_forgotten else talk.words).append(word)

    def _happen(self) -> None:
        talk = self._dice.choice(self.all)
        fates = talk.fates()
        if isinstance(talk, InFile) and talk.form == "claude" and talk.words and not talk.is_over:
            fates["resume"] = lambda: self._resume(talk)
        if fates:
            fate = self._dice.choice(list(fates))
            fates[fate]()
            self.fates[fate] += 1
            talk.history.append(fate)

    def _resume(self, talk: InFile) -> None:
        """Resume a conversation: the new transcript begins with copies of its records."""
        new = InFile(f"{len(self.all):08x}-0000-4000-8000-000000000000", "claude", self._home)
        new.records = [record | {"sessionId": new.name} for record in talk.records]
        self.all.append(new)
        new.history.append(f"resumes {talk.name}")
        talk.history.append(f"resumed as {new.name}")
        talk.is_over = True
        self._say(new)


def _header(form: str, name: str) -> list[Record]:
    match form:
        case "codex":
            return [{"timestamp": _TIME, "type": "session_meta", "payload": {"id": name}}]
        case "gemini":
            return [{"sessionId": name, "projectHash": "f85c51", "kind": "main"}]
        case "openclaw":
            return [{"type": "session", "version": 3, "id": name, "timestamp": _TIME}]
        case "pi":
            prompt: Record = {"role": "system", "content": "", "sections": {"tools": "none"}}
            return [
                {"type": "session", "version": 3, "id": name, "timestamp": _TIME},
                {"type": "message", "id": f"{name}-1", "parentId": None, "message": prompt},
            ]
    return []


def _message(form: str, name: str, number: int, text: str) -> list[Record]:
    role = ("user", "assistant")[number % 2]
    match form:
        case "claude":
            marks = {"uuid": f"{name}-{number}", "sessionId": name, "timestamp": _TIME}
            return [{"type": role, "message": {"role": role, "content": text}} | marks]
        case "codex" if role == "user":
            typed = {"type": "user_message", "message": text}
            return [{"timestamp": _TIME, "type": "event_msg", "payload": typed}]
        case "codex":
            content = [{"type": "output_text", "text": text}]
            payload = {"type": "message", "role": role, "content": content}
            return [{"timestamp": _TIME, "type": "response_item", "payload": payload}]
        case "gemini":
            kind = "gemini" if role == "assistant" else role
            return [{"id": f"m{number}", "timestamp": _TIME, "type": kind, "content": text}]
    parent = f"{name}-{number - 1}" if number > 1 else None
    ids: Record = {
        "type": "message",
        "id": f"{name}-{number}",
        "parentId": parent,
        "timestamp": _TIME,
    }
    return [ids | {"message": {"role": role, "content": text}}]
