"""The estimator on one tiny fleet: fitted, used, saved and loaded; its results equal those of the
nightly run's parts."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import forecaster
from forecaster import Forecaster
from forecaster.api import fitting
from forecaster.api.figures import depot_figure
from forecaster.api.pipeline_folder import frames_of
from forecaster.check import dry_run
from forecaster.config import load
from forecaster.errors import BundleError, NoUsableData, SpecError
from forecaster.serving.fallback import seasonal_naive
from tests.api.tiny_fleet import ahead, make, readings
from tests.panels import bare

COSTS = {"orders_per_driver": 20, "cost_short": 100, "cost_idle": 40}


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return make().fit(readings())


@pytest.fixture(scope="module")
def saved(fitted: Forecaster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted.save(tmp_path_factory.mktemp("saved") / "model")


def test_forecast_has_one_row_per_depot_and_day_with_increasing_quantiles(fitted: Forecaster) -> None:
    forecasts = fitted.predict(future=ahead())
    assert forecasts["unique_id"].tolist() == np.repeat([1, 2, 3], 7).tolist()
    assert forecasts["ds"].tolist() == [*pd.date_range("2026-02-01", periods=7)] * 3
    quantiles = forecasts[["Forecaster-q-0.1", "Forecaster-q-0.5", "Forecaster-q-0.9"]].to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert (forecasts["Forecaster"] == forecasts["Forecaster-q-0.5"]).all()
    assert (forecasts["Forecaster"].groupby(forecasts["unique_id"]).mean().diff().dropna() > 5).all()
    assert repr(fitted).endswith("fitted on 3 depots, 215 days up to 2026-01-31")


def test_rejects_a_covariate_unknown_on_days_ahead(fitted: Forecaster) -> None:
    with pytest.raises(SpecError, match=r"future: depot '1' has no 'promo' on 2026-02-01; wanted a row"):
        fitted.predict()
    with pytest.raises(SpecError, match=r"future: depot '3' has no 'promo' on 2026-02-07"):
        fitted.predict(future=ahead().iloc[:-1])
    with pytest.raises(SpecError, match="future: found the columns depot_id, date; wanted 'promo' too, which known_f"):
        fitted.predict(future=ahead().drop(columns="promo"))
    with pytest.raises(SpecError, match="future: found the columns ds, promo; wanted depot_id, date or unique_id, ds"):
        fitted.predict(future=ahead().drop(columns="unique_id"))
    with pytest.raises(SpecError, match=r"history: found the columns .* pass covariates of the days ahead as future=…"):
        fitted.predict(ahead())


def test_reports_a_misspelled_depot_in_the_days_ahead(fitted: Forecaster, caplog: pytest.LogCaptureFixture) -> None:
    misspelt = ahead().astype({"unique_id": str}).replace({"unique_id": {"3": "3-"}})
    with pytest.raises(SpecError, match=r"depot '3' has no 'promo' .* did you mean this depot by '3-', which no"):
        fitted.predict(future=misspelt)
    both = pd.concat([ahead().astype({"unique_id": str}), misspelt]).drop_duplicates()
    for _ in range(2):
        fitted.predict(future=both)
    line = "future: depot '3-' is in no row of the readings nor of static, and is not forecast; did you mean '3'?"
    assert [record.message for record in caplog.records].count(line) == 1


def test_other_readings_are_forecast_from_their_own_cutoff(fitted: Forecaster) -> None:
    earlier = readings()[lambda df: df["ds"] < "2026-01-25"]
    days_ahead = readings()[["unique_id", "ds", "promo"]][lambda df: df["ds"] >= "2026-01-25"]
    forecasts = fitted.predict(earlier, future=days_ahead)
    assert forecasts["ds"].min() == pd.Timestamp("2026-01-25")
    whole = readings()[lambda df: df["ds"] >= "2026-01-25"]  # including counts of days ahead, and of a depot elsewhere
    elsewhere = whole[whole["unique_id"] == 1].assign(unique_id=99)
    again = fitted.predict(pl.from_pandas(earlier), future=pd.concat([whole, elsewhere]))
    assert isinstance(again, pl.DataFrame)
    known = again.filter(pl.col("unique_id") < 99)
    np.testing.assert_allclose(known["Forecaster"], forecasts["Forecaster"], rtol=1e-4)  # four depots: in NumPy
    with pytest.raises(SpecError, match="future: found the column 'price', which nothing names"):
        fitted.predict(earlier, future=days_ahead.assign(price=1))


def test_counts_take_precedence_over_days_ahead_that_begin_before_the_cutoff(
    fitted: Forecaster, caplog: pytest.LogCaptureFixture
) -> None:
    expected = fitted.predict(future=ahead())
    past = readings()[["unique_id", "ds", "promo"]][lambda df: df["ds"] >= "2026-01-20"]
    from_earlier = pd.concat([past, ahead()])
    for future in (from_earlier, from_earlier.assign(ds=from_earlier["ds"].dt.strftime("%Y-%m-%d"))):
        pd.testing.assert_frame_equal(fitted.predict(future=future), expected)
        pd.testing.assert_frame_equal(fitted.predict(readings(), future=future), expected)
    blank = from_earlier.assign(unique_id=from_earlier["unique_id"].astype(str) + " ")
    pd.testing.assert_frame_equal(fitted.predict(future=blank), expected)
    line = "future: 36 rows for days that have a count in the readings; the readings take precedence"
    assert [record.message for record in caplog.records] == [line]


def test_days_ahead_without_a_count_in_the_readings_are_replaced(fitted: Forecaster) -> None:
    otherwise = ahead().assign(promo=1 - ahead()["promo"])
    pd.testing.assert_frame_equal(
        fitted.predict(pd.concat([readings(), otherwise.assign(y=np.nan)]), future=ahead()),
        fitted.predict(future=ahead()),
    )


def test_rejects_a_history_without_a_covariate(fitted: Forecaster) -> None:
    with pytest.raises(SpecError, match=r"^history: found the columns depot_id, date, demand; wanted 'promo' too"):
        fitted.predict(readings().drop(columns="promo"), future=ahead())


def test_changed_arguments_do_not_affect_the_fitted_model(fitted: Forecaster, tmp_path: Path) -> None:
    expected, arguments = fitted.predict(future=ahead()), fitted.get_params()
    try:
        fitted.set_params(country="US", horizon=3, known_future=(), quantiles=(0.1, 0.3, 0.5, 0.9))
        pd.testing.assert_frame_equal(fitted.predict(future=ahead()), expected)
        pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fitted)).predict(future=ahead()), expected, rtol=1e-4)
        loaded = Forecaster.load(fitted.save(tmp_path / "model"))
    finally:
        fitted.set_params(**arguments)
    assert repr(loaded) == repr(fitted)
    pd.testing.assert_frame_equal(loaded.predict(future=ahead()), expected, rtol=1e-4)


def test_backtest_lists_our_model_first_and_scores_unseen_days(fitted: Forecaster) -> None:
    scores = fitted.scores.scores
    assert scores["model"].tolist() == ["Forecaster", "seasonal_naive", "seasonal_window_average"]
    ours = fitted.scores.forecasts
    assert ours["cutoff"].unique().tolist() == [pd.Timestamp("2026-01-17"), pd.Timestamp("2026-01-24")]
    assert (ours["ds"] > ours["cutoff"]).all()
    wape = (ours["y"] - ours["Forecaster"]).abs().sum() / ours["y"].sum()
    assert scores["wape"][0] == pytest.approx(wape, rel=1e-5)
    assert "Forecaster" in repr(fitted.scores)


def test_reports_a_baseline_that_beats_the_model(fitted: Forecaster, caplog: pytest.LogCaptureFixture) -> None:
    assert fitted._fitted is not None
    worse, better = sorted(fitted._fitted.scores.values(), key=lambda scores: -scores.metrics["mase"])[:2]
    fitting._warn_of_better({"candidate": better, "seasonal_naive": worse}, "candidate")
    assert not caplog.records
    fitting._warn_of_better({"candidate": worse, "seasonal_naive": better}, "candidate")
    [record] = caplog.records
    numbers = f"{better.metrics['mase']:.3f}, the model {worse.metrics['mase']:.3f}"
    assert record.message.endswith(f"a baseline was better than the model: MASE seasonal_naive {numbers}; see `scores`")


def test_utilsforecast_evaluates_and_plots_the_forecasts(fitted: Forecaster) -> None:
    from utilsforecast import losses
    from utilsforecast.evaluation import evaluate
    from utilsforecast.plotting import plot_series

    rows = fitted.scores.forecasts
    models = ["Forecaster", "seasonal_naive", "seasonal_window_average"]
    theirs = evaluate(rows, metrics=[losses.mae, losses.coverage], models=models, level=[80])
    for model in models:
        mae = theirs[theirs["metric"] == "mae"][model].mean()
        assert mae == pytest.approx((rows["y"] - rows[model]).abs().mean()), model
    ours = rows
    [covered] = [name for name in theirs["metric"].unique() if name.startswith("coverage")]
    inside = ours["y"].between(ours["Forecaster-lo-80"], ours["Forecaster-hi-80"]).mean()
    assert theirs[theirs["metric"] == covered]["Forecaster"].mean() == pytest.approx(inside)
    figure = plot_series(readings(), fitted.predict(future=ahead()), models=["Forecaster"], level=[80], ids=[2])
    assert [line.get_label() for line in figure.axes[0].lines] == ["y", "Forecaster"]


def test_roster_equals_that_of_its_own_forecast_frame(fitted: Forecaster) -> None:
    roster = fitted.roster(future=ahead(), **COSTS)
    again = forecaster.roster(fitted.predict(future=ahead()), **COSTS)
    pd.testing.assert_frame_equal(roster, again)


def test_parts_of_a_forecast_add_up_to_it(fitted: Forecaster) -> None:
    forecasts = fitted.predict(future=ahead())
    parts = fitted.why(2, "2026-02-02", future=ahead())
    row = forecasts[(forecasts["unique_id"] == 2) & (forecasts["ds"] == "2026-02-02")]
    assert parts["part"].tolist() == ["usual on this weekday", "level and season", "promo", "holidays"]
    assert parts["orders"].sum() == pytest.approx(row["Forecaster"].item(), rel=1e-5)
    assert parts["orders"][2] != 0
    with pytest.raises(SpecError, match="day: found 2026-03-02, wanted one from 2026-02-01 to 2026-02-07"):
        fitted.why(2, "2026-03-02", future=ahead())
    with pytest.raises(SpecError, match=r"depot: found '9', wanted one of 1, 2, 3$"):
        fitted.why(9, "2026-02-02", future=ahead())
    with pytest.raises(SpecError, match="wanted one of 1, 2, 3; did you mean '2'"):
        fitted.plot("2.", future=ahead())


def test_parts_of_a_band_add_up_to_its_width(fitted: Forecaster, saved: Path) -> None:
    forecasts = fitted.predict(future=ahead())
    row = forecasts[(forecasts["unique_id"] == 2) & (forecasts["ds"] == "2026-02-05")]
    width = (row["Forecaster-hi-80"] - row["Forecaster-lo-80"]).item()
    for model in (fitted, Forecaster.load(saved)):
        parts = model.why(2, "2026-02-05", of="band", future=ahead()).set_index("part")["orders"]
        names = ["own scatter", "network", "days ahead", "surprising last week"]
        assert list(parts.index) == [*names, "calibration", "largest count", "young depot"]
        assert parts.sum() == pytest.approx(width, rel=1e-4)
        assert parts["young depot"] == 0, "215 days are known of it"
    counts = readings()[lambda df: df["unique_id"] == 2].set_index("ds")["y"]
    usual = sum(counts.shift(7 * week) for week in range(1, 5)) / 4
    low, high = np.quantile((np.log1p(counts) - np.log1p(usual)).dropna(), (0.1, 0.9))
    median = row["Forecaster"].item() + 1
    assert parts["own scatter"] == pytest.approx(median * (np.exp(high) - np.exp(low)), rel=0.05)
    with pytest.raises(SpecError, match="of: found 'width', wanted 'forecast' or 'band'"):
        fitted.why(2, "2026-02-05", of="width", future=ahead())


def test_saved_forecaster_gives_the_same_forecasts_from_its_bundle(fitted: Forecaster, saved: Path) -> None:
    loaded = Forecaster.load(saved)
    ours, theirs = fitted.predict(future=ahead()), loaded.predict(future=ahead())
    assert list(ours) == list(theirs)
    np.testing.assert_allclose(ours.iloc[:, 2:], theirs.iloc[:, 2:], rtol=1e-4, atol=1e-4)
    assert loaded.get_params()["country"] == "DE"
    assert repr(loaded) == repr(fitted)
    with pytest.raises(NoUsableData, match="scores: this forecaster was loaded"):
        _ = loaded.scores


def test_saved_folder_is_a_pipeline_without_a_private_key(saved: Path) -> None:
    assert {key.name for key in (saved / "state/keys").iterdir()} == {"signing.pub.pem"}
    spec = forecaster.load(saved / "pipeline.yaml").spec
    assert spec.calendar.country == "DE"
    assert spec.paths.bundle(next((saved / "state/bundles").iterdir()).name).is_dir()
    assert stat.S_IMODE(saved.stat().st_mode) == 0o755
    assert spec.execution.compile_cache is None, "a folder of whoever saved it is none of whoever goes on"


def test_copy_has_a_folder_of_its_own(saved: Path, fitted: Forecaster, tmp_path: Path) -> None:
    loaded = Forecaster.load(saved)
    again = pickle.loads(pickle.dumps(loaded))
    expected = loaded.predict(future=ahead())
    del loaded
    pd.testing.assert_frame_equal(again.predict(future=ahead()), expected)
    copied = copy.deepcopy(fitted)
    assert copied.scores.scores.equals(fitted.scores.scores)
    assert copied.save(tmp_path / "again").is_dir()
    assert len({forecaster._work.path for forecaster in (again, copied, fitted)}) == 3


def test_rejects_a_modified_bundle(saved: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(saved, copied)
    [weights] = copied.glob("state/bundles/*/weights.npz")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(BundleError, match=r"weights.npz has sha256"):
        Forecaster.load(copied)


def test_save_does_not_overwrite_a_folder_with_files(fitted: Forecaster, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SpecError, match="exists and is not an empty folder, wanted a new or empty one"):
        fitted.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(SpecError, match=r"forecaster.json: cannot be read"):
        Forecaster.load(tmp_path)


def test_figure_shows_past_counts_and_the_forecast(saved: Path) -> None:
    loaded = Forecaster.load(saved)
    figure = loaded.plot(2, days=28, future=ahead())
    past, median = figure.axes[0].lines
    assert (len(past.get_xdata()), len(median.get_xdata())) == (28, 7)


def test_figure_has_gaps_on_closed_days() -> None:
    depots = bare([[5.0] * 14], closed=[(0, 6), (0, 13), (0, 20)])
    said = seasonal_naive(depots, (0.1, 0.5, 0.9))
    past, median = depot_figure(said, depots, "D0", 14).axes[0].lines
    assert np.flatnonzero(np.isnan(past.get_ydata())).tolist() == [6, 13]
    assert np.flatnonzero(np.isnan(median.get_ydata())).tolist() == [6]


def test_findings_equal_those_of_check(tmp_path: Path) -> None:
    counts = readings()
    counts.loc[(counts["unique_id"] == 2) & (counts["ds"].dt.day_of_week == 6), "y"] = np.nan  # never on Sundays
    counts.loc[(counts["unique_id"] == 3) & (counts["ds"] >= "2026-01-20"), "promo"] = np.nan
    model = make().fit(counts)
    spec = load(model.save(tmp_path / "model") / "pipeline.yaml")
    outcome = dry_run.check(spec, now=datetime.now(UTC))
    assert outcome.ingested is not None
    expected = {finding.message for finding in outcome.ingested.findings if "2026-02-01 to" not in finding.message}
    assert {"closed_weekday", "covariate_missing"} <= set(model.findings["rule"])
    assert set(model.findings["message"]) == expected


def test_follows_scikit_learn_conventions(fitted: Forecaster) -> None:
    from sklearn.base import clone

    unfitted = clone(fitted)
    assert unfitted.get_params() == fitted.get_params()
    assert repr(unfitted).endswith("not fitted")
    assert copy.copy(unfitted).set_params(horizon=3).horizon == 3
    with pytest.raises(SpecError, match="found 'horizn', wanted one of horizon"):
        unfitted.set_params(horizn=3)
    with pytest.raises(NoUsableData, match="not fitted"):
        unfitted.predict()


@pytest.mark.parametrize("day", ["2026-02-30", "tomorrow", "2026-02-09", object()])
def test_rejects_invalid_days_and_days_not_ahead(fitted: Forecaster, day: Any) -> None:
    with pytest.raises(SpecError, match=r"^day: found .*, wanted (a date such as|one from 2026-02-01 to 2026-02-07)"):
        fitted.why(2, day, future=ahead())


def test_timestamp_with_a_zone_is_its_own_local_day(fitted: Forecaster) -> None:
    of_day = fitted.why(2, "2026-02-03", future=ahead())
    stamp = pd.Timestamp("2026-02-03", tz="Europe/Berlin")
    pd.testing.assert_frame_equal(fitted.why(2, stamp, future=ahead()), of_day)


@pytest.mark.parametrize("days", [-1, 2.5, "56"])
def test_rejects_a_figure_of_an_invalid_number_of_days(fitted: Forecaster, days: Any) -> None:
    with pytest.raises(SpecError, match=r"^days: found .*, wanted a whole number"):
        fitted.plot(2, days=days, future=ahead())


def test_finding_is_logged_once_and_names_the_value_that_counts(
    fitted: Forecaster, caplog: pytest.LogCaptureFixture
) -> None:
    row = readings().iloc[[5]]
    twice = pd.concat([readings(), row.assign(y=777)])
    for _ in range(2):
        fitted.predict(twice, future=ahead())
    value = row["y"].item()
    sentence = rf"superseded × 1: df.parquet:6: .*: found '{value}', wanted one value .*: '777', df.parquet:646"
    assert sum(bool(re.search(sentence, record.message)) for record in caplog.records) == 1


def test_empty_findings_keep_their_column_types(fitted: Forecaster) -> None:
    assert len(fitted.findings) == 0
    in_polars = copy.copy(fitted)
    in_polars._kind = frames_of(pl.from_pandas(readings()), None, None, ["promo"]).kind
    assert in_polars.findings.dtypes == [pl.String, pl.String, pl.Int64, pl.String]
