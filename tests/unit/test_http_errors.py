"""The meaning of error answers, with the texts of real servers."""

import email.utils
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.embed.provider import (
    BadTextError,
    BatchTooLargeError,
    PermanentError,
    ProviderError,
    RetryableError,
)
from memoryd.embed.vendors.http_errors import refusal, retry_after_s

NOW_S = 1_700_000_000.0
LONG_AGO_S, LATER_S = 1_600_000_000.0, 1_800_000_000.0


# Waiting times


def http_date(at_s: float) -> str:
    return email.utils.formatdate(at_s, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "body", "after_s"),
    [
        ({"retry-after": "20"}, "", 20.0),
        ({"retry-after": " 0.5 "}, "", 0.5),
        ({"retry-after": "0"}, "", 0.0),
        ({"retry-after": http_date(NOW_S + 90)}, "", 90.0),
        ({"retry-after": http_date(NOW_S - 90)}, "", None),
        # Our clock is a year ahead or behind: the answer's own date counts.
        (
            {"retry-after": http_date(LONG_AGO_S + 9), "date": http_date(LONG_AGO_S)},
            "",
            9.0,
        ),
        (
            {"retry-after": http_date(LATER_S + 9), "date": http_date(LATER_S)},
            "",
            9.0,
        ),
        ({"retry-after": http_date(NOW_S + 90), "date": "yesterday"}, "", None),
        ({"retry-after-ms": "1500"}, "", 1.5),
        ({"retry-after-ms": "20", "retry-after": "1"}, "", 0.02),
        ({"retry-after-ms": "soon", "retry-after": "1"}, "", 1.0),
        ({}, '{"details": [{"retryDelay": "3.2s"}]}', 3.2),
        ({"retry-after": "4"}, '{"retryDelay": "3s"}', 4.0),
        ({}, "retryDelay: never", None),
        ({}, "", None),
        ({"retry-after": "-5"}, "", None),
        ({"retry-after": "later"}, "", None),
        ({"retry-after": "Wed, 21 Oct 99999999999 07:28:00 GMT"}, "", None),
    ],
)
def test_how_long_to_wait_is_read(
    headers: dict[str, str], body: str, after_s: float | None
) -> None:
    assert retry_after_s(headers, body, now_s=NOW_S) == after_s


@given(st.text(), st.text(), st.text())
def test_no_words_on_how_long_break_anything(after: str, ms: str, body: str) -> None:
    headers = {"retry-after": after, "retry-after-ms": ms}
    found = retry_after_s(headers, body, now_s=NOW_S)
    assert found is None or found >= 0


@given(st.integers(100, 599), st.text(), st.booleans())
def test_any_answer_is_some_error(status: int, body: str, html: bool) -> None:
    body = f"<title>{body}" if html else body
    error = refusal("v", status, {}, body, key="KEY", now_s=NOW_S)
    assert isinstance(error, ProviderError)
    assert str(error).startswith(f"v answered {status}")
    assert "\n" not in str(error)


# Meaning of refusals


def of(status: int, said: str, headers: Mapping[str, str] | None = None) -> ProviderError:
    body = json.dumps({"error": {"message": said}})
    return refusal("v", status, headers or {}, body, key="KEY", now_s=NOW_S)


CAPS: list[tuple[int, str, int | None]] = [
    (400, "max 10, got 16", 10),
    (
        400,
        "batch size is invalid, it should not be larger than 10.: input.contents",
        10,
    ),
    (400, "The maximum number of inputs is 64", 64),
    (400, "Too many inputs. The max number of inputs is 16. We hope to increase it soon.", 16),
    (400, "Too many inputs for model None. The max number of inputs is 1.", 1),
    (
        400,
        "Invalid 'input': array too long. Expected an array with maximum length 2048, but got an"
        " array with length 3000 instead.",
        2_048,
    ),
    (400, "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch", 100),
    (
        400,
        "Request to model 'voyage-4-large' failed. The batch size limit is 1000. Your batch size"
        " is 1001.",
        1_000,
    ),
    (400, "invalid request: total number of texts must be at most 96, but received 128", 96),
    (413, "batch size 33 > maximum allowed batch size 32", 32),
    (422, "input batch size 100 > maximum allowed batch size 32", 32),
    (400, "Too many inputs in request, split into more batches.", None),
    (400, "You passed too many documents: up to 128 are allowed", 128),
    (500, "batch size 64 is too large", None),
    (413, "Request Entity Too Large", None),
    (413, "Maximum content size limit (26214400) exceeded", None),
    # Limits on tokens do not imply a limit on texts.
    (
        400,
        "The max allowed tokens per submitted batch is 120000. Your batch has 233334 tokens after"
        " truncation.",
        None,
    ),
    (400, "maximum tokens per batch is 8192, got 9000", None),
]


