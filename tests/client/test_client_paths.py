import os

import pytest

from memoryd_client.shared.paths import (
    SOCKET_PATH_MAX_BYTES,
    check_socket_path,
    config_path,
    default_socket_path,
    lock_path,
    socket_suffix,
    state_dir,
)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMORYD_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")


def test_without_any_variable_everything_is_under_home() -> None:
    assert state_dir() == "/home/ada/.local/state/memoryd"
    assert config_path() == "/home/ada/.config/memoryd/config.toml"
    assert default_socket_path() == "/home/ada/.local/state/memoryd/run/memoryd.sock"


def test_xdg_variables_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/ada")
    assert state_dir() == "/state/memoryd"
    assert config_path() == "/etc/ada/memoryd/config.toml"
    assert default_socket_path() == "/state/memoryd/run/memoryd.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert default_socket_path() == "/run/user/1000/memoryd/memoryd.sock"


@pytest.mark.parametrize("value", ["", "relative/dir"])
def test_an_empty_or_relative_xdg_variable_counts_as_unset(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, value)
    test_without_any_variable_everything_is_under_home()


def test_memoryd_socket_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setenv("MEMORYD_SOCKET", "~/m.sock")
    assert default_socket_path() == "/home/ada/m.sock"
    monkeypatch.setenv("MEMORYD_SOCKET", "m.sock")
    assert default_socket_path() == os.path.join(os.getcwd(), "m.sock")


def test_the_longest_socket_path_is_counted_in_bytes() -> None:
    longest = "/" + "é" * (SOCKET_PATH_MAX_BYTES // 2)
    assert check_socket_path(longest) == longest
    with pytest.raises(
        ValueError, match=rf"{SOCKET_PATH_MAX_BYTES + 2} bytes.*; set MEMORYD_SOCKET"
    ):
        check_socket_path(longest + "xx")


def test_the_lock_is_beside_the_socket() -> None:
    assert lock_path("/run/m.sock") == "/run/m.sock.lock"


def test_only_another_socket_than_the_usual_one_has_a_suffix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert socket_suffix(default_socket_path()) == ""
    assert socket_suffix("/s") == "-8e295f31"
    assert socket_suffix("/tmp/../s") == socket_suffix("/s")
    assert socket_suffix("/t") != socket_suffix("/s")
    monkeypatch.setenv("MEMORYD_SOCKET", "/s")
    assert socket_suffix("/s") == "-8e295f31"
