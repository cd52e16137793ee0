from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.errors import NoUsableData, SpecError
from forecaster.lake import Lake
from forecaster.operations.day_history import versions
from forecaster.operations.quarantine import QuarantinedRow, RowSelection, discard, quarantined_rows, release

FIRST, DAYS = date(2024, 1, 1), 42
LAST = FIRST + timedelta(DAYS - 1)
NOW = datetime(2024, 2, 12, 12, tzinfo=UTC)  # the day after the last
DAY = timedelta(days=1)
WHO = {"by": "ada", "reason": "the van broke down, the count is right"}
EVERYTHING = ("open", "settled", "released", "discarded")


def usual(day: int) -> int:
    return 100 + 10 * (day % 7) + day % 3


def feed(folder: Path, *wrong: str, last: str = "1540", days: int = DAYS) -> None:
    """Write six weeks of one depot, whose last count is far above the others, and the rows `wrong`."""
    rows = [f"A,{FIRST + timedelta(day)},{usual(day)}" for day in range(days)]
    rows[DAYS - 1] = f"A,{LAST},{last}"
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows, *wrong]) + "\n", "utf-8")


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    text = "name: t\ndemand: {source: {kind: csv, path: demand.csv}}\ncalendar: {holidays: false}\n"
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    return load(tmp_path / "pipeline.yaml")


def count(spec: Spec, as_of: datetime, day: date = LAST) -> float | None:
    rows = read_as_of(spec, as_of=as_of).demand
    counts = rows.loc[rows["date"] == str(day), "demand"]
    return float(counts.iloc[0]) if len(counts) else None


def only(rows: list[QuarantinedRow]) -> QuarantinedRow:
    (row,) = rows
    return row


def numbers(result: IngestResult) -> tuple[int, int, int, int]:
    return result.read, result.accepted, result.unchanged, result.quarantined


def test_spike_in_a_custom_number_format_can_be_released(tmp_path: Path) -> None:
    source = "{kind: csv, path: demand.csv, delimiter: ;, thousands: ., decimal: ',', date_format: '%d.%m.%Y'}"
    (tmp_path / "pipeline.yaml").write_text(f"name: t\ndemand: {{source: {source}}}\n", "utf-8")
    spec = load(tmp_path / "pipeline.yaml")
    rows = [f"A;{FIRST + timedelta(day):%d.%m.%Y};{usual(day)}" for day in range(DAYS - 1)]
    rows.append(f"A;{LAST:%d.%m.%Y};1.540,5")
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id;date;demand", *rows]) + "\n", "utf-8")
    assert numbers(ingest(spec, now=NOW)) == (42, 41, 0, 1)
    release(spec, RowSelection((only(quarantined_rows(spec)).id,)), now=NOW, **WHO)
    assert count(spec, NOW) == 1540.5
    assert numbers(ingest(spec, now=NOW + DAY)) == (42, 0, 42, 0)


def test_spike_is_quarantined_with_content_rule_message_and_batch(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path)
    result = ingest(spec, now=NOW)
    assert numbers(result) == (42, 41, 0, 1)
    row = only(quarantined_rows(spec))
    assert (row.depot_id, row.date, row.rule, row.row, row.batch) == ("A", LAST, "spike", 43, result.batch)
    assert row.content == '{"depot_id": "A", "date": "2024-02-11", "demand": 1540.0}'
    assert row.message == (
        "demand.csv:43: depot A on 2024-02-11, column 'demand': found '1540', wanted at most 5 times the usual "
        "(demand.rules.spike_factor): 161 is usual on such a day"
    )
    assert result.findings[0].places == (("A", "2024-02-11"),)
    assert row.recorded_at == NOW
    assert count(spec, NOW) is None
    assert numbers(ingest(spec, now=NOW + DAY)) == (42, 0, 41, 1)
    assert len(quarantined_rows(spec)) == 1


def test_released_row_is_known_from_its_release_on_and_stays(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path)
    ingest(spec, now=NOW)
    row = only(quarantined_rows(spec))
    assert release(spec, RowSelection((row.id[:6],)), now=NOW + DAY, **WHO) == [row]
    assert count(spec, NOW + DAY - timedelta(seconds=1)) is None
    assert count(spec, NOW + DAY) == 1540
    before = Lake(spec.lake_url).versions()
    result = ingest(spec, now=NOW + 2 * DAY)
    assert numbers(result) == (42, 0, 42, 0)
    assert result.findings == ()
    assert Lake(spec.lake_url).versions() == before
    decided = only(quarantined_rows(spec, states=EVERYTHING))
    assert (decided.state, decided.by, decided.reason, decided.decided_at) == ("released", *WHO.values(), NOW + DAY)
    with pytest.raises(SpecError, match="no open row of the quarantine matches"):
        release(spec, RowSelection((row.id,)), now=NOW + DAY, **WHO)


