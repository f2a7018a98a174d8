"""The plugins of `integrations/`: what each agent's validator checks, and what must agree."""

import importlib
import json
import re
import struct
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memctl.connect.agents import HostAgent, Setup, agent
from memctl.connect.entries import HookEntry

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "integrations"
NAMES = ("claude", "gemini", "openclaw")
MANIFESTS = (
    "claude/.claude-plugin/plugin.json",
    "gemini/gemini-extension.json",
    "openclaw/openclaw.plugin.json",
    "openclaw/package.json",
)


def read(path: str) -> Any:
    return json.loads((PLUGINS / path).read_text())


def connected(name: str) -> HostAgent:
    return agent(name, Setup("memctl", [], {"HOME": "/home/ana"}, "/plugin", "/config.toml"))


@pytest.mark.parametrize("path", MANIFESTS)
def test_a_manifest_has_the_name_and_version_of_the_product(path: str) -> None:
    manifest = read(path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert manifest.get("id", manifest["name"]) == project["name"]
    assert manifest["version"] == project["version"]


@pytest.mark.parametrize("name", NAMES)
def test_a_plugin_has_a_licence_and_a_readme(name: str) -> None:
    assert (PLUGINS / name / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert len((PLUGINS / name / "README.md").read_text().split()) >= 40


@pytest.mark.parametrize("path", ["claude/icon.png", "openclaw/assets/icon.png"])
def test_an_icon_is_a_small_square_png(path: str) -> None:
    data = (PLUGINS / path).read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (128, 128)
    assert len(data) < 4096


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_a_plugin_has_the_hooks_and_the_server_that_connect_writes(name: str) -> None:
    files = connected(name).files
    hooks = [e for file in files for e in getattr(file, "entries", ()) if isinstance(e, HookEntry)]
    written = {str(hook.path[-1]): [hook.value] for hook in hooks}
    assert read(f"{name}/hooks/hooks.json") == {"hooks": written}
    place = "gemini/gemini-extension.json" if name == "gemini" else "claude/.mcp.json"
    server = {"command": "memctl", "args": ["mcp"]}
    assert read(place)["mcpServers"] == {"memoryd": server}


def test_the_marketplace_has_the_plugin_beside_it() -> None:
    [plugin] = read("claude/.claude-plugin/marketplace.json")["plugins"]
    manifest = read("claude/.claude-plugin/plugin.json")
    assert (plugin["name"], plugin["source"]) == (manifest["name"], "./")


def test_openclaws_plugin_declares_the_tools_and_settings_that_it_has() -> None:
    manifest = read("openclaw/openclaw.plugin.json")
    tools = [tool["name"] for tool in read("openclaw/tools.json")]
    assert manifest["contracts"]["tools"] == tools
    code = (PLUGINS / "openclaw" / "index.js").read_text()
    found = re.search(r"const \{ (.*) \} = api\.pluginConfig", code)
    assert found is not None
    names = [setting.split(" = ")[0] for setting in re.split(r", (?=\w+ =)", found[1])]
    assert names == list(manifest["configSchema"]["properties"])
    assert (
        PLUGINS / "openclaw" / read("openclaw/package.json")["openclaw"]["extensions"][0]
    ).exists()


def test_openclaws_plugin_is_part_of_the_client() -> None:
    package = ROOT / "client" / "memctl" / "connect" / "openclaw"
    assert package.resolve() == PLUGINS / "openclaw"


def test_openclaws_plugin_has_the_definitions_of_the_tools() -> None:
    try:
        tools = importlib.import_module("memoryd_client.tools")
    except ModuleNotFoundError:
        pytest.skip("the tools are not part of the client")
    definitions = [msgspec.to_builtins(tool) for tool in tools.TOOLS]
    assert read("openclaw/tools.json") == definitions
