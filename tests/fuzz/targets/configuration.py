"""The configuration file, with all checks before an agent starts."""

from contextlib import suppress

from fuzz.scratch import folder
from memoryd.config.load import load, load_added
from memoryd.config.validate import ConfigError
from memoryd.source.notes.roots import extra_root
from memoryd.text.redact import PatternError, Redactor
from memoryd_client.launcher import autostart

SEEDS = [
    b'autostart = true\n[defaults]\nworkspace = "."\nprovider = "none"\n',
    b'[agents.main]\nworkspace = "~/x"\n[agents.b.store]\npath = "b.sqlite"\n',
    b'[defaults]\nextra_paths = ["notes/*.md", {path = "x", pattern = "**/*.md", exclude = ["a"]}]',
    b"[defaults.query.hybrid.mmr]\nenabled = true\n[defaults.query]\nmax_results = 7\n",
    b'[defaults.redact]\npatterns = ["x{3}", "(a+)+"]\n',
    b'[defaults.remote]\nbase_url = "http://h/v1"\nheaders = {"x-a" = "b"}\n',
    b'[defaults.sessions]\nenabled = true\npaths = ["a/*.jsonl"]\n[defaults.local]\nthreads = 1\n',
    b"[defaults.chunking]\ntokens = 8\noverlap = 0x10\n[defaults.sync]\ninterval_minutes = inf\n",
    b'[defaults]\nworkspace = "a\\u0000b"\n',
    b"a.b.c.d.e = 1979-05-27T07:32:00Z\n'x'.\"y\" = [[[[1]]]]\n",
]
DICTIONARY = [b"[defaults]", b"[agents.", b'= "', b"= [", b"workspace", b"\\u0000", b"extra_paths"]
DICTIONARY += [b"[defaults.", b"redact", b"patterns", b"remote", b"store", b"path", b"provider"]
DICTIONARY += [
    b"query",
    b"hybrid",
    b"headers",
    b"base_url",
    b"http://",
    b'"""',
    b"'''",
    b"fallback",
]


def check(data: bytes) -> None:
    """Load the agents; only a configuration error may result."""
    file = folder() / "config.toml"
    file.write_bytes(data)
    with suppress(ConfigError):
        load_added(file, folder())
    try:
        configs = load(file)
    except ConfigError as error:
        if str(file) not in str(error):
            raise
        configs = []
    for config in configs:
        assert config.values()
        with suppress(PatternError):
            Redactor(config.settings.redact.patterns)("key=abc")
        for extra in config.settings.extra_paths:
            with suppress(ConfigError):
                extra_root(config.workspace, extra)
    autostart.is_enabled(str(file))
