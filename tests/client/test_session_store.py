"""The JSON5 session store: appends, compactions, the registry, and the lock of proper-lockfile."""

import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import eventually

import memoryd_client
from memoryd_client import SessionStore
from memoryd_client.session_store import SessionStoreError
from memoryd_client.shared import folder_lock
from memoryd_client.shared.folder_lock import FileLockedError, FolderLock, LockLostError

KILLS = 3
WRITER = """
import os, sys
from memoryd_client import SessionStore
from memoryd_client.shared import folder_lock
from memoryd_client.shared.folder_lock import FileLockedError, LockLostError

# So that nobody waits for the lock of a killed writer for long.
folder_lock.STALE_S, folder_lock.UPDATE_S = 2.0, 0.5
store, writer, number = SessionStore(sys.argv[1]), sys.argv[2], 0
while number < int(sys.argv[3]):
    try:
        store.append("chats/7", {"role": "user", "content": f"{writer}:{number}"})
    except (FileLockedError, LockLostError):
        continue
    print(f"{writer}:{number}", flush=True)
    number += 1
"""


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path)


def said(store: SessionStore, chat: str = "chats/7") -> list[str]:
    return [message["content"] for message in store.read(chat)["messages"]]


def test_messages_are_appended(store: SessionStore, tmp_path: Path) -> None:
    assert store.append("chats/7", {"role": "user", "content": "é\ud800", "timestamp": 5}) == 1
    assert store.append("chats/7", {"role": "assistant", "content": [{"type": "text"}]}) == 2
    chat = store.read("chats/7")
    assert (chat["id"], chat["messages"][0]) == (
        "7",
        {"role": "user", "content": "é\ud800", "timestamp": 5},
    )
    assert chat["messages"][1]["timestamp"] > 1_700_000_000_000
    assert os.listdir(tmp_path / "chats") == ["7.json5"]
    assert (tmp_path / "chats/7.json5").stat().st_mode & 0o777 == 0o600


def test_a_compaction_keeps_what_came_after_it(store: SessionStore) -> None:
    for number in range(5):
        store.append("groups/g", {"role": "user", "content": str(number)})
    assert store.compact("groups/g", "They counted.", 3) == 2
    assert said(store, "groups/g") == ["3", "4"]
    (summary,) = store.read("groups/g")["compactedHistory"]
    assert summary.pop("compactedAt") > 1_700_000_000_000
    assert summary == {"role": "system", "content": "They counted.", "originalMessageCount": 3}
    with pytest.raises(SessionStoreError, match=r"has 2 messages \(got 3\)"):
        store.compact("groups/g", "too much", 3)
    assert len(store.read("groups/g")["compactedHistory"]) == 1


def test_the_registry_says_what_a_chat_is(store: SessionStore, tmp_path: Path) -> None:
    store.register("chats/7", channel="whatsapp")
    store.register("groups/g", channel="whatsapp", group_id="1203@g.us")
    registry = json.loads((tmp_path / "registry.json5").read_text())["sessions"]
    assert {name: entry.pop("updatedAt") > 0 for name, entry in registry.items()} == {
        "7": True,
        "g": True,
    }
    assert registry == {
        "7": {"channel": "whatsapp", "file": "chats/7.json5"},
        "g": {"channel": "whatsapp", "file": "groups/g.json5", "groupId": "1203@g.us"},
    }


def test_what_another_program_wrote_is_kept(store: SessionStore, tmp_path: Path) -> None:
    file = tmp_path / "chats/7.json5"
    file.parent.mkdir()
    file.write_text("{ // theirs\n id: 'x', limit: +Infinity, none: NaN, messages: ['a',], }")
    store.append("chats/7", {"role": "user", "content": "b"})
    chat = store.read("chats/7")
    assert (chat["id"], chat["limit"], chat["messages"][0]) == ("x", math.inf, "a")
    assert math.isnan(chat["none"])


