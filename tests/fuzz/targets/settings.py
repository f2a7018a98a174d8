"""Settings of agents, JSON5 and TOML: entries are added and removed, or the file is refused."""

from memctl.connect import json_text
from memctl.connect.agents import Setup, agent
from memctl.connect.entries import ConnectError

SETUP = Setup("/bin/memctl", [], {"HOME": "/home/ana"}, "/plugin", "/home/ana/config.toml")
SEEDS = [
    b"{}",
    b'{"hooks": {"Stop": [{"hooks": [{"command": "/x/memctl hook gemini Stop"}]}]}}',
    b"{\n  // mine\n  mcpServers: { 'a': { command: 'x', }, },\n}\n",
    b'{"plugins": {"slots": {"memory": "memory-core"}, "allow": []}, "a": [1, 0x1F, .5, null]}',
    b'model = "x" # mine\n\n[mcp_servers.memoryd]\ncommand = "/x/memctl"\nargs = ["mcp"]\n',
    b"[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = '''memctl hook codex Stop'''\n[a.\"b\"]\n",
    b'[defaults.sessions]\nenabled = true\nformats = ["claude"]\n',
]
DICTIONARY = [
    *(b"mcpServers", b"memoryd", b"hooks", b"plugins", b"entries", b"//", b"/*", b"*/", b"\\u0041"),
    *(
        b"[mcp_servers.memoryd]",
        b"[[hooks.Stop]]",
        b"[[hooks.Stop.hooks]]",
        b'"""',
        b"'''",
        b"\r\n",
    ),
]
MAX_BYTES = 2_048


def check(data: bytes) -> None:
    """Connect and disconnect: the text without memoryd keeps its value, or is refused."""
    text = data.decode("utf-8", "replace")
    for name in ("claude", "codex", "gemini", "openclaw"):
        for target in agent(name, SETUP).targets:
            try:
                after = target.connected(text)
            except (ValueError, ConnectError):
                continue
            assert target.connected(after) == after
            if not target.present(text):
                assert target.present(target.disconnected(after, text)) == []
    try:
        root = json_text.parse(text)
    except ValueError:
        return
    if root.kind == "object" and root.items:
        longer = json_text.put(text, ("fuzz", "x"), 1)
        assert json_text.remove(longer, ("fuzz",)) == text or root.get("fuzz") is not None
