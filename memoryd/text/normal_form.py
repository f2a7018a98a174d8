"""Normal form of names: macOS decomposes letters (NFD), and keyboards compose them (NFC). Pure."""

import unicodedata


def composed(name: str) -> str:
    """Return a name or path in NFC, in which names are compared."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)