def test_released_row_with_a_source_instant_is_not_known_before_its_release(tmp_path: Path) -> None:
    text = "name: t\ndemand: {source: {kind: csv, path: demand.csv}, columns: {recorded_at: at}}\n"
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    spec = load(tmp_path / "pipeline.yaml")
    rows = [f"A,{FIRST + timedelta(day)},{usual(day)},{FIRST + timedelta(day + 1)}T01:00Z" for day in range(DAYS)]
    rows[-1] = rows[-1].replace(f",{usual(DAYS - 1)},", ",1540,")
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date,demand,at", *rows]) + "\n", "utf-8")
    ingest(spec, now=NOW)
    release(spec, RowSelection(rule="spike"), now=NOW + DAY, **WHO)
    assert numbers(ingest(spec, now=NOW + 2 * DAY)) == (42, 0, 42, 0)
    assert count(spec, NOW) is None
    assert count(spec, NOW + DAY) == 1540


def test_killed_release_is_completed_by_the_next_one(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path)
    ingest(spec, now=NOW)
    release(spec, RowSelection(rule="spike"), now=NOW + DAY, **WHO)
    for part in (Path(spec.lake_url) / "decisions").rglob("*"):
        if part.is_file():
            part.unlink()
    row = only(quarantined_rows(spec, states=EVERYTHING))
    assert row.state == "settled"
    release(spec, RowSelection((row.id,)), now=NOW + 2 * DAY, **WHO)
    assert count(spec, NOW + DAY) == 1540
    assert len(versions(spec, "A", LAST).versions) == 1


def test_unreadable_row_prevents_the_whole_release(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path, "A,2024-01-50,7", "B,2024-01-05,many")
    ingest(spec, now=NOW)
    assert [row.rule for row in quarantined_rows(spec)] == ["spike", "date_form", "count_form"]
    before = Lake(spec.lake_url).versions()
    both = tuple(row.id for row in quarantined_rows(spec) if row.rule != "date_form")
    with pytest.raises(
        SpecError, match=r"1 of 2 rows cannot be released .* so none was: demand.csv:45: depot B .*'many'"
    ):
        release(spec, RowSelection(both), now=NOW, **WHO)
    assert Lake(spec.lake_url).versions() == before


def test_discarded_row_is_kept_and_never_reported_again(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path)
    ingest(spec, now=NOW)
    discard(spec, RowSelection(depot_id="A"), now=NOW + DAY, by="ada", reason="typing error")
    result = ingest(spec, now=NOW + 2 * DAY)
    assert (numbers(result), result.findings) == ((42, 0, 41, 1), ())
    assert quarantined_rows(spec) == []
    assert only(quarantined_rows(spec, states=EVERYTHING)).state == "discarded"
    assert count(spec, NOW + 2 * DAY) is None


def test_a_row_is_settled_when_its_source_corrects_the_day(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path)
    ingest(spec, now=NOW)
    feed(tmp_path, last="154")
    assert numbers(ingest(spec, now=NOW + DAY)) == (42, 1, 41, 0)
    assert quarantined_rows(spec) == []
    assert only(quarantined_rows(spec, states=EVERYTHING)).state == "settled"


def test_released_oversized_count_stays_accepted_in_later_runs(tmp_path: Path) -> None:
    text = (
        "name: t\ndemand: {source: {kind: csv, path: demand.csv}, rules: {max_demand: 200, severity: {spike: warn}}}\n"
    )
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    spec = load(tmp_path / "pipeline.yaml")
    feed(tmp_path)
    ingest(spec, now=NOW)
    release(spec, RowSelection(rule="count_too_large"), now=NOW + DAY, **WHO)
    assert numbers(ingest(spec, now=NOW + 2 * DAY)) == (42, 0, 42, 0)
    assert count(spec, NOW + DAY) == 1540


