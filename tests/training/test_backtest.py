"""The backtest with a champion: the message about a champion that has seen held-out days."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.training import backtest
from tests import fleets
from tests.fleets import AS_OF, Fleet

LAST = date(2024, 4, 9)  # end of the history: 30 held-out days begin on 11 March


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return fleets.build_fleet(tmp_path_factory.mktemp("fleet"))


def troubles_of(fleet: Fleet, validated_until: date | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the messages about a champion whose training used days up to this one."""
    real = backtest.bundles.load

    def load(*arguments: Any) -> Any:
        bundle = real(*arguments)
        if validated_until is not None:
            bundle.manifest["training"] = {
                **bundle.manifest["training"],
                "validated_until": validated_until.isoformat(),
            }
        return bundle

    monkeypatch.setattr(backtest.bundles, "load", load)
    knowledge = read_as_of(fleet.spec, as_of=AS_OF)
    panel = panels.build(knowledge, fleet.spec)
    assert panel.cutoff == LAST
    scores, troubles = backtest.backtest({}, fleet.bundle, panel, knowledge, fleet.spec)
    assert backtest.CHAMPION in scores
    return troubles


@pytest.mark.parametrize("validated_until", [None, date(2024, 3, 1), date(2024, 3, 10)])
def test_a_champion_without_held_out_days_gets_no_message(
    fleet: Fleet, validated_until: date | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert troubles_of(fleet, validated_until, monkeypatch) == []


@pytest.mark.parametrize(
    ("validated_until", "known", "last"),
    [(date(2024, 3, 11), 1, "2024-03-11"), (date(2024, 3, 31), 21, "2024-03-31"), (date(2024, 4, 20), 30, LAST)],
)
def test_a_champion_that_learned_from_held_out_days_is_reported(
    fleet: Fleet, validated_until: date, known: int, last: str | date, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it was trained while fewer days were held out."""
    assert [str(trouble) for trouble in troubles_of(fleet, validated_until, monkeypatch)] == [
        f"the champion was trained on {known} of the 30 held-out days, up to {last}: its scores are too optimistic"
    ]
