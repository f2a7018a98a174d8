"""Secrets are masked in any context; all other text is unchanged."""

import itertools
import json
import random
import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.text.redact import MASK, PatternError, Redactor, mask
from memoryd.text.vendor_tokens import KEPT_CHARS

redact = Redactor()
ALNUM = string.ascii_letters + string.digits
RUN = ALNUM + "_-"
HEX = "0123456789abcdef"


def some(alphabet: str, least: int, most: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most or least)


def begun(words: str, alphabet: str, least: int) -> dict[str, st.SearchStrategy[str]]:
    return {word: some(alphabet, least, least + 60).map(word.__add__) for word in words.split()}


SHAPES: dict[str, st.SearchStrategy[str]] = {
    **begun("sk-proj- sk-ant- sk-svcacct- sk-admin- sk-or-v1-", RUN, 40),
    **begun("sk- gsk_ hf_ npm_ xai- pplx- lin_api_ shpat_ sbp_ whsec_", ALNUM, 20),
    **begun("sk_live_ sk_test_ rk_live_ rk_test_", ALNUM, 24),
    **begun("ghp_ gho_ ghs_ ghu_ ghr_", ALNUM, 36),
    **begun("github_pat_ dckr_pat_ nvapi- GOCSPX- figd_ glsa_", RUN, 30),
    **begun("glpat- gldt- glrt- glptt- glsoat- tskey- xapp-", RUN, 20),
    **begun("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", string.digits + "-ab", 24),
    **begun("AIza ya29. hvs.", RUN, 35),
    **begun("pypi-", RUN, 60),
    **begun("dop_v1_ doo_v1_ dor_v1_", HEX, 64),
    **begun("AKIA ASIA", string.ascii_uppercase + "234567", 16),
    "pa-": some(RUN, 42).map("pa-7{}".format),
    "SG.": st.builds("SG.{}.{}".format, some(RUN, 22), some(RUN, 43)),
    "SK": some(HEX, 32).map("SK{}".format),
    ":AA": st.builds("{}:AA{}".format, some(string.digits, 9), some(RUN, 33)),
    "hooks.slack.com/services/": st.builds(
        "hooks.slack.com/services/T{}/B{}/{}".format,
        some("AB12", 9),
        some("AB12", 9),
        some(RUN, 24),
    ),
    "eyJ": st.builds("eyJ{}.eyJ{}.{}".format, some(RUN, 30), some(RUN, 30, 90), some(RUN, 43)),
    "encrypted eyJ": st.builds("eyJ{}..{}.{}.{}".format, *[some(RUN, 30)] * 4),
}
SHOWN_BEFORE = {":AA": 10, "hooks.slack.com/services/": 25}
"""Number of visible characters for shapes that begin with an identifier."""

around = st.text() | st.text(" \n漢字,.;:()[]{}<>'\"`*_-=+/é🦭", max_size=20)
before_word = around.filter(lambda text: not text or text[-1] not in ALNUM)


def leaks(secret: str, shown: str, *others: str, least: int = 8) -> list[str]:
    """Return the visible parts of a secret, `least` characters long, that `others` lack."""
    shown = re.sub(rf"(?s).{{0,{KEPT_CHARS}}}{MASK.pattern}", "\n\n", shown)
    parts = (secret[at : at + least] for at in range(len(secret) - least + 1))
    return [part for part in parts if part in shown and not any(part in text for text in others)]


def luhn(digits: str) -> str:
    """Return the digits with their check digit."""
    total = sum(sum(divmod(2 * int(d), 10)) for d in digits[::-2]) + sum(map(int, digits[-2::-2]))
    return f"{digits}{-total % 10}"


@pytest.mark.parametrize("shape", SHAPES)
def test_every_vendors_key_is_masked_wherever_it_stands(shape: str) -> None:
    @given(SHAPES[shape], before_word, around.filter(lambda t: not t or t[0] not in ALNUM))
    def check(secret: str, before: str, after: str) -> None:
        shown = redact(f"{before}{secret}{after}")
        public = SHOWN_BEFORE.get(shape, 0)
        assert not leaks(secret[public + KEPT_CHARS :], shown, before, after, secret[:public])
        assert MASK.search(shown)
        assert redact(shown) == shown

    check()


