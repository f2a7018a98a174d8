"""A complete daemon in this process, with a small memory, for targets that send requests."""

import asyncio
import os

from fuzz.scratch import folder
from memoryd import app

NOTES = {
    "MEMORY.md": "# Facts\n\nThe sky is blue.\n",
    "memory/2026-01-02.md": "# Day\n\nWe ate fish.\n<private>\nnot this\n</private>\n",
    "memory/漢字.md": "漢字とは何か。\n",
}
TRANSCRIPT = (
    '{"role":"user","content":"Where is the key?","session_id":"s1"}\n'
    '{"role":"assistant","content":"Under the mat."}\n'
)
START_S = 60.0


class Served:
    """A daemon that starts with the first connection and runs only while a caller waits for it."""

    def __init__(self) -> None:
        self.folder = folder() / "daemon"
        self.loop = asyncio.new_event_loop()
        self.socket = self.folder / "s"
        self._environment = {name: os.environ.get(name) for name in ("HOME", "XDG_STATE_HOME")}
        self._stop = asyncio.Event()
        self._daemon: asyncio.Task[None] | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the daemon. Raises the error that has ended the daemon."""
        if self._daemon is None:
            self._prepare()
            await self._start()
        elif self._daemon.done():
            self._daemon.result()
            raise AssertionError("the daemon has ended")
        return await asyncio.open_unix_connection(self.socket)

    def check(self) -> None:
        """Raise the error that has ended the daemon, if it has ended."""
        if self._daemon is not None and self._daemon.done():
            self._daemon.result()
            raise AssertionError("the daemon has ended")

    def close(self) -> None:
        """Stop the daemon, whose threads would keep the process alive."""
        if self._daemon is not None:
            self._stop.set()
            self.loop.run_until_complete(self._daemon)
            self._daemon = None
            for name, value in self._environment.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
        self.loop.close()

    def _prepare(self) -> None:
        workspace = self.folder / "workspace"
        for name, text in NOTES.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        sessions = self.folder / "sessions"
        sessions.mkdir()
        (sessions / "s1.jsonl").write_text(TRANSCRIPT)
        (self.folder / "config.toml").write_text(
            f'[defaults]\nprovider = "none"\n[agents.main]\nworkspace = "{workspace}"\n'
            f'[agents.main.sessions]\nenabled = true\npaths = ["{sessions}/*.jsonl"]\n'
        )
        os.environ |= dict.fromkeys(self._environment, str(self.folder))

    async def _start(self) -> None:
        options = app.RunOptions(self.socket, self.folder / "config.toml")
        running = app.run(options, stop=self._stop, hangup=asyncio.Event())
        self._daemon = asyncio.create_task(running)
        async with asyncio.timeout(START_S):
            while not self.socket.exists():
                self.check()
                await asyncio.sleep(0.01)
