"""The sets of `bench/quality` on a vault in five languages."""

from pathlib import Path

import pytest

from bench.quality import vault
from bench.quality.model import MissingSetError
from memoryd_client.schema.search import Hit

PAGES = {
    "en/Plugins/Canvas.md": "Draw.\n\n## Create a new canvas\n\n## Sync everything\n",
    "en/Canvas.md": "Another one.\n",
    "de/Erweiterungen/Leinwand.md": "## Eine Leinwand erstellen\n\n## Sync everything\n",
    "ja/キャンバス.md": "## 新しいキャンバスを作成\n",
    "ko/캔버스.md": "## 새 캔버스 만들기\n",
    "zh/白板.md": "## 创建新白板\n",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for path, text in PAGES.items():
        file = tmp_path / "obsidian-help" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def hit(path: str) -> Hit:
    return Hit(path, 1, 1, 0.5, "", 1, 1, "memory", f"{path}#L1")


def test_a_title_is_asked_twice_and_notes_with_one_name_are_all_right(data: Path) -> None:
    notes = vault.pages(data, "en")
    [bare, what] = vault.by_title(notes, "en", "all")
    assert (bare.text, what.text) == ("Canvas", "what is Canvas?")
    hits = [hit("memory/en/Canvas.md"), hit("memory/en/Plugins/Canvas.md"), hit("memory/en/x.md")]
    assert bare.right(hits) == [True, True, False]


def test_a_heading_of_two_languages_is_not_asked(data: Path) -> None:
    notes = vault.pages(data, "en") | vault.pages(data, "de") | vault.pages(data, "zh")
    asked = {question.text: question for question in vault.by_heading(notes)}
    assert set(asked) == {"Create a new canvas", "Eine Leinwand erstellen", "创建新白板"}
    hits = [hit("memory/de/Erweiterungen/Leinwand.md"), hit("memory/en/Canvas.md")]
    assert asked["Eine Leinwand erstellen"].right(hits) == [True, False]


def test_without_the_vault_the_set_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingSetError, match="obsidian-help"):
        vault.load(tmp_path, "language", half="all", quick=False)