NAMES = [
    *("password", "DB_PASSWORD", "PGPASSWORD", "dbPassword", "user.passwd", "pwd", "userPass"),
    *("client_secret", "SECRET_KEY_BASE", "secretAccessKey", "token", "accessToken", "_authToken"),
    *("x-api-key", "OPENAI_API_KEY", "apiKey", "API key", "apikey", "private_key", "AccountKey"),
    *("auth", "Proxy-Authorization", "credentials", "passphrase", "aws_secret_access_key"),
]
SEPARATORS = ["=", " = ", ": ", ":", "：", " => ", ":="]
QUOTES = ["", '"', "'", "`", '\\"']


@given(
    st.sampled_from(NAMES),
    st.sampled_from(SEPARATORS),
    st.sampled_from(QUOTES),
    some("".join(set(string.printable) - set(string.whitespace) - set("\"'`\\=:")), 12, 40),
    st.sampled_from(["", " and more", "\nUSER=bob", ", user=bob)", "&user=bob", "。"]),
)
def test_values_of_telling_names_are_masked(
    name: str, separator: str, quote: str, value: str, after: str
) -> None:
    secret = f"7x{value}9"
    shown = redact(f"{name}{separator}{quote}{secret}{quote}{after}")
    assert not leaks(secret[KEPT_CHARS:], shown, name, after, least=5)
    assert MASK.search(shown)
    assert redact(shown) == shown


@given(
    st.dictionaries(st.sampled_from(NAMES) | st.text(), st.text() | some("\\\"'é\n x9", 8, 30)),
)
def test_json_stays_json(data: dict[str, str]) -> None:
    assert json.loads(redact(json.dumps(data))).keys() == data.keys()


@given(some(string.ascii_letters + '"\\ \n!é', 20, 60), st.booleans())
def test_a_value_in_json_is_masked_to_its_end(value: str, ascii_only: bool) -> None:
    text = json.dumps({"password": f"7x{value}", "n": 1}, ensure_ascii=ascii_only)
    masked = json.loads(redact(text))
    assert masked["n"] == 1
    assert masked["password"] == mask("password")


BRANDS: dict[str, tuple[int, ...]] = {
    "4": (13, 16, 19),
    "51": (16,),
    "2221": (16,),
    "34": (15,),
    "37": (15,),
    "36": (14,),
    "6011": (16,),
    "62": (16, 17, 18, 19),
    "3528": (16,),
    "5018": (13, 16),
}
SIZES: dict[int, list[tuple[int, ...]]] = {
    13: [(13,), (4, 4, 4, 1)],
    14: [(14,), (4, 6, 4)],
    15: [(15,), (4, 6, 5)],
    16: [(16,), (4, 4, 4, 4)],
    17: [(17,)],
    18: [(18,)],
    19: [(19,), (4, 4, 4, 4, 3)],
}


@st.composite
def cards(draw: st.DrawFn) -> str:
    brand = draw(st.sampled_from(sorted(BRANDS)))
    length = draw(st.sampled_from(BRANDS[brand]))
    rest = length - 1 - len(brand)
    number = luhn(brand + draw(some(string.digits, rest)))
    sizes = draw(st.sampled_from(SIZES[length]))
    ends = [0, *itertools.accumulate(sizes)]
    parts = [number[start:end] for start, end in itertools.pairwise(ends)]
    return draw(st.sampled_from([" ", "-"])).join(parts)


