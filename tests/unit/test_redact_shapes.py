"""Every form of a secret is masked as its kind, and harmless lines stay as they are."""

import random
import re
import string
import tomllib
from pathlib import Path
from typing import Any

import pytest

from memoryd.text.redact import Redactor
from memoryd.text.secret_words import ASCII_WORDS
from memoryd.text.vendor_tokens import KEPT_CHARS, SHAPES

FOLDER = Path(__file__).parents[1] / "fixtures" / "redaction"
ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "u": string.ascii_uppercase + "234567",
    "d": string.digits,
}
HARMLESS = (FOLDER / "harmless.txt").read_text().splitlines()
redact = Redactor()


def filled(template: str) -> str:
    """Return an example with random characters, the same in every run."""
    chosen = random.Random(template)
    return re.sub(
        r"\{([ahud])(\d+)\}",
        lambda found: "".join(chosen.choices(ALPHABETS[found[1]], k=int(found[2]))),
        template,
    )


def shapes() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = tomllib.loads((FOLDER / "shapes.toml").read_text())["shape"]
    return listed


SECRETS = [(shape["kind"], text) for shape in shapes() for text in shape["secrets"]]


@pytest.mark.parametrize(("kind", "text"), SECRETS)
def test_a_secret_is_masked_as_its_kind_and_nothing_else_is(kind: str, text: str) -> None:
    before, secret, after = re.split("[⟦⟧]", filled(text))
    shown = redact(before + secret + after)
    found = re.fullmatch(
        rf"{re.escape(before)}(.*)…\[redacted: {re.escape(kind)}\]{re.escape(after)}", shown
    )
    assert found, shown
    is_token = any(shape.kind == kind for shape in SHAPES)
    assert len(found[1]) <= (min(KEPT_CHARS, len(secret) // 3) if is_token else 0)
    assert secret.startswith(found[1])
    assert redact(shown) == shown


@pytest.mark.parametrize("text", [text for shape in shapes() for text in shape["harmless"]])
def test_a_text_that_resembles_a_secret_stays(text: str) -> None:
    assert redact(filled(text)) == filled(text)


def test_each_shape_has_an_example_and_a_source() -> None:
    examples = " ".join(text.partition("⟦")[2] for _, text in SECRETS)
    assert [word for shape in SHAPES for word in shape.words.split() if word not in examples] == []
    assert all(shape.source for shape in SHAPES)


def test_passwords_are_recognized_in_fifteen_languages_at_least() -> None:
    told = {text.partition("⟦")[0].rstrip(" :：") for kind, text in SECRETS if kind == "password"}
    assert len([word for word in ASCII_WORDS if any(word in text.lower() for text in told)]) >= 6
    assert len([text for text in told if not text.isascii()]) >= 15


@pytest.mark.parametrize("line", HARMLESS)
def test_a_harmless_line_stays(line: str) -> None:
    assert redact(line) == line


def test_harmless_lines_stay_together_too() -> None:
    assert len(set(HARMLESS)) >= 300
    assert redact("\n".join(HARMLESS)) == "\n".join(HARMLESS)
