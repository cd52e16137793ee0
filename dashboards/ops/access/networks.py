"""Client addresses: where a request comes from, and whether it passed a declared (trusted) proxy."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.requests import Request

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
# headers that proxies add
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def parse_address(text: str) -> IPAddress | None:
    try:
        address = ipaddress.ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def peer(request: Request) -> IPAddress | None:
    """Address at the other end of the connection, regardless of headers."""
    return parse_address(request.client.host) if request.client else None


def is_proxy(address: IPAddress | None, declared: Sequence[str]) -> bool:
    if address is None:
        return False
    return any(address in ipaddress.ip_network(network) for network in declared)


def origin(request: Request, declared: Sequence[str]) -> str:
    """Return the client's address: the last one that a declared proxy forwarded, else the peer's."""
    peer_address = peer(request)
    if is_proxy(peer_address, declared):
        forwarded = ",".join(request.headers.getlist("x-forwarded-for")).split(",")[-1]
        return str(parse_address(forwarded) or peer_address)
    return str(peer_address)


def names_this_machine(request: Request) -> bool:
    """True if the browser knows this page by a name that no other site can point here.

    Reads the raw header: the framework replaces a malformed name by the address on which it
    listens.
    """
    return re.fullmatch(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", request.headers.get("host", "").lower()) is not None


def is_local(name: str) -> bool:
    """True if a page that listens here is reachable only from this machine."""
    address = parse_address(name)
    return name.lower() == "localhost" or (address is not None and address.is_loopback)
