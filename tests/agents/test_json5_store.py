"""The JSON5 session store beside the npm packages json5 and proper-lockfile, in both directions."""

import json
import math
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from real_agents import INSTALLED, TIMEOUT_S

from memoryd_client import SessionStore
from memoryd_client.shared import folder_lock
from memoryd_client.shared.folder_lock import FileLockedError, FolderLock

pytestmark = pytest.mark.agents

MESSAGES = 60
LOCK = "{ realpath: false, stale: 10_000, retries: { retries: 100, minTimeout: 20 } }"
HEAD = """
const JSON5 = require("json5");
const lockfile = require("proper-lockfile");
const fs = require("node:fs");
const file = process.argv[1];
"""


def node(script: str, file: Path, *, reads: str = "") -> Any:
    """Run a script in the folder of the packages; return the JSON that it prints."""
    found = next(INSTALLED.glob("node-*-*64/bin/node"), Path("node"))
    done = subprocess.run(
        [found, "--eval", HEAD + script, str(file)],
        cwd=INSTALLED,
        input=reads,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "null")


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path)


@pytest.fixture
def file(store: SessionStore, tmp_path: Path) -> Path:
    store.append("chats/7", {"role": "user", "content": "'é\u2028\ud800\\ // <b>", "timestamp": 5})
    store.compact("chats/7", "Nothing yet.", 1)
    store.append("chats/7", {"role": "user", "content": [{"type": "text", "text": "hello 🍷"}]})
    return tmp_path / "chats/7.json5"


def test_json5_reads_what_the_store_writes(store: SessionStore, file: Path) -> None:
    read = node("process.stdout.write(JSON.stringify(JSON5.parse(fs.readFileSync(file))))", file)
    assert read == store.read("chats/7")


def test_the_store_reads_what_json5_writes(store: SessionStore, file: Path) -> None:
    node(
        """
        const chat = JSON5.parse(fs.readFileSync(file, "utf8"));
        const more = { top: Infinity, none: NaN, 'a b': "it's \\u2028 '", deep: [[[-0.5]]] };
        Object.assign(chat, more);
        fs.writeFileSync(file, "// theirs\\n" + JSON5.stringify(chat, null, 2));
        """,
        file,
    )
    assert store.append("chats/7", {"role": "user", "content": "ours"}) == 2
    chat = store.read("chats/7")
    assert (chat["top"], chat["a b"], chat["deep"]) == (math.inf, "it's \u2028 '", [[[-0.5]]])
    assert math.isnan(chat["none"])
    again = node("process.stdout.write(String(JSON5.parse(fs.readFileSync(file)).top > 1))", file)
    assert again is True


def test_each_waits_for_the_lock_of_the_other(
    store: SessionStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = f"""
    lockfile.check(file, {LOCK}).then(async (held) => {{
      const options = {{ realpath: false, retries: 0 }};
      const code = await lockfile.lock(file, options).then((free) => free(), (e) => e.code);
      process.stdout.write(JSON.stringify([held, code ?? "free"]));
    }});
    """
    with FolderLock(str(file)):
        assert node(check, file) == [True, "ELOCKED"]
    assert node(check, file) == [False, "free"]
    # A killed process leaves its lock; the same folder serves both ways.
    node(f"lockfile.lock(file, {LOCK}).then(() => process.kill(process.pid, 0))", file)
    monkeypatch.setattr(folder_lock, "TRIES", 0)
    Path(f"{file}.lock").mkdir(exist_ok=True)
    with pytest.raises(FileLockedError):
        store.append("chats/7", {"role": "user", "content": "x"})


def test_both_write_and_nothing_is_lost(store: SessionStore, file: Path) -> None:
    script = f"""
    (async () => {{
      for (let number = 0; number < {MESSAGES}; number++) {{
        const free = await lockfile.lock(file, {LOCK});
        const chat = JSON5.parse(fs.readFileSync(file, "utf8"));
        chat.messages.push({{ role: "user", content: `theirs ${{number}}` }});
        fs.writeFileSync(file + ".theirs", JSON5.stringify(chat));
        fs.renameSync(file + ".theirs", file);
        await free();
      }}
    }})();
    """
    theirs = threading.Thread(target=node, args=(script, file))
    theirs.start()
    ours = 0
    while ours < MESSAGES:
        try:
            store.append("chats/7", {"role": "user", "content": f"ours {ours}"})
        except FileLockedError:
            continue
        ours += 1
    theirs.join()
    said = [message["content"] for message in store.read("chats/7")["messages"][1:]]
    expected = [f"{whose} {number}" for whose in ("ours", "theirs") for number in range(MESSAGES)]
    assert sorted(said) == sorted(expected)
    assert node(f"lockfile.check(file, {LOCK}).then((h) => console.log(h))", file) is False
