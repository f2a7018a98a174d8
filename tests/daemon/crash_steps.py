"""The steps at which a daemon is killed, and the code that kills it.

Python's `sitecustomize` wraps the named function, in the daemon's process only.
"""

import os
from pathlib import Path
from typing import NamedTuple

from harness import Daemon

KILLER = '''
import contextlib, functools, importlib.abc, importlib.util, inspect, os, signal, sys, threading


def install(step, nth):
    module, name, when = step.split(":")
    calls, lock = [0], threading.Lock()

    def reach(moment):
        if moment != when:
            return
        with lock:
            calls[0] += 1
            if calls[0] == nth:
                with open(os.environ["CRASH_NOTE"], "w") as note:
                    note.write(step)
                os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(function):
        if inspect.iscoroutinefunction(function):
            async def wrapper(*args, **kwargs):
                reach("before")
                result = await function(*args, **kwargs)
                reach("after")
                return result
        elif inspect.isgeneratorfunction(inspect.unwrap(function)) and hasattr(
            function, "__wrapped__"
        ):
            @contextlib.contextmanager
            def wrapper(*args, **kwargs):
                reach("before")
                with function(*args, **kwargs) as value:
                    yield value
                    reach("inside")
                reach("after")
        elif inspect.isgeneratorfunction(function):
            def wrapper(*args, **kwargs):
                reach("before")
                steps = function(*args, **kwargs)
                try:
                    while True:
                        next(steps)
                        reach("inside")
                        yield
                except StopIteration as end:
                    reach("after")
                    return end.value
                finally:
                    steps.close()
        else:
            def wrapper(*args, **kwargs):
                reach("before")
                result = function(*args, **kwargs)
                reach("after")
                return result
        return functools.wraps(function)(wrapper)

    def wrap(owner):
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, wrapped(getattr(owner, last)))

    class Finder(importlib.abc.MetaPathFinder):
        """Wraps the function as soon as there is one, before anybody imports it by its name."""

        def find_spec(self, wanted, path, target=None):
            if wanted != module:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(wanted)
            execute = spec.loader.exec_module

            def exec_module(made):
                execute(made)
                wrap(made)

            spec.loader.exec_module = exec_module
            return spec

    if module in sys.modules:
        wrap(sys.modules[module])
    else:
        sys.meta_path.insert(0, Finder())


if os.environ.get("CRASH_PARENT") == str(os.getppid()):
    install(os.environ["CRASH_AT"], int(os.environ["CRASH_NTH"]))
'''


class Step(NamedTuple):
    """A place in the product's code, and the scenario that reaches it.

    `at` is `module:function:moment`. The moment is `before` or `after` a call, or `inside`: the end
    of a context manager's block, or between two steps of a generator. `scenario` is a method of
    `World`. `most` is the number of calls from which the one that is killed is drawn at random.
    """

    at: str
    scenario: str
    what: str
    most: int = 1


