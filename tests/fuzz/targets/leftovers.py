"""Small files and variables that the daemon inherits from another or an earlier process."""

import os
from contextlib import suppress

import msgspec

from fuzz.scratch import folder
from memoryd.config.registered import AddedError, read_added
from memoryd.embed.provider import PermanentError
from memoryd.embed.vendors.credentials import KeySource
from memoryd.embed.vendors.gemini import GeminiApi
from memoryd.index import schema
from memoryd.index.driver import Connection, sqlite
from memoryd.server.systemd import Notifier, inherited_socket
from memoryd_client.launcher import logs
from memoryd_client.shared import lock_holder

SEEDS = [
    b'{"pid": 12, "options": {"agent": "a"}, "cwd": "/", "manager": "", "started_at": 1.5}\n',
    b"12\n",
    b'["/home/a", "/home/b"]',
    b'{"provider":"none","model":"m","provider_key":"","dims":null,"max_input_bytes":1,'
    b'"chunk_tokens":1,"chunk_overlap":1,"tokenizer":"t"}',
    b'{"provider":"local","by":"found","why":"x","instead_of":"auto"}',
    b'{"token": "ya29.abc"}',
    b"30000000",
    "²".encode(),
    b"2026 INFO memoryd: ready\r\n\xff\n",
]
DICTIONARY = [
    b'"pid":',
    b'"options":',
    b'"started_at":',
    b'"provider":',
    b'"by":',
    b'"token":',
    b"[[[",
]
MAX_BYTES = 2_048
_connection: Connection = sqlite.connect(":memory:", isolation_level=None)
_connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")


def check(data: bytes) -> None:
    """Read the bytes as each of these; invalid content counts as none and never raises."""
    found = lock_holder.decode(data)
    if found is not None:
        assert lock_holder.decode(lock_holder.encode(found)) == found
    file = folder() / "file"
    file.write_bytes(data)
    with suppress(AddedError):
        assert all(isinstance(folder, str) for folder in read_added(file))
    assert len(logs.tail(str(file), 3)) <= 3
    with suppress(PermanentError):
        key = KeySource((), str(file)).find()
        if key is not None:
            assert all(
                isinstance(value, str) for value in GeminiApi().key_headers(key.value).values()
            )
    text = data.decode("utf-8", "replace")
    for name in ("identity", "choice"):
        _connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, text))
    with suppress(msgspec.MsgspecError):
        schema.get_identity(_connection)
    schema.get_choice(_connection)
    variable = text.replace("\0", "")
    names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID")
    for name in names:
        Notifier({"WATCHDOG_USEC": "1", name: variable}).send("READY=1")
    if variable != str(os.getpid()):  # the fuzzer does discover the process number
        assert inherited_socket({"LISTEN_PID": variable, "LISTEN_FDS": "1"}) is None
