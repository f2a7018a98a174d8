"""Combined load: misbehaving clients, changing files, cancelled rebuilds."""

import os
import random
import shutil
import socket
import threading
from contextlib import suppress

import pytest
from crash_world import contents
from harness import Daemon

from memoryd_client import Client
from memoryd_client.errors import MemorydError

CLIENTS = 6
CALLS = 250
CHANGES = 500


class Misuse(threading.Thread):
    """A client that sets short timeouts, disconnects, and sometimes sends garbage."""

    def __init__(self, path: str, seed: int) -> None:
        super().__init__()
        self.path = path
        self.dice = random.Random(seed)
        self.bugs: list[Exception] = []

    def run(self) -> None:
        calls = 0
        while calls < CALLS:
            with suppress(MemorydError), Client(self.path, wait_s=5.0) as client:
                for _ in range(self.dice.randrange(1, 20)):
                    calls += 1
                    self.call(client)
            if self.dice.random() < 0.3:
                self.send_garbage()

    def call(self, client: Client) -> None:
        dice = self.dice
        timeout_s = dice.choice([0.001, 0.01, 0.1, 30.0])
        try:
            match dice.randrange(10):
                case 0:
                    client.get(dice.choice(["memory/1/1.md", "../x", "no"]), timeout_s=timeout_s)
                case 1:
                    client.status(timeout_s=timeout_s)
                case 2:
                    client.sync(timeout_s=timeout_s)
                case 3:
                    client.index(force=dice.random() < 0.3, timeout_s=timeout_s)
                case _:
                    client.search(
                        dice.choice(["word1", "word5 word9", '"*(', "汉字", "x" * 5_000]),
                        max_results=dice.choice([1, 6, 200]),
                        path_glob=dice.choice([None, "memory/*/1*.md"]),
                        timeout_s=timeout_s,
                    )
        except MemorydError:
            pass  # a proper error
        except Exception as error:
            self.bugs.append(error)

    def send_garbage(self) -> None:
        with socket.socket(socket.AF_UNIX) as raw, suppress(OSError):
            raw.connect(self.path)
            raw.send(self.dice.randbytes(self.dice.randrange(1, 50)))


def change_files(daemon: Daemon, dice: random.Random) -> None:
    memory = daemon.workspace / "memory"
    for _ in range(CHANGES):
        folder = memory / str(dice.randrange(9))
        with suppress(OSError):
            match dice.randrange(10):
                case 0:
                    shutil.rmtree(folder, ignore_errors=True)
                case 1:
                    folder.rename(memory / f"moved{dice.randrange(5)}")
                case 2 | 3:
                    os.unlink(folder / f"{dice.randrange(120)}.md")
                case _:
                    text = f"word{dice.randrange(90)} " * dice.randrange(1, 900)
                    daemon.write(f"memory/{folder.name}/{dice.randrange(120)}.md", text)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_all_at_once_it_serves_and_ends_with_the_right_index(hybrid: Daemon, seed: int) -> None:
    hybrid.start()
    clients = [Misuse(str(hybrid.socket), seed * 100 + number) for number in range(CLIENTS)]
    for misuse in clients:
        misuse.start()
    change_files(hybrid, random.Random(seed))
    for misuse in clients:
        misuse.join()
    assert [misuse.bugs for misuse in clients] == [[]] * CLIENTS
    hybrid.sync()
    with hybrid.client() as client:
        status = client.status()
    assert (status.degraded, status.failures, status.pending_vectors) == ([], [], 0)
    assert status.files == status.total_files
    assert hybrid.stop() == 0
    assert hybrid.complaints() == []
    lived = contents(hybrid.database)
    for path in hybrid.database.parent.glob("main.sqlite*"):
        path.unlink()
    hybrid.start().sync()
    hybrid.stop()
    assert lived == contents(hybrid.database)
