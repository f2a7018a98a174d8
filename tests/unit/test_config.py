"""The configuration file: accepted content, precedence, and messages about mistakes."""

import re
import textwrap
from pathlib import Path

import pytest

from memoryd.config import load as config
from memoryd.config.load import AgentConfig
from memoryd.config.reference_keys import NO_KEYS, OTHER_KEYS
from memoryd.config.settings import Settings
from memoryd.config.validate import ConfigError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path.resolve()
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
    for folder in ("work", "other", "here"):
        (root / folder).mkdir()
    monkeypatch.chdir(root / "here")
    return root


def write(home: Path, text: str) -> Path:
    path = home / "config/memoryd/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def values(loaded: AgentConfig) -> dict[str, tuple[object, str]]:
    return {key: (value, origin) for key, value, origin in loaded.values()}


def load(
    file: Path | None = None, *, agent: str | None = None, workspace: Path | None = None
) -> AgentConfig:
    """Load the only agent, whose workspace must exist."""
    (loaded,) = config.load(file, agent=agent, workspace=workspace)
    return config.usable(loaded)


def refused(home: Path, text: str) -> str:
    """Load a file with a mistake; return the error message."""
    path = write(home, text)
    with pytest.raises(ConfigError) as error:
        config.load()
    message = str(error.value)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    return message


# --- selection of agent and workspace


def test_without_a_file_the_current_directory_is_the_workspace(home: Path) -> None:
    loaded = load()
    assert (loaded.agent, loaded.workspace, loaded.files) == ("main", home / "here", ())
    assert loaded.settings == Settings()
    assert loaded.db_path.parent == home / "state/memoryd"
    assert loaded.db_path.name.startswith("here-")
    assert values(loaded)["workspace"] == (str(home / "here"), "current directory")


def test_every_key_has_a_value_and_a_default(home: Path) -> None:
    found = values(load())
    assert found["query.hybrid.vector_weight"] == (0.7, "default")
    assert found["provider"] == ("auto", "default")
    assert all(origin == "default" for key, (_, origin) in found.items() if key != "workspace")