@given(
    cards(),
    st.sampled_from(["", "card ", "号", "card:", "2026 ", "v2 ", "12 12 ", "no. "]),
    st.sampled_from(["", " 123", " 12/29", ".", ", thanks", " 3rd", "号", "\n4111"]),
)
@example("4111 1111 1111 1111", "", " 123")
def test_card_numbers_are_masked(card: str, before: str, after: str) -> None:
    shown = redact(f"{before}{card}{after}")
    assert not leaks(card[KEPT_CHARS:], shown, least=5)
    assert MASK.search(shown)
    assert redact(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("OPENAI_API_KEY=abcdefgh1234", "OPENAI_API_KEY=~key~"),
        ("export DB_PASSWORD='correct horse battery'", "export DB_PASSWORD='~password~'"),
        ("password: 12x45, then", "password: ~password~, then"),
        ("**Password:** hunter2\n", "**Password:** ~password~\n"),
        ("password=a,b;c)d&e then", "password=~password~ then"),
        ("GET /x?token=abcdef&user=bob", "GET /x?token=~token~&user=bob"),
        (
            "connect(password='hunter2', user='bob')",
            "connect(password='~password~', user='bob')",
        ),
        (
            '{"auths": {"h": {"auth": "Ym9iOmh1bnRlcjI="}}}',
            '{"auths": {"h": {"auth": "~credentials~"}}}',
        ),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer ~credentials~"),
        ("authorization: basic dXNlcjpwYXNzd29y", "authorization: basic ~credentials~"),
        ("-H 'Authorization: token abc123def456'", "-H 'Authorization: token ~credentials~'"),
        ("sent Bearer abc123def456ghi789 to it", "sent Bearer ~token~ to it"),
        ("Cookie: session=abcdefgh; id=99887766 Host: x", "Cookie: ~cookie~ Host: x"),
        ("Set-Cookie: id=abcdefgh12; Path=/; HttpOnly", "Set-Cookie: ~cookie~"),
        ("https://bob:hunter2222@example.org/x", "https://bob:~password~@example.org/x"),
        ("redis://:s3cr3tpassword@cache:6379", "redis://:~password~@cache:6379"),
        ("postgres://bob:p@ss/w0rd@db/x", "postgres://bob:~password~@db/x"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEa\n-----END PRIVATE KEY-----.", "{}."),
        ("-----BEGIN PRIVATE KEY----- MIIEa -----END PRIVATE KEY----- b", "{} b"),
        ('"-----BEGIN PRIVATE KEY-----\\nMIIEa\\n-----END PRIVATE KEY-----"', '"{}"'),
        ("-----BEGIN PRIVATE KEY----- b3Blbn and no end", "{}"),
        (
            "access_token=abcdefgh1&refresh_token=abc123abc",
            "access_token=~token~&refresh_token=~token~",
        ),
        (
            "password=abcd1234;old_password=efgh5678",
            "password=~password~;old_password=~password~",
        ),
        ("token=abcdefgh12).\ntoken=abcdefgh12", "token=~token~).\ntoken=~token~"),
        ('\\"text\\": \\"a\\nsk-proj-0123456789abcdefgh', '\\"text\\": \\"a\\nsk-pro~OpenAI key~'),
        ("the password is opensesame4.", "the password is ~password~."),
        ("OPENAI_API_KEY=sk-proj-0123456789abcdefgh", "OPENAI_API_KEY=sk-pro~OpenAI key~"),
        ("password=sk-proj-0123456789abcdefgh", "password=~password~"),
    ],
)
def test_other_secrets(text: str, shown: str) -> None:
    expected = shown.replace("{}", "-----BEGIN PRIVATE KEY-----~private key~")
    expected = re.sub("~([^~]+)~", lambda kind: mask(kind[1]), expected)
    assert redact(text) == expected
    assert redact(expected) == expected


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA "])
@pytest.mark.parametrize("between", ["\n", " ", "\\n", "\r\n"])
def test_private_keys(kind: str, between: str) -> None:
    body = between.join(["MIIEvQIBADANBgkq", "hkiG9w0BAQEFAASC"] * 3)
    key = between.join([f"-----BEGIN {kind}PRIVATE KEY-----", body])
    assert redact(f"a {key}") == f"a -----BEGIN {kind}PRIVATE KEY-----{mask('private key')}"
    shown = redact(f"a {key}{between}-----END {kind}PRIVATE KEY-----{between}b")
    assert shown == f"a -----BEGIN {kind}PRIVATE KEY-----{mask('private key')}{between}b"


