"""Locations of transcripts, and the names of transcripts."""

import re
from pathlib import Path

import pytest

from memoryd.messages import FileKey
from memoryd.source.transcripts.locations import (
    SOURCE,
    TranscriptLocations,
    is_archive,
    is_transcript,
    owner_of,
)


def places(
    *paths: str, formats: tuple[str, ...] = ("openclaw",), agent: str = "main"
) -> TranscriptLocations:
    return TranscriptLocations(paths, formats, agent=agent, environ={})


def write(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("a.jsonl", True),
        ("a.jsonl.reset.2026-02-16T22-26-33.000Z", True),
        ("a.jsonl.deleted.2026-02-16T22-26-33.000Z", True),
        ("a.jsonl.deleted.2026-02-16T22-26-33.000Z.zst", True),
        ("a.jsonl.zst", True),
        ("a.jsonl.bak.2026-02-16T22-26-33.000Z", False),
        ("a.checkpoint.0b51-11.jsonl", False),
        ("a.trajectory.jsonl", False),
        ("sessions.json", False),
        ("chats/a.json5", True),
        ("registry.json5", False),
        ("a.jsonl.tmp", False),
        ("p/subagents/a.jsonl", False),
    ],
)
def test_live_transcripts_and_archives_are_taken_and_nothing_else(name: str, taken: bool) -> None:
    assert is_transcript(f"/x/{name}") is taken


def test_an_archive_is_told_from_a_live_one() -> None:
    assert not is_archive("/x/a.jsonl")
    assert is_archive("/x/a.jsonl.reset.2026-02-16T22-26-33.000Z")


def test_the_usual_places_of_each_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(
        tmp_path, ".openclaw/agents/main/sessions/a.jsonl", ".openclaw/agents/bob/sessions/b.jsonl"
    )
    write(
        tmp_path, ".claude/projects/-home-me/c.jsonl", ".codex/sessions/2026/11/28/rollout-d.jsonl"
    )
    write(tmp_path, ".codex/sessions/2026/11/28/history.jsonl")
    write(tmp_path, ".gemini/tmp/work/chats/session-e.jsonl", ".gemini/tmp/work/logs/f.jsonl")
    write(tmp_path, ".pi/agent/sessions/--home-me--/g.jsonl")
    found = places(formats=("openclaw", "claude", "codex", "gemini", "pi")).find()
    assert [key.path for key in found.files] == [
        "sessions/openclaw/a.jsonl",
        "sessions/claude/-home-me/c.jsonl",
        "sessions/codex/2026/11/28/rollout-d.jsonl",
        "sessions/gemini/work/chats/session-e.jsonl",
        "sessions/pi/--home-me--/g.jsonl",
    ]


def test_a_variable_moves_a_place(tmp_path: Path) -> None:
    write(tmp_path, "agents/bob/sessions/b.jsonl")
    environ = {"OPENCLAW_STATE_DIR": str(tmp_path)}
    found = TranscriptLocations((), ("openclaw",), agent="bob", environ=environ).find()
    (path,) = (path for path, _ in found.files.values())
    assert owner_of(path) == "bob"


def test_every_name_is_unique_and_leads_back(tmp_path: Path) -> None:
    write(tmp_path, "one/logs/a.jsonl", "one/logs/deep/b.jsonl", "two/logs/a.jsonl")
    where = places(f"{tmp_path}/one/logs", f"{tmp_path}/two/logs/*.jsonl")
    found = where.find()
    one, two = (where.key(tmp_path / folder / "logs/a.jsonl") for folder in ("one", "two"))
    assert one is not None
    assert two is not None
    assert re.fullmatch(r"sessions/logs~[0-9a-f]{6}/a\.jsonl", one.path)
    assert [*found.files] == [one, FileKey(SOURCE, one.path.replace("a.", "deep/b.")), two]
    for key, (path, _) in found.files.items():
        assert where.real_path(key) == path
        assert where.key(path) == key
    swapped = places(f"{tmp_path}/two/logs/*.jsonl", f"{tmp_path}/one/logs")
    assert {key.path for key in swapped.find().files} == {key.path for key in found.files}
    alone = places(f"{tmp_path}/two/logs")
    assert [key.path for key in alone.find().files] == ["sessions/logs/a.jsonl"]


@pytest.mark.parametrize(
    "path", ["sessions/logs/../x.jsonl", "sessions/other/x.jsonl", "sessions/logs", "memory/a.md"]
)
def test_names_that_lead_nowhere(tmp_path: Path, path: str) -> None:
    write(tmp_path, "logs/a.jsonl")
    assert places(f"{tmp_path}/logs").real_path(FileKey(SOURCE, path)) is None