def test_a_named_file_must_be_there(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such configuration file: .*nowhere\.toml"):
        load(home / "nowhere.toml")


def test_a_named_file_is_used_in_place_of_the_default_one(home: Path) -> None:
    write(home, "[defaults.query]\nmax_results = 1")
    other = home / "other.toml"
    other.write_text("[defaults.query]\nmax_results = 2")
    loaded = load(other)
    assert (loaded.settings.query.max_results, loaded.files) == (2, (other,))


def test_the_only_agent_is_the_one(home: Path) -> None:
    write(home, "[agents.ann]\nworkspace = '~/work'")
    loaded = load()
    assert (loaded.agent, loaded.workspace) == ("ann", home / "work")
    assert loaded.db_path == home / "state/memoryd/ann.sqlite"


def test_all_agents_of_the_file_are_served(home: Path) -> None:
    write(home, "[agents.ann]\nworkspace = '~/other'\n[agents.main]\nworkspace = '~/work'")
    loaded = config.load()
    assert [(c.agent, c.workspace, c.origin) for c in loaded] == [
        ("ann", home / "other", "configuration"),
        ("main", home / "work", "configuration"),
    ]
    assert load(agent="ann").agent == "ann"


@pytest.mark.parametrize(
    ("folder", "agents", "agent"),
    [
        ("work", ["ann", "main"], "main"),
        ("work/deep/inside", ["ann", "bob", "main"], "bob"),
        ("workshop", ["ann", "main"], "main"),
        ("elsewhere", ["ann", "bob"], None),
        ("elsewhere", ["bob"], "bob"),
    ],
)
def test_a_client_means_the_agent_around_it(
    home: Path, folder: str, agents: list[str], agent: str | None
) -> None:
    (home / "work/deep").mkdir()
    places = {"ann": "~/other", "bob": "~/work/deep", "main": "~/work"}
    write(home, "\n".join(f"[agents.{a}]\nworkspace = '{places[a]}'" for a in agents))
    meant = config.default_agent(config.load(), home / folder)
    assert (meant and meant.agent) == agent


def test_one_missing_workspace_is_that_agents_problem(home: Path) -> None:
    write(home, "[agents.ann]\nworkspace = '~/gone'\n[agents.main]\nworkspace = '~/work'")
    ann, main = config.load()
    assert ann.problem is not None
    assert "gone" in ann.problem
    assert main.problem is None


def test_two_agents_never_share_an_index(home: Path) -> None:
    message = refused(home, "[defaults.store]\npath = '/x.sqlite'\n[agents.a]\n[agents.b]")
    assert "agents a and b have the same index /x.sqlite" in message


def test_an_added_workspace_is_named_after_its_folder(home: Path) -> None:
    write(home, "[defaults]\nprovider = 'none'\n[agents.ann]\nworkspace = '~/work'")
    added = config.load_added(None, home / "other")
    assert (added.agent, added.origin) == (added.db_path.stem, "added")
    assert added.agent.startswith("other-")
    (home / "-- 笔记 (alt)").mkdir()
    assert config.load_added(None, home / "-- 笔记 (alt)").agent.startswith("笔记-alt-")
    assert added.settings.provider == "none"
    assert config.load_added(None, home / "work").agent == "ann"


def test_autostart_is_true_or_false(home: Path) -> None:
    write(home, "autostart = true")
    assert load().agent == "main"
    assert "autostart" in refused(home, "autostart = 'yes'")


def test_the_socket_table_is_about_the_whole_daemon(home: Path) -> None:
    write(home, "[socket]\nallow = ['search', 'files']\n[agents.a]\n[agents.b]\n")
    for loaded in config.load():
        found = values(loaded)
        assert found["socket.allow"] == (("search", "files"), f"{loaded.files[0]} [socket]")
        assert found["socket.restricted"] == (False, "default")
    added = config.load_added(None, home / "other")
    assert added.socket == loaded.socket
    before = config.load()
    write(home, "[socket]\nrestricted = true\n[agents.a]\n[agents.b]\n")
    assert config.load() == before, "a change of it restarts no agent"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("socket = true", "socket must be a table"),
        ("[socket]\nallowed = []", "[socket]: unknown key allowed; did you mean allow?"),
        ("[socket]\nallow = 'search'", "[socket]: allow: Expected `array`, got `str`"),
        ("[socket]\nallow = ['serach']", "[socket]: allow: unknown operation 'serach'"),
        ("[socket]\nallow = ['forget']", "allow: forget is never permitted at the restricted"),
        ("[socket]\nallow = ['ping']", "allow: ping is always permitted; leave it out"),
        ("[socket]\nrestricted = 'agent.sock'", "restricted: 'agent.sock' is not an absolute path"),
        ("[socket]\nrestricted = 1", "restricted: Expected `bool | str`, got `int`"),
        ("[socket]\nadd_below = ['~nobody-here']", "add_below: ~nobody-here: no such user"),
        ("[defaults.socket]\nallow = []", "unknown key socket"),
        ("[agents.a.socket]\nallow = []", "unknown key socket"),
    ],
)
def test_mistakes_about_the_socket_are_told(home: Path, table: str, told: str) -> None:
    assert told in refused(home, table)


def test_an_unknown_agent_is_told_with_those_there_are(home: Path) -> None:
    write(home, "[agents.bob]\n[agents.ann]")
    with pytest.raises(ConfigError, match=r"no agent 'eve' in .*\(configured: ann, bob\)"):
        load(agent="eve")


def test_a_workspace_on_the_command_line_wins(home: Path) -> None:
    write(home, "[agents.main]\nworkspace = '~/work'\n[agents.main.query]\nmax_results = 3")
    loaded = load(workspace=home / "other")
    assert (loaded.agent, loaded.workspace) == ("main", home / "other")
    assert loaded.settings.query.max_results == 6, "the agent of another folder is ignored"
    assert loaded.db_path.name.startswith("other-")
    assert values(loaded)["workspace"] == (str(home / "other"), "--workspace")


def test_a_workspace_on_the_command_line_chooses_its_agent(home: Path) -> None:
    write(home, "[agents.a]\nworkspace = '~/work'\n[agents.b]\nworkspace = '~/other'")
    assert load(workspace=Path("../other")).agent == "b"
    assert load(workspace=Path("~/work")).agent == "a"


