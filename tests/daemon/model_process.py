"""The process of a local model, for tests: its end, and texts that a model must cope with."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from memoryd.embed.local import LocalProvider
from memoryd.embed.local_process import Worker

ODD_TEXTS = {
    "empty": "",
    "space": " \n\t",
    "nul": "\0",
    "controls": "".join(map(chr, range(32))),
    "lone surrogate": "a\ud800b",
    "invisible": "\u200b\ufeff\uffff",
}
_DAEMON = """
import asyncio, sys
from pathlib import Path
from memoryd.embed.gguf import gguf_engine
from memoryd.embed.local import LocalProvider

async def main():
    provider = LocalProvider(*(gguf_engine(Path(path)) for path in sys.argv[1:]))
    await provider.embed_query("load")
    print(provider.stats().pid, flush=True)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


KEYS = {
    "OPENAI_API_KEY": "sk-planted",
    "OPENAI_API_KEY_FILE": "/planted",
    "AWS_SECRET_ACCESS_KEY": "planted",
    "FOO_TOKEN": "planted",
    "HF_TOKEN": "planted",
    "LLAMA_API_KEY": "planted",
    "https_proxy": "http://user:planted@proxy:1",
    "NOTIFY_SOCKET": "planted",
    "LISTEN_FDS": "planted",
    "PYTHONSTARTUP": "/planted",
    "LD_PRELOAD": "",
}
"""Variables of a daemon."""


def pid_of(provider: LocalProvider) -> int:
    pid = provider.stats().pid
    assert pid is not None
    return pid


def pids_of_starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the model processes started from now on."""
    pids: list[int] = []
    start = Worker.start

    async def noted(module: str, *arguments: str, reason_mark: str = "") -> Worker:
        worker = await start(module, *arguments, reason_mark=reason_mark)
        pids.append(worker.pid)
        return worker

    monkeypatch.setattr(Worker, "start", noted)
    return pids


def environment_of(pid: int) -> dict[str, str]:
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().rstrip("\0").split("\0")
    return dict(variable.split("=", 1) for variable in variables)


def assert_confined(pid: int) -> None:
    """Check that all threads of a process are confined and that it has no key and no network."""
    assert KEYS.keys().isdisjoint(environment_of(pid))
    assert "planted" not in str(environment_of(pid))
    for thread in Path(f"/proc/{pid}/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    hard = {line[:26].strip(): line.split()[-2] for line in limits[1:]}
    assert hard["Max core file size"] == "0"
    assert int(hard["Max open files"]) <= 64


async def ended(pid: int) -> None:
    """Wait until a process has ended, whoever its parent is."""
    if not hasattr(os, "pidfd_open"):
        pytest.skip("needs pidfd_open")
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, end.set)
    try:
        await end.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def ends_with_its_daemon(*model_path: str) -> None:
    """Kill a process that has a model loaded, and wait until the model's process has ended."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _DAEMON, *model_path),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert daemon.stdout is not None
    worker_pid = int(await daemon.stdout.readline())
    os.kill(worker_pid, 0)
    daemon.kill()
    await daemon.wait()
    await ended(worker_pid)
