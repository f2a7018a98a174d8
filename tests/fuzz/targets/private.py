"""`<private>` blocks: the hidden text and the number of remaining lines."""

import re

from memoryd.messages import split_lines
from memoryd.source.notes.read import mask_private

SEEDS = [
    b"a <private>hidden</private> b\n",
    b"<private>\nhidden\n</private>\nshown\n",
    b"<PRIVATE reason='x'>one<private/>two</private >\n",
    b"`<private>` is a tag, `</private>` too\n<private\nhidden",
    b"<private><private>hidden</private>hidden</private>shown</private>",
]
DICTIONARY = [b"<private>", b"</private>", b"<private/>", b"<private", b"</private ", b"`", b"\n"]
MAX_BYTES = 1_024
SECRET = "s3cr3t"
_BARE = re.compile(r"`|<(?!/?private>)", re.IGNORECASE)


def check(data: bytes) -> None:
    """Mask the text: all lines remain, no text of a block does, and masking is idempotent."""
    text = data.decode("utf-8", "replace")
    lines = split_lines(text)
    masked, _ = mask_private(lines, placeholder="[private]")
    assert len(masked) == len(lines)
    assert len(mask_private(lines)[0]) == len(lines)
    # After an unambiguous opening tag, everything up to the end is hidden.
    hidden, remark = mask_private([*lines, "<private>", SECRET, f"a {SECRET} b"])
    assert remark is not None
    assert not any(SECRET in line for line in hidden[len(lines) :])
    if not _BARE.search(text):
        depth = 0
        for tag in re.finditer(r"<(/?)private>", "\n".join(lines), re.IGNORECASE):
            depth = max(0, depth - 1) if tag[1] else depth + 1
        shown, _ = mask_private([*lines, SECRET])
        assert (shown[-1] == SECRET) == (depth == 0)
