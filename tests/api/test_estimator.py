"""The estimator: fitted, asked, saved and loaded on one tiny fleet; what it says is what the night's parts say."""

from __future__ import annotations

import copy
import pickle
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from utilsforecast import losses
from utilsforecast.evaluation import evaluate
from utilsforecast.plotting import plot_series

import forecaster
from forecaster import Forecaster
from forecaster.api.pipeline_folder import PipelineFolder, frames_of
from forecaster.errors import BundleError, NoUsableData, SpecError

TINY = {
    "model": {"layers": 1, "hidden": 4},
    "training": {"members": 1, "epochs": 2},
    "backtest": {"days": 14},
}
DAYS = pd.date_range("2025-07-01", "2026-01-31")
COSTS = {"orders_per_driver": 20, "cost_short": 100, "cost_idle": 40}


def readings(depots: int = 3) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frames = []
    for depot in range(depots):
        promo = random.integers(0, 2, len(DAYS))
        level = (40 + 20 * depot) * (1 + 0.4 * (DAYS.day_of_week < 5)) * (1 + 0.5 * promo)
        columns = {"unique_id": depot + 1, "ds": DAYS, "y": random.poisson(level), "promo": promo}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames)


def ahead(depots: int = 3) -> pd.DataFrame:
    days = pd.date_range("2026-02-01", periods=7)
    frames = [pd.DataFrame({"unique_id": depot + 1, "ds": days, "promo": [0, 1] * 3 + [0]}) for depot in range(depots)]
    return pd.concat(frames)


def make(**arguments: Any) -> Forecaster:
    given = {"country": "DE", "preset": "quick", "quantiles": (0.1, 0.5, 0.9), "known_future": ["promo"]}
    return Forecaster(**{**given, "progress": False, "options": TINY, **arguments})


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return make().fit(readings())


