"""The way that the texts of a provider take: the only place that decides what "leaves" means.

A name such as `gpu.localhost` counts as this machine, so connections to it must end here:
`vendors/http.py` refuses any other address. Pure.
"""

import ipaddress
import re
import socket
from contextlib import suppress
from typing import NamedTuple

from memoryd_client.shared.humanize import destination


class Route(NamedTuple):
    """The way of a provider's texts.

    `address` is the host and port that receives them, None if they stay in memoryd's processes, and
    `proxy` the host and port of the proxy that passes them on. `unencrypted`: they leave the
    machine in plain text.
    """

    address: str | None = None
    leaves_machine: bool = False
    proxy: str | None = None
    unencrypted: bool = False

    def __str__(self) -> str:
        return destination(
            self.address or "memoryd",
            leaves_machine=self.leaves_machine,
            proxy=self.proxy,
            unencrypted=self.unencrypted,
        )

    @property
    def warning(self) -> str | None:
        """A warning about texts in plain text, with the fix; None if there are none."""
        if not self.unencrypted:
            return None
        return (
            f"texts go to {self}, so others on the network can read and change them;"
            " use an https:// address"
        )


INSIDE = Route()
"""The route of texts that stay in memoryd's own processes."""


def route_to(scheme: str, host: str, port: int | None, proxy: str | None) -> Route:
    """Return the route to a server, through the proxy with this address."""
    name = f"[{host}]" if ":" in host else host
    address = name if port is None else f"{name}:{port}"
    leaves = proxy is not None or not is_this_machine(host)
    shown = None if proxy is None else without_credentials(proxy)
    return Route(address, leaves, shown, unencrypted=leaves and scheme != "https")


def is_this_machine(host: str) -> bool:
    """Return whether a host is this machine, by its name or number alone (RFC 6761, 6.3)."""
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        with suppress(OSError, ValueError):  # the old forms, such as 127.1
            return _is_here(ipaddress.IPv4Address(socket.inet_aton(name)))
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return _is_here(mapped or address)


def _is_here(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    # A connection to 0.0.0.0 or :: reaches this machine too.
    return address.is_loopback or address.is_unspecified


def without_credentials(url: str) -> str:
    """Return the host and port of a proxy's address, whose password may contain any character."""
    rest = url.rpartition("://")[2] if "@" not in url else url.rpartition("@")[2]
    return re.split(r"[/?#]", rest, maxsplit=1)[0]
