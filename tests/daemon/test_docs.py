"""The documentation matches the code: keys, fields, options, links, units, pins."""

import ast
import configparser
import json
import plistlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import layers
import msgspec
import pytest
from packaging.utils import canonicalize_name

from memctl import arguments
from memoryd import supervisor
from memoryd.__main__ import _parser
from memoryd.config.operations import EFFECTS, READING
from memoryd.config.settings import Section, Settings, SocketSettings
from memoryd_client import errors
from memoryd_client.schema import agents, memory, promotion, recall, stale, status, transcripts
from memoryd_client.shared import paths
from memoryd_client.wire import protocol

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
UNITS = ROOT / "systemd"

WIRE_STRUCTS = sorted(
    {
        value
        for module in (protocol, memory, promotion, recall, stale, status, agents, transcripts)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, protocol.Frame | protocol.Body)
        and value not in (protocol.Frame, protocol.Body)
    },
    key=lambda struct: struct.__name__,
)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """Return the text under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", page, re.M | re.S)
    assert found is not None, f"no heading {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row except the headings."""
    lines = re.findall(r"^\| (.*) \|$", text, re.M)
    cells = [re.split(r" \| ", line) for line in lines]
    rules = [at for at, row in enumerate(cells) if set(row[0]) == {"-"}]
    return [row for at, row in enumerate(cells) if at not in rules and at + 1 not in rules]


def names(cell: str) -> list[str]:
    """Return the texts in backticks."""
    return re.findall(r"`([^`]+)`", cell)


# Configuration


def leaves(settings: Section, at: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(settings):
        name, value = field.encode_name, getattr(settings, field.name)
        if isinstance(value, Section):
            found |= leaves(value, f"{at}{name}.")
        else:
            found[f"{at}{name}"] = value
    return found


def test_every_setting_is_documented_with_its_default() -> None:
    def shown(default: Any) -> str:
        return "not set" if default is None else f"`{msgspec.json.encode(default).decode()}`"

    table = rows(section(read("docs/configuration.md"), "Keys"))
    documented = {names(key)[0]: default for key, _, default, _ in table}
    assert documented == {key: shown(value) for key, value in leaves(Settings()).items()}


def test_every_setting_of_the_socket_is_documented_with_its_default() -> None:
    table = rows(section(read("docs/configuration.md"), "Powers of clients"))
    documented = {names(key)[0]: json.loads(names(default)[0]) for key, _, default, _ in table}
    defaults = msgspec.json.decode(msgspec.json.encode(SocketSettings()))
    assert documented == defaults
    (kinds,) = (kind for key, kind, *_ in table if names(key) == ["allow"])
    assert [json.loads(name) for name in names(kinds)] == list(READING)


def permissions_of(op: protocol.Op) -> list[str]:
    """Return the row of an operation in the table of docs/permissions.md."""
    effect = EFFECTS.get(op, "undeclared")
    default = (
        "unless `allow` leaves it out" if op in SocketSettings().allow else "if `allow` lists it"
    )
    restricted = {"none": "always", "reads": default}.get(effect, "never")
    if op is protocol.Op.GET:
        restricted += "; never with `raw`"
    main = "below `add_below`" if op is protocol.Op.ADD else "yes"
    return [f"`{op}`", effect, main, main, "no", restricted]


def test_the_permissions_of_every_operation_are_documented() -> None:
    block = re.search(
        r"<!-- permissions -->\n(.*)<!-- /permissions -->", read("docs/permissions.md"), re.S
    )
    assert block is not None
    documented = {row[0]: row for row in rows(block[1])}
    assert documented == {f"`{op}`": permissions_of(op) for op in protocol.Op}
    assert set(EFFECTS) == set(protocol.Op), "declare the effect of each operation"


def test_the_configuration_example_is_valid() -> None:
    example = re.search(r"```toml\n(.*?)```", read("docs/configuration.md"), re.S)
    assert example is not None
    document = tomllib.loads(example[1])
    for table in (document["defaults"], *document["agents"].values()):
        msgspec.convert(table, Settings, strict=True)


# Protocol


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    elif field.default is msgspec.NODEFAULT:
        return "required"
    else:
        value = field.default
    if isinstance(value, msgspec.Raw):
        value = msgspec.msgpack.decode(value)
    return f"`{json.dumps(value)}`"


@pytest.mark.parametrize("struct", WIRE_STRUCTS, ids=lambda struct: str(struct.__name__))
def test_every_field_on_the_wire_is_documented(struct: type[msgspec.Struct]) -> None:
    table = rows(section(read("docs/protocol.md"), struct.__name__))
    documented = {names(row[0])[0]: row[2] for row in table}
    assert documented == {f.name: default_of(f) for f in msgspec.structs.fields(struct)}


def test_every_operation_is_documented_with_its_body() -> None:
    table = rows(section(read("docs/protocol.md"), "Operations"))
    documented = {names(op)[0]: names(body)[0] for op, body, *_ in table}
    assert documented == {op.value: body.__name__ for op, body in memory.BODY_OF_OP.items()}
    assert set(documented) == {op.value for op in protocol.Op}


def test_every_error_code_is_documented_with_its_exception() -> None:
    table = rows(section(read("docs/protocol.md"), "Error codes"))
    documented = {names(row[0])[0]: names(row[-1])[0] for row in table}
    raised = {
        code.value: type(errors.from_frame(protocol.Error(code, ""))).__name__
        for code in protocol.ErrorCode
    }
    assert documented == raised


def test_limits_and_capabilities_on_the_wire_are_documented() -> None:
    page = read("docs/protocol.md")
    assert f"{protocol.MAX_FRAME_BYTES:,} bytes" in page
    assert f"within {protocol.HELLO_TIMEOUT_S:.0f} seconds" in page
    capabilities = " ".join(section(page, "Welcome").split()).partition(" are ")[2]
    assert names(capabilities.partition(".")[0]) == list(protocol.CAPABILITIES)


def test_every_exception_of_the_client_is_documented() -> None:
    table = rows(section(read("docs/client.md"), "Errors"))
    documented = {names(row[0])[0] for row in table}
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.MemorydError)
    }
    assert documented == defined - {"MemorydError"}