NO_SECRETS = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b, sha256:" + HEX * 4,
    "uuid 123e4567-e89b-12d3-a456-426614174000 and 41111111-1111-4111-1111-111111111111",
    "version 2026.4.10 at 10:30:00 on 2026-11-28T10:30:00.123456Z",
    "1700000000000 ms, 1700000000000000 us, 1700000000000000000 ns, 0.4111111111111111",
    "41111111111111111111111111111111111111 is too long",
    "card 4111 1111 1111 1112 is mistyped; 1234567890128 is no card's",
    "phone +49 30 901820, order 2026-1128-0042, sizes 1024 2048 4096 8192 16384",
    "/usr/lib/python3.11/secrets.py and ~/notes/tokens.md and C:\\keys\\token.txt",
    "the token budget is 400 tokens, the key idea: keep it short",
    "The secret: never give up. The token: each word counts. Auth: see below",
    "Password: required, token: invalid, api key: missing",
    "HTTP basic authentication, the bearer of bad-news-everyone, Basic understanding",
    "Authorization: Basic auth is used. author: somebody-else, authority=example.org",
    "Cookie: chocolate chip; the cookie jar: full",
    "compass: northwest, bypass=everything, monkey: bananas, keyboard=qwertz",
    "password: ${DB_PASSWORD} or password=<your password> or token: null",
    "PASSWORD=$DB_PASSWORD TOKEN=$(cat token.txt) KEY=%API_KEY% pw: {{ vault.password }}",
    'api_key: "your-api-key", password: "********", token="[hidden]", secret: "none"',
    "max_tokens: 4096, token_count=123456, token_type=bearer, password_min_length: 12345",
    "private_key_path=/etc/ssl/key.pem, token_endpoint: https://example.org/token/1a2b3c4d",
    "PWD=/home/bob/project OLDPWD=~/notes",
    "def f(token: string, password: str | None = None, key: bytes) -> SecretStr:",
    "login(password=password, token=self.token, api_key=config.api_key)",
    'api_key = os.environ["OPENAI_API_KEY"]; token = get_token(user)',
    "const { apiKey } = process.env; password: z.string().min(8),",
    "https://example.org:8080/a:b@c, me@example.org, ssh://git@example.org:22/x@y",
    "http://[::1]:8080/a@b and http://localhost:8080, or mail me@example.org",
    "scikit sk-learn, css sk-folding-cube-container, npm_config_registry_url_of_mine",
    "pa-rt-of-a-very-long-css-class-name-that-goes-on, hf_hub_download_of_everything",
    "task-1234567890abcdef12345, risk-a1b2c3d4e5f6a7b8c9d0",
    "SKU SK1234, SG.nothing, eyJ.is.short, xoxo-kisses",
    "-----BEGIN PUBLIC KEY----- MIIB -----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE----- MIIB -----END CERTIFICATE-----",
    "秘密は言わない。password は書かない。昨日は友人と会った。",
    "cost_per_token: 0.000015, token: 12.5, |token|secret|",
]


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@given(st.text())
def test_masking_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


NEARLY = [
    *(
        "sk-",
        "key=",
        "a" * 20,
        " ",
        "\n",
        "://x:",
        "@",
        "4111",
        "1111",
        "eyJ",
        ".",
        mask("key"),
        "…",
    ),
    *("password: ", '"', "'", "\\", "Cookie: a=", "; ", "Bearer ", "AKIA" + "B" * 16, "7x9"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "token=", "&b=", "(", "İ", "[x]"),
]


@given(st.lists(st.sampled_from(NEARLY), max_size=30).map("".join))
@pytest.mark.parametrize("patterns", [(), (r"\w{3,}",), ("[^x]+",), ("x*",)])
def test_masking_twice_changes_nothing_of_what_is_nearly_a_secret(
    patterns: tuple[str, ...], text: str
) -> None:
    masked = Redactor(patterns)
    assert masked(masked(text)) == masked(text)


