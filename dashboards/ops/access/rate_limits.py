"""Rate limiting: how much one person or one address may ask (sliding-window counters in memory)."""

from __future__ import annotations

import ipaddress
import math
import time
from typing import Literal

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from dashboards.ops.access.networks import parse_address
from dashboards.ops.access.person import Person
from forecaster.config.access import Limits

# of people who have signed in, as page.access.limits declares them
Rate = Literal["reads", "writes", "inference"]
STRANGERS = "strangers"  # that of all others


class RateLimiter:
    """Counts what was asked lately, in memory: a page is one process."""

    def __init__(self, declared: Limits) -> None:
        self._rates = {rate: parse(limit) for rate, limit in declared.model_dump().items()}
        self._counter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def wait(self, person: Person | None, address: str, rate: Rate) -> int | None:
        """Seconds to wait, when one more is too many; None: go on."""
        if person is None:
            return self._hit(STRANGERS, _block(address))
        # a screen's link may hang on many walls: each counts for itself
        wall = address if person.via == "link" and rate != "inference" else ""
        return self._hit(rate, person.via, person.name, wall)

    def _hit(self, rate: str, *key: str) -> int | None:
        limit = self._rates[rate]
        if self._counter.hit(limit, rate, *key):
            return None
        reset = self._counter.get_window_stats(limit, rate, *key).reset_time
        return max(1, math.ceil(reset - time.time()))


def _block(address: str) -> str:
    """Network that counts as one client: an address, and with IPv6 its first 64 bits."""
    parsed = parse_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