# Commands


def documented_options(heading: str) -> set[str]:
    table = rows(section(read("docs/cli.md"), heading))
    cells = [names(cell) for cell, _ in table]
    return {option.partition(" ")[0] for cell in cells for option in cell}


def options_in(help_text: str) -> set[str]:
    return set(re.findall(r"^  (--[a-z-]+)", help_text, re.M))


@pytest.mark.parametrize("command", arguments.COMMANDS)
def test_options_of_memctl_are_those_of_its_help(command: str) -> None:
    own, _, _ = arguments.help_text(command).partition("general options")
    assert documented_options(f"memctl {command}") == options_in(own)


def test_general_options_of_memctl_are_those_of_its_help() -> None:
    _, _, general = arguments.help_text("").partition("general options")
    documented = documented_options("memctl: general options") - {"-h"}
    assert documented == options_in(general)


def test_options_of_memoryd_are_those_of_its_help() -> None:
    options = re.findall(r"^  (?:-h, )?(--[a-z0-9-]+)", _parser().format_help(), re.M)
    assert documented_options("memoryd: options") - {"-h"} == set(options)


def test_exit_codes_are_documented() -> None:
    from memctl import main
    from memoryd import __main__ as daemon

    page = read("docs/cli.md")
    codes = {int(row[0]) for row in rows(section(page, "memoryd: exit codes"))}
    usage = 2  # argparse's own
    assert codes == {v for k, v in vars(daemon).items() if k.startswith("EXIT_")} | {usage}
    codes = {int(row[0]) for row in rows(section(page, "memctl: exit codes"))}
    own = {main.OK, main.FAILED, main.USAGE, main.NO_DAEMON, main.NOT_FOUND}
    assert codes == own | {main.INTERRUPTED, daemon.EXIT_CONFIG}


# Links and examples


