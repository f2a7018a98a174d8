"""The exact output of `memctl`."""

import json
from collections.abc import Callable

import msgspec
import pytest
from fake_daemon import FakeDaemon, answering
from golden_bodies import golden

from memctl import main as memctl
from memctl.render_status import status
from memoryd_client.schema.memory import (
    ConfigResult,
    GetResult,
    IndexResult,
    PingResult,
    SyncResult,
)
from memoryd_client.schema.search import SearchResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared.style import Style
from memoryd_client.wire.protocol import Body

FOUND = golden("search_result", SearchResult)
STATUS = golden("status_result", StatusResult)

Printed = tuple[str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Body], Printed]:
    """Run a command that the daemon answers; return stdout and stderr."""

    def run(line: str, answer: Body) -> Printed:
        with FakeDaemon(answering(answer)) as daemon:
            assert memctl.main([*line.split(), "--socket", daemon.path]) == 0
        printed = capsys.readouterr()
        return printed.out, printed.err

    return run


Run = Callable[[str, Body], Printed]


# --- search and get ----------------------------------------------------------------------------


def test_search(run: Run) -> None:
    assert run("search dentist", FOUND) == (
        """\
1. memory/2026-08-14.md:12-14  0.88  (vector 0.62, text 0.91)
   Friday
   keywords: bm25 0.50, coverage 1.00, adjacency 0.75, verbatim 0.00 (rank 1)
   vector: cosine 0.25 (rank 3)
   strength 2.25, age factor 50%
   14 │ Dentist — 3 pm, bring the card.

2. MEMORY.md:3  0.50  (text 0.50)
   3 │ Dentist: Dr. Nakamura

3. sessions/main/family.jsonl:8  0.38  (text 0.38)
   kept, its file is gone since 2026-11-29
   untrusted · Mallory in Family
   8 │ Mallory (Family): The dentist has moved.
""",
        """\
warning: 2 texts have no vector yet
warning: 1 changed file not searchable yet
""",
    )


def test_search_without_hits(run: Run) -> None:
    nothing = SearchResult(results=[], provider="none", model="", mode="keyword")
    assert run("search dentist", nothing) == ("No matches.\n", "")


def test_more_of_a_file_is_told_as_a_shell_takes_it(run: Run) -> None:
    more = GetResult("memory/my notes' $x.md", "tea\n", 1, 1, 9, truncated=True, next_from=2)
    assert run("get x.md", more)[1] == (
        "more: memctl get 'memory/my notes'\"'\"' $x.md' --from 2\n"
    )


def test_a_written_note_says_where_it_comes_from(run: Run) -> None:
    found = golden("search_result_written_note", SearchResult)
    out, _ = run("search dentist", found)
    assert out == (
        "1. MEMORY.md:3  0.50\n"
        "   from sessions/main/family.jsonl#L8 · observed 2026-11-28T09:30+01:00"
        " · replaces memory/2026-08-14.md#L14\n"
        "   3 │ - Dentist: Dr. Nakamura\n"
    )
    (shown,) = json.loads(run("search dentist --json", found)[0])["results"]
    assert (shown["conversation"], shown["observed"], shown["supersedes"]) == (
        "sessions/main/family.jsonl#L8",
        "2026-11-28T09:30+01:00",
        "memory/2026-08-14.md#L14",
    )


