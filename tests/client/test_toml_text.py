"""Tables in TOML text: where they are, and that adding and removing them changes nothing else."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.connect import toml_text
from memctl.connect.agents import Setup, agent
from memctl.connect.entries import ConnectError

LINES = st.lists(
    st.sampled_from(
        [
            "",
            "# a comment [x]",
            "[t]",
            "  [ 't.u' . v ] # x",
            "[[hooks.Stop]]",
            "[[hooks.Stop.hooks]]",
            "[[hooks.SessionStart]]",
            "[mcp_servers.other]",
            "command = '/bin/memctl hook other Stop'",
            'a = """',
            "[not] '''",
            'b"""',
            "c = '''",
            "d''' # '",
            "e = [ [1],",
            "  [2] ]",
            "f = { g = [1] }",
            'h = "#[" # "',
            "]",
        ]
    ),
    max_size=12,
)
SETUP = Setup("/bin/memctl", ["--agent", 'a"b'], {"HOME": "/home/ana"}, "/plugin", "/config.toml")
BLOCK = "[m.memoryd]\ncommand = 'x'\n\n[[m.memoryd.more]]\na = [\n  1,\n]"


def valid(text: str) -> bool:
    try:
        tomllib.loads(text)
    except ValueError:
        return False
    return True


def without(text: str) -> str:
    while own := [t for t in toml_text.tables(text) if t.name[:2] == ("m", "memoryd")]:
        text = toml_text.cut(text, own[0])
    return text


@given(LINES.map("\n".join).filter(valid), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_removed_tables_leave_the_text_as_it_was(text: str, ends: bool, newline: str) -> None:
    text = (text + "\n" * ends).replace("\n", newline)
    after = toml_text.add(text, BLOCK)
    assert tomllib.loads(after) == tomllib.loads(text) | {
        "m": {"memoryd": {"command": "x", "more": [{"a": [1]}]}}
    }
    rest = without(after)
    assert rest in (text, f"{text}\n", f"{text}\r\n")


@given(LINES.map("\n".join).filter(valid))
def test_codex_loses_only_the_tables_of_memoryd(text: str) -> None:
    [file] = agent("codex", SETUP).files
    try:
        connected = file.connected(text)
    except ConnectError:
        return
    before, after = tomllib.loads(text), tomllib.loads(connected)
    assert after["mcp_servers"]["memoryd"]["required"] is True
    assert {key: after[key] for key in before.keys() - {"hooks", "mcp_servers"}} == {
        key: before[key] for key in before.keys() - {"hooks", "mcp_servers"}
    }
    assert (file.connected(connected), file.missing(connected)) == (connected, [])
    assert file.disconnected(connected, text) in (text, f"{text}\n")


def test_tables_are_found_by_name() -> None:
    text = """\
a = [
  ["x"],
]

# about y
[x."y.z"] # c
s = '''
[no]
'''

# about next

[[h.e]]
[[h.e.h]]
"""
    found = toml_text.tables(text)
    assert [table.name for table in found] == [("x", "y.z"), ("h", "e"), ("h", "e", "h")]
    assert text[found[0].start : found[0].end] == "[x.\"y.z\"] # c\ns = '''\n[no]\n'''\n"


@pytest.mark.parametrize("other", ["[projects.x]\nb = 1\n", "\n[[h.e]]\nb = 1\n"])
def test_tables_that_others_insert_stay(other: str) -> None:
    first, second = toml_text.add("a = 1\n", BLOCK).split("\n\n[[", 1)
    assert without(f"{first}\n\n{other}\n[[{second}") == f"a = 1\n\n{other}"