def pages() -> list[Path]:
    folders = ("client", "examples", "systemd", "tests/fuzz")
    top = [*sorted(ROOT.glob("*.md")), *(ROOT / folder / "README.md" for folder in folders)]
    return [*top, *sorted(DOCS.rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts create them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_each_attack_in_the_threat_model_names_tests_that_are_there() -> None:
    attackers = read("SECURITY.md").partition("## Attackers")[2].partition("## Not defended")[0]
    rows = [line for line in attackers.splitlines() if re.match(r"\| (?!attack |---)", line)]
    named = [re.findall(r"`(tests/[^`]+)`", row.rpartition(" | ")[2]) for row in rows]
    assert len(rows) > 40
    assert [row for row, tests in zip(rows, named, strict=True) if not tests] == []
    assert [test for tests in named for test in tests if not _exists(test)] == []


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.exists() and (not name or f"def {name}(" in file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_exist(page: Path) -> None:
    """A name here is the end of a path; `NAME` in the how-to pages stands for any word."""
    folders = ("memoryd", "client", "bench", "tests", "examples")
    files = "\n".join(str(file) for folder in folders for file in (ROOT / folder).rglob("*.py"))
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w-]+\.py)\b", text))
    named = {name for name in named if canonicalize_name(name) not in pinned()}
    ends = {name: re.escape(name).replace("NAME", r"\w+") for name in named}
    assert [name for name, end in ends.items() if not re.search(f"/{end}$", files, re.M)] == []


def test_the_table_of_layers_is_the_one_that_the_tests_enforce() -> None:
    printed = re.search(
        r"<!-- layers -->\n(.*)\n<!-- /layers -->", read("docs/architecture.md"), re.S
    )
    assert printed is not None
    assert printed[1] == layers.table(), "run `python tests/layers.py` and paste the table"


@pytest.mark.parametrize("word", ["anew", "put right", "out of order"])
def test_pages_use_plain_english(word: str) -> None:
    wrong = [page.name for page in pages() if re.search(rf"\b{word}\b", page.read_text("utf-8"))]
    assert wrong == []


def test_every_page_is_in_the_index() -> None:
    index = read("docs/README.md")
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS))
        assert name == "README.md" or f"({name})" in index, name


def test_the_lines_in_the_table_of_examples_exist() -> None:
    table = rows(section(read("examples/README.md"), "Twelve questions"))
    assert len(table) == 12
    for _, _, file, span, _ in table:
        lines = read(f"examples/workspace/{names(file)[0]}").splitlines()
        first, _, last = span.partition("-")
        assert 1 <= int(first) <= int(last or first) <= len(lines), (file, span)
        assert any(line.strip() for line in lines[int(first) - 1 : int(last or first)])


# Service files


def unit(name: str) -> configparser.ConfigParser:
    # Settings may be repeated; the last one suffices here.
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / name).read_text(encoding="utf-8"))
    return parser


def stopping_s() -> float:
    """Return the longest time that the actors may take to stop, as `supervise` counts it."""
    actors = sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Actor"
        for module in ("memoryd/pipeline.py", "memoryd/agent/embedding.py")
        for node in ast.walk(ast.parse(read(module)))
    )
    assert actors > 1
    return supervisor.GRACE_S + actors * supervisor.HARD_S


def test_the_service_is_told_apart_and_given_time() -> None:
    service = unit("memoryd.service")["Service"]
    assert service["Type"] == "notify"
    assert service["RestartPreventExitStatus"].split() == ["3", "78"]
    assert float(service["TimeoutStopSec"]) > stopping_s()
    program, *options = service["ExecStart"].split()
    assert program == "%h/.local/bin/memoryd"
    parsed = _parser().parse_args(options)
    assert str(parsed.socket) == unit("memoryd.socket")["Socket"]["ListenStream"]
    assert str(parsed.config) == "%E/memoryd/config.toml"


def test_the_socket_unit_listens_where_clients_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORYD_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    socket = unit("memoryd.socket")["Socket"]
    listens = socket["ListenStream"].replace("%t", "/run/user/1000")
    assert listens == paths.default_socket_path()
    assert (socket["SocketMode"], socket["DirectoryMode"]) == ("0600", "0700")


def test_the_hardened_service_may_write_where_it_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    hardening = "memoryd.service.d/hardening.conf"
    assert set(unit(hardening).sections()) == {"Unit", "Service"}
    text = (UNITS / hardening).read_text(encoding="utf-8")
    writable = re.findall(r"^ReadWritePaths=(.+)$", text, re.M)
    socket = unit("memoryd.socket")["Socket"]["ListenStream"]
    assert [path.replace("%h", "/home/me") for path in writable] == [
        paths.state_dir(),
        socket.rpartition("/")[0],
    ]


