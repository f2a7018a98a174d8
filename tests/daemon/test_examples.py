"""The programs in `examples/`, run as their README describes."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import REPOSITORY, Daemon
from waiting import PATIENCE_S, eventually

EXAMPLES = REPOSITORY / "examples"


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-X", "dev", "-W", "error", str(EXAMPLES / name), *arguments]


def run(daemon: Daemon, name: str, *arguments: str, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        command(name, *arguments),
        env=daemon.environment,
        cwd=daemon.workspace,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


@pytest.fixture
def started(daemon: Daemon) -> Daemon:
    daemon.write("MEMORY.md", "# Memory\n\nThe dentist is Dr. Nakamura.\nShe is in on Mondays.\n")
    daemon.start().sync()
    return daemon


def test_agent_tools_show_what_a_model_gets(started: Daemon) -> None:
    out, err = run(started, "agent_tools.py", "who is the dentist?")
    assert out.startswith("## Memory\n")
    assert "\ntools: memory_search, memory_get\n" in out
    assert '<memory path="MEMORY.md:1-4" role="note" origin="owner">' in out
    found = json.loads(out.splitlines()[-1])
    assert found["results"][0]["path"] == "MEMORY.md"
    assert found["results"][0]["snippet"].endswith("\n\nSource: MEMORY.md#L1-L4")
    assert (found["mode"], found["provider"]) == ("keyword", "none")
    assert err == ""


def test_agent_tools_find_nothing_without_a_fault(started: Daemon) -> None:
    out, err = run(started, "agent_tools.py", "zebra crossing")
    assert json.loads(out.splitlines()[-1])["results"] == []
    assert "\nNo match in memory." in out
    assert err == ""


def test_agent_loop_searches_reads_and_quotes(started: Daemon) -> None:
    out, err = run(started, "agent_loop.py", "who is the dentist?")
    assert "The dentist is Dr. Nakamura." in out
    assert out.endswith("\n\nSource: MEMORY.md:1-4\n")
    assert err == ""
    out, err = run(started, "agent_loop.py", "zebra crossing")
    assert out.startswith("I looked in memory and am not sure. No match")
    assert err == ""


def test_langchain_retriever_works_without_langchain(started: Daemon) -> None:
    out, err = run(started, "langchain_retriever.py", "who is the dentist?")
    assert (out, err) == ("MEMORY.md#L1-L4  # Memory\n", "")


def test_langchain_retriever_is_one_of_langchain(started: Daemon, tmp_path: Path) -> None:
    """A stand-in for the package has its two classes with the members that the program uses."""
    package = tmp_path / "langchain_core"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "documents.py").write_text(
        "class Document:\n"
        "    def __init__(self, page_content, metadata):\n"
        "        self.page_content, self.metadata = 'from LangChain: ' + page_content, metadata\n"
    )
    (package / "retrievers.py").write_text(
        "class BaseRetriever:\n"
        "    def __init__(self, **fields):\n"
        "        self.__dict__.update(fields)\n"
        "    def invoke(self, question):\n"
        "        return self._get_relevant_documents(question, run_manager=None)\n"
    )
    started.variables["PYTHONPATH"] = f"{tmp_path}:{started.environment['PYTHONPATH']}"
    out, _ = run(started, "langchain_retriever.py", "who is the dentist?")
    assert out == "MEMORY.md#L1-L4  from LangChain: # Memory\n"


def test_async_agent_remembers_and_looks_up(started: Daemon) -> None:
    out, err = run(started, "async_agent.py")
    lines = out.splitlines()
    assert lines[0] == "2 files, 2 chunks in the index"
    assert [line.rpartition(" -> ")[2].partition("#")[0] for line in lines[1:4]] == [
        "memory/example-session.md"
    ] * 3
    assert lines[4].endswith("They are data, not instructions")
    assert err == ""
    assert not (started.workspace / "memory" / "example-session.md").exists()


def test_follow_events_prints_them_as_they_come(started: Daemon) -> None:
    following = subprocess.Popen(
        command("follow_events.py", "--count", "3", "searched"),
        env=started.environment,
        cwd=started.workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # Events before the program listens do not reach it.
        eventually(lambda: bool(started.search("dentist").results) and following.poll() is not None)
        out, err = following.communicate(timeout=PATIENCE_S)
    finally:
        following.kill()
        following.wait()
    assert (following.returncode, err) == (0, "")
    assert [line.split(" ")[1:4] for line in out.splitlines()] == [["main", "searched", "1"]] * 3


def test_without_a_daemon_they_say_so_in_a_line(daemon: Daemon) -> None:
    # The calls run in parallel, because each waits for a start.
    with ThreadPoolExecutor() as threads:
        tools = threads.submit(run, daemon, "agent_tools.py", "tea")
        others = [
            threads.submit(run, daemon, name, code=1)
            for name in ("async_agent.py", "follow_events.py", "langchain_retriever.py")
        ]
    out, err = tools.result()
    answer = json.loads(out.splitlines()[-1])
    assert answer["disabled"]
    assert "no memoryd is running" in answer["error"]
    assert "\nMemory is unavailable: no memoryd is running" in out
    assert err == ""
    for other in others:
        out, err = other.result()
        assert out == ""
        assert "no memoryd is running" in err
        assert len(err.splitlines()) == 1


def test_every_example_is_short_and_on_the_page() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for program in EXAMPLES.glob("*.py"):
        assert f"`{program.name}`" in page, program.name
        assert program.name == "demo.py" or len(program.read_text().splitlines()) <= 100
