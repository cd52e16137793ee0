"""Rate limiting: how much one person or one address may ask (sliding-window counters in memory)."""

from __future__ import annotations

import ipaddress
import math
import time

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from dashboards.ops.access.networks import parse_address
from dashboards.ops.access.person import Person
from dashboards.ops.access.roles import SAFE
from forecaster.config.access import Limits


class RateLimiter:
    """Counts what was asked lately, in memory: a page is one process."""

    def __init__(self, declared: Limits) -> None:
        self._reads, self._writes, self._strangers = map(parse, (declared.reads, declared.writes, declared.strangers))
        self._inference = parse(declared.inference)
        self._counter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def wait(self, person: Person | None, address: str, method: str) -> int | None:
        """Seconds to wait, when one more is too many; None: go on."""
        return self._hit(*self._rate_and_key(person, address, method))

    def wait_to_infer(self, person: Person | None, address: str) -> int | None:
        """The same of a request of the inference service."""
        if person is None:
            return self._hit(self._strangers, ("stranger", _block(address)))
        return self._hit(self._inference, ("inference", person.via, person.name))

    def _hit(self, rate: RateLimitItem, key: tuple[str, ...]) -> int | None:
        if self._counter.hit(rate, *key):
            return None
        reset = self._counter.get_window_stats(rate, *key).reset_time
        return max(1, math.ceil(reset - time.time()))

    def _rate_and_key(self, person: Person | None, address: str, method: str) -> tuple[RateLimitItem, tuple[str, ...]]:
        if person is None:
            return self._strangers, ("stranger", _block(address))
        # a screen's link may hang on many walls: each counts for itself
        key = (person.via, person.name, address if person.via == "link" else "")
        return (self._reads, ("reads", *key)) if method in SAFE else (self._writes, ("writes", *key))


def _block(address: str) -> str:
    """Network that counts as one client: an address, and with IPv6 its first 64 bits."""
    parsed = parse_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
