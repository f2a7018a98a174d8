"""Secrets are masked, whatever stands around them; all else stays as it is."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.redact import MASK, PatternError, Redactor, is_card_number

redact = Redactor()
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def some(alphabet: str, length: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=length, max_size=length)


SHAPES: dict[str, st.SearchStrategy[str]] = {
    "openai": some(ALNUM, 48).map("sk-proj-{}".format),
    "anthropic": some(ALNUM, 40).map("sk-ant-api03-{}".format),
    "google": some(ALNUM, 35).map("AIza{}".format),
    "voyage": some(ALNUM, 40).map("pa-{}".format),
    "github": some(ALNUM, 36).map("ghp_{}".format),
    "github fine": some(ALNUM, 60).map("github_pat_{}".format),
    "gitlab": some(ALNUM, 20).map("glpat-{}".format),
    "slack": some("0123456789", 24).map("xoxb-{}".format),
    "aws": some("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16).map("AKIA{}".format),
    "stripe": some(ALNUM, 24).map("sk_live_{}".format),
    "hugging face": some(ALNUM, 34).map("hf_{}".format),
    "npm": some(ALNUM, 36).map("npm_{}".format),
    "pypi": some(ALNUM, 60).map("pypi-{}".format),
    "telegram": some(ALNUM, 33).map("123456789:AA{}".format),
    "jwt": some(ALNUM, 30).map(lambda s: f"eyJ{s}.eyJ{s}.{s}"),
}


AROUND = st.text(" \n漢字,;()🦭", max_size=20)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_vendors_key_is_masked_wherever_it_stands(shape: str) -> None:
    @given(
        SHAPES[shape], st.text(" \n漢字,.;()é🦭", max_size=20), st.text(" \n漢字,;)", max_size=20)
    )
    def check(secret: str, before: str, after: str) -> None:
        shown = redact(f"{before}{secret}{after}")
        assert secret[10:] not in shown
        assert MASK in shown
        assert redact(shown) == shown

    check()


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("OPENAI_API_KEY=abcdefgh1234", "gh1234"),
        ("export DB_PASSWORD='correct-horse-battery'", "battery"),
        ('{"client_secret": "abcdefghijkl"}', "ghijkl"),
        ("auth-token: abcdefghijkl", "ghijkl"),
        ("AWS_SECRET_ACCESS_KEY = wJalrXUtnFEMI/K7MDENG/bPxRfi", "MDENG"),
        ("Authorization: Bearer abcdefghijklmnop", "ijklmnop"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", "YXNzd29y"),
        ("Cookie: session=abcdefgh; id=99887766", "99887766"),
        ("https://bob:hunter2222@example.org/x", "2222"),
        ("redis://:s3cr3tpassword@cache:6379", "password"),
        ("card 4111 1111 1111 1111", "1111 1111"),
        ("card 5500-0000-0000-0004", "0000-0004"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEabc\n-----END PRIVATE KEY-----", "MIIE"),
        ("-----BEGIN OPENSSH PRIVATE KEY----- b3Blbn and no end", "b3Bl"),
    ],
)
def test_other_secrets(text: str, secret: str) -> None:
    shown = redact(text)
    assert secret not in shown
    assert MASK in shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "version 2026.4.10 at 10:30:00 on 2026-11-28T10:30:00Z",
        "/usr/lib/python3.11/secrets.py and ~/notes/tokens.md",
        "the token budget is 400 tokens, the key idea: keep it short",
        "password: ${DB_PASSWORD} or password=<your password> or token: null",
        "max_tokens: 4096",
        "card 4111 1111 1111 1112 is mistyped, 1700000000000 is a time",
        "phone +49 30 901820, order 2026-1128-0042",
        "https://example.org/a:b@c and me@example.org",
        "-----BEGIN PUBLIC KEY----- MIIB -----END PUBLIC KEY-----",
        "秘密は言わない。password は書かない。",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@given(st.text())
def test_masking_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(
    st.lists(
        st.sampled_from(["sk-", "key=", "a" * 20, " ", "\n", "://x:", "@", "4111", "eyJ", "."])
    )
)
def test_masking_twice_changes_nothing_of_what_is_nearly_a_secret(parts: list[str]) -> None:
    text = "".join(parts)
    assert redact(redact(text)) == redact(text)


def test_a_secret_in_a_long_text_is_found_wherever_it_is() -> None:
    secret = "sk-proj-" + "Zq7" * 12
    words = ("plain words " * 20_000).split(" ")
    for at in random.Random(7).sample(range(len(words)), 40):
        text = " ".join([*words[:at], secret, *words[at:]])
        assert secret not in redact(text)


def test_lines_stay_as_many_and_keys_on_many_lines_are_masked() -> None:
    lines = [
        "a",
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIabc",
        "def",
        "-----END RSA PRIVATE KEY-----",
        "b",
    ]
    masked = redact.lines(lines)
    assert len(masked) == len(lines)
    assert masked[0] == "a"
    assert masked[-1] == "b"
    assert not any("MII" in line or "def" in line for line in masked)


def test_patterns_of_ones_own() -> None:
    assert Redactor(["ACME-[0-9]{6}"])("it is ACME-123456.") == f"it is ACM{MASK}."
    with pytest.raises(PatternError, match=r"redact\.patterns: '\('"):
        Redactor(["("])


@pytest.mark.parametrize(
    ("number", "valid"), [("4111111111111111", True), ("4111111111111112", False), ("0", False)]
)
def test_check_digits(number: str, valid: bool) -> None:
    assert is_card_number([int(digit) for digit in number]) is valid