@pytest.mark.parametrize(("status", "said", "limit"), CAPS)
def test_a_cap_on_items_is_known_with_its_limit(status: int, said: str, limit: int | None) -> None:
    error = of(status, said)
    assert isinstance(error, BatchTooLargeError)
    assert error.limit == limit


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            400,
            "This model's maximum context length is 8192 tokens, however you requested 9000 tokens"
            " (9000 in your prompt; 0 for the completion). Please reduce your prompt.",
        ),
        (400, "the input length exceeds the context length"),
        (500, "the input length exceeds the context length"),
        (
            500,
            "input (1234 tokens) is too large to process. increase the physical batch size"
            " (current batch size: 512)",
        ),
        (500, "input is too large to process. increase the physical batch size"),
        (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 600"),
        (400, "Input id 3 has 9000 tokens, exceeding max 8192 tokens."),
        (
            400,
            "Request to model 'voyage-4-large' failed. The example at index 3 in your batch has too"
            " many tokens and does not fit into the model's context window of 32000 tokens.",
        ),
        (400, "The input token count (9000) exceeds the maximum number of tokens allowed (2048)."),
        (400, "Input length 1030 exceeds maximum allowed token size 512"),
        # Halving also discovers that this error is about the whole batch.
        (400, "Invalid 'input': maximum request size is 300000 tokens per request."),
        (400, "'$.input' is invalid."),
        (422, "Input should be a valid string"),
    ],
)
def test_a_text_that_is_too_long_is_the_texts_fault(status: int, said: str) -> None:
    assert type(of(status, said)) is BadTextError


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "Unauthorized"),
        (403, "Your API key was reported as leaked. Please use another API key."),
        (403, "Access denied"),
        (400, "API key not valid. Please pass a valid API key."),
        (400, "API key expired. Please renew the API key."),
        (429, "Invalid API key"),
    ],
)
def test_a_key_that_is_not_accepted_is_out_of_order_for_good(status: int, said: str) -> None:
    error = of(status, said)
    assert isinstance(error, PermanentError)
    assert error.for_good
    assert str(error) == (
        f"v answered {status}: {said} - the key from KEY is refused."
        " Replace it, then run `memctl probe`."
    )


@pytest.mark.parametrize(
    ("status", "said", "headers"),
    [
        (429, "You exceeded your current quota, please check your plan and billing details.", {}),
        (402, "Insufficient Balance", {}),
        (400, "Your credit balance is too low", {}),
        (403, "This API method requires billing to be enabled.", {}),
        (429, "Insufficient balance or no resource package. Please recharge.", {}),
    ],
)
def test_a_quota_that_is_used_up_passes_by_itself_in_the_end(
    status: int, said: str, headers: dict[str, str]
) -> None:
    error = of(status, said, headers)
    assert isinstance(error, PermanentError)
    assert not error.for_good
    assert "the quota of the key from KEY is used up" in str(error)
    assert "memoryd retries by itself" in str(error)


@pytest.mark.parametrize(
    ("status", "said", "headers", "after_s"),
    [
        (429, "You exceeded your current quota, check billing", {"retry-after": "5"}, 5.0),
        (429, "quota exceeded: 3 RPM without a payment method", {}, None),
        (429, "Quota exceeded for metric: requests per minute; see billing", {}, None),
        (429, "", {}, None),
        (503, "overloaded", {"retry-after": "7"}, 7.0),
        (408, "", {}, None),
        (409, "conflict", {}, None),
        (425, "too early", {}, None),
        (400, "rate limit reached", {}, None),
        (400, "Resource has been exhausted", {}, None),
        (504, "The server took too long to respond", {}, None),
        (529, "Overloaded", {}, None),
    ],
)
def test_what_passes_by_itself_is_worth_trying_again(
    status: int, said: str, headers: dict[str, str], after_s: float | None
) -> None:
    error = of(status, said, headers)
    assert isinstance(error, RetryableError)
    assert error.after_s == after_s


