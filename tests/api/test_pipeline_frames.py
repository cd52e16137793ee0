"""A pipeline's results as frames: the rows of the ledger and the lake, and clear errors for missing
ones."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import forecaster
from forecaster import Pipeline
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel.build import build
from forecaster.errors import NoSuchRow, NoUsableData, SpecError
from forecaster.evaluation import backtest
from forecaster.lake import Lake
from forecaster.ledger.store import Ledger
from forecaster.planning import override_table
from forecaster.planning.overrides import ProposedOverride
from forecaster.publishing.predict import predict
from forecaster.serving.fallback import seasonal_naive
from forecaster.training import score_rows
from tests.fleets import AS_OF, Fleet, build_fleet

STAFFING = "staffing: {orders_per_driver: 20, cost_short: 38, cost_idle: 22}\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    fleet = build_fleet(tmp_path_factory.mktemp("fleet"), STAFFING)
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        number = ProposedOverride("B", date(2024, 4, 11), 77, "weather", "ann", "snow")
        override_table.write(connection, fleet.spec.name, number, AS_OF)
    predict(fleet.spec, as_of=AS_OF, bundle=None, run_id=None, note=None)
    return fleet


@pytest.fixture
def pipeline(fleet: Fleet) -> Pipeline:
    return forecaster.load(fleet.file)


def test_totals_cover_the_network_and_each_group(pipeline: Pipeline) -> None:
    totals = pipeline.totals()
    groups = totals[["level", "name"]].drop_duplicates().to_numpy().tolist()
    assert groups == [["", ""], ["city", "Bonn"], ["city", "Ulm"]]
    assert list(totals.columns) == ["level", "name", "date", "days", "forecast", "q0.1", "q0.5", "q0.9"]
    assert set(totals["days"]) == {1}  # three days ahead, and no week
    by_day = pipeline.forecasts().groupby("date")["forecast"].sum()
    np.testing.assert_allclose(totals[totals["name"] == ""].set_index("date")["forecast"], by_day, rtol=0.1)


def test_readings_are_those_known_at_the_instant(pipeline: Pipeline) -> None:
    readings = pipeline.readings()
    assert len(readings) == 400
    assert {"depot_id", "date", "demand", "promo"} <= set(readings)
    earlier = pipeline.readings(as_of=datetime(2024, 3, 1, 12, tzinfo=UTC))
    assert earlier.dropna(subset="demand")["date"].max() == pd.Timestamp("2024-02-29")
    with pytest.raises(NoUsableData):
        pipeline.readings(as_of=datetime(2020, 1, 1, tzinfo=UTC))


def test_instant_without_a_zone_is_in_the_pipelines_zone(pipeline: Pipeline) -> None:
    aware = datetime(2024, 3, 1, 0, 30, tzinfo=pipeline.spec.zone)
    naive = pd.Timestamp("2024-03-01 00:30")
    pd.testing.assert_frame_equal(pipeline.readings(as_of=naive), pipeline.readings(as_of=aware))
    for no_instant in ("2024-03-01", date(2024, 3, 1), 20240301):
        with pytest.raises(SpecError, match=r"^as_of: found .*, wanted an instant"):
            pipeline.readings(as_of=no_instant)  # type: ignore[arg-type]


def test_rejects_an_unsupported_library(fleet: Fleet) -> None:
    with pytest.raises(SpecError, match=r"^library: found 'dask', wanted one of pandas, polars, pyarrow"):
        forecaster.load(fleet.file, library="dask")  # type: ignore[arg-type]


def test_forecasts_and_rosters_equal_those_of_the_publication(fleet: Fleet, pipeline: Pipeline) -> None:
    publications = pipeline.publications()
    number = int(publications["publication_id"][0])
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        depots = ledger.depots(number)
        head = ledger.current(fleet.spec.name)
    assert head is not None
    forecasts = pipeline.forecasts()
    expected = [(depot.depot_id, day.target_date, *day.quantiles) for depot in depots for day in depot.days]
    names = ["depot_id", "date", *(f"q{level:g}" for level in head.levels)]
    rows = forecasts[names].assign(date=forecasts["date"].dt.date).itertuples(index=False, name=None)
    for row, published in zip(rows, expected, strict=True):
        assert row[:2] == published[:2]
        assert row[2:] == pytest.approx(published[2:])
    by_planner = forecasts[forecasts["override"].notna()]
    assert by_planner[["depot_id", "override", "forecast"]].values.tolist() == [["B", "ann", 77.0]]
    rosters = pipeline.rosters(number)
    assert rosters["drivers"].tolist() == [day.drivers for depot in depots for day in depot.days if day.roster]
    with pytest.raises(NoSuchRow, match=f"publication 99 of small is not in the ledger; it holds {number}"):
        pipeline.forecasts(99)


def test_scores_are_the_last_backtest_with_the_actuals(fleet: Fleet, pipeline: Pipeline) -> None:
    with pytest.raises(NoSuchRow, match="none has trained yet"):
        pipeline.scores()
    panel = build(read_as_of(fleet.spec, as_of=AS_OF), fleet.spec)
    scores = backtest.run({"naive": lambda panel: seasonal_naive(panel, (0.1, 0.5, 0.9))}, panel, 6)
    for run, now in (("early", datetime(2024, 4, 1, tzinfo=UTC)), ("late", AS_OF)):
        score_rows.append_scores(scores, Lake.of(fleet.spec), run_id=run, now=now)
    rows = pipeline.scores()
    assert len(rows) == 4 * 6
    wape = (rows["demand"] - rows["forecast"]).abs().sum() / rows["demand"].sum()
    assert wape == pytest.approx(scores["naive"].metrics["wape"], rel=1e-6)
    assert np.isfinite(rows["q0.9"]).all()
    with pytest.raises(NoSuchRow, match="run 'never' has no scores"):
        pipeline.scores("never")


def test_overrides_state_author_and_reason(pipeline: Pipeline) -> None:
    [row] = pipeline.overrides().to_dict("records")
    assert (row["depot_id"], row["date"], row["orders"], row["by"]) == ("B", pd.Timestamp("2024-04-11"), 77, "ann")
    assert pd.isna(row["withdrawn"])


def test_frames_are_of_the_named_library(fleet: Fleet) -> None:
    pipeline = forecaster.load(fleet.file, library="polars")
    assert isinstance(pipeline.forecasts(), pl.DataFrame)
    overrides, publications = pipeline.overrides(), pipeline.publications()
    assert overrides["withdrawn"].dtype == pl.Datetime("us", "UTC"), "of which nothing is known"
    assert pl.Null not in {*overrides.dtypes, *publications.dtypes}
