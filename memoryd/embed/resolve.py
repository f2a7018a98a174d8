"""Which provider embeds: found once for an index, and then kept. Pure.

`auto` goes through the candidates in order. What was found is written into the index: a key that
comes or goes, or an outage, changes nothing; only a request or the configuration does.
"""

from collections.abc import Callable
from typing import NamedTuple

from memoryd.identity import Choice

ORDER = ("openai", "gemini", "voyage", "mistral")
"""Providers that `auto` takes when it finds their key, in this order."""


class ProviderCandidate(NamedTuple):
    """A provider that was considered; `passed_over` says why it was not taken, None if it was."""

    provider: str
    passed_over: str | None


class Resolved(NamedTuple):
    """The provider to use, the choice that is to be written down (None: none), all considered."""

    provider: str
    choice: Choice | None
    considered: list[ProviderCandidate]

    @property
    def is_fallback(self) -> bool:
        """Whether the provider stands in for one that has failed for good."""
        return self.fallback is not None

    @property
    def fallback(self) -> Choice | None:
        """The choice of a provider that stands in for one that has failed, None for any other."""
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

    `kept` is the choice that the index has, `built_with` the provider of its vectors (None: it is
    new). `key_origin` returns where the key of a provider was found, or None.
    """
    if kept is not None and kept.instead_of == configured:
        still = kept.by != "fallback" or kept.provider == fallback
        if still and (configured == "auto" or kept.by == "fallback"):
            return Resolved(kept.provider, kept, [ProviderCandidate(kept.provider, None)])
    if configured != "auto":
        return Resolved(configured, None, [ProviderCandidate(configured, None)])
    if built_with not in (None, "none"):
        choice = Choice(str(built_with), "found", "the index was built with it", "auto")
        return Resolved(choice.provider, choice, [ProviderCandidate(choice.provider, None)])
    considered: list[ProviderCandidate] = []
    provider, why = "local", "no key of another provider was found"
    if model_path is None:
        considered.append(ProviderCandidate("local (GGUF)", "local.model_path is not set"))
    elif is_file(model_path):
        why = f"local.model_path is {model_path}"
        return _found("local", why, considered)
    else:
        considered.append(ProviderCandidate("local (GGUF)", f"{model_path} is not a file"))
    for name in ORDER:
        if (origin := key_origin(name)) is not None:
            return _found(name, f"its key was found in {origin}", considered)
        considered.append(ProviderCandidate(name, "no key was found"))
    return _found(provider, why, considered)


def _found(provider: str, why: str, considered: list[ProviderCandidate]) -> Resolved:
    choice = Choice(provider, "found", why, "auto")
    return Resolved(provider, choice, [*considered, ProviderCandidate(provider, None)])