@pytest.mark.parametrize(
    ("status", "said", "missing"),
    [
        (404, "The model `x` does not exist or you do not have access to it.", True),
        (404, "404 page not found", True),
        (404, 'model "x" not found, try pulling it first', True),
        (400, "Invalid model: x", False),
        (400, "Model x is not supported. Supported models are [].", False),
        (422, "unknown model", False),
        (400, "model_not_found", False),
    ],
)
def test_no_such_model_is_out_of_order_for_good(status: int, said: str, *, missing: bool) -> None:
    error = of(status, said)
    assert isinstance(error, PermanentError)
    assert error.for_good
    assert error.missing == missing
    assert "Check `model` and `remote.base_url` in the configuration" in str(error)


POOR, PAY = "the quota of the key from KEY is used up", "Please add a payment method"


@pytest.mark.parametrize(
    ("status", "error", "headers", "expected"),
    [
        # No pause restores an exhausted budget.
        (429, {"type": "insufficient_quota", "message": "no"}, {"retry-after": "20"}, POOR),
        (429, {"code": "1113", "message": "Insufficient balance"}, {}, POOR),
        (400, {"code": "Arrearage", "message": "Access denied"}, {}, POOR),
        (429, {"code": "rate_limit_exceeded", "message": PAY}, {}, None),
        (400, {"code": "API_KEY_INVALID", "message": "no"}, {}, "the key from KEY is refused"),
        (400, {"code": "model_not_found", "message": "no"}, {}, "no such model"),
        (400, {"param": "model", "message": "no"}, {}, "no such model"),
        (
            400,
            {"param": "dimensions", "message": "This model is not supported with dimensions."},
            {},
            "Change or remove `output_dimensionality`",
        ),
        (422, {"loc": ["body", "input_type"], "msg": "no"}, {}, "Change or remove `input_type`"),
        (400, {"code": "context_length_exceeded", "message": "invalid model: x"}, {}, None),
    ],
)
def test_the_error_type_decides_before_any_word(
    status: int, error: dict[str, Any], headers: dict[str, str], expected: str | None
) -> None:
    found = refusal("v", status, headers, json.dumps({"error": error}), key="KEY", now_s=NOW_S)
    assert isinstance(found, PermanentError) == (expected is not None)
    assert (expected or "") in str(found)
    if isinstance(found, PermanentError):
        assert found.refused is None  # no text is the cause


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "refused: the model of the ship does not exist"),
        (400, "refused: 'my credit balance is too low'"),
        (400, "refused: 'the API key is invalid'"),
        (400, "refused: 'matryoshka dolls'"),
        (403, "Sorry, you have been blocked"),
    ],
)
def test_words_without_a_type_are_a_suspicion_that_a_text_may_cause(status: int, said: str) -> None:
    error = of(status, said)
    assert isinstance(error, PermanentError)
    assert error.refused == f"v answered {status}: {said}"


def test_without_a_key_no_key_is_named() -> None:
    error = refusal("v", 402, {}, "", key=None, now_s=NOW_S)
    assert str(error).startswith("v answered 402 - the quota is used up.")


@pytest.mark.parametrize(
    "body",
    [
        {"error": "it broke"},
        {"error": {"message": "it broke", "code": 1}},
        {"message": "it broke"},
        {"message": {"detail": [{"loc": ["body"], "msg": "it broke"}]}},
        {"detail": "it broke"},
        {"detail": [{"msg": "it broke"}]},
        {"error_message": "it broke"},
        [{"error": {"message": "it broke"}}],
        "it broke",
        {"error": {"message": " it\n\tbroke "}},
    ],
)
def test_the_message_is_found_in_every_shape(body: Any) -> None:
    error = refusal("v", 500, {}, json.dumps(body), key="KEY", now_s=NOW_S)
    assert str(error) == "v answered 500: it broke"
