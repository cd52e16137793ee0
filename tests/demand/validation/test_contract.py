from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.config.data_rules import OF_ROWS
from forecaster.demand import sources
from forecaster.demand.readings import dates
from forecaster.demand.validation import batch as batches
from forecaster.demand.validation.contract import Contract
from forecaster.demand.validation.history_checks import late_counts
from forecaster.demand.validation.known_days import NO_READINGS, LastReadings
from forecaster.errors import SpecError

NOW = datetime(2024, 3, 6, 8, 15, tzinfo=UTC)  # 03:15 in New York
PLAIN = "source: {kind: csv, path: demand.csv}, columns: {depot_id: depot, date: day, demand: orders}"
TOLD = PLAIN.replace("orders}", "orders, recorded_at: at}")


def spec_of(folder: Path, demand: str = PLAIN, calendar: str = "{}") -> Spec:
    file = folder / "pipeline.yaml"
    text = f"name: t\ntimezone: America/New_York\ndemand: {{{demand}}}\ncalendar: {calendar}\n"
    file.write_text(text + "schedule: {cron: '15 3 * * *'}\n", "utf-8")
    return load(file)


@dataclass(frozen=True)
class Checked:
    """Result of validation: typed rows and quarantined rows; `accepted` has readable values."""

    typed: pd.DataFrame
    quarantined: pd.DataFrame

    @property
    def accepted(self) -> pd.DataFrame:
        typed = self.typed
        return typed.assign(
            depot_id=typed["depot_id"].astype("str"),
            date=dates(typed),
            open=typed["open"].map({1: True, 0: False, -1: None}).astype(object),
            recorded_at=pd.to_datetime(typed["recorded_at"], unit="us", utc=True),
        ).drop(columns="day")

    @property
    def messages(self) -> list[str]:
        return list(self.quarantined["message"])


def checked(
    folder: Path, content: str, demand: str = PLAIN, calendar: str = "{}", now: datetime = NOW, **more: Any
) -> Checked:
    (folder / "demand.csv").write_text(content, "utf-8")
    spec = spec_of(folder, demand, calendar)
    columns = spec.demand.columns
    required = [
        name for name in (columns.depot_id, columns.date, columns.demand, columns.open, columns.recorded_at) if name
    ]
    block = sources.read(spec.demand.source, spec, required, spec.calendar.known_future)
    return sort(block, spec, now, **more)


def sort(block: pd.DataFrame, spec: Spec, now: datetime = NOW, **more: Any) -> Checked:
    sorted_block = Contract(spec, now=now, **more).sort(block)
    batch = batches.without_repeats(batches.Batch(sorted_block.accepted, sorted_block.refused), spec, now)
    assert len(batch.accepted) + len(batch.refused) == len(block)
    return Checked(batch.accepted, batch.refused)


def refusals(outcome: Checked) -> dict[int, str]:
    return dict(zip(outcome.quarantined["row"], outcome.quarantined["rule"], strict=True))


def test_accepts_a_valid_reading_with_its_origin(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "depot,day,orders\n D1 ,2024-03-05, 12 \n")
    assert outcome.quarantined.empty
    assert outcome.accepted.to_dict("records") == [
        {
            "depot_id": "D1",
            "date": pd.Timestamp("2024-03-05"),
            "demand": 12.0,
            "open": None,
            "recorded_at": pd.Timestamp(NOW),
            "row": 2,
            "source": "demand.csv",
        }
    ]


def test_unknown_zero_and_closed_are_distinguished(tmp_path: Path) -> None:
    demand = PLAIN.replace("orders}", "orders, open: open}")
    outcome = checked(
        tmp_path, "depot,day,orders,open\nD1,2024-03-05,,\nD2,2024-03-05,0,1\nD3,2024-03-05,0,no\n", demand
    )
    assert outcome.accepted["demand"].isna().tolist() == [True, False, False]
    assert outcome.accepted["demand"].tolist()[1:] == [0.0, 0.0]
    assert outcome.accepted["open"].tolist() == [None, True, False]


