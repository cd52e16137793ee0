from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build
from forecaster.errors import NoUsableData, SourceError, SpecError
from forecaster.lake import Lake

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PLAIN = "{source: {kind: csv, path: demand.csv}}"
DECLARED = "{source: {kind: csv, path: demand.csv}, columns: {recorded_at: at}}"
FULL = """
depots: {source: {kind: csv, path: depots.csv}, columns: {opened: opened, closed: closed}, static: [city]}
calendar: {holidays: false, events: {source: {kind: csv, path: events.csv}}, known_future: [promo]}
"""


def spec_of(folder: Path, demand: str = PLAIN, more: str = "calendar: {holidays: false}") -> Spec:
    (folder / "pipeline.yaml").write_text(f"name: t\ndemand: {demand}\n{more}\n", "utf-8")
    return load(folder / "pipeline.yaml")


def write(folder: Path, name: str, *lines: str) -> None:
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")


def counts(spec: Spec, as_of: datetime) -> dict[tuple[str, str], float]:
    rows = read_as_of(spec, as_of=as_of).demand
    return {
        (depot, str(day.date())): n
        for depot, day, n in zip(rows["depot_id"], rows["date"], rows["demand"], strict=True)
    }


def test_repeated_ingestion_appends_nothing(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, more=FULL)
    write(tmp_path, "demand", "depot_id,date,demand,promo", "A,2024-03-04,1,0", "A,2024-03-05,-2,0", "A,2024-03-07,,1")
    write(tmp_path, "depots", "depot_id,opened,closed,city", "A,2024-03-01,,Ulm")
    write(tmp_path, "events", "date,kind,name,depot_id,city", "2024-03-07,closure,strike,,Ulm")
    first = ingest(spec, now=NOW)
    assert (first.read, first.accepted, first.unchanged, first.quarantined) == (3, 2, 0, 1)
    assert [finding.rule for finding in first.findings] == ["count_negative"]
    second = ingest(spec, now=NOW + DAY)
    assert (second.read, second.accepted, second.unchanged, second.quarantined) == (3, 0, 2, 1)
    assert second.versions == first.versions
    assert second.batch == first.batch
    assert {table for table, version in first.versions.items() if version == 0} == {
        "demand", "quarantine", "batches", "depots", "events", "owners",
    }  # fmt: skip


