from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from forecaster.check.dry_run import check
from forecaster.check.text_report import render, verdict
from forecaster.config import Spec, load
from forecaster.demand.ingest import ingest
from forecaster.errors import LakeError, SpecError
from forecaster.lake import Lake

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
SPEC = """
name: t
demand: {source: {kind: csv, path: demand.csv}}
depots: {source: {kind: csv, path: depots.csv}, columns: {opened: opened}, static: [city]}
calendar: {holidays: false, events: {source: {kind: csv, path: events.csv}}, known_future: [promo]}
"""
FILES = {
    "demand.csv": "depot_id,date,demand\n"
    "A,2024-03-03,4\nA,2024-03-04,0\nA,2024-03-05,8\nB,2024-03-05,6\nB,2024-03-04,-2\n",
    "depots.csv": "depot_id,opened,city\nA,2024-03-01,Ulm\nB,2024-03-03,Bonn\nC,2024-03-05,Bonn\n",
    "events.csv": "date,kind,name\n2024-03-07,promo,fair\n",
    "pipeline.yaml": SPEC,
}


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return load(tmp_path / "pipeline.yaml")


def lines(spec: Spec) -> list[str]:
    trial = check(spec, now=NOW)
    return [*map(str, render(trial, tables=False)), verdict(trial)]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_check_reports_the_same_findings_on_days_ahead_as_a_nightly_run(spec: Spec) -> None:
    text = (
        FILES["pipeline.yaml"]
        .replace("[promo]", "[promo, rain]")
        .replace("opened: opened", "opened: opened, closed: closed")
    )
    (spec.folder / "pipeline.yaml").write_text(text, "utf-8")
    (spec.folder / "demand.csv").write_text(
        "depot_id,date,demand,rain\n" + "".join(f"A,2024-02-{day},4,0\n" for day in range(10, 30)), "utf-8"
    )
    (spec.folder / "depots.csv").write_text("depot_id,opened,closed,city\nA,2124-03-01,,Ulm\n", "utf-8")
    ingested = check(load(spec.folder / "pipeline.yaml"), now=NOW).ingested
    assert ingested is not None
    assert [finding.rule for finding in ingested.findings] == ["out_of_business", "covariate_missing"]
    assert "covariate 'rain': found no value on 7 of 7 open depot-days from 2024-03-01" in ingested.findings[1].message


def test_misspelled_covariate_is_refused_and_a_kind_of_event_may_be_still_to_come(spec: Spec) -> None:
    text = FILES["pipeline.yaml"].replace("[promo]", "[Promo, temprature]")
    (spec.folder / "pipeline.yaml").write_text(text, "utf-8")
    (spec.folder / "demand.csv").write_text("depot_id,date,demand,temperature\nA,2024-03-05,4,21.5\n", "utf-8")
    with pytest.raises(SpecError) as refusal:
        check(load(spec.folder / "pipeline.yaml"), now=NOW)
    assert str(refusal.value).replace(f"{spec.folder}/", "") == (
        "calendar.known_future: found 'temprature', wanted a column of demand.csv or a kind of event; did you mean "
        "'temperature'?"
    )
    (spec.folder / "pipeline.yaml").write_text(text.replace("Promo, temprature", "prmo"), "utf-8")
    with pytest.raises(SpecError, match=r"found 'prmo', wanted .*; did you mean 'promo'\?"):
        check(load(spec.folder / "pipeline.yaml"), now=NOW)
    (spec.folder / "pipeline.yaml").write_text(text.replace("temprature", "promo2, strike"), "utf-8")
    assert check(load(spec.folder / "pipeline.yaml"), now=NOW).profile is not None


def test_readings_older_than_max_age_days_are_not_usable(spec: Spec) -> None:
    trial = check(spec, now=NOW.replace(day=20))
    [sentence] = trial.caveats
    assert trial.fault is None
    assert sentence.startswith("The newest reading is of 2024-03-05, 14 days before the last complete day")
    assert f"caveat    {sentence}" in [*render(trial, tables=False)]
    strict = FILES["pipeline.yaml"].replace("path: demand.csv}}", "path: demand.csv}, rules: {max_age_days: 13}}")
    (spec.folder / "pipeline.yaml").write_text(strict, "utf-8")
    trial = check(load(spec.folder / "pipeline.yaml"), now=NOW.replace(day=20))
    assert "14 days before the last complete day; wanted at most 13" in verdict(trial)
    assert trial.profile is not None