def test_released_superseded_row_persists_against_its_source(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path, f"A,{LAST},154", last="150")
    assert numbers(ingest(spec, now=NOW)) == (43, 42, 0, 1)
    assert count(spec, NOW) == 154
    release(spec, RowSelection(rule="superseded"), now=NOW + DAY, **WHO)
    for night in (2, 3):
        assert numbers(ingest(spec, now=NOW + night * DAY)) == (43, 0, 42, 1)
        assert count(spec, NOW + night * DAY) == 150
    feed(tmp_path, last="154")  # the released row is gone; the other row's value was known when it was released
    assert numbers(ingest(spec, now=NOW + 4 * DAY)) == (42, 0, 42, 0)
    assert count(spec, NOW + 4 * DAY) == 150
    feed(tmp_path, last="160")  # a new value
    assert numbers(ingest(spec, now=NOW + 5 * DAY)) == (42, 1, 41, 0)
    feed(tmp_path, last="154")  # new again, after the correction
    assert numbers(ingest(spec, now=NOW + 6 * DAY)) == (42, 1, 41, 0)
    assert count(spec, NOW + 6 * DAY) == 154


def test_correction_after_a_released_spike_counts_even_if_repeated(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path, last="150")
    ingest(spec, now=NOW)
    feed(tmp_path, last="1540")
    ingest(spec, now=NOW)
    release(spec, RowSelection(rule="spike"), now=NOW + DAY, **WHO)
    assert numbers(ingest(spec, now=NOW + 2 * DAY)) == (42, 0, 42, 0)
    feed(tmp_path, last="150")
    ingest(spec, now=NOW + 3 * DAY)
    assert count(spec, NOW + 3 * DAY) == 150


@pytest.mark.parametrize("instant", [False, True])
def test_repeat_that_breaks_a_later_rule_keeps_the_valid_reading(tmp_path: Path, instant: bool) -> None:
    columns = ", columns: {recorded_at: at}" if instant else ""
    text = f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}{columns}}}\ncalendar: {{holidays: false}}\n"
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    spec = load(tmp_path / "pipeline.yaml")
    counts = [*enumerate(map(usual, range(DAYS))), (DAYS - 1, 154), (DAYS - 1, 1540), (DAYS - 1, 1541)]
    rows = [
        f"A,{FIRST + timedelta(day)},{value}" + (f",{FIRST + timedelta(day + 1)}T01:00Z" if instant else "")
        for day, value in counts
    ]
    header = "depot_id,date,demand" + (",at" if instant else "")
    (tmp_path / "demand.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    assert numbers(ingest(spec, now=NOW)) == (45, 42, 0, 3)
    assert count(spec, NOW) == 154  # the last row that breaks no rule
    assert sorted((row.rule, row.row) for row in quarantined_rows(spec)) == [
        ("spike", 45),
        ("spike", 46),
        ("superseded", 43),
    ]
    before = Lake(spec.lake_url).version("demand")
    assert numbers(ingest(spec, now=NOW + DAY)) == (45, 0, 42, 3)
    assert Lake(spec.lake_url).version("demand") == before
    spike = next(row for row in quarantined_rows(spec) if row.row == 46)
    release(spec, RowSelection((spike.id,)), now=NOW + DAY, **WHO)
    assert count(spec, NOW + DAY) == 1541


def test_rejected_in_place_change_is_one_row_across_runs_and_stays_released(tmp_path: Path) -> None:
    text = "name: t\ndemand: {source: {kind: csv, path: demand.csv}, columns: {recorded_at: at}}\n"
    (tmp_path / "pipeline.yaml").write_text(text + "calendar: {holidays: false}\n", "utf-8")
    spec = load(tmp_path / "pipeline.yaml")

    def feed_with(last: int) -> None:
        counts = [*map(usual, range(DAYS - 1)), last]
        rows = [f"A,{FIRST + timedelta(n)},{v},{FIRST + timedelta(n + 1)}T01:00Z" for n, v in enumerate(counts)]
        (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date,demand,at", *rows]) + "\n", "utf-8")

    feed_with(150)
    assert numbers(ingest(spec, now=NOW)) == (DAYS, DAYS, 0, 0)
    feed_with(1540)  # at the same instant
    for night in (1, 2, 3):
        assert numbers(ingest(spec, now=NOW + night * DAY)) == (DAYS, 0, DAYS - 1, 1)
    row = only(quarantined_rows(spec))
    assert f"{LAST + DAY}T01:00:00+00:00" in row.content
    release(spec, RowSelection((row.id,)), now=NOW + 4 * DAY, **WHO)
    for night in (5, 6):
        assert numbers(ingest(spec, now=NOW + night * DAY)) == (DAYS, 0, DAYS, 0)
        assert count(spec, NOW + night * DAY) == 1540


def test_empty_quarantine_lists_nothing_and_history_still_works(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path, last="150")
    assert numbers(ingest(spec, now=NOW)) == (DAYS, DAYS, 0, 0)
    assert quarantined_rows(spec) == quarantined_rows(spec, RowSelection(depot_id="A"), states=EVERYTHING) == []
    assert [version.demand for version in versions(spec, "A", LAST).versions] == [150]


def test_identical_rows_have_separate_ids_and_ambiguous_ids_are_rejected(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path, *["B,2024-01-05,many"] * 3)
    result = ingest(spec, now=NOW)
    assert (result.quarantined, len(quarantined_rows(spec))) == (4, 4)
    ids = [row.id for row in quarantined_rows(spec, RowSelection(rule="count_form"))]
    assert len({*ids}) == 3
    with pytest.raises(SpecError, match="found id 'zzzz', but no quarantined row has such an id"):
        quarantined_rows(spec, RowSelection(("zzzz",)))
    with pytest.raises(SpecError, match=f"found id '{ids[0][:3]}', but wanted at least its first 4 digits"):
        quarantined_rows(spec, RowSelection((ids[0][:3],)))
    with pytest.raises(SpecError, match="found no selection of rows"):
        discard(spec, RowSelection(), now=NOW, **WHO)
    with pytest.raises(SpecError, match="--rule: found 'spikes'"):
        discard(spec, RowSelection(rule="spikes"), now=NOW, **WHO)


def test_history_of_a_day_shows_all_versions_and_rejected_rows(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path, last="150")
    ingest(spec, now=NOW)
    feed(tmp_path, last="1540")
    ingest(spec, now=NOW + DAY)
    feed(tmp_path, last="154")
    ingest(spec, now=NOW + 2 * DAY)
    day = versions(spec, "A", LAST)
    assert [(v.demand, v.recorded_at, v.counts, v.row) for v in day.versions] == [
        (150.0, NOW, False, 43),
        (154.0, NOW + 2 * DAY, True, 43),
    ]
    refused = only(list(day.refused))
    assert (refused.rule, refused.recorded_at, refused.state) == ("spike", NOW + DAY, "settled")
    with pytest.raises(NoUsableData, match=r"depot 'A' has no readings on 2025-01-01; .* 2024-01-01 to 2024-02-11"):
        versions(spec, "A", date(2025, 1, 1))
    with pytest.raises(NoUsableData, match=r"no depot 'B' is known.*1 depot"):
        versions(spec, "B", LAST)


def test_rows_of_a_stopped_batch_are_found_by_its_rule(spec: Spec, tmp_path: Path) -> None:
    feed(tmp_path, last="150")
    ingest(spec, now=NOW)
    rows = [f"{depot},{FIRST + timedelta(day)},{usual(day)}" for depot in "KL" for day in range(DAYS)]
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows]) + "\n", "utf-8")
    assert (ingest(spec, now=NOW + DAY).stopped or "").startswith("other_depots: ")
    stopped = quarantined_rows(spec, RowSelection(rule="batch_stopped"))
    assert len(stopped) == len(rows)
    assert quarantined_rows(spec, RowSelection(rule="fewer_rows")) == []
    assert discard(spec, RowSelection(rule="other_depots"), now=NOW + DAY, **WHO) == stopped
    assert quarantined_rows(spec) == []


