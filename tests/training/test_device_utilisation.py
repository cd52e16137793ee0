"""Utilization of accelerators, as sampled by the driver's own program."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from forecaster.training import device_utilisation

DRIVER = """#!/bin/sh
printf '0, 90\\n1, 10\\n0, 70\\n1, [N/A]\\n0, 8'
touch "$(dirname "$0")/said"
exec sleep 60
"""


def test_the_mean_of_the_drivers_samples_is_returned_by_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(DRIVER, "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with device_utilisation.sampled() as utilisation:
        while not (tmp_path / "said").exists():
            time.sleep(0.01)
        assert utilisation() == {}
    assert utilisation() == pytest.approx({"0": (0.9 + 0.7 + 0.08) / 3, "1": 0.1})


def test_without_a_driver_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with device_utilisation.sampled() as utilisation:
        pass
    assert utilisation() == {}
