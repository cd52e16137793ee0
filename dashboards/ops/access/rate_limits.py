"""Rate limiting: requests per person or per address (sliding-window counters in memory)."""

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

# for people who have signed in, as declared in page.access.limits
Rate = Literal["reads", "writes", "inference"]
STRANGERS = "strangers"  # the rate of all other clients


class RateLimiter:
    """Counts recent requests, in memory: a page is one process."""

    def __init__(self, declared: Limits) -> None:
        self._rates = {rate: parse(limit) for rate, limit in declared.model_dump().items()}
        self._counter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def wait(self, person: Person | None, address: str, rate: Rate) -> int | None:
        """Count a request and return None, or the seconds to wait if the limit is exceeded."""
        if person is None:
            return self._hit(STRANGERS, _block(address))
        # a screen's link may hang on many walls: each address counts separately
        wall = address if person.via == "link" and rate != "inference" else ""
        return self._hit(rate, person.via, person.name, wall)

    def _hit(self, rate: str, *key: str) -> int | None:
        limit = self._rates[rate]
        if self._counter.hit(limit, rate, *key):
            return None
        reset = self._counter.get_window_stats(limit, rate, *key).reset_time
        return max(1, math.ceil(reset - time.time()))


def _block(address: str) -> str:
    """Return the network that counts as one client: an address; for IPv6 its /64."""
    parsed = parse_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