@given(some(ALNUM, 12, 60))
def test_six_characters_and_a_third_at_most_stay_of_a_vendors_token(value: str) -> None:
    token = f"lin_api_{value}7{value}"
    kept = redact(f'key "{token}"').removeprefix('key "').removesuffix(f'{mask("Linear key")}"')
    assert token.startswith(kept)
    assert len(kept) == min(KEPT_CHARS, len(token) // 3)


@given(some(ALNUM, 3, 60))
def test_nothing_of_a_password_stays(value: str) -> None:
    assert redact(f'password="7{value}"') == f'password="{mask("password")}"'


@pytest.mark.parametrize("gap", [" ", "\n", "漢", "-"])
def test_a_secret_in_a_long_text_is_found_wherever_it_is(gap: str) -> None:
    secrets = ["sk-proj-" + "Zq7" * 12, "password = 7x" + "Zq7" * 12, "ACME-" + "Zq7" * 12]
    masked = Redactor(["ACME-[A-Za-z0-9]+"])
    words = ["plain"] * 4_000
    for secret, at in itertools.product(secrets, random.Random(7).sample(range(len(words)), 8)):
        text = gap.join([*words[:at], secret, *words[at:]])
        assert not leaks("Zq7" * 4, masked(text))


@pytest.mark.parametrize("begins", ["sk-proj-", "SECRET=", 'password="', "Cookie: id=", "a://b:"])
def test_a_long_secret_is_masked_whole(begins: str) -> None:
    shown = redact(f"{begins}{'Zq7' * 40_000}@c")
    assert len(shown) < len(begins) + KEPT_CHARS + len(mask("custom pattern")) + 3


HOSTILE = [
    *(
        "a_",
        "-",
        "1-",
        "4 1",
        "4",
        "-eyJ",
        "eyJaaaaaaaa.",
        "://x:",
        "-sk-",
        "pass=",
        'password="a\\',
    ),
    *(
        "key=",
        "authorization: digest a=",
        "--password ",
        "curl ",
        "password is ",
        "a+b=",
        "пароль: ",
    ),
    *("token=aaa(", "token=<", "cookie:", "bearer ", "-----BEGIN A A A A ", "password=x)))))))))"),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_long_text_made_to_be_slow_ends(unit: str) -> None:
    text = unit * (256 * 1024 // len(unit))
    assert len(redact(text)) <= len(text) + len(mask("custom pattern")) * text.count(unit)


def test_lines_stay_as_many_and_keys_on_many_lines_are_masked() -> None:
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    lines = ["a", begin, "MIIabc", "def", f"{end} token=7xabcdefg", "b", f"{begin}MII{end}", "c"]
    assert redact.lines(lines) == [
        *("a", f"{begin}{mask('private key')}", "", "", f" token={mask('token')}"),
        *("b", f"{begin}{mask('private key')}", "c"),
    ]


@given(st.lists(st.lists(st.sampled_from(NEARLY), max_size=6).map("".join)))
def test_lines_stay_as_many(lines: list[str]) -> None:
    assert len(redact.lines(lines)) == len(lines)


def test_custom_patterns() -> None:
    masked = Redactor(("ACME-[0-9]{6}", r"\bPIN \d+", "(?i)internal-[a-z]+-[0-9]+"))
    own = mask("custom pattern")
    assert masked("it is ACME-123456.") == f"it is {own}."
    assert masked("PIN 12, again PIN 12345678") == f"{own}, again {own}"
    assert masked("Internal-ab-12") == own
    assert masked("sk-proj-0123456789abcdefgh") == f"sk-pro{mask('OpenAI key')}"


def test_offsets_of_custom_patterns_are_characters() -> None:
    masked = Redactor((r"ACME-\d{6}", r"機密\pL+"))
    around = "é漢字😀👩‍👩‍👧🇩🇪\ud800"
    text = f"{around}ACME-123456{around} 機密ひらがなです {around}ACME-123456"
    own = mask("custom pattern")
    expected = f"{around}{own}{around} {own} {around}{own}"
    assert masked(text) == expected


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a*)*b", "(?:a|a)*b", "(a|b|ab)*c", ".*.*x", "(.+)+x"]
)
def test_custom_patterns_take_linear_time(pattern: str) -> None:
    text = "a" * 1024 * 1024
    assert Redactor([pattern])(text) == text


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "[a", "*", "a{99999}", r"\q", "\ud800"),
        *("(?=a)b", "(?<!a)b", "a++", "(?>a)b", r"(\d)-?\1"),
    ],
)
def test_invalid_custom_patterns_are_refused_by_name(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PatternError) as raised:
        Redactor(["fine", pattern])
    message = str(raised.value)
    assert message.startswith(
        f"redact.patterns: {pattern!r} is not a valid regular expression (RE2"
    )
    assert "\n" not in message
    assert capfd.readouterr() == ("", "")
