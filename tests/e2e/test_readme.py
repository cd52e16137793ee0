"""The README, followed to the letter."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import load
from forecaster.errors import DEGRADED, PUBLISHED
from forecaster.ledger.store import Ledger
from tests import prefect_home

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
OWN = README.split("## Your own CSV in fifteen minutes")[1].split("\n## ")[0]


def block(language: str) -> str:
    [code] = re.findall(rf"```{language}\n(.*?)```", OWN, re.S)
    return str(code)


def demand(header: str) -> str:
    """A year and a half of five sites up to yesterday, in the README's columns."""
    rng = np.random.default_rng(5)
    yesterday = date.today() - timedelta(days=1)
    days = [yesterday - timedelta(days=back) for back in range(500, -1, -1)]
    lines = [header]
    for site, level in (("Kreuzberg", 420), ("Wedding", 380), ("Mitte", 250), ("Pankow", 160), ("Köpenick", 90)):
        week = 1 + 0.25 * np.sin(np.arange(7) + level)
        lines += [f"{site},{day},{rng.poisson(level * week[day.weekday()])}" for day in days]
    return "\n".join(lines) + "\n"


@pytest.mark.e2e
def test_own_csv_section_works_as_written(tmp_path: Path) -> None:
    folder = tmp_path / "my-fleet"
    folder.mkdir()
    (folder / "demand.csv").write_text(demand(block("csv").splitlines()[0]), "utf-8")
    # Training is the only step that takes minutes.
    quick = "model: {layers: 1, hidden: 4, boosted: false}\ntraining: {epochs: 3, members: 1, learning_rate: 1.0e-2}\n"
    quick += "gate: {beat: [], coverage: [0.0, 1.0], max_bias: 9.0}\n"
    (folder / "pipeline.yaml").write_text(block("yaml") + quick, "utf-8")
    prefect_home.put_into(folder / "var")
    commands = [line for line in block("sh").splitlines() if line]
    assert [line.split()[1] for line in commands] == ["check", "run", "serve"]
    for command in commands[:2]:
        arguments = command.removeprefix(".venv/bin/forecaster ").split()
        process = subprocess.run(
            [sys.executable, "-m", "forecaster", *arguments],
            cwd=tmp_path,
            env=None,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode in (PUBLISHED, DEGRADED), process.stderr
        assert "Traceback" not in process.stderr
    spec = load(folder / "pipeline.yaml")
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        depots = ledger.depots(head.publication_id)
    assert {depot.depot_id for depot in depots} == {"Kreuzberg", "Wedding", "Mitte", "Pankow", "Köpenick"}
    assert all(day.drivers for depot in depots for day in depot.days)
    assert head.tier == "fresh"


def test_every_file_linked_in_the_readme_exists() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