def test_a_workspace_with_an_agent_is_that_agents(home: Path) -> None:
    write(home, "[agents.a]\nworkspace = '~/work'")
    loaded = load(agent="a", workspace=home / "other")
    assert (loaded.agent, loaded.workspace) == ("a", home / "other")


def test_a_workspace_is_a_folder_with_links_resolved(home: Path) -> None:
    (home / "link").symlink_to("work")
    assert load(workspace=home / "link").workspace == home / "work"
    write(home, "[agents.main]\nworkspace = '~/nowhere'")
    with pytest.raises(ConfigError, match=r"nowhere .*is not a folder"):
        load()


def test_two_workspaces_of_one_name_have_two_indexes(home: Path) -> None:
    (home / "a/notes").mkdir(parents=True)
    (home / "b/notes").mkdir(parents=True)
    first, second = (load(workspace=home / x / "notes").db_path for x in "ab")
    assert first != second
    assert load(workspace=home / "a/notes").db_path == first


def test_an_odd_workspace_name_makes_a_plain_file_name(home: Path) -> None:
    folder = home / "Ünï: /..".replace("/", "") / "it's here"
    folder.mkdir(parents=True)
    name = load(workspace=folder).db_path.name
    assert name.isascii()
    assert name.startswith("it-s-here-")


def test_the_path_of_the_index_can_be_set(home: Path) -> None:
    write(home, "[agents.main]\nstore = { path = '~/x/index.sqlite' }")
    loaded = load()
    assert loaded.db_path == home / "x/index.sqlite"
    assert values(loaded)["store.path"][0] == str(home / "x/index.sqlite")


def test_the_agents_id_is_filled_into_the_path_of_the_index(home: Path) -> None:
    write(home, "[defaults.store]\npath = '~/x/{agentId}/{agentId}.db'\n[agents.a]\n[agents.b]")
    folder = home / "x"
    assert [loaded.db_path for loaded in config.load()] == [folder / "a/a.db", folder / "b/b.db"]


def test_an_agent_without_a_name_fills_in_the_name_of_its_index(home: Path) -> None:
    plain = load().db_path.stem
    write(home, "[defaults.store]\npath = '~/{agentId}.db'")
    assert load().db_path == home / f"{plain}.db"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("enabled = true", "there is no such key: memory is on while the daemon runs"),
        ("sources = ['memory']", "notes are always searched; transcripts with sessions.enabled"),
        ("extraPaths = []", "use extra_paths"),
        ("query.maxResults = 3", "use query.max_results"),
        ("query.hybrid.temporalDecay.halfLifeDays = 3", "use query.hybrid.temporal_decay"),
        ("remote.baseUrl = 'x'", "use remote.base_url"),
        ("remote.apiKey = 'x'", "remote.api_key_file"),
        ("remote.batch.wait = true", "there is no such key: nothing waits for batch jobs"),
        ("remote.batch.pollIntervalMs = 1", "use remote.batch.poll_interval_ms"),
        ("experimental.sessionMemory = true", "sessions.enabled = true"),
        ("outputDimensionality = 768", "use output_dimensionality"),
        ("local.contextSize = 1", "use local.context_tokens"),
        ("store.driver = 'sqlite'", "there is no such key: the index is always an SQLite file"),
        ("memorySearch = { enabled = true }", "put its keys into [defaults]"),
        ("provder = 'none'", "did you mean provider?"),
    ],
)
def test_a_key_of_the_reference_leads_to_ours(home: Path, line: str, hint: str) -> None:
    write(home, f"[defaults]\n{line}")
    with pytest.raises(ConfigError) as caught:
        load()
    assert "unknown key" in str(caught.value)
    assert hint in caught.value.hint


def test_hints_about_keys_of_the_reference_name_ours() -> None:
    keys = {key for key, _, _ in load().values()}
    tables = {key[:at] for key in keys for at in range(len(key)) if key[at] == "."}
    for old, hint in OTHER_KEYS.items():
        assert old not in keys
        named = re.findall(r"[a-z]+(?:[._][a-z]+)+", hint)
        assert named
        assert set(named) <= keys
    assert not NO_KEYS.keys() & (keys | tables)


# --- merging


