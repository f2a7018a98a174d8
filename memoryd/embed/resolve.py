"""Choice of the provider that embeds, made once for an index and then kept. Pure.

`auto` stays on this machine: a key may be there for another purpose, so finding one is no consent
to send texts to its vendor. `auto-remote` is that consent, and tries the candidates in order. The
choice is stored in the index: a key that appears or disappears, or an outage, changes nothing; only
a request or the configuration does.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from memoryd.identity import Choice

AUTOMATIC = ("auto", "auto-remote")
"""Values of `provider` that leave the choice to memoryd."""
ORDER = ("openai", "gemini", "voyage", "mistral")
"""Providers that `auto-remote` chooses if it finds their key, in this order."""


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
    index). `key_origin` returns the origin of a provider's key, or None; `auto` asks for none.
    """
    if kept is not None and kept.instead_of == configured:
        still = kept.by != "fallback" or kept.provider == fallback
        if still and (configured in AUTOMATIC or kept.by == "fallback"):
            return Resolved(kept.provider, kept, [Considered(kept.provider, None)])
    if configured not in AUTOMATIC:
        return Resolved(configured, None, [Considered(configured, None)])
    remote = configured == "auto-remote"
    if built_with not in (None, "none") and not (remote and built_with == "local"):
        return _found(configured, str(built_with), "the index was built with it", [])
    if model_path is not None and is_file(model_path):
        return _found(configured, "local", f"local.model_path is {model_path}", [])
    absent = "local.model_path is not set" if model_path is None else f"{model_path} is not a file"
    considered = [Considered("local (GGUF)", absent)]
    if not remote:
        return _found(configured, "local", "auto stays on this machine", considered)
    for name in ORDER:
        if (origin := key_origin(name)) is not None:
            return _found(configured, name, f"its key was found in {origin}", considered)
        considered.append(Considered(name, "no key was found"))
    return _found(configured, "local", "no key of another provider was found", considered)


def unused_key(
    configured: str, resolved: Resolved, *, fallback: str, variables: Mapping[str, str]
) -> str | None:
    """Return a line about keys that `auto` does not use, None if there are none.

    `variables` are the variables of the keys that are there, by provider. No line is for those who
    chose a provider themselves, in the configuration or by a request.
    """
    choice = resolved.choice
    by_itself = configured == "auto" and choice is not None and choice.by == "found"
    names = [name for name in ORDER if name in variables and name != fallback]
    if not by_itself or resolved.provider != "local" or not names:
        return None
    found = " and ".join(variables[name] for name in names)
    verb, use = ("is", "uses it") if len(names) == 1 else ("are", "uses the first")
    way = f'`memctl index --provider {names[0]}` or provider = "{names[0]}" in the configuration'
    return f"{found} {verb} set but not used; {way} {use}"


def _found(configured: str, provider: str, why: str, considered: list[Considered]) -> Resolved:
    choice = Choice(provider, "found", why, configured)
    return Resolved(provider, choice, [*considered, Considered(provider, None)])