def test_another_date_form_is_reported_with_the_declared_one(tmp_path: Path) -> None:
    german = PLAIN.replace("path: demand.csv", "path: demand.csv, date_format: '%d.%m.%Y'")
    outcome = checked(tmp_path, "depot,day,orders\nD1,05.03.2024,7\nD1,2024-03-04,8\n", german)
    assert outcome.accepted["date"].tolist() == [pd.Timestamp("2024-03-05")]
    [message] = outcome.messages
    assert message.endswith(
        "found '2024-03-04', wanted a date such as 05.03.2024, not before 1970 (demand.source.date_format)"
    )


def test_names_each_broken_rule(tmp_path: Path) -> None:
    lines = {
        "D1,2024-03-01,7,2024-03-02T03:00:00-05:00,1": "",
        ",2024-03-02,7,2024-03-03T03:00:00-05:00,1": "depot_missing",
        "..,2024-03-02,7,2024-03-03T03:00:00-05:00,1": "depot_form",
        "D1,2024-13-02,7,2024-03-03T03:00:00-05:00,1": "date_form",
        "D1,02.03.2024,7,2024-03-03T03:00:00-05:00,1": "date_form",
        "D1,0202-03-04,7,2024-03-03T03:00:00-05:00,1": "date_form",
        "D1,2024-03-03,seven,2024-03-04T03:00:00-05:00,1": "count_form",
        "D1,2024-03-03,nan,2024-03-04T03:00:00-05:00,1": "count_form",
        '"D1",2024-03-03,"1,000",2024-03-04T03:00:00-05:00,1': "count_form",
        "D1,2024-03-03,-1,2024-03-04T03:00:00-05:00,1": "count_negative",
        "D1,2024-03-03,5001,2024-03-04T03:00:00-05:00,1": "count_too_large",
        "D1,2024-03-03,7,2024-03-04T03:00:00-05:00,x": "covariate_form",
        "D1,2024-03-03,7,yesterday,1": "recorded_at_form",
        "D1,2024-03-03,7,,1": "recorded_at_form",
        "D1,2024-03-03,7,2024-03-06T03:15:01-05:00,1": "recorded_in_future",
        "D1,2024-03-04,7,2024-03-04T23:00:00-05:00,1": "day_not_over",
        "D1,2042-03-04,7,2024-03-05T03:00:00-05:00,1": "day_not_over",
        "D9,2024-03-03,7,2024-03-04T03:00:00-05:00,1": "unknown_depot",
        "D1,2024-03-03": "row_form",
        "D1,2024-03-01,7.0,2024-03-02T08:00:00Z,1": "duplicate_row",
        "D1,2024-03-06,,2024-03-05T03:00:00-05:00,0": "",
    }
    content = "\n".join(["depot,day,orders,at,promo", *lines]) + "\n"
    rules = "rules: {max_demand: 5000}"
    outcome = checked(
        tmp_path, content, f"{TOLD}, {rules}", "{known_future: [promo]}", known_depots=pd.Index(["D1", "D2"])
    )
    assert refusals(outcome) == {row: rule for row, rule in enumerate(lines.values(), 2) if rule}
    assert set(outcome.quarantined["rule"]) == set(OF_ROWS) - {"partial_day", "superseded"}


def test_message_names_file_row_depot_and_the_found_and_wanted_values(tmp_path: Path) -> None:
    content = "depot,day,orders\nD1,2024-03-04,-3\nNorth1,2024-03-04,1\n"
    outcome = checked(tmp_path, content, known_depots=pd.Index(["D1", "North"]))
    first, second = outcome.quarantined["message"]
    assert (
        first == "demand.csv:2: depot D1 on 2024-03-04, column 'orders': found '-3', wanted 0 or more (demand.negative)"
    )
    assert second.startswith("demand.csv:3: depot North1 on 2024-03-04, column 'depot': found 'North1', wanted a depot")
    assert second.endswith("did you mean 'North'?")
    assert json.loads(outcome.quarantined["content"][0]) == {"depot": "D1", "day": "2024-03-04", "orders": "-3"}


