"""The configuration with any value for any key: each is accepted or reported as a mistake."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.config.load import load
from memoryd.config.operations import READING
from memoryd.config.settings import Section, Settings, SocketSettings
from memoryd.config.validate import ConfigError
from memoryd.daemon.reload import is_below
from memoryd.source.notes.roots import extra_root
from memoryd.text.redact import PatternError, Redactor
from memoryd_client.shared import paths


def keys(section: type[Section], above: str = "") -> Iterator[str]:
    """Yield every key, tables included."""
    for field in msgspec.structs.fields(section):
        yield f"{above}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, Section):
            yield from keys(field.type, f"{above}{field.encode_name}.")


KEYS = sorted(keys(Settings))
words = st.sampled_from(
    [
        *("", ".", "~", "~nobody/x", "a\0b", "/" + "a" * 300, "a/" * 3_000, "/proc/self/mem", "#"),
        *(
            "auto",
            "none",
            "local",
            "openai",
            "http://h/v1",
            "http://u:p@h",
            "http://[",
            "http://h:0",
        ),
        *("(a+)+", "x{3}", "(", "\\", "é", "🦭", "\r\n", '"', "a.md", "!a", "**/**/**", "[a", "*"),
    ]
)
numbers = st.sampled_from([0, 1, -1, 8, 2**31, 2**63 - 1, 2**64, 10**400, -(10**19)]).map(str)
scalars = st.one_of(
    (words | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)).map(
        lambda text: json.dumps(text, ensure_ascii=False)
    ),
    numbers,
    st.sampled_from(["true", "false", "0.5", "-0.0", "inf", "nan", "1e400", "07:32:00"]),
    st.sampled_from(["1979-05-27", "1979-05-27T07:32:00Z", "0xff", "1_000"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(["path", "pattern", "exclude", "x-a", "a b"]), inner).map(
            lambda table: "{" + ", ".join(f'"{k}" = {v}' for k, v in table.items()) + "}"
        ),
    ),
    max_leaves=4,
)


@settings(max_examples=50)
@given(
    defaults=st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
    agent=st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
    socket=st.dictionaries(st.sampled_from(sorted(keys(SocketSettings))), values, max_size=2),
)
def test_any_value_anywhere_is_used_or_told(
    tmp_path_factory: pytest.TempPathFactory,
    defaults: dict[str, str],
    agent: dict[str, str],
    socket: dict[str, str],
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    tables = [("defaults", defaults), ("agents.a", agent), ("socket", socket)]
    text = "\n".join(
        line
        for name, table in tables
        for line in (f"[{name}]", *(f"{key} = {value}" for key, value in table.items()))
    )
    # TOML forbids DEL and lone carriage returns even in strings; JSON writes them unescaped.
    file.write_text(text.replace("\x7f", "\\u007f"), encoding="utf-8")
    try:
        configs = load(file)
    except ConfigError as error:
        if str(file) not in str(error):
            raise
        return
    for config in configs:
        assert config.workspace.is_absolute()
        assert Path(config.db_path).is_absolute()
        assert config.values()
        assert set(config.socket.allow) <= set(READING)
        path = paths.restricted_socket_path(config.socket.restricted, "/run/s")
        assert path is None or os.path.isabs(path)
        is_below(config.workspace, config.socket.add_below)
        for extra in config.settings.extra_paths:
            with suppress(ConfigError):
                extra_root(config.workspace, extra)
        with suppress(PatternError):
            Redactor(config.settings.redact.patterns)
