"""The units printed by `forecaster up --install` are valid for systemd, for any file name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from flows.supervision.systemd_units import units
from forecaster.config import Spec, load
from tests.calls import Call
from tests.flows.tiny import pipeline

PORTS = {"prefect": 4200, "mlflow": 5000, "page": 8000}


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return load(pipeline(tmp_path / 'a "fleet" of 100 % $HOME', days=20))


@pytest.mark.parametrize("options", [("--install",), ("--install", "--system")])
def test_the_command_prints_both_units_and_starts_nothing(call: Call, spec: Spec, options: tuple[str, ...]) -> None:
    code, out, err = call("up", spec.folder / "pipeline.yaml", *options)
    assert (code, err) == (0, "")
    service, failed = out.split("# ")[1:]
    folder = "/etc/systemd/system" if len(options) > 1 else "~/.config/systemd/user"
    assert service.startswith(f"{folder}/forecaster-tiny.service\n")
    assert failed.startswith(f"{folder}/forecaster-tiny-failed.service\n")
    assert "OnFailure=forecaster-tiny-failed.service\n" in service
    assert ("User=" in service, "User=" in failed) == (len(options) > 1, len(options) > 1)
    assert not spec.paths.local_stack.exists()


def test_rejects_system_without_install(call: Call, spec: Spec) -> None:
    code, _, err = call("up", spec.folder / "pipeline.yaml", "--system")
    assert code == 2
    assert "--system: wanted --install with it" in err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
@pytest.mark.parametrize("system", [False, True])
def test_systemd_accepts_the_units(tmp_path: Path, spec: Spec, system: bool) -> None:
    folder = tmp_path / "units"
    folder.mkdir()
    for unit in units(spec.folder / "pipeline.yaml", spec, PORTS, system=system):
        name = Path(unit.splitlines()[0].removeprefix("# ")).name
        (folder / name).write_text(unit, "utf-8")
    command = ["systemd-analyze", "verify", *([] if system else ["--user"]), *map(str, sorted(folder.iterdir()))]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})
    ours = [line for line in process.stderr.splitlines() if "forecaster" in line]
    assert ours == [], process.stderr
