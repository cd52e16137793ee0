"""Commands collect garbage infrequently; long-running servers do not."""

from __future__ import annotations

import gc
import sys

from dashboards.ops.http import listening
from forecaster.core.processes import garbage


def test_a_command_collects_seldom_and_a_server_at_pythons_default() -> None:
    before, switch = gc.get_threshold(), sys.getswitchinterval()
    try:
        garbage.look_seldom()
        assert gc.get_threshold() == garbage.SELDOM
        listening.quick()
        assert gc.get_threshold()[:2] == garbage.USUAL[:2]
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        sys.setswitchinterval(switch)
