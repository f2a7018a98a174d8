"""pi's format: that of OpenClaw, which grew out of it, with the system prompt as a message."""

from collections.abc import Sequence

from memoryd.source.transcripts.format import Record
from memoryd.source.transcripts.openclaw import OpenClaw


class Pi(OpenClaw):
    """OpenClaw's tree of records, in which a first message is `{"role": "system", "sections"}`."""

    name = "pi"

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether there is a system prompt in sections, which OpenClaw never writes."""
        return super().fits(head) and any(map(_is_system_prompt, head))


def _is_system_prompt(record: Record) -> bool:
    message = record.get("message")
    return (
        record.get("type") == "message"
        and isinstance(message, dict)
        and message.get("role") == "system"
        and isinstance(message.get("sections"), dict)
    )
