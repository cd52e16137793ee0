"""A champion that differs from the pipeline file is explained in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.ledger.store import Ledger
from forecaster.operations import plan
from forecaster.publishing import champion_fit
from tests import fleets
from tests.calls import Call
from tests.fleets import AS_OF

UNTIL = "; it stays in use until a night admits another."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Pipeline file of a fleet whose last run used the same file."""
    fleet = fleets.build_fleet(tmp_path / "fleet")
    plan.save_spec(fleet.spec)
    return fleet.file


def changed(file: Path, before: str, after: str) -> Path:
    text = file.read_text("utf-8")
    assert before in text
    file.write_text(text.replace(before, after), "utf-8")
    return file


def sentences(file: Path) -> list[str]:
    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        return champion_fit.of_champion(spec, ledger)


def noted(call: Call, file: Path) -> tuple[str, str | None]:
    _, out, _ = call("predict", file, "--as-of", AS_OF.isoformat(), "--json")
    published = json.loads(out)
    return published["tier"], published["note"]


def test_unchanged_pipeline_file_gives_no_notes(call: Call, file: Path) -> None:
    assert sentences(file) == []
    assert noted(call, file) == ("champion", None)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("horizon: 3", "horizon: 2", "the champion forecasts 3 days, the pipeline file wants 2"),
        ("horizon: 3", "horizon: 7", "the champion forecasts 3 days, the pipeline file wants 7"),
        (
            "[promo]",
            "[]",
            "the champion reads the known-future covariate promo, which the pipeline file does not have",
        ),
    ],
)
def test_incompatible_champion_is_reported_with_the_next_step(
    call: Call, file: Path, before: str, after: str, reason: str
) -> None:
    changed(file, before, after)
    wanted = f"{reason}; the next night trains one"
    assert noted(call, file) == ("fallback", f"Seasonal-naive fallback: {wanted}.")
    assert sentences(file) == [f"T{wanted[1:]}; until then the seasonal naive forecasts."]
    for command in ("champions", "plan", "doctor", "status"):
        assert f"T{wanted[1:]}" in call(command, file)[1], command


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("0.5", "0.4, 0.5", "The champion forecasts the quantiles 0.1, 0.5, 0.9, the pipeline file wants "),
        ("[promo]", "[promo, rain]", "The champion was trained without the known-future covariate rain"),
        ("static: [city]", "static: []", "The champion describes depots by city, the pipeline file by none"),
    ],
)
def test_usable_champion_reports_its_differences(
    call: Call, file: Path, before: str, after: str, sentence: str
) -> None:
    changed(file, before, after)
    [found] = sentences(file)
    assert found.startswith(sentence)
    assert found.endswith(UNTIL)
    tier, note = noted(call, file)
    assert tier == "champion"
    assert found in str(note)


def test_renamed_pipeline_reports_the_champion_of_its_old_name(call: Call, file: Path) -> None:
    changed(file, "name: small", "name: tiny\nfleet: small")
    why = "he champion of 'small' forecasts under that name alone; the next night of 'tiny' trains one"
    assert noted(call, file) == ("fallback", f"Seasonal-naive fallback: t{why}.")
    assert sentences(file) == [f"T{why}."]
    assert f"T{why}." in call("champions", file)[1]
    assert f"t{why}" in call("doctor", file)[1]