def test_rejects_the_count_of_today_and_accepts_yesterday_in_local_time(tmp_path: Path) -> None:
    evening = datetime(2024, 3, 6, 2, 0, tzinfo=UTC)  # still 5 March in New York
    content = "depot,day,orders\nD1,2024-03-04,1\nD1,2024-03-05,2\nD2,2024-03-06,\n"
    assert refusals(checked(tmp_path, content, now=evening)) == {3: "day_not_over"}
    assert refusals(checked(tmp_path, content)) == {}


def test_archive_is_known_from_the_run_of_the_next_morning(tmp_path: Path) -> None:
    content = "depot,day,orders\nD1,2024-03-09,1\nD1,2024-03-20,2\nD1,2024-03-21,3\nD1,2024-03-22,\n"
    now = datetime(2024, 3, 21, 5, 0, tzinfo=UTC)  # 01:00, before the 03:15 run
    outcome = checked(tmp_path, content, PLAIN + ", recorded: next_day", now=now)
    assert outcome.accepted["recorded_at"].tolist() == [
        pd.Timestamp("2024-03-10T07:15Z"),  # summer time starts in that night
        pd.Timestamp(now),
        pd.Timestamp(now),
    ]
    assert refusals(outcome) == {4: "day_not_over"}


def test_instants_without_an_offset_are_local(tmp_path: Path) -> None:
    content = (
        "depot,day,orders,at\n"
        "D1,2024-03-01,1,2024-03-02 03:00:00\n"
        "D2,2024-03-01,1,2024-03-02T03:00:00-05:00\n"
        "D3,2024-03-01,1,2024-03-02T08:00:00.5Z\n"
        "D4,2024-03-01,1,2024-03-02\n"
    )
    assert checked(tmp_path, content, TOLD).accepted["recorded_at"].tolist() == [
        pd.Timestamp("2024-03-02T08:00Z"),
        pd.Timestamp("2024-03-02T08:00Z"),
        pd.Timestamp("2024-03-02T08:00:00.5Z"),
        pd.Timestamp("2024-03-02T05:00Z"),
    ]


def test_last_of_several_values_for_a_day_counts(tmp_path: Path) -> None:
    content = "depot,day,orders\nD1,2024-03-04,1\nD1,2024-03-04,2\nD1,2024-03-04,1\nD2,2024-03-04,5\nD2,2024-03-04,6\n"
    outcome = checked(tmp_path, content)
    assert refusals(outcome) == {3: "superseded", 4: "duplicate_row", 5: "superseded"}
    assert outcome.accepted["demand"].tolist() == [1.0, 6.0]


def test_accepts_all_restated_values_with_their_own_instants(tmp_path: Path) -> None:
    content = "depot,day,orders,at\nD1,2024-03-04,1,2024-03-05T03:00Z\nD1,2024-03-04,2,2024-03-05T09:00Z\n"
    demand = TOLD
    spoiled = content + "D1,2024-03-04,-2,2024-03-05T09:00Z\n"
    assert refusals(checked(tmp_path, content.replace("T03", "T06"), demand)) == {}
    assert refusals(checked(tmp_path, spoiled.replace("T03", "T06"), demand)) == {4: "count_negative"}


def test_majority_of_values_determines_if_a_text_covariate_is_numeric(tmp_path: Path) -> None:
    content = "depot,day,orders,promo,weather\nD1,2024-03-01,1,0,rain\nD1,2024-03-02,1,1,\nD1,2024-03-03,1,,sun\n"
    calendar = "{known_future: [promo, weather]}"
    outcome = checked(tmp_path, content, calendar=calendar)
    assert outcome.accepted["promo"].isna().tolist() == [False, False, True]
    assert outcome.accepted["weather"].astype(object).fillna("?").tolist() == ["rain", "?", "sun"]
    with_other_kinds = checked(tmp_path, content, calendar=calendar, kinds={"weather": "double", "promo": "string"})
    assert refusals(with_other_kinds) == {2: "covariate_form", 4: "covariate_form"}
    assert with_other_kinds.accepted["promo"].tolist() == ["1"]


