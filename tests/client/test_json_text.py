"""Edits of JSON text: what is added and removed, and that everything else stays as it is."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from json5_texts import SCALARS, json5_texts, json_texts

from memctl.connect import json_text
from memctl.connect.json_text import JsonTextError

TEXTS = json_texts() | json5_texts()
SERVER = {"command": "/bin/memctl", "args": ["mcp"]}


def read(text: str) -> Any:
    return json_text.value(text, json_text.parse(text))


@given(TEXTS)
def test_a_text_is_read_as_its_value(made: tuple[str, dict[str, Any]]) -> None:
    text, value = made
    assert read(text) == value


@given(TEXTS, SCALARS)
def test_a_member_is_set_and_nothing_else_changes(
    made: tuple[str, dict[str, Any]], new: object
) -> None:
    text, value = made
    after = json_text.put(text, ("memoryd",), new)
    assert read(after) == {**value, "memoryd": new}
    assert after.count("//") >= text.count("//")


@given(TEXTS, st.sampled_from([SERVER, "text", 1, []]))
def test_a_removed_member_leaves_the_text_as_it_was(
    made: tuple[str, dict[str, Any]], new: object
) -> None:
    text, value = made
    assume("memoryd" not in value)
    after = json_text.remove(json_text.put(text, ("memoryd",), new), ("memoryd",))
    assert read(after) == value
    if value:
        assert after == text


@given(TEXTS)
def test_a_removed_element_leaves_the_text_as_it_was(made: tuple[str, dict[str, Any]]) -> None:
    text, value = made
    key = next((key for key, below in value.items() if isinstance(below, list) and below), None)
    assume(key is not None)
    assert key is not None
    count = len(value[key])
    longer = json_text.append(text, (key,), SERVER)
    assert read(longer) == {**value, key: [*value[key], SERVER]}
    assert json_text.remove(longer, (key, count)) == text


@given(TEXTS, st.data())
def test_any_member_or_element_can_be_removed(
    made: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    text, value = made
    assume(value)
    path: tuple[str | int, ...] = (data.draw(st.sampled_from(list(value))),)
    below = value[str(path[0])]
    if isinstance(below, list) and below:
        path = (*path, data.draw(st.integers(0, len(below) - 1)))
        del below[int(path[1])]
    else:
        del value[str(path[0])]
    assert read(json_text.remove(text, path)) == value


@given(st.text() | st.text("{}[]:,'\"/*\\\n 0aλ"))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(JsonTextError):
        read(text)


@given(json_texts(), st.data())
def test_a_cut_text_is_refused(made: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    text = made[0].rstrip()
    with pytest.raises(JsonTextError):
        read(text[: data.draw(st.integers(1, len(text) - 1))])


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '{\n  "s": {\n    "memoryd": 1\n  }\n}\n'),
        ("{}", '{\n  "s": {\n    "memoryd": 1\n  }\n}'),
        ('{"a":1}', '{"a":1,"s":{"memoryd":1}}'),
        ('{"a": 1}', '{"a": 1, "s": {"memoryd": 1}}'),
        ('{\n\t"s": {}\n}', '{\n\t"s": {\n\t\t"memoryd": 1\n\t}\n}'),
        ("{\n  s: {\n    a: 1, // one\n  },\n}", "{\n  s: {\n    a: 1, // one\n    "
         '"memoryd": 1,\n  },\n}'),
        ('{"s": { // none\n}}', '{"s": { // none\n"memoryd": 1\n}}'),
    ],
)  # fmt: skip
def test_additions_look_like_the_rest(text: str, after: str) -> None:
    if "none" in text:
        assert read(json_text.put(text, ("s", "memoryd"), 1)) == {"s": {"memoryd": 1}}
    else:
        assert json_text.put(text, ("s", "memoryd"), 1) == after


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"s": []}', "s is not an object"),
        ('{"s": null}', "s is not an object"),
        ("[]", "the document is not an object"),
        ('{"a": 1,, }', "not valid JSON at line 1, column 9"),
        ('{"a" 1}', "not valid JSON at line 1, column 6"),
        ('{\n  "a": tru\n}', "not valid JSON at line 2, column 8"),
        ('{} {"b": 1}', "not valid JSON at line 1, column 4"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=range(8),
)
def test_an_unsuitable_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        json_text.put(text, ("s", "memoryd"), 1)
    assert str(caught.value) == problem


def test_of_two_members_with_one_name_the_last_counts() -> None:
    text = '{"a": {"x": 1}, "a": {"y": 2}}'
    assert json_text.put(text, ("a", "z"), 3) == '{"a": {"x": 1}, "a": {"y": 2, "z": 3}}'
    assert json.loads(json_text.remove(text, ("a",))) == {"a": {"x": 1}}
