"""The agents that clients may add to a daemon, tested without a running daemon."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memoryd.daemon import reload
from memoryd.daemon.reload import Reloader
from memoryd.daemon.restricted import RestrictedSocket
from memoryd.errors import RequestFailedError
from memoryd_client.shared.lock_holder import this_process


async def test_only_so_many_workspaces_may_be_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "MAX_ADDED", 2)
    monkeypatch.setenv("HOME", str(tmp_path))
    config_file = tmp_path / "config.toml"
    config_file.write_text('defaults.provider = "none"\n')
    hosted: list[Any] = [SimpleNamespace(config=SimpleNamespace(origin="configuration"))]

    async def start(config: Any) -> Any:
        hosted.append(SimpleNamespace(config=config, reason=None))
        return hosted[-1]

    hosted[0].config.workspace = hosted[0].config.db_path = tmp_path / "elsewhere"
    host: Any = SimpleNamespace(all=lambda: hosted, start=start)
    reloader = Reloader(
        host,
        asyncio.Event(),
        config_file=config_file,
        agent=None,
        workspace=None,
        added_path=tmp_path / "added.json",
        restricted=RestrictedSocket(tmp_path / "s", this_process()),
        on_reloading=lambda: None,
        on_reloaded=lambda: None,
    )
    for name in "abc":
        (tmp_path / name).mkdir()
    assert [(await reloader.add(tmp_path / name))[1] for name in "aab"] == [True, False, True]
    with pytest.raises(RequestFailedError) as refused:
        await reloader.add(tmp_path / "c")
    assert (refused.value.code, refused.value.message) == (
        "busy",
        "the limit of 2 added workspaces is reached",
    )
    assert len(hosted) == 3