def test_agents_are_laid_over_the_defaults_key_by_key(home: Path) -> None:
    path = write(
        home,
        """
        [defaults]
        provider = "none"
        query = { max_results = 3, hybrid = { vector_weight = 0.5 } }
        [agents.main.query.hybrid]
        text_weight = 0.1
        [agents.main.query]
        max_results = 4
        """,
    )
    loaded = load()
    assert loaded.settings.provider == "none"
    assert loaded.settings.query.max_results == 4
    assert loaded.settings.query.hybrid.vector_weight == 0.5
    assert loaded.settings.query.hybrid.text_weight == 0.1
    origins = {key: origin for key, (_, origin) in values(loaded).items()}
    assert origins["provider"] == f"{path} [defaults]"
    assert origins["query.max_results"] == f"{path} [agents.main]"
    assert origins["query.hybrid.vector_weight"] == f"{path} [defaults]"
    assert origins["query.hybrid.text_weight"] == f"{path} [agents.main]"
    assert origins["query.min_score"] == "default"


def test_lists_are_replaced_and_not_joined(home: Path) -> None:
    write(home, "[defaults]\nextra_paths = ['a']\n[agents.main]\nextra_paths = ['b', 'c']")
    assert load().settings.extra_paths == ("b", "c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[defaults]\nfallback = 'x'",
            "fallback: Invalid enum value 'x'; valid values: local, none,",
        ),
        ("[agents.main.query.hybrid]\nfusion = 'x'", "value 'x'; valid values: evidence, weighted"),
        (
            "[defaults.sessions]\nformats = ['x']",
            "valid values: openclaw, claude, codex, gemini, plain",
        ),
        (
            "[defaults]\nextra_paths = ['~/a', { path = '~/b', origin = 'king' }]",
            "value 'king'; valid values: owner, imported, untrusted",
        ),
    ],
)
def test_what_is_one_of_a_few_words_is_told_with_all_of_them(
    home: Path, text: str, said: str
) -> None:
    assert said in refused(home, text)


def test_what_an_address_has_in_its_query_is_not_shown(home: Path) -> None:
    remote = '[defaults.remote]\nbase_url = "https://h/v1?a=hush&b=x=y&hush"'
    write(home, f'[defaults]\nprovider = "openai"\n{remote}')
    assert values(load())["remote.base_url"][0] == "https://h/v1?a=…&b=…&…"


def test_an_agent_sees_nothing_of_another(home: Path) -> None:
    write(home, "[agents.main]\n[agents.ann]\nprovider = 'none'")
    assert load(agent="main").settings.provider == "auto"


def test_a_whole_number_is_a_number(home: Path) -> None:
    write(home, "[defaults.sync]\ninterval_minutes = 10")
    assert load().settings.sync.interval_minutes == 10.0