@pytest.fixture(scope="module")
def saved(fitted: Forecaster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted.save(tmp_path_factory.mktemp("saved") / "model")


def test_a_forecast_has_a_row_a_depot_and_day_with_rising_quantiles(fitted: Forecaster) -> None:
    forecasts = fitted.predict(future=ahead())
    assert forecasts["unique_id"].tolist() == np.repeat([1, 2, 3], 7).tolist()
    assert forecasts["ds"].tolist() == [*pd.date_range("2026-02-01", periods=7)] * 3
    quantiles = forecasts[["Forecaster-q-0.1", "Forecaster-q-0.5", "Forecaster-q-0.9"]].to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert (forecasts["Forecaster"] == forecasts["Forecaster-q-0.5"]).all()
    assert (forecasts["Forecaster"].groupby(forecasts["unique_id"]).mean().diff().dropna() > 5).all()
    assert repr(fitted).endswith("fitted on 3 depots, 215 days up to 2026-01-31")


def test_a_covariate_that_is_not_known_ahead_is_asked_for(fitted: Forecaster) -> None:
    with pytest.raises(SpecError, match=r"future: depot '1' has no 'promo' on 2026-02-01; wanted a row"):
        fitted.predict()
    with pytest.raises(SpecError, match=r"future: depot '3' has no 'promo' on 2026-02-07"):
        fitted.predict(future=ahead().iloc[:-1])
    with pytest.raises(SpecError, match="future: found the columns depot_id, date; wanted 'promo' too, which is in"):
        fitted.predict(future=ahead().drop(columns="promo"))
    with pytest.raises(SpecError, match="future: found the columns ds, promo; wanted depot_id, date or unique_id, ds"):
        fitted.predict(future=ahead().drop(columns="unique_id"))


def test_other_readings_are_forecast_from_their_own_last_day(fitted: Forecaster) -> None:
    earlier = readings()[lambda df: df["ds"] < "2026-01-25"]
    days_ahead = readings()[["unique_id", "ds", "promo"]][lambda df: df["ds"] >= "2026-01-25"]
    forecasts = fitted.predict(earlier, future=days_ahead)
    assert forecasts["ds"].min() == pd.Timestamp("2026-01-25")
    whole = readings()[lambda df: df["ds"] >= "2026-01-25"]  # counts of days ahead among it, and of a depot elsewhere
    elsewhere = whole[whole["unique_id"] == 1].assign(unique_id=99)
    again = fitted.predict(pl.from_pandas(earlier), future=pd.concat([whole, elsewhere]))
    assert isinstance(again, pl.DataFrame)
    known = again.filter(pl.col("unique_id") < 99)
    np.testing.assert_allclose(known["Forecaster"], forecasts["Forecaster"], rtol=1e-6)
    with pytest.raises(SpecError, match="future: found the column 'price', which nothing names"):
        fitted.predict(earlier, future=days_ahead.assign(price=1))


def test_the_backtest_has_our_model_first_and_its_days_were_unseen(fitted: Forecaster) -> None:
    scores = fitted.scores.scores
    assert scores["model"].tolist() == ["Forecaster", "seasonal_naive", "seasonal_window_average"]
    rows = fitted.scores.forecasts
    ours = rows[rows["model"] == "Forecaster"]
    assert ours["cutoff"].unique().tolist() == [pd.Timestamp("2026-01-17"), pd.Timestamp("2026-01-24")]
    assert (ours["ds"] > ours["cutoff"]).all()
    wape = (ours["y"] - ours["Forecaster"]).abs().sum() / ours["y"].sum()
    assert scores["wape"][0] == pytest.approx(wape, rel=1e-5)
    assert "Forecaster" in repr(fitted.scores)


def test_utilsforecast_evaluates_and_plots_what_comes_out(fitted: Forecaster) -> None:
    rows = fitted.scores.forecasts
    ours = rows[rows["model"] == "Forecaster"].drop(columns="model").dropna()
    theirs = evaluate(ours, metrics=[losses.mae, losses.coverage], models=["Forecaster"], level=[80])
    mae = theirs[theirs["metric"] == "mae"]["Forecaster"].mean()
    assert mae == pytest.approx((ours["y"] - ours["Forecaster"]).abs().mean())
    [covered] = [name for name in theirs["metric"].unique() if name.startswith("coverage")]
    inside = ours["y"].between(ours["Forecaster-lo-80"], ours["Forecaster-hi-80"]).mean()
    assert theirs[theirs["metric"] == covered]["Forecaster"].mean() == pytest.approx(inside)
    figure = plot_series(readings(), fitted.predict(future=ahead()), models=["Forecaster"], level=[80], ids=[2])
    assert [line.get_label() for line in figure.axes[0].lines] == ["y", "Forecaster"]


def test_a_roster_costs_what_one_of_its_own_forecast_costs(fitted: Forecaster) -> None:
    roster = fitted.roster(future=ahead(), **COSTS)
    again = forecaster.roster(fitted.predict(future=ahead()), **COSTS)
    pd.testing.assert_frame_equal(roster, again)


def test_the_parts_of_a_forecast_add_up_to_it(fitted: Forecaster) -> None:
    forecasts = fitted.predict(future=ahead())
    parts = fitted.why(2, "2026-02-02", future=ahead())
    row = forecasts[(forecasts["unique_id"] == 2) & (forecasts["ds"] == "2026-02-02")]
    assert parts["part"].tolist() == ["usual on this weekday", "level and season", "promo", "holidays"]
    assert parts["orders"].sum() == pytest.approx(row["Forecaster"].item(), rel=1e-5)
    assert parts["orders"][2] != 0
    with pytest.raises(SpecError, match="day: found 2026-03-02, wanted one from 2026-02-01 to 2026-02-07"):
        fitted.why(2, "2026-03-02", future=ahead())
    with pytest.raises(SpecError, match="depot: found '9', wanted one of 1, 2, 3"):
        fitted.why(9, "2026-02-02", future=ahead())


def test_a_saved_forecaster_says_the_same_from_its_bundle(fitted: Forecaster, saved: Path) -> None:
    loaded = Forecaster.load(saved)
    ours, theirs = fitted.predict(future=ahead()), loaded.predict(future=ahead())
    assert list(ours) == list(theirs)
    np.testing.assert_allclose(ours.iloc[:, 2:], theirs.iloc[:, 2:], rtol=1e-4, atol=1e-4)
    assert loaded.get_params()["country"] == "DE"
    with pytest.raises(NoUsableData, match="scores: this forecaster was loaded"):
        _ = loaded.scores


def test_a_saved_folder_holds_no_private_key_and_is_a_pipeline(saved: Path) -> None:
    assert {key.name for key in (saved / "state/keys").iterdir()} == {"signing.pub.pem"}
    spec = forecaster.load(saved / "pipeline.yaml").spec
    assert spec.calendar.country == "DE"
    assert spec.paths.bundle(next((saved / "state/bundles").iterdir()).name).is_dir()
    assert stat.S_IMODE(saved.stat().st_mode) == 0o755
    assert spec.execution.compile_cache is None, "a folder of whoever saved it is none of whoever goes on"


def test_a_copy_has_a_folder_of_its_own(saved: Path, fitted: Forecaster, tmp_path: Path) -> None:
    loaded = Forecaster.load(saved)
    again = pickle.loads(pickle.dumps(loaded))
    expected = loaded.predict(future=ahead())
    del loaded
    pd.testing.assert_frame_equal(again.predict(future=ahead()), expected)
    copied = copy.deepcopy(fitted)
    assert copied.scores.scores.equals(fitted.scores.scores)
    assert copied.save(tmp_path / "again").is_dir()
    assert len({forecaster._work.path for forecaster in (again, copied, fitted)}) == 3


def test_a_changed_bundle_is_not_believed(saved: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(saved, copied)
    [weights] = copied.glob("state/bundles/*/weights.npz")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(BundleError, match=r"weights.npz has sha256"):
        Forecaster.load(copied)


def test_a_folder_with_something_in_it_is_not_written_over(fitted: Forecaster, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SpecError, match="found something there, wanted a new folder"):
        fitted.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(SpecError, match=r"forecaster.json: cannot be read"):
        Forecaster.load(tmp_path)


def test_a_figure_shows_what_came_and_what_is_ahead(saved: Path) -> None:
    loaded = Forecaster.load(saved)
    figure = loaded.plot(2, days=28, future=ahead())
    past, median = figure.axes[0].lines
    assert (len(past.get_xdata()), len(median.get_xdata())) == (28, 7)


def test_the_conventions_of_scikit_learn(fitted: Forecaster) -> None:
    unfitted = clone(fitted)
    assert unfitted.get_params() == fitted.get_params()
    assert repr(unfitted).endswith("not fitted")
    assert copy.copy(unfitted).set_params(horizon=3).horizon == 3
    with pytest.raises(SpecError, match="found 'horizn', wanted one of horizon"):
        unfitted.set_params(horizn=3)
    with pytest.raises(NoUsableData, match="not fitted"):
        unfitted.predict()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"horizon": 0}, r"^horizon: "),
        ({"country": "Atlantis"}, r"Atlantis"),
        ({"known_future": []}, r"df: found the column 'promo', which nothing names"),
        ({"known_future": ["promo", "cubs"]}, r"found 'cubs', which is no column of df, .* wanted one of promo$"),
        ({"known_future": "promo"}, r"known_future: found the text 'promo', wanted a list of names: \['promo'\]"),
        ({"options": {"trainning": {}}}, r"trainning"),
    ],
)
def test_wrong_arguments_are_refused_in_words_without_a_file(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence) as error:
        make(**arguments).fit(readings())
    assert "pipeline.yaml" not in str(error.value)


def test_rows_that_no_file_may_have_are_named_and_the_others_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    df = readings().astype({"y": float}).reset_index(drop=True)
    df = df.astype({"y": object})  # as a column is that a spreadsheet has filled
    df.loc[7, "y"], df.loc[9, "y"] = -3.0, "n/a"
    folder = PipelineFolder.create(tmp_path, make().pipeline_content(), frames_of(df, None, None, ["promo"]))
    knowledge, findings = folder.knowledge()
    assert "df.parquet:8: depot 1 on 2025-07-08, column 'demand': found '-3.0', wanted 0 or more" in caplog.text
    assert "df.parquet:10: depot 1 on 2025-07-10, column 'demand': found 'n/a', wanted a number" in caplog.text
    assert {finding.rule for finding in findings} == {"count_negative", "count_form"}
    assert len(knowledge.demand) == len(df) - 2
