"""`memctl mcp` as a process, and a client that exchanges raw lines with it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from waiting import PATIENCE_S

import memoryd_client

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""`_meta` of a request from 2026-07-28 on."""


class McpSession:
    """One running server. It ends with the block; `err` then has its standard error."""

    def __init__(
        self,
        *options: str,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        where = {"PYTHONPATH": str(Path(memoryd_client.__file__).parents[1])}
        self.process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-W", "error", "-m", "memctl", "mcp", *options],
            env={**os.environ, **where} if environment is None else environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._rest = b""
        self._last_id = 0
        self.err = ""

    def send(self, message: object) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._in.write(data + b"\n")
        self._in.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def receive(self) -> Any:
        """Return the next message. Fails if something else is on standard output."""
        while b"\n" not in self._rest:
            assert select.select([self._out], [], [], PATIENCE_S)[0], "no answer"
            data = os.read(self._out.fileno(), 65_536)
            assert data, "the server has ended"
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a request, while no other is under way."""
        request_id = self.request(method, **params)
        answer = self.receive()
        assert answer["id"] == request_id
        assert "error" not in answer, answer
        return answer["result"]

    def refused(self, method: str, **params: Any) -> tuple[int, str]:
        """Return the code and the message of a request's error."""
        request_id = self.request(method, **params)
        answer = self.receive()
        assert answer["id"] == request_id
        return answer["error"]["code"], answer["error"]["message"]

    def tool(self, name: str, *, fails: bool = False, **arguments: Any) -> str:
        """Return the text of a tool."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        assert result["isError"] is fails
        assert set(result) == {"content", "isError"}
        (content,) = result["content"]
        assert content["type"] == "text"
        return str(content["text"])

    def end(self) -> int:
        """Close standard input; return the exit status."""
        self._in.close()
        assert self.process.stderr is not None
        self.err = self.process.stderr.read().decode()
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None and self.process.poll() is None:
                assert self.end() == 0
                assert self.err == ""
        finally:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()
