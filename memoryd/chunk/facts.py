"""Facts about a note as a whole: its title, date and properties. Pure."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import PurePosixPath

from memoryd.chunk.markdown import Outline
from memoryd.messages import FileFacts
from memoryd.text.front_matter import TITLE, FrontMatter, Properties
from memoryd.text.outside import OutsideLines
from memoryd.text.token_estimate import well_formed

TITLE_LINES = 200
"""Lines that are searched for the first heading."""
MOST_TITLE_CHARS = 200
_LINK = re.compile(r"!?\[\[(?:[^\]|]*\|)?([^\]]*)\]\]|!?\[([^\]]*)\]\([^)]*\)")
_MARKS = str.maketrans("", "", "*`")


def note_facts(
    path: str, lines: Sequence[str], front: FrontMatter, outside: Sequence[OutsideLines]
) -> FileFacts:
    """Return the facts of a note; `lines` are all its lines, `outside` those of others."""
    stated = next((value for key in TITLE for value in front.properties.get(key, ())), "")
    title = stated or _first_heading(lines, front.lines, outside)
    return FileFacts(
        title=(title or PurePosixPath(path).stem)[:MOST_TITLE_CHARS],
        date=date_of_note(path, front.properties),
        properties=front.properties,
    )


def date_of_note(path: str, properties: Properties) -> str:
    """Return the date of a note as `YYYY-MM-DD`, "" if it has none."""
    return ""


def _first_heading(lines: Sequence[str], start: int, outside: Sequence[OutsideLines]) -> str:
    """Return the first heading if it is of level 1; a deeper one names a part."""
    outline = Outline()
    end = min([TITLE_LINES, len(lines), *(run.first for run in outside)])
    for line in islice(lines, start, end):
        if outline.read(line[:MOST_TITLE_CHARS]):
            return _plain(well_formed(outline.path)) if outline.level == 1 else ""
    return ""


def _plain(heading: str) -> str:
    """Return a heading without links and emphasis."""
    return _LINK.sub(lambda link: link[1] or link[2] or "", heading).translate(_MARKS).strip()
