"""Tokens that are recognized by their form: a table of vendors' shapes, and the search for them.

Nearly all shapes contain a long run of letters, digits, `_` and `-`. Such runs are rare in text and
quick to find, so the table is tried only there. Examples of each shape, and texts that resemble it,
are in `tests/fixtures/redaction/shapes.toml`.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

KEPT_CHARS = 6
"""Maximum visible characters of a token, and never more than a third of it."""
_LONG = b"a" * 14
_LOOK_BACK_CHARS = 16
_RUNS = bytes(
    ord("a") if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else ord(" ")
    for code in range(256)
)
_BASE64 = bytes(
    ord("a") if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "/+=") else ord(" ")
    for code in range(256)
)
_SOLID, _RUN, _HEX, _UPPER = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]", "[A-Z0-9]"
_DIGIT_OR_UPPER = "(?=[a-z_-]{0,99}[0-9A-Z])"


class Secret(NamedTuple):
    """Place of a secret in a text, its kind for the mask, and the maximum visible characters."""

    start: int
    end: int
    kind: str
    kept: int = 0


class Shape(NamedTuple):
    """Form of a vendor's tokens.

    `words` are their possible beginnings, `body` is the pattern of the rest. A `strict` beginning
    is so short that it must not follow `_` or `-`. `source` is the origin of the form.
    """

    kind: str
    words: str
    body: str
    source: str
    strict: bool = False


def _at_least(chars: str, least: int) -> str:
    return f"{chars}{{{least},}}+{_RUN}*+"


SHAPES = (
    Shape("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", _at_least(_RUN, 16), "OpenAI docs"),
    Shape("Anthropic key", "sk-ant-", _at_least(_RUN, 16), "Anthropic docs"),
    Shape("OpenRouter key", "sk-or-v1-", _at_least(_RUN, 16), "OpenRouter docs"),
    Shape(
        "API key",
        "sk-",
        rf"(?:{_SOLID}{{16}}|(?=[A-Za-z_-]{{0,99}}[0-9]){_RUN}{{20}}){_RUN}*+",
        "OpenAI, DeepSeek, Moonshot",
    ),
    Shape("API key", "sk_", _at_least(_SOLID, 20), "ElevenLabs docs", True),
    Shape(
        "Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", _at_least(_SOLID, 16), "Stripe docs"
    ),
    Shape("Stripe payment token", "spt_", _at_least(_SOLID, 20), "Stripe docs", True),
    Shape("Stripe webhook secret", "whsec_", _at_least(_SOLID, 16), "Stripe docs"),
    Shape("GitHub token", "ghp_ gho_ ghs_ ghu_ ghr_", _at_least(_SOLID, 20), "GitHub docs"),
    Shape("GitHub token", "github_pat_", _at_least(_RUN, 20), "GitHub docs"),
    Shape(
        "GitLab token",
        "glpat- gldt- glrt- glrtr- glptt- glsoat- glimt- glft- glcbt- glagent- glwt- glffct-"
        " gloas- GR1348941",
        rf"{_RUN}{{16,}}+(?:\.[A-Za-z0-9]{{2,12}}){{0,2}}{_RUN}*+",
        "GitLab docs, token overview",
    ),
    Shape("GitLab token", "glft-", r"[a-h0-9]{1,40}-[0-9]{1,20}_", "GitLab docs, feed token"),
    Shape("GitLab session", "_gitlab_session=", _at_least("[A-Za-z0-9%.]", 20), "GitLab docs"),
    Shape(
        "Slack token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.",
        _at_least("[A-Za-z0-9%_-]", 10),
        "Slack docs",
    ),
    Shape("Slack token", "xapp-", _at_least(_RUN, 16), "Slack docs"),
    Shape(
        "AWS access key id",
        "AKIA ASIA ABIA ACCA",
        rf"{_UPPER}{{16}}{_RUN}*+",
        "AWS docs",
    ),
    Shape("Google API key", "AIza", _at_least(_RUN, 24), "Google Cloud docs"),
    Shape("Google token", "ya29.", _at_least("[A-Za-z0-9_./+=-]", 20), "Google OAuth docs"),
    Shape("Google token", "1//0", _at_least("[A-Za-z0-9_./+=-]", 20), "Google OAuth docs"),
    Shape("Google client secret", "GOCSPX-", _at_least(_RUN, 20), "Google OAuth docs"),
    Shape("Hugging Face token", "hf_ api_org_", _at_least(_SOLID, 20), "Hugging Face docs"),
    Shape("Replicate token", "r8_", _at_least(_SOLID, 20), "Replicate docs"),
    Shape("Groq key", "gsk_", _at_least(_SOLID, 20), "Groq docs"),
    Shape("xAI key", "xai-", _at_least(_SOLID, 20), "xAI docs"),
    Shape("Perplexity key", "pplx-", _at_least(_SOLID, 20), "Perplexity docs"),
    Shape("NVIDIA key", "nvapi-", _at_least(_RUN, 20), "NVIDIA docs"),
    Shape("Voyage key", "pa-", rf"{_DIGIT_OR_UPPER}{_RUN}{{30,}}+", "Voyage docs"),
    Shape("Tavily key", "tvly-", rf"(?:dev-|prod-)?{_SOLID}{{20,}}+{_RUN}*+", "Tavily docs"),
    Shape("Firecrawl key", "fc-", _at_least(_SOLID, 20), "Firecrawl docs", True),
    Shape("Fireworks key", "fw_ fw- fpk_", _at_least(_SOLID, 24), "Fireworks docs", True),
    Shape("Exa key", "exa_", _at_least(_SOLID, 20), "openclaw", True),
    Shape("fal key", "fal_", _at_least(_SOLID, 20), "openclaw", True),
    Shape(
        "API key",
        "am_ syt_ hsk- mem0_ m0- brv_ retaindb_ bb_live_",
        _at_least(_SOLID, 20),
        "openclaw",
        True,
    ),
    Shape("LangSmith key", "lsv2_pt_ lsv2_sk_", _at_least(_RUN, 30), "LangSmith docs"),
    Shape("PostHog key", "phc_ phx_", _at_least(_SOLID, 30), "PostHog docs"),
    Shape("Notion token", "ntn_", _at_least(_SOLID, 30), "Notion docs"),
    Shape("Notion token", "secret_", _at_least(_SOLID, 40), "Notion docs"),
    Shape("Linear key", "lin_api_ lin_oauth_", _at_least(_SOLID, 20), "Linear docs"),
    Shape("Figma token", "figd_ figo_", _at_least(_RUN, 20), "Figma docs"),
    Shape("Airtable token", "pat", rf"{_SOLID}{{14}}\.[0-9a-f]{{64}}", "Airtable docs", True),
    Shape(
        "HubSpot token",
        "pat-na1- pat-eu1- pat-na2- pat-eu2-",
        rf"{_SOLID}{{8}}(?:-{_SOLID}{{4}}){{3}}-{_SOLID}{{12}}",
        "HubSpot docs",
    ),
    Shape("npm token", "npm_", _at_least(_SOLID, 20), "npm docs"),
    Shape("PyPI token", "pypi-", _at_least(_RUN, 40), "PyPI docs"),
    Shape("PyPI token", "pypi-", _at_least(_SOLID, 24), "openclaw", True),
    Shape("RubyGems key", "rubygems_", _at_least(_HEX, 40), "RubyGems docs"),
    Shape("crates.io token", "cio", rf"{_SOLID}{{32}}(?![A-Za-z0-9])", "gitleaks", True),
    Shape("Docker token", "dckr_pat_ dckr_oat_", _at_least(_RUN, 20), "Docker docs"),
    Shape(
        "DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", _at_least(_SOLID, 20), "DigitalOcean docs"
    ),
    Shape(
        "Doppler token",
        "dp.pt. dp.ct. dp.sa. dp.scim. dp.audit. dp.st.",
        rf"(?:[a-z0-9_-]{{2,35}}\.)?{_SOLID}{{40,44}}",
        "Doppler docs",
    ),
    Shape(
        "Databricks token", "dapi", rf"{_HEX}{{32}}(?:-[0-9])?(?![A-Za-z0-9])", "Databricks docs"
    ),
    Shape("Datadog key", "ddp_ ddw_", _at_least(_SOLID, 30), "Datadog docs"),
    Shape("Grafana token", "glsa_", _at_least(_RUN, 20), "Grafana docs"),
    Shape("Grafana token", "glc_eyJ", _at_least("[A-Za-z0-9+/=]", 40), "Grafana docs"),
    Shape("New Relic key", "NRAK- NRJS- NRAL-", _at_least(_SOLID, 19), "New Relic docs"),
    Shape("Sentry token", "sntrys_ sntryu_", _at_least("[A-Za-z0-9_=+/]", 30), "Sentry docs"),
    Shape(
        "Dynatrace token", "dt0c01. dt0s01.", rf"{_UPPER}{{24}}\.{_UPPER}{{64}}", "Dynatrace docs"
    ),
    Shape("Netlify token", "nfp_", _at_least("[A-Za-z0-9_]", 36), "Netlify docs"),
    Shape("Supabase token", "sbp_", _at_least(_HEX, 40), "Supabase docs"),
    Shape("Supabase token", "sbp_", _at_least(_SOLID, 20), "gitleaks"),
    Shape("Supabase key", "sb_secret_", _at_least(_RUN, 20), "Supabase docs"),
    Shape("Vercel token", "vcp_ vck_", _at_least(_SOLID, 20), "Vercel docs"),
    Shape("Render key", "rnd_", _at_least(_SOLID, 28), "Render docs", True),
    Shape(
        "Fly token",
        "fm",
        "[0-9]{1,4}[a-z]?_" + _at_least("[A-Za-z0-9+/=,_-]", 80),
        "Fly docs",
        True,
    ),
    Shape("Fly token", "fo1_", _at_least(_RUN, 40), "Fly docs", True),
    Shape("Friendli token", "flp_ fio-u-", _at_least(_RUN, 40), "openclaw"),
    Shape("Buildkite token", "bkua_", _at_least(_SOLID, 40), "Buildkite docs"),
    Shape(
        "CircleCI token",
        "CCIPAT_ CCIPRJ_",
        rf"{_SOLID}{{20,24}}_[0-9A-Fa-f]{{40}}",
        "CircleCI docs",
    ),
    Shape("Contentful token", "CFPAT-", _at_least(_RUN, 40), "Contentful docs"),
    Shape(
        "Atlassian token", "ATATT ATCTT3xFfG", _at_least("[A-Za-z0-9+/=_-]", 40), "Atlassian docs"
    ),
    Shape("Bitbucket token", "ATBB", _at_least("[A-Za-z0-9_=.-]", 20), "Atlassian docs", True),
    Shape("Bitbucket token", "BBDC-", _at_least("[A-Za-z0-9+/@_-]", 40), "Atlassian docs"),
    Shape("Heroku key", "HRKU-", _at_least(_RUN, 30), "Heroku docs"),
    Shape(
        "PlanetScale password",
        "pscale_pw_ pscale_tkn_ pscale_oauth_",
        _at_least("[A-Za-z0-9_.-]", 32),
        "PlanetScale docs",
    ),
    Shape("Pulumi token", "pul-", _at_least(_HEX, 40), "Pulumi docs"),
    Shape("Vault token", "hvs. hvb. hvr.", _at_least(_RUN, 24), "Vault docs"),
    Shape("Tailscale key", "tskey-", _at_least(_RUN, 16), "Tailscale docs"),
    Shape("Shopify token", "shpat_ shpss_ shpca_ shppa_", _at_least(_SOLID, 20), "Shopify docs"),
    Shape(
        "Square token", "sq0atp- sq0csp- EAAA", rf"{_DIGIT_OR_UPPER}{_RUN}{{22,}}+", "Square docs"
    ),
    Shape("SendGrid key", "SG.", rf"{_RUN}{{16,99}}+\.{_RUN}{{16,}}+", "SendGrid docs"),
    Shape("Mailgun key", "key-", rf"{_HEX}{{32}}(?![A-Za-z0-9])", "Mailgun docs", True),
    Shape("Brevo key", "xkeysib- xsmtpsib-", _at_least(_RUN, 40), "Brevo docs"),
    Shape("Twilio key", "SK AC", rf"{_HEX}{{32}}(?![A-Za-z0-9])", "Twilio docs"),
    Shape("Postman key", "PMAK-", _at_least(_RUN, 40), "Postman docs"),
    Shape("Apify token", "apify_api_", _at_least(_RUN, 20), "Apify docs"),
    Shape(
        "Brave key",
        "BSA",
        rf"{_DIGIT_OR_UPPER}{_RUN}{{24,40}}(?![A-Za-z0-9])",
        "Brave Search docs",
        True,
    ),
    Shape("Alibaba Cloud key id", "LTAI", _at_least(_SOLID, 12), "Alibaba Cloud docs"),
    Shape("Tencent Cloud key id", "AKID", _at_least(_SOLID, 13), "Tencent Cloud docs"),
    Shape("Yandex Cloud key", "AQVN", _at_least(_RUN, 35), "Yandex Cloud docs"),
    Shape("Adafruit key", "aio_", _at_least(_SOLID, 28), "Adafruit docs", True),
    Shape("age key", "AGE-SECRET-KEY-1", _at_least(_UPPER, 58), "age specification"),
    Shape("Fernet token", "gAAAA", _at_least("[A-Za-z0-9_=-]", 20), "Fernet specification", True),
    Shape(
        "JSON Web Token",
        "eyJ",
        rf"{_RUN}{{8,2048}}+\.(?:{_RUN}{{8,}}+|(?=\.))(?:\.{_RUN}*+){{0,3}}",
        "RFC 7519",
    ),
)
_ALONE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
_STRICT = r"(?:(?<![A-Za-z0-9_+-])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
_WEBHOOKS = (
    (
        "Slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/-]{20,}+)",
    ),
    ("Discord webhook", "/api/webhooks/", r"/api/webhooks/[0-9]{17,20}/([A-Za-z0-9_-]{50,}+)"),
)
_TELEGRAM = r":(?![0-9a-f]*(?![A-Za-z0-9_-]))[A-Za-z0-9_-]{30,}+"
_DISCORD = r"(?=[a-z_-]{0,27}[0-9A-Z])[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}+"
_AWS_SECRET_CHARS = 40
_NUMBER_CHARS = 6
_ORDINARY = re.compile("[a-z]{7}|[A-Z]{9}")
_compiled = cache(re.compile)


@cache
def _table() -> tuple[re.Pattern[str], dict[str, list[tuple[str, str]]]]:
    """Return a pattern that finds the beginnings of tokens, and (kind, pattern) by beginning."""
    rows: dict[str, list[tuple[str, str]]] = {}
    by_letter: dict[str, list[str]] = {}
    for shape in SHAPES:
        for word in shape.words.split():
            alone = _STRICT if shape.strict else _ALONE
            pattern = f"{alone}{re.escape(word)}{shape.body}"
            rows.setdefault(word, []).append((shape.kind, pattern))
            by_letter.setdefault(word[0], []).append(word[1:])
    groups = [
        letter + "(?:" + "|".join(sorted(map(re.escape, set(rests)), key=len, reverse=True)) + ")"
        for letter, rests in by_letter.items()
    ]
    first = "".join(map(re.escape, by_letter))
    return re.compile(f"(?=[{first}]){_ALONE}(?:{'|'.join(groups)})"), rows


def vendor_tokens(text: str, plain: bytes) -> Iterator[Secret]:
    """Yield the tokens in a text. `plain` is the text in ASCII, one byte per character."""
    runs = plain.translate(_RUNS)
    at, done = runs.find(_LONG), 0  # `done` is the end of the last token
    while at >= 0:
        end = runs.find(b" ", at + len(_LONG))
        end = len(runs) if end < 0 else end
        for token in _in_run(text, max(done, at - _LOOK_BACK_CHARS), at, end):
            done = max(done, token.end)
            yield token
        at = runs.find(_LONG, end)
    yield from _aws_secrets(text, plain)
    for kind, word, pattern in _WEBHOOKS:
        at = text.find(word)
        while at >= 0:
            if found := _compiled(pattern).match(text, at):
                yield Secret(*found.span(1), kind)
            at = text.find(word, at + len(word))


def _in_run(text: str, back: int, start: int, end: int) -> Iterator[Secret]:
    begins, rows = _table()
    if text.startswith("base64,", max(0, start - 7)):
        return
    at = back
    while found := begins.search(text, at, end):
        at = found.end()
        for kind, pattern in rows[found[0]]:
            if match := _compiled(pattern).match(text, found.start()):
                yield Secret(*match.span(), kind, KEPT_CHARS)
                at = max(at, match.end())
                break
        else:
            at = found.start() + 1
    before = text[start - 1 : start]
    if before == ":" and len(number := text[max(0, start - 7) : start - 1]) == _NUMBER_CHARS:
        match = _compiled(_TELEGRAM).match(text, start - 1)
        if match and number.isdigit():
            yield Secret(start, match.end(), "Telegram token")
    if text[end : end + 1] == "." and (match := _compiled(_DISCORD).match(text, start)):
        yield Secret(*match.span(), "Discord token")


def _aws_secrets(text: str, plain: bytes) -> Iterator[Secret]:
    """Yield words of 40 characters of Base64 that are neither hashes nor paths."""
    runs = plain.translate(_BASE64)
    wanted = b"a" * _AWS_SECRET_CHARS
    at = runs.find(wanted)
    while at >= 0:
        end = runs.find(b" ", at + _AWS_SECRET_CHARS)
        end = len(runs) if end < 0 else end
        start = at + (text[at] == "=")
        word = text[start:end]
        if "=" in word and len(word) > _AWS_SECRET_CHARS:
            start = end - _AWS_SECRET_CHARS
            word = text[start:end] if text[start - 1] == "=" else ""
        if len(word) == _AWS_SECRET_CHARS and _is_random(word) and _is_apart(text, start, end):
            yield Secret(start, end, "AWS secret key")
        at = runs.find(wanted, end)


def _is_random(word: str) -> bool:
    return (
        any(char.isdigit() for char in word)
        and word.lower() != word != word.upper()
        and not _ORDINARY.search(word)
        and not word.startswith(("/", "data"))
        and any(char in "GHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz/+" for char in word)
    )


def _is_apart(text: str, start: int, end: int) -> bool:
    around = text[start - 1 : start] + text[end : end + 1]
    return not any(char in "_-.:@" for char in around[:1]) and not any(
        char in "_-" for char in around[1:]
    )