def test_rejects_an_open_flag_that_is_neither_yes_nor_no(tmp_path: Path) -> None:
    demand = PLAIN.replace("orders}", "orders, open: open}")
    outcome = checked(tmp_path, "depot,day,orders,open\nD1,2024-03-05,1,maybe\n", demand)
    assert refusals(outcome) == {2: "covariate_form"}
    assert "column 'open': found 'maybe'" in outcome.messages[0]


def test_rejects_a_covariate_with_the_name_of_a_table_column(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"declare it as demand\.columns\.open"):
        checked(tmp_path, "depot,day,orders,open\nD1,2024-03-05,1,1\n", calendar="{known_future: [open]}")
    with pytest.raises(SpecError, match="column 'batch' of its own"):
        checked(tmp_path, "depot,day,orders,batch\nD1,2024-03-05,1,1\n", calendar="{known_future: [batch]}")


def test_typed_columns_are_used_unchanged(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    readings = pd.DataFrame({"depot": [1, 2, 3], "day": pd.to_datetime(["2024-03-05T10:00", "2024-03-05T10:00", None])})
    readings["orders"], readings["row"], readings[":fault"] = [5.0, float("-inf"), 1.0], [1, 2, 3], ""
    readings[":file"] = "p"
    outcome = sort(readings, spec)
    assert outcome.accepted[["depot_id", "demand"]].to_numpy().tolist() == [["1", 5.0]]
    assert refusals(outcome) == {2: "count_form", 3: "date_form"}


def test_typed_day_after_the_year_9999_is_not_a_date(tmp_path: Path) -> None:
    days = np.array(["11157-10-28", "2024-03-05"], "datetime64[s]")
    block = pd.DataFrame({"depot": ["A", "A"], "day": days, "orders": [np.nan, 1.0], "row": [1, 2], ":fault": ""})
    outcome = sort(block.assign(**{":file": "p"}), spec_of(tmp_path))
    assert refusals(outcome) == {1: "date_form"}
    assert outcome.quarantined["date"].isna().all()


def test_accepts_a_source_without_readings(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "depot,day,orders\n")
    assert outcome.accepted.empty
    assert outcome.quarantined.empty


def test_late_counts_are_a_finding(tmp_path: Path) -> None:
    content = "depot,day,orders,at\nD1,2024-03-01,1,2024-03-04T20:00-05:00\nD2,2024-03-01,1,2024-03-05T00:10-05:00\n"
    (finding,) = late_counts(checked(tmp_path, content, TOLD).typed, NO_READINGS, spec_of(tmp_path, TOLD))
    assert finding.severity == "warn"
    assert finding.count == 1
    assert finding.message == (
        "demand.csv:3: depot D2 on 2024-03-01: found a count recorded 4 days after its day, wanted at most 3 "
        "days after its day (demand.rules.late_days)"
    )
    assert finding.places == (("D2", "2024-03-01"),)
    assert late_counts(checked(tmp_path, content).typed, NO_READINGS, spec_of(tmp_path)) == []


def test_count_without_instant_is_late_if_the_feed_had_passed_its_day(tmp_path: Path) -> None:
    last_readings = LastReadings.of(checked(tmp_path, "depot,day,orders\nD1,2024-02-28,1\nD2,2024-03-01,1\n").typed)
    content = "depot,day,orders\nD1,2024-02-26,1\nD1,2024-02-27,1\nD1,2024-03-02,1\nD9,2024-01-01,1\nD2,2024-02-01,\n"
    (finding,) = late_counts(checked(tmp_path, content).typed, last_readings, spec_of(tmp_path))
    assert (finding.count, finding.places) == (1, (("D1", "2024-02-26"),))
    assert finding.message == (
        "demand.csv:2: depot D1 on 2024-02-26: found a count that arrived after those of 2024-03-01, wanted at most "
        "3 days after its day (demand.rules.late_days)"
    )
    archive = spec_of(tmp_path, PLAIN + ", recorded: next_day")
    assert late_counts(checked(tmp_path, content).typed, last_readings, archive) == []
