"""Masking of secrets in arbitrary text."""

from memoryd.messages import split_lines
from memoryd.text.redact import Redactor

SEEDS = [
    b"key sk-proj-abcdefghijklmnop1234 and password: hunter2hunter2\n",
    b'{"api_key": "AKIAABCDEFGHIJKLMNOP", "token":"eyJabcdefgh.abcdefghij.abc"}',
    b"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx",
    b"https://user:pa55word@host/x Cookie: a=b; c=d\nAuthorization: Bearer abcdefghij12345",
    b"4111 1111 1111 1111 and export SECRET_TOKEN='x\\'y' $PASSWORD %s {{x}}",
]
DICTIONARY = [
    b"sk-",
    b"ghp_",
    b"AKIA",
    b"password",
    b"secret",
    b"token",
    b"key",
    b"://",
    b"@",
    b"=",
]
DICTIONARY += [b"bearer ", b"cookie: ", b"-----BEGIN ", b"PRIVATE KEY-----", b"eyJ", b'"', b"\\"]
DICTIONARY += ["…[redacted]".encode(), b"xoxb-", b": ", b"4111", b"://x:", "İ".encode()]
MAX_BYTES = 2_048
_redact = Redactor()
_own = Redactor([r"\bTICKET-\d{1,9}", "[^x]{9,}"])


def check(data: bytes) -> None:
    """Mask the text: a second pass changes nothing, and the number of lines is kept."""
    text = data.decode("utf-8", "replace")
    for redact in (_redact, _own):
        masked = redact(text)
        assert redact(masked) == masked
        lines = split_lines(text)
        assert len(redact.lines(lines)) == len(lines)
    # An unambiguous key between spaces.
    key = "ghp_" + "a1B2c3D4e5" * 4
    assert key not in _redact(f"{text}\n {key} \n")
