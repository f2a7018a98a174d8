"""Identities of indexes, and the compatibility of two identities."""

import msgspec
import pytest

from memoryd.identity import Identity

BUILT = Identity(
    provider="local",
    model="use",
    provider_key="k1",
    dims=512,
    max_input_bytes=8000,
    chunk_tokens=400,
    chunk_overlap=80,
    tokenizer="porter-bigram-1",
)


def changed(**fields: object) -> Identity:
    return msgspec.structs.replace(BUILT, **fields)


def test_the_same_is_no_difference() -> None:
    assert changed().difference(BUILT) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("provider", "openai"),
        ("model", "other"),
        ("provider_key", "k2"),
        ("dims", 768),
        ("max_input_bytes", 100),
        ("chunk_tokens", 200),
        ("chunk_overlap", 0),
        ("tokenizer", "trigram"),
    ],
)
def test_a_change_is_named_with_old_and_new_value(field: str, value: object) -> None:
    difference = changed(**{field: value}).difference(BUILT)
    assert difference == f"{field} {getattr(BUILT, field)} → {value}"


def test_several_changes_are_all_named() -> None:
    difference = changed(model="other", dims=768).difference(BUILT)
    assert difference == "model use → other, dims 512 → 768"


def test_unknown_dims_fit_any() -> None:
    unknown = changed(dims=None)
    assert unknown.difference(BUILT) is None
    assert BUILT.difference(unknown) is None
    assert unknown.same_vectors(BUILT)
    assert BUILT.same_vectors(unknown)


@pytest.mark.parametrize(
    "fields", [{"provider": "openai"}, {"model": "other"}, {"provider_key": "k2"}, {"dims": 768}]
)
def test_vectors_of_other_models_are_not_comparable(fields: dict[str, object]) -> None:
    assert not changed(**fields).same_vectors(BUILT)


def test_chunking_and_tokenizer_do_not_change_vectors() -> None:
    assert changed(chunk_tokens=10, tokenizer="trigram").same_vectors(BUILT)


def test_it_survives_being_written_down() -> None:
    written = msgspec.json.encode(BUILT)
    assert msgspec.json.decode(written, type=Identity) == BUILT


def test_other_dims_of_one_provider_have_a_key_of_their_own() -> None:
    now = changed(dims=None).with_dims(768)
    assert now.difference(BUILT) == "dims 512 → 768"
    assert not now.same_vectors(BUILT)
    assert now.same_model(BUILT)
    assert now.provider_key not in (BUILT.provider_key, now.with_dims(512).provider_key)
    # Any number of changes keeps the key, because the dims requested at the start are not part of
    # it.
    again = now.with_dims(512).with_dims(768)
    assert again == now
    assert changed(dims=None).difference(now) is None
    assert changed(dims=None).with_dims_of(now) == now
    assert now.with_dims(512).difference(BUILT) is None
    assert not changed(provider_key="k2").same_model(now)
