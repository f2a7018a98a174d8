"""The choice of a provider, the source of its key, and invalid settings."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memoryd.config.settings import ExtraPath, Local, Remote, Settings, StoreSettings
from memoryd.config.validate import mistakes
from memoryd.embed.provider import PermanentError
from memoryd.embed.resolve import (
    AUTOMATIC,
    ORDER,
    Considered,
    Resolved,
    resolve,
    unused_key,
)
from memoryd.embed.vendors.credentials import Key, KeySource
from memoryd.identity import Choice

SECRET = "sk-secret-0123456789"


def choose(
    configured: str = "auto",
    *,
    fallback: str = "none",
    kept: Choice | None = None,
    built_with: str | None = None,
    model_path: str | None = None,
    files: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
) -> Resolved:
    return resolve(
        configured,
        fallback=fallback,
        kept=kept,
        built_with=built_with,
        model_path=model_path,
        is_file=lambda path: path in files,
        key_origin=lambda name: f"{name.upper()}_API_KEY" if name in keys else None,
    )


def found(provider: str, why: str = "", instead_of: str = "auto") -> Choice:
    return Choice(provider, "found", why, instead_of)


# Auto, for a new index


def no_key(name: str) -> str | None:
    raise AssertionError("auto must not look for keys: their disk may hang")


@pytest.mark.parametrize("built_with", [None, "none"])
def test_auto_stays_on_this_machine_whatever_keys_there_are(built_with: str | None) -> None:
    resolved = resolve(
        "auto",
        fallback="none",
        kept=None,
        built_with=built_with,
        model_path=None,
        is_file=lambda path: False,
        key_origin=no_key,
    )
    assert resolved.choice == found("local", "auto stays on this machine")
    assert resolved.considered == [
        Considered("local (GGUF)", "local.model_path is not set"),
        Considered("local", None),
    ]
    assert not resolved.is_fallback


@pytest.mark.parametrize("configured", AUTOMATIC)
def test_a_model_file_counts_more_than_every_key(configured: str) -> None:
    resolved = choose(configured, model_path="m.gguf", files=("m.gguf",), keys=ORDER)
    assert resolved.provider == "local"
    assert resolved.choice == found("local", "local.model_path is m.gguf", configured)
    assert resolved.considered == [Considered("local", None)]


def test_a_model_file_that_is_not_there_is_passed_over() -> None:
    for configured, provider in (("auto", "local"), ("auto-remote", "voyage")):
        resolved = choose(configured, model_path="m.gguf", keys=("voyage",))
        assert resolved.provider == provider
        assert resolved.considered[0] == Considered("local (GGUF)", "m.gguf is not a file")


# Auto-remote, for a new index


def test_the_order_is_the_documented_one() -> None:
    assert ORDER == ("openai", "gemini", "voyage", "mistral")


@pytest.mark.parametrize("number", range(len(ORDER)))
def test_the_first_key_counts_and_why_others_were_passed_over_is_told(number: int) -> None:
    name = ORDER[number]
    resolved = choose("auto-remote", keys=ORDER[number:])
    assert resolved.provider == name
    why = f"its key was found in {name.upper()}_API_KEY"
    assert resolved.choice == found(name, why, "auto-remote")
    assert resolved.considered == [
        Considered("local (GGUF)", "local.model_path is not set"),
        *(Considered(other, "no key was found") for other in ORDER[:number]),
        Considered(name, None),
    ]
    assert not resolved.is_fallback


def test_without_any_key_the_bundled_model_is_taken() -> None:
    resolved = choose("auto-remote")
    why = "no key of another provider was found"
    assert resolved.choice == found("local", why, "auto-remote")
    assert [candidate.provider for candidate in resolved.considered] == [
        "local (GGUF)",
        *ORDER,
        "local",
    ]
    assert resolved.considered[-1].passed_over is None


def test_ollama_is_never_found() -> None:
    assert choose("auto-remote", keys=("ollama",)).provider == "local"


# Both, for an existing index


@pytest.mark.parametrize("keys", [(), ("openai",), ("gemini",), ORDER])
@pytest.mark.parametrize("by", ["found", "asked"])
@pytest.mark.parametrize("configured", AUTOMATIC)
def test_a_choice_is_kept_over_keys_that_come_and_go(
    configured: str, by: Any, keys: tuple[str, ...]
) -> None:
    kept = Choice("gemini", by, "its key was found in GEMINI_API_KEY", configured)
    resolved = choose(
        configured,
        kept=kept,
        built_with="gemini",
        keys=keys,
        model_path="m.gguf",
        files=("m.gguf",),
    )
    assert resolved == Resolved("gemini", kept, [Considered("gemini", None)])


def test_what_was_found_once_is_found_no_more() -> None:
    first = choose("auto-remote", keys=("mistral",))
    again = choose("auto-remote", kept=first.choice, built_with="mistral", keys=("openai",))
    assert again.choice == first.choice
    assert choose("auto-remote", kept=again.choice, built_with="mistral").choice == first.choice


def test_a_local_choice_of_auto_remote_is_kept_when_a_key_appears() -> None:
    first = choose("auto-remote")
    again = choose("auto-remote", kept=first.choice, built_with="local", keys=ORDER)
    assert again.choice == first.choice


def test_a_choice_for_another_configuration_is_not_kept() -> None:
    """After a named provider, `auto` keeps the provider of the index."""
    kept = Choice("voyage", "fallback", "openai failed", "openai")
    for configured in AUTOMATIC:
        resolved = choose(configured, kept=kept, built_with="voyage", keys=("openai",))
        assert resolved.choice == found("voyage", "the index was built with it", configured)
        assert not resolved.is_fallback


@pytest.mark.parametrize("built_with", ["openai", "ollama", "local"])
def test_auto_stays_with_what_an_index_was_built_with(built_with: str) -> None:
    resolved = choose(built_with=built_with, keys=ORDER)
    assert resolved.choice == found(built_with, "the index was built with it")
    assert resolved.considered == [Considered(built_with, None)]


@pytest.mark.parametrize("kept", [None, found("local")])
def test_who_asks_for_auto_remote_gets_it_for_an_index_that_was_local(
    kept: Choice | None,
) -> None:
    resolved = choose("auto-remote", kept=kept, built_with="local", keys=("voyage",))
    assert resolved.provider == "voyage"


def test_an_index_of_keywords_alone_was_built_with_nothing() -> None:
    assert choose("auto-remote", built_with="none", keys=("voyage",)).provider == "voyage"


# Keys that auto leaves unused


def unused(
    configured: str = "auto",
    *,
    fallback: str = "none",
    kept: Choice | None = None,
    variables: Mapping[str, str] | None = None,
) -> str | None:
    if variables is None:
        variables = {"openai": "OPENAI_API_KEY"}
    resolved = choose(configured, fallback=fallback, kept=kept)
    return unused_key(configured, resolved, fallback=fallback, variables=variables)


def test_one_line_says_how_to_use_a_key_that_is_there() -> None:
    assert unused() == (
        "OPENAI_API_KEY is set but not used; `memctl index --provider openai` or"
        ' provider = "openai" in the configuration uses it'
    )
    several = {"mistral": "MISTRAL_API_KEY", "gemini": "GOOGLE_API_KEY_FILE"}
    assert unused(variables=several) == (
        "GOOGLE_API_KEY_FILE and MISTRAL_API_KEY are set but not used; `memctl index --provider"
        ' gemini` or provider = "gemini" in the configuration uses the first'
    )
    assert unused(variables={"ollama": "OLLAMA_API_KEY"}) is None
    assert unused(variables={}) is None


@pytest.mark.parametrize("configured", ["local", "none", "voyage", "auto-remote"])
def test_who_has_decided_is_told_nothing(configured: str) -> None:
    assert unused(configured) is None


def test_who_has_asked_or_uses_the_key_is_told_nothing() -> None:
    assert unused(kept=Choice("local", "asked", "a client requested it", "auto")) is None
    assert unused(kept=found("openai")) is None
    assert unused(fallback="openai") is None


# Named


@pytest.mark.parametrize("name", ["openai", "ollama", "local", "none"])
def test_a_named_provider_is_taken_whatever_there_is(name: str) -> None:
    kept = found("gemini")
    for built_with in (None, "gemini"):
        resolved = choose(
            name,
            kept=kept,
            built_with=built_with,
            keys=ORDER,
            model_path="m",
            files=("m",),
        )
        assert resolved == Resolved(name, None, [Considered(name, None)])


def test_a_request_for_the_configured_provider_needs_no_choice() -> None:
    kept = Choice("openai", "asked", "it was asked for by request", "openai")
    assert choose("openai", kept=kept) == Resolved("openai", None, [Considered("openai", None)])


# The fallback


FALLEN = Choice("mistral", "fallback", "openai failed: bad key", "openai")


def test_a_fallback_is_kept_although_the_first_provider_works_again() -> None:
    resolved = choose("openai", fallback="mistral", kept=FALLEN, keys=ORDER, built_with="openai")
    assert resolved == Resolved("mistral", FALLEN, [Considered("mistral", None)])
    assert resolved.is_fallback


def test_a_fallback_of_auto_is_kept_too() -> None:
    kept = Choice("local", "fallback", "openai failed: bad key", "auto")
    resolved = choose("auto", fallback="local", kept=kept, keys=ORDER, built_with="openai")
    assert resolved == Resolved("local", kept, [Considered("local", None)])
    assert resolved.is_fallback


@pytest.mark.parametrize("fallback", ["none", "voyage"])
def test_a_fallback_that_is_configured_no_more_ends(fallback: str) -> None:
    assert choose("openai", fallback=fallback, kept=FALLEN).provider == "openai"


def test_another_configured_provider_ends_a_fallback() -> None:
    resolved = choose("voyage", fallback="mistral", kept=FALLEN)
    assert resolved == Resolved("voyage", None, [Considered("voyage", None)])


def test_going_back_on_request_ends_a_fallback() -> None:
    asked = Choice("openai", "asked", "it was asked for by request", "openai")
    resolved = choose("openai", fallback="mistral", kept=asked, built_with="mistral")
    assert resolved.provider == "openai"
    assert not resolved.is_fallback


# Keys


def source(environment: Mapping[str, str], file: str | None = None) -> KeySource:
    return KeySource(("A_API_KEY", "B_API_KEY"), file, environment)


def test_the_variable_of_a_key_is_named_without_reading_its_file() -> None:
    assert source({}).variable is None
    assert source({"A_API_KEY": " ", "B_API_KEY": "x\n\x00y"}).variable == "B_API_KEY"
    assert source({"B_API_KEY_FILE": "/nowhere"}).variable == "B_API_KEY_FILE"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(f"\n {SECRET}\n")
    file.chmod(0o600)
    return file


def test_no_key_is_none() -> None:
    assert source({}).find() is None
    assert source({"A_API_KEY": "", "B_API_KEY": " \n", "B_API_KEY_FILE": ""}).find() is None
    assert KeySource((), None, {"A_API_KEY": SECRET}).find() is None


def test_the_first_variable_that_is_set_counts(key_file: Path) -> None:
    both = {"A_API_KEY": "first", "B_API_KEY": "second"}
    assert source(both).find() == Key("first", "A_API_KEY")
    assert source({"A_API_KEY": " ", "B_API_KEY": "second"}).find() == Key("second", "B_API_KEY")
    assert source({"A_API_KEY": f"  {SECRET}\n"}).find() == Key(SECRET, "A_API_KEY")
    files = {"A_API_KEY": "first", "A_API_KEY_FILE": str(key_file)}
    assert source(files).find() == Key("first", "A_API_KEY")


def test_a_variable_may_name_a_file(key_file: Path) -> None:
    environment = {"A_API_KEY_FILE": str(key_file), "B_API_KEY": "second"}
    assert source(environment).find() == Key(SECRET, f"A_API_KEY_FILE ({key_file})")


def test_a_credential_of_systemd_is_a_key_file(key_file: Path) -> None:
    """`LoadCredential=` makes a file of mode 0400 in a folder of mode 0500."""
    key_file.chmod(0o400)
    key_file.parent.chmod(0o500)
    found_key = source({"A_API_KEY_FILE": str(key_file)}).find()
    assert found_key == Key(SECRET, f"A_API_KEY_FILE ({key_file})", exposed=None)


def test_a_configured_file_counts_more_than_variables(key_file: Path) -> None:
    found_key = source({"A_API_KEY": "first"}, str(key_file)).find()
    assert found_key == Key(SECRET, f"remote.api_key_file ({key_file})")


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeySource(("MEMORYD_TEST_KEY",))
    assert kept.find() is None
    monkeypatch.setenv("MEMORYD_TEST_KEY", "one")
    assert kept.find() == Key("one", "MEMORYD_TEST_KEY")
    monkeypatch.setenv("MEMORYD_TEST_KEY", "two")
    assert kept.find() == Key("two", "MEMORYD_TEST_KEY")


def test_a_home_is_known_in_the_name_of_a_file(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(key_file.parent))
    assert source({}, "~/key").find() == Key(SECRET, f"remote.api_key_file ({key_file})")


def test_a_key_that_is_rotated_in_its_file_counts_at_once(key_file: Path) -> None:
    rotating = source({}, str(key_file))
    key_file.write_text("another")
    found_key = rotating.find()
    assert found_key is not None
    assert found_key.value == "another"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "can't be read: No such file or directory"),
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\xff\xfe\x00", "can't be read: 'utf-8' codec"),
        (b"two\nlines", "contains characters that no key has"),
        ("schlüssel".encode(), "contains characters that no key has"),
        (b"a\x00b", "contains characters that no key has"),
        (b"k" * 16_385, "contains characters that no key has"),
    ],
)
def test_a_bad_file_is_told_without_what_it_holds(
    content: bytes | None, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
        file.chmod(0o600)
    with pytest.raises(PermanentError) as caught:
        source({"A_API_KEY": SECRET}, str(file)).find()
    message = str(caught.value)
    assert problem in message
    assert str(file) in message
    assert "remote.api_key_file" in message
    for held in ("lines", "schl", "kkkk", SECRET):
        assert held not in message


@pytest.mark.parametrize("file", [".", "no\x00file", "~no-such-user-of-memoryd/key"])
def test_what_is_no_file_at_all_is_told(file: str) -> None:
    with pytest.raises(PermanentError, match=r"\(A_API_KEY_FILE\) can't be read"):
        source({"A_API_KEY_FILE": file}).find()


def test_a_bad_variable_is_told_without_its_value() -> None:
    with pytest.raises(PermanentError) as caught:
        source({"B_API_KEY": f"{SECRET}\n{SECRET}"}).find()
    assert str(caught.value) == "The key of B_API_KEY contains characters that no key has."


def test_a_file_that_others_can_read_is_warned_of_once(
    key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key_file.chmod(0o644)
    with caplog.at_level(logging.WARNING, "memoryd"):
        for _ in range(3):
            assert source({}, str(key_file)).find() is not None
    (record,) = caplog.records
    assert f"other users can read the key file {key_file}" in record.getMessage()
    assert SECRET not in record.getMessage()


def test_no_key_is_shown_by_repr() -> None:
    key = Key(SECRET, "A_API_KEY")
    for shown in (repr(key), str(key), f"{key}", repr([key])):
        assert SECRET not in shown
        assert "A_API_KEY" in shown


def test_what_to_set_is_told() -> None:
    assert source({}).hint == "set A_API_KEY or B_API_KEY, or remote.api_key_file"
    assert KeySource(()).hint == "set remote.api_key_file"


# Contradictory settings


def wrong(**values: Any) -> list[str]:
    """Return the keys of all mistakes."""
    return [key for key, _ in mistakes(Settings(**values))]


def test_the_usual_settings_are_no_mistake() -> None:
    assert wrong() == []
    assert wrong(provider="openai", model="m", fallback="local") == []


@pytest.mark.parametrize("provider", ["local", "openai", "none", "ollama"])
def test_a_fallback_is_another_provider(provider: str) -> None:
    expected = [] if provider == "none" else ["fallback"]
    assert wrong(provider=provider, fallback=provider) == expected
    assert wrong(provider=provider, fallback="voyage") == []


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("model", {"model": "m"}),
        ("remote.base_url", {"remote": Remote(base_url="http://h/v1")}),
        ("remote.api_key_file", {"remote": Remote(api_key_file="/key")}),
        ("remote.api_key_header", {"remote": Remote(api_key_header="api-key")}),
    ],
)
def test_auto_leaves_no_room_for_what_belongs_to_one_provider(
    key: str, values: dict[str, Any]
) -> None:
    for configured in AUTOMATIC:
        settings = Settings(provider=configured, **values)  # type: ignore[arg-type]
        ((found_key, problem),) = mistakes(settings)
        assert found_key == key
        assert 'provider = "openai"' in problem
    assert wrong(provider="openai", **values) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:1234/v1",
        "ftp://h/v1",
        "http://",
        "https:///v1",
        "http://h:0/v1",
        "http://h:99999/v1",
        "http://h:x/v1",
        "http://[::1/v1",
        "http://user@h/v1",
        "http://user:secret@h/v1",
        "http://:secret@h/v1",
        "http://h /v1",
    ],
)
def test_an_address_that_is_none_is_a_mistake_told_without_it(url: str) -> None:
    ((key, problem),) = mistakes(Settings(provider="openai", remote=Remote(base_url=url)))
    assert key == "remote.base_url"
    assert "secret" not in problem


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "HTTPS://h.example.com:8443/v1/",
        "http://[::1]:8080/v1",
        "http://bücher.example/v1",
        "https://n.openai.azure.com/openai/deployments/d?api-version=2024-02-01",
    ],
)
def test_an_address_that_is_one_is_no_mistake(url: str) -> None:
    assert wrong(provider="openai", remote=Remote(base_url=url)) == []


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("X-Team", "seals", True),
        ("X-Team", "Robben für alle", True),
        ("X Team", "seals", False),
        ("X-Team\r\n", "seals", False),
        ("X-Té", "seals", False),
        ("X-Team", "seals\r\nX-Other: 1", False),
    ],
)
def test_headers_that_cannot_be_sent_are_mistakes(name: str, value: str, *, right: bool) -> None:
    expected = [] if right else [f"remote.headers.{name}"]
    assert wrong(remote=Remote(headers={name: value})) == expected


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("workspace", {"workspace": "~no-such-user-of-memoryd/notes"}),
        ("store.path", {"store": StoreSettings(path="~no-such-user-of-memoryd/x")}),
        (
            "remote.api_key_file",
            {"provider": "openai", "remote": Remote(api_key_file="~no-such-user-of-memoryd/x")},
        ),
        ("local.model_path", {"local": Local(model_path="~no-such-user-of-memoryd/x")}),
        ("extra_paths", {"extra_paths": ("~no-such-user-of-memoryd/x",)}),
        ("extra_paths", {"extra_paths": (ExtraPath(path="~no-such-user-of-memoryd/x"),)}),
    ],
)
def test_the_home_of_nobody_is_a_mistake(key: str, values: dict[str, Any]) -> None:
    assert wrong(**values) == [key]