def test_caveat_for_an_archive_names_the_as_of_day_and_the_key_to_set(spec: Spec) -> None:
    text, later = FILES["pipeline.yaml"], NOW.replace(month=5, day=5)
    assert check(spec, now=later.replace(day=4)).caveats[1:] == ()  # 60 days
    [_, undeclared] = check(spec, now=later).caveats
    assert undeclared == (
        "For an archive, set demand.recorded: next_day, then type --as-of 2024-03-06 behind the pipeline file's name "
        "(forecaster check, forecaster run)."
    )
    (spec.folder / "pipeline.yaml").write_text(
        text.replace("path: demand.csv}}", "path: demand.csv}, recorded: next_day}"), "utf-8"
    )
    archive = load(spec.folder / "pipeline.yaml")
    [_, declared] = check(archive, now=later).caveats
    assert declared.startswith("For an archive, type --as-of 2024-03-06 ")
    trial = check(archive, now=later, as_of=datetime(2024, 3, 6, 12, tzinfo=UTC))
    assert trial.caveats == ()
    assert trial.profile == check(archive, now=NOW).profile


def test_caveat_names_a_city_of_the_page_without_depots(spec: Spec) -> None:
    cities = "page: {access: {cities: {ana: [Bon, Ulm], bo: ['*']}}}\n"
    (spec.folder / "pipeline.yaml").write_text(FILES["pipeline.yaml"] + cities, "utf-8")
    [sentence] = check(load(spec.folder / "pipeline.yaml"), now=NOW).caveats
    assert sentence == "page.access.cities: found 'Bon' for ana, wanted a city of the depots; did you mean 'Bonn'?"


def test_as_of_an_earlier_day_only_uses_data_known_by_then(spec: Spec) -> None:
    (spec.folder / "pipeline.yaml").write_text(
        FILES["pipeline.yaml"].replace("path: demand.csv}}", "path: demand.csv}, recorded: next_day}"), "utf-8"
    )
    archive = load(spec.folder / "pipeline.yaml")
    earlier = check(archive, now=NOW, as_of=datetime(2024, 3, 5, 12, tzinfo=UTC)).profile
    assert earlier is not None
    assert str(earlier.cutoff) == "2024-03-04"
    undeclared = check(spec, now=NOW, as_of=datetime(2024, 3, 5, 12, tzinfo=UTC))
    assert "set `demand.recorded: next_day`" in verdict(undeclared)


def test_dry_run_reports_sources_rows_and_profile(spec: Spec) -> None:
    trial = check(spec, now=NOW)
    assert trial.fault is None
    assert [(source.place, source.rows) for source in trial.sources] == [
        ("depots.source", 3),
        ("calendar.events.source", 1),
        ("demand.source", 5),
    ]
    assert trial.ingested is not None
    assert (trial.ingested.read, trial.ingested.accepted, trial.ingested.quarantined) == (5, 4, 1)
    profile = trial.profile
    assert profile is not None
    assert (profile.depots, profile.days, profile.silent) == (3, 3, 1)
    assert (profile.first, profile.cutoff) == (date(2024, 3, 3), date(2024, 3, 5))
    assert profile.targets == (date(2024, 3, 6), date(2024, 3, 12))
    # A is open on 3 days, B on 3 and C on 1: 7 of 9; counts 4, 0, 8 and 6
    assert profile.states == {"observed": 3, "zero": 1, "closed": 2, "missing": 3}
    assert (profile.open_days, profile.median) == (7, 5.0)
    assert (profile.covariates, profile.statics) == (("promo",), ("city",))
    assert trial.evidence is not None
    assert trial.evidence.rows[["depot_id", "rule"]].to_numpy().tolist() == [["B", "count_negative"]]


def test_dry_run_writes_nothing(spec: Spec) -> None:
    check(spec, now=NOW)
    assert sorted(path.name for path in spec.folder.iterdir()) == sorted(FILES)


def test_rows_already_in_the_lake_count_as_unchanged_and_the_lake_is_not_modified(spec: Spec) -> None:
    before = ingest(spec, now=NOW).versions
    bytes_before = files(Path(spec.lake_url))
    with (spec.folder / "demand.csv").open("a") as file:
        file.write("B,2024-03-03,3\n")
    trial = check(spec, now=NOW)
    assert trial.ingested is not None
    assert (trial.ingested.accepted, trial.ingested.unchanged, trial.ingested.quarantined) == (1, 4, 1)
    assert files(Path(spec.lake_url)) == bytes_before
    (spec.folder / "demand.csv").write_text(FILES["demand.csv"], "utf-8")
    assert ingest(spec, now=NOW).versions == before


