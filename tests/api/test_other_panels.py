"""Panel of other readings and of days ahead, without a model."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from forecaster.api.other_panels import FittedOn, other_panel
from forecaster.api.pipeline_folder import PipelineFolder, frames_to_learn_from
from forecaster.demand.panel.build import build
from tests.api.tiny_fleet import ahead, make, readings


@pytest.fixture
def fitted(tmp_path: Path) -> FittedOn:
    static = pd.DataFrame({"unique_id": [1, 2, 3, 9], "city": ["Bremen", "Bremen", "Kiel", "Kiel"]})
    events = pd.DataFrame({"ds": ["2026-02-03"], "kind": ["closure"], "name": ["works"], "unique_id": [1]})
    frames, content = frames_to_learn_from(readings(), static, events, ["promo"]), make().pipeline_content()
    folder = PipelineFolder.create(tmp_path, content, frames)
    knowledge, _ = folder.knowledge()
    return FittedOn(content, frames, build(knowledge, folder.spec).encoding, set())


def test_depots_missing_from_the_history_are_not_forecast(fitted: FittedOn, caplog: pytest.LogCaptureFixture) -> None:
    of_two = readings()[lambda df: df["unique_id"] == 2]
    new = ahead()[lambda df: df["unique_id"] == 1].assign(unique_id=9)
    panel, _ = other_panel(fitted, history=of_two, future=pd.concat([ahead(), new]))
    assert panel.depot_ids == ("2", "9")  # 9 is new, as with the readings of `fit`
    assert caplog.records == []
    whole, _ = other_panel(fitted, history=None, future=pd.concat([ahead(), new]))
    assert whole.depot_ids == ("1", "2", "3", "9")


def test_depot_named_only_in_the_days_ahead_is_reported_and_not_forecast(
    fitted: FittedOn, caplog: pytest.LogCaptureFixture
) -> None:
    whole = pd.concat([ahead(), *(ahead()[lambda df: df["unique_id"] == 1].assign(unique_id=new) for new in (9, 77))])
    panel, _ = other_panel(fitted, history=None, future=whole)
    assert panel.depot_ids == ("1", "2", "3", "9")
    line = "future: depot '77' is in no row of the readings nor of static, and is not forecast"
    assert line in [record.message for record in caplog.records]
