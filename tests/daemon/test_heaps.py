"""A daemon allocates from few heaps, so that it reuses their free memory."""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from harness import Daemon

HEAP_BYTES = 64 * 1024 * 1024
"""Size of every heap in glibc except for the first, and its alignment."""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
    pytest.mark.own_process,
]


def heaps(pid: int) -> int:
    """Count mappings that begin where a heap does, followed by its reserved range."""
    mapped = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, access, *_ = line.split()
        start, end = (int(address, 16) for address in addresses.split("-"))
        mapped.append((start, end, access[:3]))
    return sum(
        start % HEAP_BYTES == 0 and end == start + HEAP_BYTES and (used, rest) == ("rw-", "---")
        for (start, _, used), (_, end, rest) in pairwise(mapped)
    )


def test_many_threads_share_few_heaps() -> None:
    with Daemon() as daemon:
        for number in range(50):
            daemon.write(f"memory/{number}.md", f"# Note {number}\n\nThe words of all notes.\n")
        with daemon.client() as client:
            client.sync()

        def search(number: int) -> None:
            with daemon.client() as client:
                client.search(f"words of note {number}")

        with ThreadPoolExecutor(8) as clients:
            list(clients.map(search, range(64)))
        assert daemon.process is not None
        assert len(list(Path(f"/proc/{daemon.process.pid}/task").iterdir())) > 8
        assert heaps(daemon.process.pid) <= 1
        daemon.assert_healthy()
