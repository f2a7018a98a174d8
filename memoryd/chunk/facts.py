"""Facts about a note as a whole: its title, date and properties. Pure."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import PurePosixPath

from memoryd.chunk.markdown import Outline
from memoryd.messages import FileFacts
from memoryd.text.dated_names import period_of_name, period_of_properties
from memoryd.text.front_matter import IN_TEXT, MOST_VALUES, TITLE, FrontMatter, Properties
from memoryd.text.outside import OutsideLines
from memoryd.text.token_estimate import well_formed

TITLE_LINES = 200
"""Lines that are searched for the first heading."""
MOST_TITLE_CHARS = 200
TAG_CHARS = 4_096
"""Characters of a line that are searched for tags."""
_LINK = re.compile(r"!?\[\[(?:[^\]|]*\|)?([^\]]*)\]\]|!?\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"(?<!\S)#([\w/-]{0,100}[^\W\d_][\w/-]{0,100})")
_MARKS = str.maketrans("", "", "*`")


def note_facts(
    path: str, lines: Sequence[str], front: FrontMatter, outside: Sequence[OutsideLines]
) -> FileFacts:
    """Return the facts of a note; `lines` are all its lines, `outside` those of others."""
    stated = next((value for key in TITLE for value in front.properties.get(key, ())), "")
    title = stated or _first_heading(lines, front.lines, outside)
    found = _tags(lines, front.lines, outside)
    return FileFacts(
        title=(title or PurePosixPath(path).stem)[:MOST_TITLE_CHARS],
        date=date_of_note(path, front.properties),
        properties=front.properties | ({IN_TEXT: found} if found else {}),
    )


def date_of_note(path: str, properties: Properties) -> str:
    """Return the date of a note as `FileFacts` stores it: of its name, else of its front matter."""
    found = period_of_name(path) or period_of_properties(properties)
    return "" if found is None else str(found)


def _first_heading(lines: Sequence[str], start: int, outside: Sequence[OutsideLines]) -> str:
    """Return the first heading if it is of level 1; a deeper one names a part."""
    outline = Outline()
    end = min([TITLE_LINES, len(lines), *(run.first for run in outside)])
    for line in islice(lines, start, end):
        if outline.read(line[:MOST_TITLE_CHARS]):
            return _plain(well_formed(outline.path)) if outline.level == 1 else ""
    return ""


def _tags(lines: Sequence[str], start: int, outside: Sequence[OutsideLines]) -> tuple[str, ...]:
    """Return the tags in a text, such as `#work/plans`, apart from fenced code."""
    if not any("#" in line and _TAG.search(line[:TAG_CHARS]) for line in lines):  # most notes
        return ()
    found: dict[str, None] = {}
    fence = ""
    theirs = [range(run.first, run.last + 1) for run in outside]
    for number in range(start, len(lines)):
        line = lines[number]
        if (mark := line.lstrip()[:3]) in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        elif "#" in line and not fence and not any(number in run for run in theirs):
            found.update(dict.fromkeys(map(well_formed, _TAG.findall(line[:TAG_CHARS]))))
            if len(found) >= MOST_VALUES:
                break
    return tuple(found)[:MOST_VALUES]


def _plain(heading: str) -> str:
    """Return a heading without links and emphasis."""
    return _LINK.sub(lambda link: link[1] or link[2] or "", heading).translate(_MARKS).strip()