def test_search_json(run: Run) -> None:
    out, err = run("search dentist --json", FOUND)
    assert err == ""
    assert json.loads(out) == {
        "results": [
            {
                "path": "memory/2026-08-14.md",
                "startLine": 10,
                "endLine": 31,
                "score": 0.875,
                "snippet": "## Health\n\nDentist — 3 pm, bring the card.",
                "snippetStartLine": 12,
                "snippetEndLine": 14,
                "source": "memory",
                "citation": "memory/2026-08-14.md#L12-L14",
                "vectorScore": 0.625,
                "textScore": 0.91,
                "explanation": {
                    "bm25": 0.5,
                    "coverage": 1.0,
                    "adjacency": 0.75,
                    "verbatim": 0,
                    "cosine": 0.25,
                    "strength": 2.25,
                    "decay": 0.5,
                    "textRank": 1,
                    "vectorRank": 3,
                    "title": 0,
                },
                "highlights": [[11, 18]],
                "role": "note",
                "speaker": "",
                "channel": "",
                "origin": "owner",
                "title": "Friday",
                "date": "2026-08-14",
                "confidence": 0.75,
            },
            {
                "path": "MEMORY.md",
                "startLine": 3,
                "endLine": 3,
                "score": 0.5,
                "snippet": "Dentist: Dr. Nakamura",
                "snippetStartLine": 3,
                "snippetEndLine": 3,
                "source": "memory",
                "citation": "MEMORY.md#L3",
                "textScore": 0.5,
                "role": "note",
                "speaker": "",
                "channel": "",
                "origin": "owner",
                "title": "",
                "date": "",
            },
            {
                "path": "sessions/main/family.jsonl",
                "startLine": 7,
                "endLine": 9,
                "score": 0.375,
                "snippet": "Mallory (Family): The dentist has moved.",
                "snippetStartLine": 8,
                "snippetEndLine": 8,
                "source": "sessions",
                "citation": "sessions/main/family.jsonl#L8",
                "textScore": 0.375,
                "role": "user",
                "speaker": "Mallory",
                "channel": "Family",
                "origin": "untrusted",
                "title": "",
                "date": "",
                "goneAt": 1795948800.5,
            },
        ],
        "provider": "local",
        "model": "use-multilingual-v3",
        "fallback": None,
        "mode": "hybrid",
        "warnings": ["2 texts have no vector yet"],
        "stale": True,
        "pendingFiles": 1,
        "pendingVectors": 2,
        "tookMs": 2.5,
        "agent": "main",
        "workspaceDir": "/home/ada/notes",
        "omitted": 0,
        "firstIndex": "",
        "confidence": "medium",
        "backend": "builtin",
        "backendFallback": {"from": "qmd", "reason": "qmd did not answer within 4 s"},
    }
    assert out.startswith('{\n  "results": [\n    {\n')
    assert "Dentist — 3 pm" in out


def test_get(run: Run) -> None:
    assert run("get MEMORY.md", golden("get_result", GetResult)) == (
        "# Memory\n\nDentist: Dr. Nakamura\n",
        "more: memctl get MEMORY.md --from 4\n",
    )


def test_get_ends_the_last_line(run: Run) -> None:
    assert run("get x.md", GetResult("x.md", "tea", 1, 1, 1)) == ("tea\n", "")
    assert run("get x.md", GetResult("x.md", "", 1, 0, 0)) == ("", "")


def test_get_json(run: Run) -> None:
    out, _ = run("get MEMORY.md --json", golden("get_result", GetResult))
    assert json.loads(out) == {
        "text": "# Memory\n\nDentist: Dr. Nakamura\n",
        "path": "MEMORY.md",
        "from": 1,
        "lines": 3,
        "totalLines": 40,
        "truncated": True,
        "nextFrom": 4,
    }


def test_get_json_leaves_out_what_does_not_apply(run: Run) -> None:
    out, _ = run("get x.md --json", GetResult("x.md", "tea\n", 1, 1, 1))
    assert json.loads(out) == {
        "text": "tea\n",
        "path": "x.md",
        "from": 1,
        "lines": 1,
        "totalLines": 1,
    }


# --- status ------------------------------------------------------------------------------------