# --- mistakes


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[defaults]\nprovidor = 'none'", ["[defaults]", "unknown key providor", "provider?"]),
        (
            "[defaults.query]\nmax_result = 3",
            ["unknown key query.max_result", "query.max_results?"],
        ),
        ("[defaults]\nmax_results = 3", ["unknown key max_results", "query.max_results?"]),
        ("[agents.main.query.hybrid]\nlambda = 1", ["[agents.main]", "query.hybrid.lambda"]),
        ("[defaults.qurey]\nmax_results = 3", ["unknown key qurey", "query?"]),
        ("[defaults.zzz]", ["unknown key zzz"]),
        ("[default]\nprovider = 'none'", ["unknown table [default]", "[defaults]"]),
        ("provider = 'none'", ["[provider]", "[defaults]"]),
        ("defaults = 3", ["defaults must be a table"]),
        ("agents = 3", ["agents must be a table"]),
        ("[agents]\nmain = 3", ["agents.main must be a table"]),
        ("[agents.'a/b']", ["agent id 'a/b'"]),
        ("[agents.'..']", ["agent id '..'"]),
        ("[agents.'']", ["agent id ''"]),
        ("[defaults]\nquery = 3", ["[defaults]", "query must be a table"]),
        ("[defaults.query]\nmax_results = '3'", ["[defaults]", "query.max_results", "int"]),
        ("[defaults.query]\nmax_results = true", ["query.max_results", "bool"]),
        ("[defaults.query]\nmax_results = 0", ["query.max_results", ">= 1"]),
        ("[defaults.query]\nmin_score = 1.5", ["query.min_score", "<= 1"]),
        ("[defaults.query]\nmin_score = nan", ["query.min_score"]),
        ("[defaults.sync]\ninterval_minutes = nan", ["sync.interval_minutes"]),
        ("[defaults.sync]\nwatch = 'yes'", ["sync.watch", "bool"]),
        ("[defaults]\nprovider = 'gpt'", ["provider", "'gpt'"]),
        ("[defaults]\nextra_paths = 'docs'", ["extra_paths", "array"]),
        ("[defaults]\nextra_paths = [1]", ["extra_paths", "str"]),
        (
            "[defaults]\nextra_paths = ['a', { path = 'b', excludes = ['c'] }]",
            ["config.toml: extra_paths[1]: ", "`excludes`"],
        ),
        (
            "[defaults]\nextra_paths = [{ pattern = 'c' }]",
            ["config.toml: extra_paths[0]: ", "`path`"],
        ),
        ("[defaults]\nextra_paths = ['']", ["config.toml: extra_paths[0]: is blank"]),
        ("[defaults]\nextra_paths = ['a', ' \t']", ["config.toml: extra_paths[1]: is blank"]),
        ("[defaults]\nextra_paths = [{ path = ' ' }]", ["extra_paths[0].path: is blank"]),
        (
            "[defaults]\nextra_paths = [{ path = 'a', pattern = '' }]",
            ["extra_paths[0].pattern: is blank"],
        ),
        ("[agents.main]\nworkspace = ' '", ["[agents.main]: workspace: is blank"]),
        ("[defaults.store]\npath = ''", ["[defaults]: store.path: is blank"]),
        (
            "[defaults.store]\npath = '/x/{agent_id}.db'",
            ["[defaults]: store.path: {agent_id} is no placeholder; {agentId} is the only one"],
        ),
        ("[defaults.sessions]\npaths = ['a', '']", ["sessions.paths[1]: is blank"]),
        (
            "[defaults]\nremote.max_tokens_per_day = 100",
            ["remote.max_tokens_per_day", "at least 8000"],
        ),
        ("[agents.main]\nworkspace = 3", ["[agents.main]", "workspace", "str"]),
        ("[defaults]\nprovider = ", ["not valid TOML"]),
        ("[defaults]\n[defaults]", ["not valid TOML"]),
    ],
)
def test_a_mistake_names_the_file_the_key_and_what_is_right(
    home: Path, text: str, parts: list[str]
) -> None:
    message = refused(home, text)
    for part in parts:
        assert part in message


def test_a_mistake_is_told_of_the_table_that_made_it(home: Path) -> None:
    """`query.max` resembles a key of `[defaults]`, but the agent's table contains it."""
    message = refused(home, "[defaults.query]\nmax_results = 3\n[agents.main.query]\nmax = 4")
    assert "[agents.main]: unknown key query.max;" in message


def test_a_bad_value_is_told_of_the_table_it_comes_from(home: Path) -> None:
    message = refused(
        home, "[defaults.query]\nmax_results = 3\n[agents.main.query]\nmax_results = 'many'"
    )
    assert "[agents.main]: query.max_results" in message


def test_a_table_where_the_defaults_have_a_value_is_no_excuse(home: Path) -> None:
    assert "query must be a table" in refused(
        home, "[defaults.query]\nmax_results = 3\n[agents.main]\nquery = 'fast'"
    )


def test_a_file_that_is_not_utf8_is_told(home: Path) -> None:
    path = write(home, "")
    path.write_bytes(b"[defaults]\nprovider = '\xff'\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load()


def test_a_file_that_cannot_be_read_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "")

    def fails(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(config, "open_regular", fails)
    with pytest.raises(ConfigError, match=r"can't read .*config\.toml: Permission denied"):
        load()


@pytest.mark.parametrize(
    "text",
    [
        "[agents.main]\nworkspace = '~nosuchuser/work'",
        "[defaults.store]\npath = '~nosuchuser/x.sqlite'",
        "[defaults]\nextra_paths = ['~nosuchuser/notes']",
        "[defaults]\nextra_paths = ['a', { path = '~nosuchuser/notes' }]",
    ],
)
def test_the_home_of_nobody_is_a_mistake(home: Path, text: str) -> None:
    assert "~nosuchuser" in refused(home, text)