def test_lake_behind_a_url_gives_the_same_result_as_a_folder(spec: Spec) -> None:
    ingest(spec, now=NOW)
    here, there = (check(spec.model_copy(update={"lake": lake}), now=NOW) for lake in (None, f"file://{spec.lake_url}"))
    assert here.profile == there.profile
    assert here.ingested is not None
    assert there.ingested is not None
    assert (there.ingested.unchanged, there.ingested.quarantined) == (here.ingested.unchanged, 1)


def test_rows_added_while_the_lake_is_copied_do_not_count(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(spec, now=NOW)
    copytree, later = shutil.copytree, spec.model_copy(deep=True)
    (spec.folder / "later.csv").write_text("depot_id,date,demand\nA,2024-03-02,5\n", "utf-8")
    later.demand.source.__dict__["path"] = "later.csv"

    def during(there: Path, here: Path, *rest: object, **options: object) -> object:
        if Path(there).name == "demand" and later.lake is None:
            later.__dict__["lake"] = spec.lake_url
            ingest(later, now=NOW)  # after the log was copied, before the files are
        return copytree(there, here, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "copytree", during)
    trial = check(spec, now=NOW)
    assert trial.ingested is not None
    assert trial.ingested.unchanged == 4
    assert Lake(spec.lake_url).read("demand").num_rows == 5
    assert trial.ingested.versions["demand"] == DeltaTable(f"{spec.lake_url}/demand").version() - 1


def test_lake_that_cannot_be_copied_raises_lake_error(spec: Spec) -> None:
    (Path(spec.lake_url) / "demand").mkdir(parents=True)
    with pytest.raises(LakeError, match=r"lake table 'demand' at .* cannot be copied"):
        check(spec, now=NOW)


def test_day_known_only_to_the_lake_determines_the_cutoff(spec: Spec) -> None:
    ingest(spec, now=NOW)
    (spec.folder / "demand.csv").write_text("depot_id,date,demand\nA,2024-03-03,4\n", "utf-8")
    profile = check(spec, now=NOW).profile
    assert profile is not None
    assert profile.cutoff == date(2024, 3, 5)


def test_reports_every_unreadable_source(spec: Spec) -> None:
    (spec.folder / "depots.csv").unlink()
    (spec.folder / "demand.csv").write_text("depot,date,demand\n", "utf-8")
    trial = check(spec, now=NOW)
    assert trial.fault == "2 of 3 sources cannot be read"
    text = "\n".join(lines(spec))
    assert "depots.csv: no such file" in text
    assert "events.csv, 1 row" in text
    assert "wanted 'depot_id'" in text
    assert "found columns depot, date, demand; wanted 'depot_id'" in text
    assert text.endswith("not usable: 2 of 3 sources cannot be read")


def test_file_without_any_accepted_row_is_not_usable(spec: Spec) -> None:
    (spec.folder / "demand.csv").write_text("depot_id,date,demand\nA,2024-03-05,-1\n", "utf-8")
    trial = check(spec, now=NOW)
    assert trial.fault == "no row was accepted"
    assert trial.ingested is not None
    assert [finding.rule for finding in trial.ingested.findings] == ["count_negative"]


def test_missing_environment_variable_raises_spec_error(spec: Spec) -> None:
    file = spec.folder / "pipeline.yaml"
    file.write_text("name: t\ndemand: {source: {kind: csv, path: '${NOT_SET_ANYWHERE}/demand.csv'}}\n", "utf-8")
    with pytest.raises(SpecError, match="environment variable NOT_SET_ANYWHERE, which is not set"):
        check(load(file), now=NOW)


def test_rows_of_the_legacy_system_are_checked_too(spec: Spec) -> None:
    (spec.folder / "pipeline.yaml").write_text(SPEC + "legacy: {source: {kind: csv, path: old.csv}}\n", "utf-8")
    (spec.folder / "old.csv").write_text("depot_id,date,forecast\nA,2024-03-04,5\nA,04.03.,5\n", "utf-8")
    trial = check(load(spec.folder / "pipeline.yaml"), now=NOW)
    assert ("legacy.source", 2) in [(source.place, source.rows) for source in trial.sources]
    assert trial.ingested is not None
    assert [finding.message for finding in trial.ingested.findings if finding.rule == "legacy_form"] == [
        "old.csv:3: column 'date': found '04.03.', wanted a date such as 2024-03-05; the row is left out"
    ]