def test_status(run: Run) -> None:
    out, err = run("status --agent main", STATUS)
    assert err == ""
    assert (
        out
        == """\
Memory Search (main)
Back end          qmd 2.8.3 ready
                  search, by server (process 4243)
                  12 files · 0 vectors · updated 1 min 15 s ago
                  40 answers · 2 fallbacks
                  last fallback: qmd did not answer within 4 s
Provider          local (requested: auto)
Model             use-multilingual-v3
Sources           memory, sessions
Extra paths       /home/ada/wiki
Indexed           11/12 files · 345 chunks
Dirty             yes (1 file changed)
Pending           1 file · 2 vectors
No vector         3 of 345 chunks, for good
Rebuild           embedding 120/345 (the model changed)
Store             /home/ada/.local/state/memoryd/main.sqlite (2.3 MiB)
Workspace         /home/ada/notes
Embeddings        ready
Traffic           40 requests · 345 items · 98765 tokens · 2 retried · 3 failed · cost 0.0020
Texts go to       api.openai.com (another machine, through the proxy proxy.lan:3128)
Chosen            its key was found in OPENAI_API_KEY
Index identity    valid
By source         memory · 9/10 files · 300 chunks
                  sessions · 2/2 files · 45 chunks
Session notes     2 written since the start, last memory/2026-11-28-2104.md, 1 failed
Vector store      ready
Semantic vectors  ready (343 in memory)
Vector dims       512
Vector path       /opt/venv/sqlite_vec/vec0.so
FTS               ready
Embedding cache   enabled (345 entries, 45 hits, 300 misses)
Cache cap         50000
Batch             disabled (it is expired)
Batch error       it is expired
Batch job         batch_1: in_progress, 2000 texts, 1 min 2 s
Watching          7 folders, last change 1 min 15 s ago
Last scan         12 s ago
Queue             parse 3/256, 20 at most
Daemon            memoryd 0.1.0, pid 4242, up 3 h 12 min, 94.0 MiB
Runs on           Python 3.11.7, SQLite 3.53.4 (pysqlite3)
Socket            /run/user/1000/memoryd/memoryd.sock
Restricted        /run/user/1000/memoryd/memoryd-agent/memoryd.sock (search, get, status)
Notice            OPENAI_API_KEY is set but not used
Degraded          the watcher has too few inotify watches: a scan every 5 minutes instead
Error             embed: 429 Too Many Requests
Failure           memory/huge.md:1-40: input too long (3 attempts), next try in 1 min 0 s
                  and 1 more
Skipped           memory/scan.md (not UTF-8)
                  and 2 more
Hidden            7 by the rule: names that begin with a dot
Remark            memory/2026-08-14.md: 2 bytes are not UTF-8
"""
    )


def test_status_of_a_daemon_with_little_to_say() -> None:
    off = {"enabled": False, "available": False}
    fields = msgspec.to_builtins(STATUS) | {
        "dirty": False,
        "pending_files": 0,
        "pending_vectors": 0,
        "without_vector": 0,
        "rebuild": None,
        "extra_paths": [],
        "fallback": "openai",
        "fts": off,
        "vector": {**off, "store_available": False, "semantic_available": False},
        "cache": {"enabled": False, "entries": 0, "max_entries": 0, "hits": 0, "misses": 0},
        "batch": {"enabled": False, "supported": False},
        "embedding": None,
        "watch": {"enabled": True, "armed": False, "folders": 0, "error": "EMFILE"},
        "custom": {
            "search_mode": "keyword",
            "provider_state": "unavailable",
            "provider_unavailable_reason": "no API key",
            "index_identity": {"status": "mismatched", "reason": "the model changed"},
        },
        "backend_status": None,
        "last_scan_s_ago": None,
        "queues": [],
        "degraded": [],
        "errors": [],
        "failures": [],
        "failure_count": 0,
        "skipped_paths": [],
        "skipped_count": 0,
        "remarks": [],
        "remark_count": 0,
        "notices": [],
        "socket_path": "/run/user/1000/memoryd/memoryd-agent/memoryd.sock",
        "restricted": True,
        "allowed": ["search"],
        "session_notes": None,
    }
    text = status(msgspec.convert(fields, StatusResult), Style(colour=False))
    assert (
        text
        == """\
Memory Search (main)
Provider         local (requested: auto)
Model            use-multilingual-v3
Sources          memory, sessions
Indexed          11/12 files · 345 chunks
Dirty            no
Store            /home/ada/.local/state/memoryd/main.sqlite (2.3 MiB)
Workspace        /home/ada/notes
Embeddings       unavailable (no API key)
Index identity   mismatched (the model changed)
By source        memory · 9/10 files · 300 chunks
                 sessions · 2/2 files · 45 chunks
Fallback         openai
Vector store     disabled
FTS              disabled
Embedding cache  disabled
Batch            not supported by this provider
Watching         not armed (EMFILE)
Daemon           memoryd 0.1.0, pid 4242, up 3 h 12 min, 94.0 MiB
Runs on          Python 3.11.7, SQLite 3.53.4 (pysqlite3)
Socket           /run/user/1000/memoryd/memoryd-agent/memoryd.sock
Restricted       to search
Hidden           7 by the rule: names that begin with a dot
"""
    )