STEPS = [
    Step("memoryd.index.driver:transaction:inside", "load", "written, not committed", 30),
    Step("memoryd.index.driver:transaction:after", "load", "committed, nobody knows yet", 30),
    Step("memoryd.index.statements:insert_rows:after", "load", "some rows of a transaction", 6),
    Step("memoryd.index.statements:_replace:after", "load", "the rows of one file of several", 10),
    Step("memoryd.index.statements:put_vectors:before", "load", "vectors come, not written", 2),
    Step(
        "memoryd.index.statements:put_vectors:after", "load", "vectors committed, not in memory", 2
    ),
    Step(
        "memoryd.index.writer:Writer._update_catalog:before",
        "load",
        "committed, not in the catalog",
        10,
    ),
    Step("memoryd.index.schema:merge_segments:after", "load", "words merged in part"),
    Step("memoryd.chunk.parser:parse:after", "load", "a file is read, not written", 6),
    Step("memoryd.embed.pool:EmbedPool.embed:before", "load", "texts are about to be sent", 2),
    Step("memoryd.embed.pool:EmbedPool.embed:after", "load", "texts are embedded, not written", 2),
    Step("memoryd.source.transcripts.tracker:TranscriptTracker._plan:after", "load", "looked at"),
    Step(
        "memoryd.agent.transcripts:Transcripts.read:after",
        "load",
        "a part of a transcript is read",
        3,
    ),
    Step("memoryd.index.schema:prepare:before", "restart", "the file is open, not looked at"),
    Step("memoryd.index.schema:prepare:after", "restart", "the tables are checked"),
    Step("memoryd.index.schema:ensure_fts:after", "restart", "the words are put right"),
    Step("memoryd.index.vec_table:follow:after", "restart", "sqlite-vec's table is put right"),
    Step("memoryd.index.store:Store.load_matrix:before", "restart", "vectors are about to be read"),
    Step("memoryd.server.unix_socket:_remove_stale:after", "restart", "the stale socket is gone"),
    Step(
        "memoryd.server.unix_socket:listening:before", "restart", "the lock is held, no socket yet"
    ),
    Step("memoryd.index.schema:_execute_all:after", "migrate", "a schema is brought up to date", 2),
    Step("memoryd.index.schema:prepare:before", "migrate", "an old schema is there"),
    Step("memoryd.index.schema:prepare:after", "migrate", "it is of this version, words are not"),
    Step("memoryd.index.words:prepare_table:after", "migrate", "words are filled, not committed"),
    Step("memoryd.index.schema:ensure_fts:after", "rebuild", "a new file has tables", 1),
    Step(
        "memoryd.index.rebuild.carry_over:copy_records:after",
        "rebuild",
        "records are taken over",
        2,
    ),
    Step(
        "memoryd.index.rebuild.carry_over:copy_cache:after",
        "rebuild",
        "embeddings are taken over",
        2,
    ),
    Step(
        "memoryd.index.rebuild.rebuild:Rebuild._write:after",
        "rebuild",
        "some files are in the new one",
    ),
    Step(
        "memoryd.index.rebuild.rebuild:Rebuild._fill:after",
        "rebuild",
        "all files are in the new one",
    ),
    Step(
        "memoryd.index.rebuild.rebuild:Rebuild._finish:before", "rebuild", "the swap is asked for"
    ),
    Step("memoryd.index.rebuild.rebuild:Rebuild._finish:after", "rebuild", "the new one is closed"),
    Step("memoryd.index.driver:write_back:before", "rebuild", "new, then old, at their end", 2),
    Step("memoryd.index.driver:write_back:after", "rebuild", "new, then old, checkpointed", 2),
    Step("memoryd.fs.atomic_replace:put_in_place:before", "rebuild", "both are closed"),
    Step(
        "memoryd.fs.atomic_replace:_flush:after",
        "rebuild",
        "the new one is on disk, then folders",
        3,
    ),
    Step("os:replace:before", "rebuild", "about to be renamed"),
    Step("os:replace:after", "rebuild", "renamed, the folder not on disk"),
    Step("memoryd.fs.atomic_replace:put_in_place:after", "rebuild", "swapped, nothing is open"),
    Step(
        "memoryd.index.rebuild.actor:Rebuilder._send_hints:before",
        "rebuild",
        "swapped, no scan yet",
    ),
    Step(
        "memoryd.index.rebuild.rebuild:Rebuild._embed:after",
        "rechunk",
        "vectors for the new one alone",
    ),
    Step(
        "memoryd.index.rebuild.rebuild:Rebuild._fill:after",
        "rechunk",
        "all vectors for the new one",
    ),
    Step("os:replace:after", "rechunk", "settings have changed, swapped"),
    Step(
        "memoryd.index.rebuild.carry_over:keep_embeddings:before", "leftover", "a leftover is found"
    ),
    Step(
        "memoryd.index.rebuild.carry_over:keep_embeddings:after",
        "leftover",
        "its embeddings are kept",
    ),
    Step("memoryd.index.rebuild.carry_over:adopt_vectors:after", "leftover", "chunks have them"),
    Step("memoryd.fs.atomic_replace:remove_files:after", "leftover", "the leftover is removed"),
    Step("memoryd.index.forget:forget:before", "forget", "asked to forget"),
    Step("memoryd.index.driver:transaction:after", "forget", "forgotten, bytes still there", 2),
    Step("memoryd.index.forget:forget:after", "forget", "forgotten, still in memory"),
    Step("memoryd.index.driver:write_back:before", "stop", "about to be closed"),
    Step("memoryd.index.driver:write_back:after", "stop", "checkpointed, not closed"),
    Step("memoryd.index.store:Store._close_database:after", "stop", "closed, the socket is there"),
    Step("os:replace:before", "add", "an added workspace is written, beside"),
    Step("os:replace:after", "add", "an added workspace is written down"),
]


def remove(daemon: Daemon) -> None:
    """Remove the killer, so that the next start may be a fork."""
    _file(daemon).unlink(missing_ok=True)


def note(daemon: Daemon) -> Path:
    """Return the file in which the killer records the step."""
    return daemon.folder / "crashed"


def install(daemon: Daemon, at: str, nth: int) -> dict[str, str]:
    """Install the killer; return the environment of a process that is to be killed at a step."""
    _file(daemon).write_text(KILLER)
    return {
        "CRASH_AT": at,
        "CRASH_NTH": str(nth),
        "CRASH_NOTE": str(note(daemon)),
        "CRASH_PARENT": str(os.getpid()),
    }


def _file(daemon: Daemon) -> Path:
    return daemon.folder / "model" / "sitecustomize.py"
