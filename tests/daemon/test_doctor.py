"""`memoryd doctor`: no findings on a healthy installation, and problems around an index.

All faults are real. `test_doctor_index` has the problems inside an index.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from patient import NOTE, Patient, bad, errors
from waiting import PATIENCE_S, eventually

from memoryd.doctor import running
from memoryd.doctor.examine import DoctorOptions, examine

# Healthy


def test_nothing_is_found_in_what_is_well(patient: Patient) -> None:
    assert bad(patient.doctor(code=0)) == []
    patient.start()
    assert bad(patient.doctor(code=0)) == []
    patient.kill()
    assert bad(patient.doctor(code=0)) == [
        ("socket", "warning", f"{patient.socket} is stale: the memoryd that created it was killed")
    ]


def test_the_doctor_leaves_no_file_behind(patient: Patient) -> None:
    def files() -> dict[str, int]:
        return {
            str(path.relative_to(patient.folder)): path.stat().st_mtime_ns
            for path in patient.folder.rglob("*")
            # The model of the daemon that was stopped may still write into its log.
            if path.name not in ("__pycache__", "embedded") and path.suffix != ".pyc"
        }

    before = files()
    patient.doctor(code=0)
    assert files() == before
    # The log was left without its shared-memory file, as in a backup.
    patient.start()
    patient.write("MEMORY.md", NOTE + "It was 1.4 in May.\n")
    patient.sync()
    patient.kill()
    Path(f"{patient.database}-shm").unlink()
    assert Path(f"{patient.database}-wal").stat().st_size
    before = files()
    patient.doctor(code=0)
    assert files().keys() == before.keys()


def test_an_index_that_is_not_there_yet_is_no_error(patient: Patient) -> None:
    shutil.rmtree(patient.folder / "state")
    assert bad(patient.doctor(code=0)) == [
        ("index", "warning", f"no such index yet: {patient.database}")
    ]
    assert not (patient.folder / "state").exists()


# Permissions


@pytest.mark.parametrize("name", ["main.sqlite", "main.sqlite.lock", "main.sqlite.damaged-1"])
def test_files_that_others_can_read(patient: Patient, name: str) -> None:
    file = patient.database.with_name(name)
    file.touch()
    file.chmod(0o644)
    found = patient.doctor(code=1)
    message = f"others can access {file}: its mode is 0644"
    assert errors(found) == [("permissions", "error", message)]
    fix = next(finding["fix"] for finding in found["findings"] if finding["message"] == message)
    assert fix == f"chmod 600 {file}"
    os.system(fix)
    assert errors(patient.doctor(code=0)) == []


def test_files_that_others_can_read_while_a_daemon_runs(patient: Patient) -> None:
    patient.start()
    wal = Path(f"{patient.database}-wal")
    expected = [
        ("socket", "error", f"others can access {patient.socket}: its mode is 0666"),
        ("permissions", "error", f"others can access {wal}: its mode is 0666"),
    ]

    def finds_both() -> bool:
        # A connection that the daemon opens meanwhile makes the log private again.
        for file in (wal, patient.socket):
            file.chmod(0o666)
        return bad(patient.doctor(code=1)) == expected

    eventually(finds_both)


def test_folders_that_others_can_use(patient: Patient) -> None:
    state = patient.database.parent
    state.chmod(0o755)
    looks = ("permissions", "warning", f"others can list {state}: its mode is 0755")
    assert bad(patient.doctor(code=0)) == [looks]
    state.chmod(0o777)
    message = f"others can replace the files in {state}: its mode is 0777"
    assert bad(patient.doctor(code=1)) == [("permissions", "error", message)]


def test_a_folder_above_that_others_can_use(patient: Patient) -> None:
    """memoryd refuses to start there: a user who can write to a folder can replace its content."""
    patient.folder.chmod(0o777)
    patient.socket = patient.folder / "run" / "s"
    found = bad(patient.doctor(code=1))
    patient.start(wait=False)
    assert patient.process is not None
    code = patient.process.wait(timeout=PATIENCE_S)
    patient.folder.chmod(0o700)
    assert code == 78
    for check, level, message in found:
        assert (check, level) in (("socket", "error"), ("permissions", "error"))
        assert f"{patient.folder} is writable by everybody" in message
    assert {check for check, _, _ in found} == {"socket", "permissions"}


def test_folders_that_can_not_be_made(patient: Patient) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv: drops root's right to write all files")
    home = patient.folder / "home"
    home.mkdir(mode=0o500)
    patient.variables["XDG_STATE_HOME"] = str(home / "state")
    patient.socket = home / "run" / "s"
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    command += patient.command("doctor", "--json", "--config", str(patient.config))
    done = subprocess.run(
        command, env=patient.environment, cwd=patient.folder, capture_output=True, text=True
    )
    home.rmdir()
    assert done.returncode == 1
    found = json.loads(done.stdout)
    why = f"can't be created: {home} is not writable"
    assert errors(found) == [
        ("socket", "error", f"{home}/run {why}"),
        ("permissions", "error", f"{home}/state/memoryd {why}"),
    ]
    assert found["findings"][0]["fix"].startswith(f"chmod 700 {home};")


def test_a_folder_in_which_others_can_only_add(patient: Patient) -> None:
    patient.folder.chmod(0o1777)
    message = f"others can list {patient.folder}: its mode is 1777"
    found = bad(patient.doctor(code=0))
    patient.folder.chmod(0o700)
    assert found == [("socket", "warning", message)]


def test_a_folder_of_an_index_elsewhere(patient: Patient) -> None:
    elsewhere = patient.folder / "other"
    elsewhere.mkdir()
    shutil.copy(patient.database, elsewhere)
    elsewhere.chmod(0o777)
    patient.settings += f'\nstore = {{ path = "{elsewhere}/main.sqlite" }}'
    patient.write_config()
    found = bad(patient.doctor(code=1))
    shutil.rmtree(elsewhere)
    message = f"others can replace the files in {elsewhere}: its mode is 0777"
    assert found == [("permissions", "error", message)]


def test_a_key_file_that_others_can_read(patient: Patient) -> None:
    key = patient.folder / "key"
    key.write_text("sk-secret-that-is-in-no-output")
    key.chmod(0o644)
    patient.variables["OPENAI_API_KEY_FILE"] = str(key)
    found = patient.doctor(code=0)
    message = f"others can read the key file {key}: its mode is 0644"
    assert bad(found) == [("permissions", "warning", message)]
    assert "secret-that" not in str(found)


def test_what_belongs_to_somebody_else(patient: Patient) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: changes the owner of a file")
    os.chown(patient.database, 12345, 12345)
    message = f"{patient.database} belongs to the user 12345, not to 0"
    assert bad(patient.doctor(code=1)) == [("permissions", "error", message)]


# Configuration


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[defaults]\nprovidr = 'local'\n[agents.main]\nworkspace = '.'", "unknown key providr"),
        ("[defaults", "not valid TOML"),
        ("[agents.main]\nworkspace = '.'\nchunking = { tokens = 'many' }", "chunking.tokens"),
    ],
)
def test_a_configuration_that_cannot_be_used(patient: Patient, text: str, message: str) -> None:
    patient.config.write_text(text)
    found = patient.doctor(code=78)
    ((check, level, said),) = bad(found)
    assert (check, level) == ("configuration", "error")
    assert message in said
    assert not found["ok"]
    # Unknown facts produce no finding.
    assert not any("watched folder" in finding["message"] for finding in found["findings"])


def test_a_configuration_that_is_not_there(patient: Patient) -> None:
    patient.config.unlink()
    message = f"no such configuration file: {patient.config}"
    assert bad(patient.doctor(code=78)) == [("configuration", "error", message)]


def test_a_configuration_that_others_can_change_or_read(patient: Patient) -> None:
    patient.config.chmod(0o666)
    message = f"others can change the configuration {patient.config}: its mode is 0666"
    assert bad(patient.doctor(code=1)) == [("configuration", "error", message)]
    patient.config.write_text(
        patient.config.read_text().replace(
            "[agents.main]\n", '[agents.main]\nremote = { headers = { X-Token = "hush" } }\n'
        )
    )
    patient.config.chmod(0o644)
    message = f"others can read the configuration {patient.config}: its mode is 0644"
    found = patient.doctor(code=0)
    assert bad(found) == [("configuration", "warning", message)]
    assert "hush" not in str(found)


def test_a_workspace_that_is_gone(patient: Patient) -> None:
    patient.workspace.rename(patient.folder / "elsewhere")
    found = patient.doctor(code=1)
    (patient.folder / "elsewhere").rename(patient.workspace)
    ((check, level, message),) = errors(found)
    assert (check, level) == ("configuration", "error")
    assert "is not a folder" in message
    # Missing notes produce no finding, because nothing is known of them.
    assert not any("not on disk" in message for _, _, message in bad(found))


def test_one_agent_of_several_can_be_looked_at_alone(patient: Patient) -> None:
    patient.add_agent("other")
    patient.write_config()
    agents = {finding["agent"] for finding in patient.doctor()["findings"]}
    assert agents == {None, "main", "other"}
    agents = {finding["agent"] for finding in patient.doctor("--agent", "main")["findings"]}
    assert agents == {None, "main"}
    found = patient.doctor("--agent", "nobody", code=78)
    assert bad(found) == [("configuration", "error", "no such agent: nobody")]


# Socket


def test_what_is_at_the_place_of_the_socket(patient: Patient) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(patient.socket))
        patient.socket.chmod(0o600)
    message = f"{patient.socket} is stale: the memoryd that created it was killed"
    assert bad(patient.doctor(code=0)) == [("socket", "warning", message)]
    patient.socket.unlink()
    patient.socket.write_text("")
    message = f"{patient.socket} is not a socket"
    assert bad(patient.doctor(code=1)) == [("socket", "error", message)]


def test_a_daemon_without_its_lock_or_of_another_version(patient: Patient) -> None:
    patient.start()
    assert patient.process is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "__version__", "9.9")
        ((check, level, message),) = bad(patient.doctor(code=0))
    assert (check, level, message[-9:]) == ("socket", "warning", ", not 9.9")
    Path(f"{patient.socket}.lock").unlink()
    message = f"process {patient.process.pid} answers on {patient.socket} without holding its lock"
    assert bad(patient.doctor(code=1)) == [("socket", "error", message)]


def test_an_index_that_another_daemon_has_open(patient: Patient) -> None:
    patient.start()
    assert patient.process is not None
    patient.sync()
    message = (
        f"process {patient.process.pid} has the index open but does not serve it at this socket"
    )
    found = patient.doctor("--socket", str(patient.folder / "s2"), code=0)
    assert bad(found) == [("daemon", "warning", message)]
    elsewhere = patient.folder / "elsewhere.sqlite"
    patient.settings += f'\nstore = {{ path = "{elsewhere}" }}'
    patient.write_config()
    message = f"memoryd has the index {patient.database} open, not {elsewhere}"
    assert bad(patient.doctor(code=0)) == [
        ("index", "warning", f"no such index yet: {elsewhere}"),
        ("daemon", "warning", message),
    ]


@pytest.mark.long
def test_a_daemon_that_hangs(patient: Patient) -> None:
    patient.start()
    assert patient.process is not None
    os.kill(patient.process.pid, 19)
    try:
        found = patient.doctor(code=1)
    finally:
        os.kill(patient.process.pid, 18)
    assert errors(found)[0][0] == "socket"
    assert "does not answer" in errors(found)[0][2]


# The machine


def test_a_full_disk(patient: Patient) -> None:
    state = patient.folder / "state"
    shutil.rmtree(state)
    state.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(state)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("needs root: mounts a small file system")
    try:
        shutil.copytree(patient.folder / "kept", state, dirs_exist_ok=True)
        assert bad(patient.doctor(code=0)) == []
        patient.sql("INSERT INTO meta VALUES ('filler', printf('%.*c', 2097152, 'x'))")
        folder, mebibyte = patient.database.parent, 1024 * 1024
        free = shutil.disk_usage(state).free
        (state / "filler").write_bytes(bytes(free - 3 * mebibyte // 2))
        message = f"1 MiB are free beside the index of 2 MiB in {folder}: too few for a rebuild"
        assert bad(patient.doctor(code=0)) == [("limits", "warning", message)]
        with contextlib.suppress(OSError):
            (state / "more").write_bytes(bytes(8 * 1024 * 1024))
        message = f"the disk of {folder} is full"
        assert bad(patient.doctor(code=1)) == [("limits", "error", message)]
        subprocess.run(["mount", "-o", "remount,ro", str(state)], check=True)
        found = errors(patient.doctor(code=1))
        assert ("permissions", "error", f"{folder} is not writable") in found
    finally:
        subprocess.run(["umount", str(state)], check=True)


def test_few_files_may_be_open(patient: Patient) -> None:
    few = ["bash", "-c", 'ulimit -n 200; exec "$@"', "-"]
    command = [*few, *patient.command("doctor", "--config", str(patient.config))]
    done = subprocess.run(command, env=patient.environment, capture_output=True, text=True)
    assert "!  limits" in done.stdout
    assert "at most 200 files can be open at a time" in done.stdout
    assert done.returncode == 0


# The provider


@pytest.mark.parametrize(
    ("settings", "level", "said"),
    [
        ('provider = "openai"', "error", "openai can't embed: There is no key for openai: set"),
        ('provider = "openai"\nfallback = "voyage"', "warning", "the fallback voyage can't embed"),
        ('local = { model_path = "/nowhere/x.gguf" }', "error", "local can't embed: "),
    ],
)
def test_a_provider_that_cannot_be_used(
    patient: Patient, settings: str, level: str, said: str
) -> None:
    patient.write_config()
    written = patient.config.read_text()
    if "provider" in settings:
        written = written.replace('provider = "local"\n', "")
    patient.config.write_text(written.replace("[defaults]\n", f"[defaults]\n{settings}\n"))
    found = [finding for finding in bad(patient.doctor()) if finding[0] == "model"]
    assert any(said in message and at == level for _, at, message in found), found
    patient.variables |= {"OPENAI_API_KEY": "sk-planted", "VOYAGE_API_KEY": "pa-planted"}
    found = patient.doctor()
    assert "planted" not in str(found)
    if "openai" in settings:
        assert [finding for finding in bad(found) if finding[0] == "model"] == []


def test_other_settings_than_the_index_was_built_with(patient: Patient) -> None:
    patient.settings += "\nchunking = { tokens = 200 }"
    patient.write_config()
    message = "the index was built with other settings: chunk_tokens 400 → 200"
    assert bad(patient.doctor(code=0)) == [("index", "warning", message)]


def test_an_extension_that_does_not_load(patient: Patient) -> None:
    patient.settings += '\nstore = { vector = { enabled = true, extension_path = "/nowhere/vec" } }'
    patient.write_config()
    ((check, level, message),) = bad(patient.doctor(code=0))
    assert (check, level) == ("driver", "warning")
    assert message.startswith("the configured sqlite-vec does not load: /nowhere/vec")
    patient.start()
    (_, (check, level, message)) = bad(patient.doctor(code=0))
    assert (check, level) == ("daemon", "warning")
    assert message.startswith("sqlite-vec is off, search uses the vectors in memory: /nowhere/vec")


# With a running daemon


def test_a_daemon_at_work_is_healthy_at_every_moment(patient: Patient) -> None:
    patient.start()
    stop = threading.Event()
    # A scan at the start of a rebuild fails if its folder is replaced meanwhile.
    replacing = threading.Lock()

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            file = patient.write(f"memory/{number % 40}.md", f"# {number}\n\nwords {number}\n")
            if number % 7 == 0:
                file.rename(file.with_name(f"moved-{number % 9}.md"))
            if number % 50 == 0 and replacing.acquire(blocking=False):
                shutil.rmtree(patient.workspace / "memory")
                (patient.workspace / "memory").mkdir()
                replacing.release()
            stop.wait(0.002)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for force in (False, True, False):
            rebuild = contextlib.ExitStack()
            with rebuild:
                if force:
                    rebuild.enter_context(replacing)
                    client = rebuild.enter_context(patient.client())
                    forced = threading.Thread(target=client.index, kwargs={"force": True})
                    forced.start()
                    rebuild.callback(forced.join)
                assert errors(patient.doctor(code=0)) == []
    finally:
        stop.set()
        worker.join()
    patient.write("memory/last.md", "an empty folder is a warning\n")
    patient.sync()
    assert bad(patient.doctor(code=0)) == []
    assert patient.stop() == 0


def test_it_goes_by_what_the_daemon_was_started_with(patient: Patient) -> None:
    added = patient.new_folder("added")
    patient.start()
    with patient.client() as client:
        client.add(str(added))
        client.agent = client.agents().agents[1].agent
        client.sync()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in patient.environment.items():
            patch.setenv(name, value)
        found = examine(DoctorOptions(patient.socket))
    agents = {finding.agent for finding in found.findings}
    assert len(agents) == 3
    assert {None, "main"} < agents
    assert [finding for finding in found.findings if finding.level != "ok"] == []


def test_paths_on_the_daemons_command_line_are_of_its_folder(patient: Patient) -> None:
    patient.start(options=["--workspace", "workspace"])
    patient.sync()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in patient.environment.items():
            patch.setenv(name, value)
        found = examine(DoctorOptions(patient.socket))
    assert [finding for finding in found.findings if finding.level != "ok"] == []
    workspace = f"workspace {patient.workspace}"
    assert any(finding.message == workspace for finding in found.findings)
    # A stopped daemon gives the same result.
    assert patient.stop() == 0
    with pytest.MonkeyPatch.context() as patch:
        for name, value in patient.environment.items():
            patch.setenv(name, value)
        found = examine(DoctorOptions(patient.socket))
    assert any(finding.message == workspace for finding in found.findings)


def test_an_agent_that_memoryd_cannot_serve(patient: Patient) -> None:
    patient.add_agent("other", f'store = {{ path = "{patient.config}/other.sqlite" }}')
    patient.start()
    found = bad(patient.doctor(code=1))
    assert [finding for finding in found if finding[0] == "permissions"] == [
        ("permissions", "error", f"{patient.config} is not a folder")
    ]
    (message,) = [message for check, _, message in found if check == "daemon"]
    assert message.startswith("memoryd can't serve this agent: ")


# Leftovers, and the daemon's status


def test_what_rebuilds_and_damage_leave_behind(patient: Patient) -> None:
    left = patient.database.with_name("main.sqlite.rebuild-4711")
    shutil.copy(patient.database, left)
    aside = patient.database.with_name("main.sqlite.damaged-20261128T101500Z-malformed")
    other = patient.database.with_name("main.sqlite.bak")
    own = patient.database.with_name("main.sqlite.notes")
    for file in (aside, Path(f"{aside}-wal"), other, own):
        file.touch(0o600)
    of_damage = f"beside the index are corrupt copies: {aside.name}"
    of_others = f"beside the index are unknown files: {other.name}"
    found = bad(patient.doctor(code=0))
    assert [(check, level) for check, level, _ in found] == 3 * [("daemon", "warning")]
    assert left.name in found[0][2]
    assert [message for _, _, message in found[1:]] == [of_damage, of_others]
    patient.start()
    eventually(lambda: not left.exists())
    found = bad(patient.doctor(code=0))
    assert [message for _, _, message in found] == [of_damage, of_others]
    shutil.copy(patient.database, left)
    ((check, _, message),) = errors(patient.doctor(code=1))
    assert (check, message) == ("daemon", f"{left.name} belongs to no rebuild in progress")


def test_another_file_in_the_place_of_an_open_index(patient: Patient) -> None:
    patient.start()
    patient.sync()
    copy = patient.folder / "copy"

    def replace() -> None:
        shutil.copy(patient.database, copy)
        copy.replace(patient.database)

    message = f"memoryd has a file open that is not {patient.database}"
    check_reported(patient, replace, ("daemon", "error", message))


def test_a_deleted_index_under_a_running_daemon(patient: Patient) -> None:
    patient.start()
    message = f"the index {patient.database} is missing while memoryd has it open"
    remove = partial(patient.database.unlink, missing_ok=True)
    check_reported(patient, remove, ("index", "error", message))


def check_reported(
    patient: Patient, damage: Callable[[], None], finding: tuple[str, str, str]
) -> None:
    """Repeat a fault, which memoryd repairs within 5 s, until the doctor has reported it."""

    def is_reported() -> bool:
        damage()
        return finding in errors(patient.doctor())

    eventually(is_reported)
    assert patient.exit_code == 1


# Output


def test_people_get_a_line_for_each_finding_and_what_to_do(patient: Patient) -> None:
    patient.database.chmod(0o644)
    printed = patient.memctl("doctor", "--config", str(patient.config), code=1).stdout
    lines = printed.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("✗"))
    assert " ".join(lines[at].split()) == (
        f"✗ permissions main others can access {patient.database}: its mode is 0644"
    )
    assert lines[at + 1] == f"   fix: chmod 600 {patient.database}"
    assert lines[-1] == "1 error, 0 warnings"
    assert sum(line.startswith("✓") for line in lines) == len(lines) - 3


def test_programs_get_one_document(patient: Patient) -> None:
    found = patient.memctl_json("doctor", "--config", str(patient.config))
    assert found["ok"] is True
    assert found["findings"][0] == {
        "check": "socket",
        "level": "ok",
        "agent": None,
        "message": f"memoryd is not running at {patient.socket}",
        "fix": None,
    }
    checks = [(finding["check"], finding["agent"]) for finding in found["findings"]]
    assert checks == [
        ("socket", None),
        ("configuration", None),
        ("permissions", None),
        ("driver", None),
        ("configuration", "main"),
        ("permissions", "main"),
        ("index", "main"),
        ("model", "main"),
        ("vectors", "main"),
        ("disk", "main"),
        ("limits", "main"),
        ("daemon", "main"),
        ("limits", None),
    ]


def test_names_that_are_no_utf8_are_shown(patient: Patient) -> None:
    folder = os.fsencode(patient.folder) + b"/w\xff"
    os.mkdir(folder)
    patient.config.write_text("")
    found = patient.doctor("--workspace", os.fsdecode(folder), code=78)
    assert any("w\\xff" in finding["message"] for finding in found["findings"])