def test_status_json(run: Run) -> None:
    out, _ = run("status --agent main --json", STATUS)
    (entry,) = json.loads(out)
    assert set(entry) == {"agentId", "status"}
    assert entry["agentId"] == "main"
    report = entry["status"]
    assert "agentId" not in report
    assert report["sourceCounts"][0] == {
        "source": "memory",
        "files": 9,
        "totalFiles": 10,
        "chunks": 300,
    }
    assert report["custom"]["indexIdentity"] == {"status": "valid", "reason": None}
    assert report["vector"]["semanticAvailable"] is True
    assert report["cache"]["maxEntries"] == 50000


# --- other commands ----------------------------------------------------------------------------


def test_index(run: Run) -> None:
    assert run("index --force", golden("index_result", IndexResult)) == (
        "Memory index rebuilt: 12 files · 345 chunks · 300 embedded, 45 reused · 1.2 s\n"
        "2 vectors pending\n",
        "warning: 1 text was refused\n",
    )
    assert run("index", IndexResult(1, 1, 0, 1, 0.04)) == (
        "Memory index updated: 1 file · 1 chunk · 0 embedded, 1 reused · 0.0 s\n",
        "",
    )


def test_index_json(run: Run) -> None:
    out, _ = run("index --json", golden("index_result", IndexResult))
    assert json.loads(out) == {
        "files": 12,
        "chunks": 345,
        "embedded": 300,
        "reused": 45,
        "seconds": 1.25,
        "rebuilt": True,
        "pendingVectors": 2,
        "warnings": ["1 text was refused"],
        "unconfirmed": None,
    }


def test_sync(run: Run) -> None:
    assert run("sync", golden("sync_result", SyncResult)) == (
        "In sync: 12 files · 345 chunks\n2 vectors pending\n",
        "warning: the provider is out of quota\n",
    )


def test_config(run: Run) -> None:
    assert run("config", golden("config_result", ConfigResult)) == (
        """\
Configuration (main)
Files: /home/ada/.config/memoryd/config.toml
provider       = "auto"                    default
remote.headers = {"x_team_name":"memory"}  config.toml
workspace      = "/home/ada/notes"         --workspace
""",
        "",
    )


def test_config_json_keeps_the_keys_of_plain_tables(run: Run) -> None:
    out, _ = run("config --json", golden("config_result", ConfigResult))
    assert json.loads(out)["values"][1] == {
        "key": "remote.headers",
        "value": {"x_team_name": "memory"},
        "origin": "config.toml",
    }


def test_ping(run: Run) -> None:
    pong = golden("ping_result", PingResult)
    assert run("ping", pong) == ("memoryd 0.1.0 is up: pid 4242, 3 h 12 min\n", "")
    out, _ = run("ping --json", pong)
    assert json.loads(out) == {
        "pid": 4242,
        "version": "0.1.0",
        "uptimeS": 11520.5,
        "notices": ["OPENAI_API_KEY is set but not used"],
    }