def test_restated_value_is_a_new_version_and_the_past_keeps_the_old_one(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-04,1", "A,2024-03-05,2")
    ingest(spec, now=NOW)
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-04,9", "A,2024-03-05,2", "A,2024-03-06,3")
    again = ingest(spec, now=NOW + DAY)
    assert (again.accepted, again.unchanged) == (2, 1)
    assert counts(spec, NOW) == {("A", "2024-03-04"): 1.0, ("A", "2024-03-05"): 2.0}
    assert counts(spec, NOW + DAY) == {("A", "2024-03-04"): 9.0, ("A", "2024-03-05"): 2.0, ("A", "2024-03-06"): 3.0}
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-04,1")  # and back
    assert ingest(spec, now=NOW + 2 * DAY).accepted == 1
    assert counts(spec, NOW + 2 * DAY)["A", "2024-03-04"] == 1.0


def test_as_of_a_past_instant_only_sees_earlier_records(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, DECLARED)
    write(
        tmp_path,
        "demand",
        "depot_id,date,demand,at",
        "A,2024-03-01,1,2024-03-02T04:00Z",
        "A,2024-03-01,5,2024-03-04T04:00Z",
        "A,2024-03-02,2,2024-03-03T04:00Z",
    )
    ingest(spec, now=NOW)
    at = {hour: datetime(2024, 3, hour, 4, tzinfo=UTC) for hour in (2, 3, 4)}
    assert counts(spec, at[2]) == {("A", "2024-03-01"): 1.0}
    assert counts(spec, at[3]) == {("A", "2024-03-01"): 1.0, ("A", "2024-03-02"): 2.0}
    assert counts(spec, at[4]) == {("A", "2024-03-01"): 5.0, ("A", "2024-03-02"): 2.0}
    assert build.build(read_as_of(spec, as_of=at[3]), spec).demand.tolist() == [[1.0, 2.0]]
    with pytest.raises(NoUsableData, match=r"earliest reading .* recorded at 2024-03-02T04:00:00\+00:00.*next_day"):
        read_as_of(spec, as_of=datetime(2024, 3, 1, tzinfo=UTC))


def test_value_changed_in_place_counts_from_now(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, DECLARED)
    write(tmp_path, "demand", "depot_id,date,demand,at", "A,2024-03-01,1,2024-03-02T04:00Z")
    ingest(spec, now=NOW)
    write(tmp_path, "demand", "depot_id,date,demand,at", "A,2024-03-01,10,2024-03-02T04:00Z")
    assert ingest(spec, now=NOW + DAY).accepted == 1
    assert ingest(spec, now=NOW + 2 * DAY).accepted == 0
    assert counts(spec, NOW) == {("A", "2024-03-01"): 1.0}
    assert counts(spec, NOW + DAY) == {("A", "2024-03-01"): 10.0}


def test_archive_knows_covariates_of_the_horizon_but_not_its_counts(tmp_path: Path) -> None:
    demand = "{source: {kind: csv, path: demand.csv}, recorded: next_day}"
    spec = spec_of(tmp_path, demand, "horizon: 2\ncalendar: {holidays: false, known_future: [promo]}")
    write(
        tmp_path, "demand", "depot_id,date,demand,promo", *(f"A,2024-03-0{day},{day},{day % 2}" for day in range(1, 6))
    )
    ingest(spec, now=NOW)
    panel = build.build(read_as_of(spec, as_of=datetime(2024, 3, 3, 12, tzinfo=UTC)), spec)
    assert panel.cutoff == date(2024, 3, 2)
    assert panel.demand.tolist() == [[1.0, 2.0]]
    assert panel.covariates[0, :, 0].tolist() == [1, 0, 1, 0]


def test_snapshots_of_depots_and_events_keep_their_history(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, more=FULL)
    write(tmp_path, "demand", "depot_id,date,demand,promo", "A,2024-03-04,1,0", "C,2024-03-04,1,0")
    write(tmp_path, "depots", "depot_id,opened,closed,city", "A,,,Ulm", "B,,,Ulm")
    write(tmp_path, "events", "date,kind,name,depot_id,city", "2024-03-07,fair,spring,,", "2024-03-08,fair,end,,Rom")
    first = ingest(spec, now=NOW)
    assert [(finding.rule, finding.severity) for finding in first.findings] == [
        ("event_kind", "warn"),
        ("event_place", "warn"),
        ("unknown_depot", "quarantine"),
    ]
    write(tmp_path, "depots", "depot_id,opened,closed,city", "A,,2024-04-01,Bonn", "C,,,Rom")
    write(tmp_path, "events", "date,kind,name,depot_id,city", "2024-03-08,fair,end,,Rom")
    assert ingest(spec, now=NOW + DAY).versions["depots"] == 1
    old, new = read_as_of(spec, as_of=NOW), read_as_of(spec, as_of=NOW + DAY)
    assert old.depots.sort_values("depot_id")[["depot_id", "city"]].to_numpy().tolist() == [["A", "Ulm"], ["B", "Ulm"]]
    assert new.depots.sort_values("depot_id")[["depot_id", "city"]].to_numpy().tolist() == [["A", "Bonn"], ["C", "Rom"]]
    assert old.events["name"].tolist().count("spring") == 1
    assert new.events["name"].tolist() == ["end"]
    assert list(counts(spec, NOW)) == [("A", "2024-03-04")]
    assert ("C", "2024-03-04") in counts(spec, NOW + DAY)
    assert ingest(spec, now=NOW + 2 * DAY).versions == ingest(spec, now=NOW + 3 * DAY).versions
    write(tmp_path, "depots", "depot_id,opened,closed,city", "A,,2024-04-01,Bonn", "B,,,Ulm", "C,,,Rom")
    ingest(spec, now=NOW + 4 * DAY)  # back again
    assert set(read_as_of(spec, as_of=NOW + 4 * DAY).depots["depot_id"]) == {"A", "B", "C"}


def test_repeated_rows_of_a_depot_are_one_depot_and_conflicts_are_reported(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, more="depots: {source: {kind: csv, path: demand.csv}, static: [city]}")
    write(
        tmp_path,
        "demand",
        "depot_id,date,demand,city",
        "A,2024-03-03,1,Ulm",
        "A,2024-03-04,1,Ulm",
        "B,2024-03-04,1,Ulm",
    )
    assert ingest(spec, now=NOW).findings == ()
    assert len(read_as_of(spec, as_of=NOW).depots) == 2
    write(
        tmp_path,
        "demand",
        "depot_id,date,demand,city",
        "A,2024-03-03,1,Ulm",
        "A,2024-03-04,1,Bonn",
        "B,2024-03-04,1,Ulm",
    )
    (finding,) = ingest(spec, now=NOW).findings
    assert finding.message.startswith(
        "demand.csv:2: column 'depot_id': found 'A', wanted one set of attributes a depot"
    )
    assert "Bonn" in set(read_as_of(spec, as_of=NOW + DAY).depots["city"])


def test_readings_of_an_alias_of_no_depot_stay_unknown(tmp_path: Path) -> None:
    aliases = "aliases: {source: {kind: csv, path: renamed.csv}}"
    spec = spec_of(tmp_path, more=f"depots: {{source: {{kind: csv, path: depots.csv}}, {aliases}}}")
    write(tmp_path, "demand", "depot_id,date,demand", "OLD-7,2024-03-04,1", "BOS-01,2024-03-05,2")
    write(tmp_path, "depots", "depot_id", "BOS-01")
    write(tmp_path, "renamed", "alias,depot_id", "OLD-7,BOS-1")
    assert [(finding.rule, finding.count) for finding in ingest(spec, now=NOW).findings] == [
        ("alias_form", 1),
        ("unknown_depot", 1),
    ]
    write(tmp_path, "renamed", "alias,depot_id", "OLD-7,BOS-01")
    assert ingest(spec, now=NOW + DAY).findings == ()


def test_silent_depot_gives_a_finding_until_it_closes(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, more=FULL.replace("known_future: [promo]", "known_future: []"))
    days = ["2024-02-10", "2024-03-04"]
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-02-10,1", *(f"B,{day},1" for day in days))
    write(tmp_path, "depots", "depot_id,opened,closed,city", "A,,,", "B,,,", "C,2024-02-20,,")
    write(tmp_path, "events", "date,kind,name")
    (finding,) = ingest(spec, now=NOW).findings
    assert (finding.rule, finding.severity, finding.count) == ("silent_depot", "warn", 1)
    assert finding.message.startswith(
        "depot A: found no reading for 23 days up to 2024-03-04, wanted a reading within 14 days"
    )
    write(tmp_path, "depots", "depot_id,opened,closed,city", "A,,2024-02-11,", "B,,,", "C,2024-02-20,,")
    assert ingest(spec, now=NOW).findings == ()


def test_missing_known_future_covariate_suggests_the_nearest_column(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, more="calendar: {known_future: [promos]}")
    write(tmp_path, "demand", "depot_id,date,demand,promo", "A,2024-03-04,1,0")
    with pytest.raises(SourceError, match="wanted 'promos'; did you mean 'promo'"):
        ingest(spec, now=NOW)
    assert not Path(spec.lake_url).exists()
    with_clash = spec_of(tmp_path, more="depots: {source: {kind: csv, path: demand.csv}, static: [opened]}")
    with pytest.raises(SpecError, match="the depots table has a column 'opened' of its own"):
        ingest(with_clash, now=NOW)


def test_empty_lake_error_states_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(NoUsableData, match=r"holds no demand; `forecaster run` fills it"):
        read_as_of(spec_of(tmp_path), as_of=NOW)


def test_empty_lake_error_states_the_outcome_of_the_last_batch(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "demand", "depot_id,date,demand")
    ingest(spec, now=NOW)
    with pytest.raises(NoUsableData, match=r"holds no demand: 'demand\.csv' had no row; `forecaster check` says what"):
        read_as_of(spec, as_of=NOW)
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-04,-1")
    ingest(spec, now=NOW + DAY)
    with pytest.raises(NoUsableData, match=r"no demand: none of 1 row of 'demand\.csv' counts; `forecaster check`"):
        read_as_of(spec, as_of=NOW)
    stops = spec_of(tmp_path, PLAIN.removesuffix("}") + ", rules: {severity: {count_negative: stop}}}")
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-03,1", "A,2024-03-04,-1")
    ingest(stops, now=NOW + 2 * DAY)
    with pytest.raises(NoUsableData, match=r"none of 2 rows of 'demand\.csv' counts, as their batch was stopped;"):
        read_as_of(stops, as_of=NOW + DAY)


def test_covariate_added_later_is_unknown_before_and_keeps_its_kind(tmp_path: Path) -> None:
    write(tmp_path, "demand", "depot_id,date,demand,promo", "A,2024-03-04,1,1")
    ingest(spec_of(tmp_path), now=NOW)
    wider = spec_of(tmp_path, more="calendar: {holidays: false, known_future: [promo]}")
    assert ingest(wider, now=NOW + DAY).accepted == 1
    assert read_as_of(wider, as_of=NOW).demand["promo"].isna().all()
    assert read_as_of(wider, as_of=NOW + DAY).demand["promo"].tolist() == [1.0]
    write(tmp_path, "demand", "depot_id,date,demand,promo", "A,2024-03-04,1,1", "A,2024-03-05,1,sale")
    assert [finding.rule for finding in ingest(wider, now=NOW + DAY).findings] == ["covariate_form"]


OF_INGESTS = max(settings.default.max_examples // 4, 5)  # an example takes several full ingestions
ROWS = [
    f"{depot},2024-03-0{day},{10 * day + version},2024-03-0{day + 1 + version}T04:00Z"
    for depot in "AB"
    for day in (1, 2)
    for version in (0, 1, 2)
]


@settings(max_examples=OF_INGESTS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_order_repetition_and_splitting_of_rows_do_not_change_the_history(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    spec = spec_of(folder, DECLARED)
    rows = data.draw(st.permutations(ROWS)) + data.draw(st.lists(st.sampled_from(ROWS), max_size=4))
    cuts = sorted(data.draw(st.lists(st.integers(1, len(rows) - 1), max_size=2)))
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        write(folder, "demand", "depot_id,date,demand,at", *rows[start:end])
        ingest(spec, now=NOW)
    assert Lake(spec.lake_url).read("demand").num_rows == len(ROWS)
    for day in (2, 3, 4, 5):  # by hand: for a day, the version of `day - (its own day) - 1`, at most the last
        expected = {
            (depot, f"2024-03-0{part_number}"): 10.0 * part_number + min(day - part_number - 1, 2)
            for depot in "AB"
            for part_number in (1, 2)
            if day - part_number >= 1
        }
        assert counts(spec, datetime(2024, 3, day, 4, tzinfo=UTC)) == expected


@settings(max_examples=OF_INGESTS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_feed_without_instants_may_arrive_in_any_order_and_pieces(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    spec = spec_of(folder)
    days = st.tuples(st.sampled_from("ABC"), st.integers(1, 5))
    feed = data.draw(st.dictionaries(days, st.one_of(st.none(), st.integers(0, 9)), min_size=2))
    lines = [f"{depot},2024-03-0{day},{'' if n is None else n}" for (depot, day), n in feed.items()]
    rows = [*data.draw(st.permutations(lines * 2)), "A,2024-03-03,many"]
    cuts = sorted(data.draw(st.lists(st.integers(1, len(rows) - 1), max_size=3)))
    for night, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        write(folder, "demand", "depot_id,date,demand", *rows[start:end])
        result = ingest(spec, now=NOW + night * DAY)
        assert result.read == end - start == result.accepted + result.unchanged + result.quarantined
    stored = Lake(spec.lake_url).read("demand").to_pylist()
    latest = {(row["depot_id"], row["date"].day): row["demand"] for row in stored}
    assert (latest, len(stored)) == (feed, len(feed))


def test_favorita_dataset_becomes_a_panel(tmp_path: Path, datasets: Path) -> None:
    source = "{kind: parquet, path: '${FORECASTER_DATASETS}/favorita_transactions.parquet'}"
    known_future = "[holiday_national, holiday_regional, holiday_local, make_up_work_day]"
    more = f"timezone: America/Guayaquil\ncalendar: {{country: EC, known_future: {known_future}}}\n"
    more += f"depots: {{source: {source}, static: [city, state, store_type, cluster]}}"
    spec = spec_of(tmp_path, f"{{source: {source}, recorded: next_day}}", more)
    result = ingest(spec, now=NOW)
    assert (result.read, result.accepted, result.findings) == (84408, 84408, ())
    assert ingest(spec, now=NOW).unchanged == 84408
    panel = build.build(read_as_of(spec, as_of=NOW), spec)
    assert panel.cutoff == date(2017, 8, 15)
    assert panel.demand.shape == (54, 1688)
    assert len(panel.encoding.statics["city"]) == 22
    table = pd.read_parquet(datasets / "favorita_transactions.parquet").pivot(
        index="depot_id", columns="date", values="demand"
    )
    np.testing.assert_array_equal(panel.demand, table.reindex(pd.Index(panel.depot_ids)).to_numpy(np.float32))
    past = build.build(read_as_of(spec, as_of=datetime(2016, 12, 21, 12, tzinfo=UTC)), spec, panel.encoding)
    whole = panel.at(past.cutoff)
    assert past.cutoff == date(2016, 12, 20)
    both = np.isin(np.array(whole.depot_ids), np.array(past.depot_ids))
    np.testing.assert_array_equal(past.covariates, whole.covariates[both])


def test_rossmann_is_closed_on_sundays_and_its_words_become_indicators(tmp_path: Path, datasets: Path) -> None:
    source = "{kind: parquet, path: '${FORECASTER_DATASETS}/rossmann.parquet'}"
    more = f"timezone: Europe/Berlin\ndepots: {{source: {source}, static: [store_type, assortment]}}\n"
    more += "calendar: {country: DE, known_future: [open, promo, state_holiday, school_holiday]}"
    spec = spec_of(tmp_path, f"{{source: {source}, columns: {{open: open}}, recorded: next_day}}", more)
    result = ingest(spec, now=NOW)
    assert (result.read, result.accepted) == (1050329, 1050329)
    panel = build.build(read_as_of(spec, as_of=NOW), spec)
    assert panel.demand.shape == (1115, 942)
    words = ("state_holiday=a", "state_holiday=b", "state_holiday=c")
    assert panel.encoding.covariates == ("open", "promo", *words, "school_holiday")
    shares = panel.open[:, -7:].mean(0)  # Saturday, Sunday, …
    assert shares[1] < 0.05
    assert shares[[0, 2, 3, 4, 5, 6]].min() > 0.99


@pytest.mark.parametrize(("negative", "first", "last"), [("refuse", 9, 2), ("subtract", 6, -1), ("leave_out", 9, 2)])
def test_returns_are_rejected_subtracted_or_left_out(tmp_path: Path, negative: str, first: int, last: int) -> None:
    spec = spec_of(tmp_path, PLAIN.removesuffix("}") + f", aggregate: sum, negative: {negative}}}")
    rows = ["A,2024-03-04,4", "A,2024-03-04,5", "A,2024-03-04,3-", "A,2024-03-05,2", "A,2024-03-05,(3)"]
    write(tmp_path, "demand", "depot_id,date,demand", *rows)
    outcome = ingest(spec, now=NOW)
    wanted = {"2024-03-04": first} | ({"2024-03-05": last} if last > 0 else {})
    assert counts(spec, NOW) == {("A", day): count for day, count in wanted.items()}
    [finding] = [finding for finding in outcome.findings if finding.rule == "count_negative"]
    assert (finding.severity, finding.count) == ("warn" if negative == "leave_out" else "quarantine",
                                                 1 if negative == "subtract" else 2)  # fmt: skip
    assert "demand.negative" in finding.message


def test_subtracting_returns_requires_aggregate_sum(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="negative: subtract applies to the rows of a sum; wanted aggregate: sum"):
        spec_of(tmp_path, PLAIN.removesuffix("}") + ", negative: subtract}")