@pytest.mark.parametrize("text", ["[]", "{messages: 1}", "{ messages: [", "{messages: []", "\xff"])
def test_what_is_no_chat_is_left_alone(store: SessionStore, tmp_path: Path, text: str) -> None:
    file = tmp_path / "chats/7.json5"
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(SessionStoreError):
        store.append("chats/7", {"role": "user", "content": "b"})
    assert file.read_bytes() == text.encode("latin-1")
    assert os.listdir(file.parent) == ["7.json5"]


@pytest.mark.parametrize("name", ["7", "chats/", "chats/../x", "x/7", "chats/.7", "chats/a/b", ""])
def test_other_names_are_no_chats(store: SessionStore, tmp_path: Path, name: str) -> None:
    with pytest.raises(SessionStoreError, match="no chat is named"):
        store.append(name, {"role": "user", "content": "x"})
    with pytest.raises(SessionStoreError, match="needs role and content"):
        store.append("chats/7", {"role": "user"})
    assert os.listdir(tmp_path) == []


def test_a_held_lock_is_waited_for(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    held = FolderLock(str(tmp_path / "7.json5"))
    with held, pytest.raises(FileLockedError, match="is held by another process"):
        FolderLock(str(tmp_path / "7.json5")).__enter__()
    assert pauses == [0.1, 0.2, 0.4, 0.8, *[1.0] * 6]
    with FolderLock(str(tmp_path / "7.json5")):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_that_nobody_refreshes_is_free(store: SessionStore, tmp_path: Path) -> None:
    lock = tmp_path / "chats/7.json5.lock"
    lock.mkdir(parents=True)
    (tmp_path / "chats/7.json5.0a1b2c3d.tmp").touch()  # of a writer that was killed
    os.utime(lock, (1_771_280_000, 1_771_280_000))
    store.append("chats/7", {"role": "user", "content": "x"})
    assert os.listdir(tmp_path / "chats") == ["7.json5"]


def test_a_lock_that_was_taken_over_writes_nothing(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append("chats/7", {"role": "user", "content": "x"})
    check = FolderLock.check

    def taken_over(lock: FolderLock) -> None:
        os.utime(tmp_path / "chats/7.json5.lock")
        check(lock)

    monkeypatch.setattr(FolderLock, "check", taken_over)
    with pytest.raises(LockLostError):
        store.append("chats/7", {"role": "user", "content": "y"})
    assert said(store) == ["x"]
    assert sorted(os.listdir(tmp_path / "chats")) == ["7.json5", "7.json5.lock"]


def test_a_held_lock_is_refreshed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "UPDATE_S", 0.001)
    with FolderLock(str(tmp_path / "a")) as lock:
        first = (tmp_path / "a.lock").stat().st_mtime_ns
        eventually(lambda: (tmp_path / "a.lock").stat().st_mtime_ns > first)
        assert lock.is_ours()
    assert not (tmp_path / "a.lock").exists()


def writer(folder: Path, name: str, messages: int) -> subprocess.Popen[str]:
    root = str(Path(memoryd_client.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(messages)],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_writers_and_kills_lose_nothing(store: SessionStore, tmp_path: Path) -> None:
    acknowledged: list[str] = []

    def read(process: subprocess.Popen[str], kill_after: int | None = None) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for number, line in enumerate(lines):
                acknowledged.append(line.strip())
                if number == kill_after:
                    process.kill()
        process.wait()

    def write_on() -> None:
        for number in range(KILLS):
            read(writer(tmp_path, f"killed{number}", 10_000), kill_after=7)

    killed = threading.Thread(target=write_on)
    killed.start()
    read(other := writer(tmp_path, "other", 60))
    killed.join()
    assert other.returncode == 0
    contents = said(store)
    assert len(contents) == len(set(contents))
    assert set(acknowledged) <= set(contents)
    # For each kill, one more may have been written, and not been acknowledged any more.
    assert len(contents) - len(acknowledged) <= KILLS
