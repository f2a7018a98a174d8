"""JSON5 texts for Hypothesis, as people and programs write them, with their values."""

import json
from typing import Any

from hypothesis import strategies as st

KEYS = (
    st.sampled_from(["hooks", "mcpServers", "a", "b-c", "", "ключ", "e\u0301\"'\\\n"]) | st.text()
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
SPACE = st.sampled_from(
    ["", " ", "\n", "\n    ", "\t", "\r\n", "// x\n", "/* { */", ' // [ "\n\t', "\ufeff", "\u2028"]
)


@st.composite
def json_texts(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return strict JSON of an object in one of the usual layouts, and the object."""
    value = draw(OBJECTS)
    indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    separators = draw(st.sampled_from([None, (",", ":")])) if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    end = draw(st.sampled_from(["", "\n", "\r\n", "  "]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text + end, value


@st.composite
def json5_texts(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return JSON5 of an object with comments, odd spaces and trailing commas, and the object."""
    value = draw(OBJECTS)
    return draw(SPACE) + _written(draw, value) + draw(SPACE), value


def _written(draw: st.DrawFn, value: object) -> str:
    if isinstance(value, dict):
        parts = [_key(draw, k) + draw(SPACE) + ":" + _spaced(draw, v) for k, v in value.items()]
        return _list(draw, "{", parts, "}")
    if isinstance(value, list):
        return _list(draw, "[", [_spaced(draw, element) for element in value], "]")
    if isinstance(value, str) and draw(st.booleans()):
        inside = json.dumps(value)[1:-1].replace('\\"', '"').replace("'", "\\'")
        return f"'{inside}'"
    return json.dumps(value)


def _spaced(draw: st.DrawFn, value: object) -> str:
    return draw(SPACE) + _written(draw, value) + draw(SPACE)


def _key(draw: st.DrawFn, key: str) -> str:
    is_bare = key.isascii() and key.isidentifier()
    return key if is_bare and draw(st.booleans()) else json.dumps(key)


def _list(draw: st.DrawFn, start: str, parts: list[str], end: str) -> str:
    text = ",".join(draw(SPACE) + part for part in parts)
    comma = "," if draw(st.booleans()) and parts else ""
    return start + text + comma + draw(SPACE) + end
