"""Facts about the way of an agent's texts that its user is told."""

import logging
from functools import cache

from memoryd.config.load import AgentConfig
from memoryd.embed.provider import Provider
from memoryd.embed.resolve import Resolved, unused_key
from memoryd.embed.vendors.credentials import key_variables

log = logging.getLogger(__name__)


def leaving(config: AgentConfig, resolved: Resolved, provider: Provider | None) -> str | None:
    """Return a warning if texts leave this machine that nobody has sent there, else None.

    Earlier versions of `auto` took a key in the environment for consent, and indexes keep their
    choice.
    """
    choice = resolved.choice
    if config.settings.provider != "auto" or choice is None or choice.by != "found":
        return None
    if provider is None or not provider.route.leaves_machine:
        return None
    return (
        f"agent {config.agent}: texts go to {provider.route}, and {provider.name} is used because"
        f" {choice.why}; `memctl index --provider local` keeps them on this machine, and"
        f" `memctl index --provider {provider.name}` confirms {provider.name}"
    )


def notices(config: AgentConfig, resolved: Resolved, provider: Provider | None) -> list[str]:
    """Return the lines for `status` and `memctl start`."""
    lines = (leaving(config, resolved, provider), _unused(config, resolved))
    return [line for line in lines if line is not None]


def log_route(config: AgentConfig, resolved: Resolved, provider: Provider | None) -> None:
    """Log at the start of an agent where its texts go, and once a process an unused key."""
    if provider is not None and provider.route.address is not None:
        log.info("agent %s: texts go to %s", config.agent, provider.route)
        if (warning := provider.route.warning) is not None:
            log.warning("agent %s: %s", config.agent, warning)
    if (unused := _unused(config, resolved)) is not None:
        _log_once(unused)


def _unused(config: AgentConfig, resolved: Resolved) -> str | None:
    settings = config.settings
    variables = key_variables()
    return unused_key(settings.provider, resolved, fallback=settings.fallback, variables=variables)


@cache
def _log_once(line: str) -> None:
    log.info("%s", line)