def test_single_rejected_order_is_released_as_one_order(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "name: t\ndemand: {source: {kind: csv, path: demand.csv}, aggregate: count}\n"
        "depots: {source: {kind: csv, path: depots.csv}}\ncalendar: {holidays: false}\n",
        "utf-8",
    )
    (tmp_path / "depots.csv").write_text("depot_id\nA\n", "utf-8")
    rows = [f"A,{FIRST + timedelta(day)}" for day in range(9)]
    wrong = ["A,2024-99-01", ",2024-01-02", "Z,2024-01-03"]
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date", *rows, *wrong]) + "\n", "utf-8")
    spec = load(tmp_path / "pipeline.yaml")
    ingest(spec, now=NOW)
    for rule in ("date_form", "depot_missing", "unknown_depot"):
        with pytest.raises(SpecError, match="1 of 1 rows cannot be released as they stand, so none was"):
            release(spec, RowSelection(rule=rule), now=NOW, **WHO)
    (tmp_path / "depots.csv").write_text("depot_id\nA\nZ\n", "utf-8")
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date", *rows]) + "\n", "utf-8")
    ingest(spec, now=NOW + DAY)
    release(spec, RowSelection(rule="unknown_depot"), now=NOW + DAY, **WHO)
    [of_day] = versions(spec, "Z", date(2024, 1, 3)).versions
    assert of_day.demand == 1
