"""Say who plans: whoever may change what is published, by name."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
PASSED_ON = ("forwarded", "x-forwarded-for", "x-real-ip")


class NotAllowed(Exception):
    """Whoever asks may not change anything; the message is a sentence."""


def planner(request: Request, named: str = "") -> str:
    """The name of who asks: `named`, on this machine alone.

    A page elsewhere must not write through a browser that runs here, so the request has to come from a page of ours,
    under a name of this machine, and not by way of a proxy. Raises NotAllowed.
    """
    client = request.client.host if request.client else ""
    if not _loopback(client) or any(name in request.headers for name in PASSED_ON):
        raise NotAllowed("overrides are saved from the machine that serves the page, and this one asks from elsewhere")
    asked = request.headers.get("host", "")
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin == "null":  # what browsers say of forms on pages that send no referrer, as ours do
        ours = site == "same-origin"
    else:
        ours = (origin is None or urlsplit(origin).netloc == asked) and site in (None, "same-origin", "none")
    if not ours or urlsplit(f"//{asked}").hostname not in LOCAL:
        raise NotAllowed("this was not asked by a page of ours under a name of this machine, such as localhost")
    return named.strip()


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
