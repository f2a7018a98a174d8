"""Choice of the provider that embeds, made once for an index and then kept. Pure.

`auto` tries the candidates in order. The choice is stored in the index: a key that appears or
disappears, or an outage, changes nothing; only a request or the configuration does.
"""

from collections.abc import Callable
from typing import NamedTuple

from memoryd.identity import Choice

ORDER = ("openai", "gemini", "voyage", "mistral")
"""Providers that `auto` chooses if it finds their key, in this order."""


class Considered(NamedTuple):
    """A provider that was considered; `passed_over` is the reason against it, None if chosen."""

    provider: str
    passed_over: str | None


class Resolved(NamedTuple):
    """The provider to use, the choice to store (None: none), and all candidates considered."""

    provider: str
    choice: Choice | None
    considered: list[Considered]

    @property
    def is_fallback(self) -> bool:
        """True for a provider that replaces one that has failed permanently."""
        return self.fallback is not None

    @property
    def fallback(self) -> Choice | None:
        """The choice of a fallback provider, None for any other."""
        return self.choice if self.choice is not None and self.choice.by == "fallback" else None


def resolve(
    configured: str,
    *,
    fallback: str,
    kept: Choice | None,
    built_with: str | None,
    model_path: str | None,
    is_file: Callable[[str], bool],
    key_origin: Callable[[str], str | None],
) -> Resolved:
    """Return which provider to use.

    `kept` is the choice stored in the index, `built_with` the provider of its vectors (None: new
    index). `key_origin` returns the origin of a provider's key, or None.
    """
    if kept is not None and kept.instead_of == configured:
        still = kept.by != "fallback" or kept.provider == fallback
        if still and (configured == "auto" or kept.by == "fallback"):
            return Resolved(kept.provider, kept, [Considered(kept.provider, None)])
    if configured != "auto":
        return Resolved(configured, None, [Considered(configured, None)])
    if built_with not in (None, "none"):
        return _found(str(built_with), "the index was built with it", [])
    if model_path is not None and is_file(model_path):
        return _found("local", f"local.model_path is {model_path}", [])
    absent = "local.model_path is not set" if model_path is None else f"{model_path} is not a file"
    considered = [Considered("local (GGUF)", absent)]
    for name in ORDER:
        if (origin := key_origin(name)) is not None:
            return _found(name, f"its key was found in {origin}", considered)
        considered.append(Considered(name, "no key was found"))
    return _found("local", "no key of another provider was found", considered)


def _found(provider: str, why: str, considered: list[Considered]) -> Resolved:
    choice = Choice(provider, "found", why, "auto")
    return Resolved(provider, choice, [*considered, Considered(provider, None)])
