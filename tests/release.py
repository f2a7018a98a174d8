"""Check the files of a release: `python tests/release.py DIST`, as `make release-check` does.

The folder holds both distributions and a bill of materials. Writes `SHA256SUMS` beside them.
"""

import hashlib
import json
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
BILL = "memoryd.cdx.json"
PROJECTS = {"memoryd": ".", "memoryd_client": "client"}


def main(dist: Path) -> None:
    """Check everything; print what there is. Raises `AssertionError`, which names the problem."""
    for name, folder in PROJECTS.items():
        check_distribution(dist, name, ROOT / folder)
    check_bill(json.loads((dist / BILL).read_text()))
    files = sorted(file for file in dist.iterdir() if file.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (dist / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")


def check_distribution(dist: Path, name: str, folder: Path) -> None:
    """Compare the wheel and the source archive with the repository."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    version = project["project"]["version"]
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    modules = {
        str(file.relative_to(folder))
        for package in packages
        for file in (folder / package).rglob("*")
        if file.suffix in (".py", ".typed")
    }
    # The plugins that are part of a package are links to folders of the repository.
    for link in (link for package in packages for link in (folder / package).rglob("*")):
        if link.is_symlink():
            files = (file for file in link.resolve().rglob("*") if file.is_file())
            place = link.relative_to(folder)
            modules |= {str(place / file.relative_to(link.resolve())) for file in files}
    with zipfile.ZipFile(dist / f"{name}-{version}-py3-none-any.whl") as wheel:
        info = f"{name}-{version}.dist-info"
        check_metadata(wheel.read(f"{info}/METADATA"), project["project"])
        packed = {file for file in wheel.namelist() if not file.startswith(f"{info}/")}
        assert packed == modules, f"the wheel of {name}: {sorted(packed ^ modules)}"
    with tarfile.open(dist / f"{name}-{version}.tar.gz") as archive:
        top = f"{name}-{version}"
        file = archive.extractfile(f"{top}/PKG-INFO")
        assert file is not None
        check_metadata(file.read(), project["project"])
        paths = {str(PurePosixPath(path).relative_to(top)) for path in archive.getnames()}
        assert modules <= paths, f"the source archive of {name}: {sorted(modules - paths)}"


def check_metadata(raw: bytes, project: dict[str, object]) -> None:
    """Check that the metadata are valid and those of the project."""
    metadata = Metadata.from_email(raw, validate=True)
    assert (metadata.name, str(metadata.version)) == (project["name"], project["version"])
    assert metadata.description, f"{metadata.name} has no description"


def check_bill(bill: dict[str, object]) -> None:
    """Check that the bill of materials names the pins of `runtime.txt`, and nothing of a builder.

    `cyclonedx-py` has checked it against the schema.
    """
    components = bill["components"]
    assert isinstance(components, list)
    listed = {(canonicalize_name(part["name"]), part["version"]) for part in components}
    client = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["version"]
    expected = {*pinned(), ("memoryd-client", client)}
    assert listed == expected, f"the bill of materials: {sorted(listed ^ expected)}"
    for part in components:
        assert part["purl"].startswith("pkg:pypi/"), part["purl"]
    text = json.dumps(bill)
    assert "file:" not in text, "the bill of materials contains a path of this machine"
    assert str(ROOT) not in text, "the bill of materials contains a path of this machine"


def pinned() -> Iterator[tuple[str, str]]:
    """Yield the packages that `runtime.txt` installs on this machine, with their versions."""
    text = (ROOT / "requirements/runtime.txt").read_text()
    for line in re.findall(r"^([a-z0-9].*?)(?: \\)?$", text, re.M):
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            (specifier,) = requirement.specifier
            yield canonicalize_name(requirement.name), specifier.version


if __name__ == "__main__":
    main(Path(sys.argv[1]))
