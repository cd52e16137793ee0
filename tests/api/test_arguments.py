"""Arguments and frames of a forecaster, and the error messages for wrong ones."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.api.pipeline_folder import PipelineFolder, frames_of, frames_to_learn_from
from forecaster.errors import NoUsableData, SourceError, SpecError
from tests.api.tiny_fleet import make, readings


def test_accepts_numpy_numbers_as_arguments(tmp_path: Path) -> None:
    of_numpy = make(
        horizon=np.int64(3),
        seed=np.int32(5),
        quantiles=np.array([0.1, 0.5, 0.9]),
        known_future=pd.Index(["promo"]),
        options={"training": {"members": np.int64(1), "learning_rate": np.float32(0.5)}},
    )
    plain = make(horizon=3, seed=5, options={"training": {"members": 1, "learning_rate": 0.5}})
    assert of_numpy.pipeline_content() == plain.pipeline_content()
    frames = frames_of(readings(), None, None, ["promo"])
    assert PipelineFolder.create(tmp_path, of_numpy.pipeline_content(), frames).spec.training.seed == 5
    assert repr(of_numpy) == repr(plain)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"horizon": 0}, r"^horizon: "),
        ({"country": "Atlantis"}, r"Atlantis"),
        ({"known_future": []}, r"df: found the column 'promo', which nothing names"),
        ({"known_future": ["promo", "cubs"]}, r"found 'cubs', which is no column of df, .* wanted one of promo$"),
        ({"known_future": "promo"}, r"known_future: found the text 'promo', wanted a list of names: \['promo'\]"),
        ({"options": {"trainning": {}}}, r"^options: unknown key 'trainning'"),
        ({"known_future": ["promo", "promo"]}, r"^known_future: found promo more than once, wanted each name once"),
        ({"known_future": None}, r"^known_future: found None, wanted a list of names"),
        ({"options": ["training"]}, r"^options: found \['training'\], wanted a mapping"),
        ({"quantiles": 0.5}, r"^quantiles: found 0.5, wanted a valid tuple"),
        ({"quantiles": (0.1, 0.5)}, r"^quantiles: \[0.9\] missing"),
        ({"preset": "nigtly"}, r"^preset: found 'nigtly', .* did you mean 'nightly'"),
        ({"seed": 0.5}, r"^seed: found 0.5"),
    ],
)
def test_error_for_wrong_arguments_names_no_file(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence) as error:
        make(**arguments).fit(readings())
    assert "forecaster-" not in "".join(traceback.format_exception(error.value))
    assert "pipeline.yaml" not in str(error.value)


def test_error_for_wrong_frames_names_the_frame_and_no_path() -> None:
    with pytest.raises(SpecError, match="df: found the columns 'price', 'rain', which nothing names; wanted each of"):
        make().fit(readings().assign(rain=0, price=1))
    with pytest.raises(NoUsableData, match=r"^df: found no row, wanted one for each depot and day"):
        make().fit(readings().iloc[:0])
    with pytest.raises(SourceError, match=r"^static: column 'row' has a name") as error:
        make().fit(readings(), static=pd.DataFrame({"unique_id": [1, 2, 3], "row": "a"}))
    assert "/" not in str(error.value)
    with pytest.raises(
        NoUsableData, match=r"^lost_rows: found 645 of 645 rows in quarantine .*: depot 1 on 2025-07-01"
    ):
        make().fit(readings().assign(y=-1))
    with pytest.raises(SpecError, match=r"^events: found the columns ds, kind; wanted 'name' too"):
        make().fit(readings(), events=pd.DataFrame({"ds": ["2026-01-01"], "kind": ["closure"]}))
    with pytest.raises(SpecError, match=r"^baselines.0: found 'prophett'"):
        make().backtest(baselines=["prophett"], df=readings())
    with pytest.raises(SpecError, match=r"^baselines: found the text 'theta', wanted a list of names: \['theta'\]"):
        make().backtest(baselines="theta", df=readings())
    with pytest.raises(SpecError, match=r"^horizon: found '7', wanted a whole number of 1 or more"):
        make(horizon="7").backtest(df=readings())


def test_invalid_rows_are_reported_and_the_others_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    df = readings().astype({"y": float}).reset_index(drop=True)
    df = df.astype({"y": object})  # as in a column filled by a spreadsheet
    df.loc[7, "y"], df.loc[9, "y"] = -3.0, "n/a"
    folder = PipelineFolder.create(tmp_path, make().pipeline_content(), frames_of(df, None, None, ["promo"]))
    knowledge, findings = folder.knowledge()
    assert "df.parquet:8: depot 1 on 2025-07-08, column 'demand': found '-3.0', wanted 0 or more" in caplog.text
    assert "df.parquet:10: depot 1 on 2025-07-10, column 'demand': found 'n/a', wanted a number" in caplog.text
    assert {finding.rule for finding in findings} == {"count_negative", "count_form"}
    assert len(knowledge.demand) == len(df) - 2


def test_kinds_of_events_are_matched_ignoring_case() -> None:
    events = pd.DataFrame({"ds": ["2026-01-01"], "kind": ["Fair"], "name": ["F"]})
    frames_to_learn_from(readings(), None, events, ["promo", "fair"])
    with pytest.raises(SpecError, match="found 'fare', which is no column of df, and no kind of the frame `events`"):
        frames_to_learn_from(readings(), None, events, ["promo", "fare"])


def test_reports_depots_whose_counts_end_long_before_the_others(tmp_path: Path) -> None:
    df = readings()[lambda df: (df["ds"] < "2026-01-18") | (df["unique_id"] == 2)]
    folder = PipelineFolder.create(tmp_path, make().pipeline_content(), frames_of(df, None, None, ["promo"]))
    [finding] = folder.knowledge()[1]
    assert (finding.rule, finding.severity, finding.count) == ("early_end", "warn", 2)
    assert finding.message.startswith(
        "depot 1: found no reading for 14 days up to 2026-01-31, and at 2 depots for more"
    )