def test_the_bare_service_starts_without_a_user_namespace() -> None:
    """With one of these, a user's systemd fails with 217/USER or 218/CAPABILITIES there."""
    assert not unit("memoryd.service")["Service"].keys() & {
        *("CapabilityBoundingSet", "PrivateDevices", "PrivateIPC", "PrivateUsers"),
        *("ProtectClock", "ProtectKernelLogs", "ProtectKernelModules"),
    }


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize(
    ("added", "most"),
    [((), 5.0), (("hardening.conf",), 2.5), (("hardening.conf", "offline.conf"), 1.0)],
)
def test_systemd_finds_the_service_little_exposed(
    tmp_path: Path, added: tuple[str, ...], most: float
) -> None:
    shutil.copy(UNITS / "memoryd.service", tmp_path)
    (tmp_path / "memoryd.service.d").mkdir()
    for name in added:
        shutil.copy(UNITS / "memoryd.service.d" / name, tmp_path / "memoryd.service.d")
    analysed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "./memoryd.service"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    found = re.search(r"Overall exposure level for memoryd.service: ([\d.]+)", analysed.stdout)
    if found is None:
        pytest.skip(f"this systemd can't analyse a file: {analysed.stderr[-200:]}")
    assert float(found[1]) <= most
    assert f"{float(found[1])}" in section(read("systemd/README.md"), "Hardening")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    shutil.copytree(UNITS / "memoryd.service.d", tmp_path / "memoryd.service.d")
    shutil.copy(UNITS / "memoryd.socket", tmp_path)
    service = (UNITS / "memoryd.service").read_text(encoding="utf-8")
    # The program is not installed at the unit's path.
    (tmp_path / "memoryd.service").write_text(service.replace("%h/.local/bin/memoryd", "/bin/true"))
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    checked = subprocess.run(
        ["systemd-analyze", "--user", "verify", "memoryd.service", "memoryd.socket"],
        cwd=tmp_path,
        env=home | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
    )
    ours = [line for line in checked.stderr.splitlines() if "memoryd" in line]
    assert (checked.returncode, ours) == (0, [])


def test_the_launchd_agent_is_a_property_list_that_fits() -> None:
    agent = plistlib.loads((UNITS / "org.memoryd.memoryd.plist").read_bytes())
    assert agent["Label"] == "org.memoryd.memoryd"
    program, *options = agent["ProgramArguments"]
    assert Path(program).is_absolute()
    parsed = _parser().parse_args(options)
    assert parsed.command == "run"
    # launchd rotates nothing; only this file of the two is written all the time.
    assert str(parsed.log_file) == "/Users/YOU/Library/Logs/memoryd.log"
    assert agent["StandardErrorPath"] == "/Users/YOU/Library/Logs/memoryd.stderr.log"
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ExitTimeOut"] > stopping_s()
    assert agent["Umask"] == 0o077


# Dependencies


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found[0]


def declared() -> set[str]:
    found: set[str] = set()
    for file in ("pyproject.toml", "client/pyproject.toml"):
        document = tomllib.loads(read(file))
        project = document["project"]
        groups = (
            project["dependencies"],
            document["build-system"]["requires"],
            *project.get("optional-dependencies", {}).values(),
            *document.get("dependency-groups", {}).values(),
        )
        found |= {name_of(requirement) for group in groups for requirement in group}
    return found


def pinned() -> set[str]:
    text = "\n".join(file.read_text() for file in (ROOT / "requirements").glob("*.txt"))
    return set(re.findall(r"^([a-z0-9-]+)==", text, re.M))


def test_dependencies_are_documented_and_none_else() -> None:
    documented = {names(row[0])[0] for row in rows(read("docs/dependencies.md"))}
    assert documented == declared()


def test_every_pinned_package_is_accounted_for() -> None:
    mentioned = set(map(canonicalize_name, names(read("docs/dependencies.md"))))
    assert pinned() <= mentioned


def test_the_changelog_has_this_version() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert f"## [{version}] - 2026-11-28" in read("CHANGELOG.md")
