"""ConversationTopic of a conversation, gathered from its records and messages in order. Pure."""

from collections.abc import Iterable

from msgspec.structs import replace

from memoryd.messages import ConversationTopic
from memoryd.source.transcripts.format import Record, Title, TranscriptFormat, record_id
from memoryd.source.transcripts.spoken import ReadingRules, Spoken
from memoryd.source.transcripts.strip import on_one_line
from memoryd.text.voice import ASSISTANT, first_words
from memoryd_client.schema.search import Role


class TopicReader:
    """Reader of a topic. `topic` is that of the records read so far."""

    def __init__(
        self,
        topic: ConversationTopic | None,
        fmt: TranscriptFormat | None,
        rules: ReadingRules,
    ) -> None:
        """Continue from the topic of earlier records; None: there are none."""
        self.topic = topic or ConversationTopic()
        self._format = fmt
        self._rules = rules
        self._waiting: dict[str, Title] = {}

    def read(self, record: Record) -> None:
        """Take the title that a record gives to its own conversation, if any.

        A title of the conversation that ends with a certain record counts if that is the record
        before, or if it follows.
        """
        if self._format is None:
            return
        if id_ := record_id(record):
            self.topic = replace(self.topic, last_record=id_)
            if (waiting := self._waiting.pop(id_, None)) is not None:
                self.topic = titled(self.topic, waiting, self._rules)
        if (title := self._format.title(record)) is None:
            return
        if title.leaf in ("", self.topic.last_record):
            self.topic = titled(self.topic, title, self._rules)
        else:
            self._waiting[title.leaf] = title

    def hear(self, said: Iterable[Spoken]) -> None:
        """Take the first words of a person, those of the owner before a stranger's."""
        for part in said:
            topic, voice = self.topic, part.voice
            if voice.role is not Role.USER or (topic.question and not topic.is_outside):
                continue
            if voice.trusted or not topic.question:
                words = first_words(part.text.removeprefix(f"{voice.label}: "))
                self.topic = replace(topic, question=words, is_outside=not voice.trusted)


def titled(topic: ConversationTopic, title: Title, rules: ReadingRules) -> ConversationTopic:
    """Return a topic with a title, unless a better one is there or it was forgotten."""
    shown = spoken_title(title, rules)
    if not shown.text or title.rank < topic.rank or rules.forgotten(shown.name):
        return topic
    return replace(topic, title=shown.text, rank=title.rank)


def spoken_title(title: Title, rules: ReadingRules) -> Spoken:
    """Return a title as it is stored; its name for tombstones is that of no message."""
    words = first_words(rules.redact(title.text))
    return Spoken(words, f"Title: {on_one_line(title.text)}", ASSISTANT)