def test_links_special_files_and_second_names_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "logs/a.jsonl")
    (tmp_path / "logs/link.jsonl").symlink_to("a.jsonl")
    (tmp_path / "logs/same.jsonl").hardlink_to(tmp_path / "logs/a.jsonl")
    (tmp_path / "logs/folder.jsonl").mkdir()
    assert [key.path for key in places(f"{tmp_path}/logs").find().files] == [
        "sessions/logs/a.jsonl"
    ]


def test_a_folder_without_a_glob_stays_a_folder_while_it_is_not_there(tmp_path: Path) -> None:
    """Otherwise its transcripts would look deleted."""
    (tmp_path / "one.jsonl").touch()
    paths = [str(tmp_path / "away"), str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")]
    places = TranscriptLocations(paths, ["plain"], agent="main", environ={})
    assert [place.folder for place in places.places] == [tmp_path / "away", tmp_path, tmp_path]
    found = places.find()
    assert [place.folder for place in found.missing] == [tmp_path / "away"]
    assert len(found.files) == 1


def test_a_place_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = places(f"{tmp_path}/nowhere/*.jsonl").find()
    assert found.files == {}
    assert [place.folder for place in found.missing] == [tmp_path / "nowhere"]


CLAUDE = ".claude/projects/-home-me/c.jsonl"
CODEX = ".codex/sessions/2026/11/28/rollout-2026-11-28T10-00-00-1f.jsonl"
ARCHIVED = ".codex/archived_sessions/rollout-2026-11-28T10-00-00-1f.jsonl"
OPENCLAW = ".openclaw/agents/main/sessions/a.jsonl"
OTHER = ".openclaw/agents/bob/sessions/b.jsonl"
GEMINI = ".gemini/tmp/work/chats/session-e.jsonl"
NAMES = {
    CLAUDE: "sessions/claude/-home-me/c.jsonl",
    CODEX: "sessions/codex/2026/11/28/rollout-2026-11-28T10-00-00-1f.jsonl",
    OPENCLAW: "sessions/openclaw/a.jsonl",
    OTHER: "sessions/openclaw/bob/sessions/b.jsonl",
    GEMINI: "sessions/gemini/work/chats/session-e.jsonl",
}


@pytest.mark.parametrize(
    "settings",
    [
        [
            "~/.claude/projects",
            "~/.codex",
            "~/.openclaw/agents/*/sessions",
            "~/.gemini/tmp/*/chats",
        ],
        ["~/.openclaw", "~/.codex/sessions/2026", "~/.claude/projects/-home-me", "~/.gemini"],
        ["~/.claude/projects/*/*.jsonl", "~/.*/**/*.jsonl"],
        ["~"],
    ],
)
def test_a_name_does_not_depend_on_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, *NAMES)
    where = places(*settings)
    found = {
        str(path.relative_to(tmp_path)): key.path for key, (path, _) in where.find().files.items()
    }
    assert found == NAMES
    for path, name in NAMES.items():
        assert where.real_path(FileKey(SOURCE, name)) == tmp_path / path
        assert places(*settings).present_path(FileKey(SOURCE, name)) == tmp_path / path


def test_each_form_of_a_codex_transcript_has_one_name_and_the_plain_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    forms = [CODEX, ARCHIVED, f"{ARCHIVED}.zst", f"{CODEX}.zst"]
    for best in range(len(forms)):
        for form in forms:
            (tmp_path / form).unlink(missing_ok=True)
        write(tmp_path, *forms[best:])
        where = places(formats=("codex",))
        ((key, (path, _)),) = where.find().files.items()
        assert key.path == NAMES[CODEX]
        assert where.present_path(key) is not None
        assert path.name.endswith(".zst") is (best >= 2)


def test_names_of_earlier_versions_lead_to_the_same_files(tmp_path: Path) -> None:
    write(tmp_path, "one/logs/a.jsonl", "two/logs/b.jsonl", ".claude/projects/p/c.jsonl")
    where = places(
        f"{tmp_path}/one/logs", f"{tmp_path}/two/logs/*.jsonl", f"{tmp_path}/.claude/projects/p"
    )
    for name, path in {
        "sessions/logs/a.jsonl": "one/logs/a.jsonl",
        "sessions/logs~2/b.jsonl": "two/logs/b.jsonl",
        "sessions/claude/c.jsonl": ".claude/projects/p/c.jsonl",
    }.items():
        assert where.present_path(FileKey(SOURCE, name)) == tmp_path / path
        assert name in where.names.earlier_names(f"{tmp_path}/{path}")
