"""Answers of embedding vendors, for success and failure, with arbitrary content."""

from contextlib import suppress

import numpy as np

from memoryd.embed.provider import ProviderError, unit_rows
from memoryd.embed.vendors.factory import APIS
from memoryd.embed.vendors.http import without_secrets
from memoryd.embed.vendors.http_errors import refusal, retry_after_s

SEEDS = [
    b'\x01{"data":[{"embedding":[1,2.5],"index":0}],"usage":{"total_tokens":3}}',
    b'\x02{"data":[{"embedding":[1,NaN],"index":1},{"embedding":[null,2],"index":0}]}',
    b'\x01{"data":[{"embedding":"AACAPwAAAEA="}]}',
    b'\x01{"embeddings":[[0.1,-1e400]],"prompt_eval_count":4}',
    b'\x01{"embeddings":[{"values":[1,2]}]}',
    b'\x03{"error":{"message":"maximum batch size is 96","code":"insufficient_quota"}}',
    b'\x04retry-after: Wed, 21 Oct 2015 07:28:00 GMT\n{"error":[{"details":"retryDelay":"7.5s"}]}',
    b"\x05retry-after-ms: 17\n<html><title>502 Bad\nGateway</title>",
    b"\x01" + b"[" * 500,
]
DICTIONARY = [
    b'"embedding":',
    b'"embeddings":',
    b'"values":',
    b'"index":',
    b"NaN",
    b"null",
    b"1e999",
]
DICTIONARY += [b'"data":[', b'{"error":', b'"message":', b'"retryDelay":"', b"too long", b"9" * 40]
DICTIONARY += [b"batch size", b"max 96, got", b"retry-after: ", b"Infinity", b"model_not_found"]
MAX_BYTES = 4_096
STATUSES = (301, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529, 418)
_apis = [make() for make in APIS.values()]


def check(data: bytes) -> None:
    """Parse the bytes as an answer and as a refusal; only a provider's errors may result."""
    first, body = (data[0] if data else 0), data[1:]
    count = 1 + first % 4
    for api in _apis:
        with suppress(ProviderError):
            rows = api.read(body, count).rows
            assert rows.shape[0] == count
            assert rows.dtype == np.float32
            units, good = unit_rows(rows, count=count, dims=None)
            assert np.isfinite(units[np.array(good, bool)]).all()
    text = body.decode("utf-8", "replace")
    head, _, rest = text.partition("\n")
    name, _, value = head.partition(": ")
    status = STATUSES[first % len(STATUSES)]
    headers = {name.lower(): value}
    error = refusal("vendor", status, headers, rest or text, key="KEY", now_s=1.7e9)
    assert isinstance(error, ProviderError)
    assert len(str(error)) < 1_000
    after_s = retry_after_s(headers, rest, now_s=1.7e9)
    assert after_s is None or after_s >= 0
    assert "sesame" not in without_secrets(f"{text} opensesame {text}", ["opensesame"])
