from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from forecaster.config import DATASETS, Spec, json_schema, load
from forecaster.config.model import Hosts
from forecaster.errors import SpecError

ROOT = Path(__file__).parents[2]
GOOD = "name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n"
PIPELINES = [*(ROOT / "data").rglob("*.yaml"), ROOT / "forecaster/operations/starter.yaml"]

Read = Callable[[str], Spec]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return a function that loads a pipeline file with a given text, named p.yaml."""
    monkeypatch.chdir(tmp_path)

    def write_and_load(text: str) -> Spec:
        Path("p.yaml").write_text(text, "utf-8")
        return load("p.yaml")

    return write_and_load


def mistakes(read: Read, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(text)
    return str(caught.value).splitlines()


def test_a_short_file_is_enough(read: Read) -> None:
    spec = read(GOOD)
    assert (spec.name, spec.horizon, spec.timezone) == ("t", 7, "UTC")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "training: {epoch: 3}",
            "unknown key 'epoch' in training; did you mean 'epochs'? Valid keys: at_least_every, batch_depots, epochs, "
            "history, hosts, learning_rate, members, precision, preset, schedule, seed, start, when",
        ),
        (
            "schedule: {x1: 3}",
            "unknown key 'x1' in schedule; valid keys: catch_up, cron, deadline, maintain, max_training_hours, refresh",
        ),
        ("horizon: 62", "horizon: found 62, wanted less than or equal to 61"),
        ("horizon: soon", "horizon: found 'soon', wanted a valid integer"),
        (
            "timezone: Europe/Berln",
            "timezone: found 'Europe/Berln', wanted a time zone such as Europe/Berlin; did you mean 'Europe/Berlin'?",
        ),
        (
            "legacy: {source: {kind: csv, path: a, date_format: DD.MM.YYYY}}",
            "legacy.source.date_format: found 'DD.MM.YYYY', wanted day, month and year as signs, as in '%d.%m.%Y' for "
            "05.03.2024",
        ),
        (
            "legacy: {source: {kind: csv, path: a, date_format: '%d.%m.'}}",
            "legacy.source.date_format: found '%d.%m.', wanted day, month and year as signs, as in '%d.%m.%Y' for "
            "05.03.2024",
        ),
        ("lake: 2024-01-01", "lake: found 2024-01-01, wanted text; put it in quotes"),
        (
            "training:",
            "training: found nothing, wanted a section with keys of at_least_every, batch_depots, epochs, "
            "history, hosts, learning_rate, members, precision, preset, schedule, seed, start, when",
        ),
        (
            "gate: {metric: wap}",
            "gate.metric: found 'wap', wanted 'wape', 'mape', 'mase' or 'wql'; did you mean 'wape'?",
        ),
        (
            "gate: {coverage: [0.9, 0.1]}",
            "gate.coverage: found [0.9, 0.1], wanted two shares in rising order, as in [0.74, 0.86]",
        ),
        (
            "gate: {beat: [me]}",
            "gate.beat.0: found 'me', wanted 'champion', 'seasonal_naive', 'seasonal_window_average', 'auto_ets', "
            "'theta', 'mstl', 'prophet' or 'lightgbm'",
        ),
        ("canary: {share: 0.7}", "canary.share: found 0.7, wanted less than or equal to 0.5"),
        ("canary: {nights: 1}", "canary.nights: found 1, wanted greater than or equal to 2"),
        (
            "canary: {night: 5}",
            "unknown key 'night' in canary; did you mean 'nights'? Valid keys: max_loss, nights, share",
        ),
        (
            "canary: {max_loss: 0.01}",
            "canary: max_loss: found 0.01, wanted at least gate.max_loss, which is 0.02: else one model could be "
            "promoted and go back",
        ),
        ("gate: {max_bias: .nan}", "gate.max_bias: found nan, wanted a finite number"),
        (
            "model: {quantiles: [0.1, 0.9]}",
            "model.quantiles: [0.5] missing: 0.5 is the point forecast, 0.1 and 0.9 are the 80 % band",
        ),
        (
            "model: {quantiles: [0.9, 0.5, 0.1]}",
            "model.quantiles: found [0.9, 0.5, 0.1], wanted quantile levels between 0 and 1 in rising order",
        ),
        (
            "training: {start: prior}\nmodel: {hidden: 64}",
            "training: start: found prior, which begins with 2 layers of 32, and section model with 2 of 64; wanted "
            "layers and hidden left out there, or start: fresh",
        ),
        (
            "model: {boosted: true}\nhorizon: 15",
            "model: boosted: found true, which fits trees for each of at most 14 days ahead, and a horizon of 15 days; "
            "wanted boosted: false, or a shorter horizon",
        ),
        (
            "schedule: {cron: nightly}",
            "schedule.cron: found 'nightly', wanted 'minute hour day month weekday', as in '15 3 * * *'",
        ),
        (
            "schedule: {cron: 15 25 * * *}",
            "schedule.cron: found '15 25 * * *', wanted a minute up to 59 and an hour up to 23",
        ),
        ("schedule: {deadline: '5:30'}", "schedule.deadline: found '5:30', wanted a local time as in '05:30'"),
        (
            "calendar: {subdivision: NY}",
            "calendar: found subdivision without country; wanted both, as in country: US, subdivision: NY",
        ),
        ("training: {seed: 4294967296}", "training.seed: found 4294967296, wanted less than 4294967296"),
        (
            "calendar: {known_future: [promo, rain, promo]}",
            "calendar.known_future: found promo more than once, wanted each name once",
        ),
        (
            "calendar: {known_future: [rain], lead_error: {rian: 1}}",
            "calendar: lead_error: found 'rian', wanted a covariate that known_future names; did you mean 'rain'?",
        ),
        (
            "calendar: {known_future: [open], lead_error: {open: 1}}",
            "calendar: lead_error: found 'open', which has no error, wanted a column of numbers",
        ),
        (
            "calendar: {known_future: [rain], lead_error: 2}",
            "calendar.lead_error: found 2, wanted a number for each covariate, as in {temperature: 1.5}",
        ),
        *(
            (
                f"calendar: {{known_future: [rain], lead_error: {{rain: {found}}}}}",
                f"calendar.lead_error: found {found} for rain, wanted a standard deviation of at least 0, or a list of "
                "them by day ahead that does not fall",
            )
            for found in ("-1", "'1'", "True", "[]", "[2.0, 1.5]", "[1, -2]")
        ),
        (
            "depots: {source: {kind: csv, path: d.csv}, static: [city, city]}",
            "depots.static: found city more than once, wanted each name once",
        ),
        ("depots: {}", "'depots.source' is missing"),
        (
            "depots: {source: depots.csv}",
            "depots.source: found 'depots.csv', wanted a source such as {kind: csv, path: demand.csv}",
        ),
        (
            "depots: {source: {path: depots.csv}}",
            "depots.source: found {'path': 'depots.csv'}, wanted a source such as {kind: csv, path: demand.csv}",
        ),
        (
            "depots: {source: {kind: cvs, path: a}}",
            "depots.source.kind: found 'cvs', wanted one of csv, excel, parquet, sql, delta, sample; did you mean "
            "'csv'?",
        ),
        ("depots: {source: {kind: csv}}", "'depots.source.path' is missing"),
        (
            "depots: {source: {kind: parquet, path: a, delimiter: x}}",
            "unknown key 'delimiter' in depots.source; "
            "valid keys: fill_down, ignore, kind, null_values, options, path, wide",
        ),
        ("1: one", "found 1 as a key, wanted a word; put it in quotes if it is meant"),
        ("name: again", "key 'name' stands twice"),
    ],
)
def test_a_mistake_is_reported_with_line_found_and_wanted(read: Read, line: str, message: str) -> None:
    assert mistakes(read, GOOD + line + "\n") == [f"p.yaml:3: {message}"]


def test_a_key_named_like_a_kind_of_source_is_named_in_full(read: Read) -> None:
    text = "name: t\ndemand:\n  csv: 1\n  source: {kind: csv, path: a, csv: 2}\n"
    assert [line.partition(";")[0] for line in mistakes(read, text)] == [
        "p.yaml:3: unknown key 'csv' in demand",
        "p.yaml:4: unknown key 'csv' in demand.source",
    ]


def test_all_mistakes_are_reported_at_once_in_order_of_lines(read: Read) -> None:
    text = "horizon: 0\nname: T\ndemand:\n  source: {kind: csv}\n  source: {kind: csv}\nhorizons: 3\n"
    assert [line.partition(",")[0].partition(";")[0] for line in mistakes(read, text)] == [
        "p.yaml:1: horizon: found 0",
        "p.yaml:2: name: found 'T'",
        "p.yaml:5: key 'demand.source' stands twice",
        "p.yaml:5: 'demand.source.path' is missing",
        "p.yaml:6: unknown key 'horizons'",
    ]


LAUGHS = "".join(f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in pairwise("abcdefghi"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.yaml:1: found no keys, wanted a pipeline file with at least `name` and `demand`"),
        ("# later\n", "p.yaml:1: found no keys, wanted a pipeline file with at least `name` and `demand`"),
        ("- a\n", "p.yaml:1: found no keys, wanted a pipeline file with at least `name` and `demand`"),
        ("name: t\ndemand: [a\n", "p.yaml:3: not valid YAML: while parsing a flow sequence"),
        ("name: t\n\tdemand: 1\n", "p.yaml:2: not valid YAML: while scanning for the next token"),
        ("name: t\n? [a]\n: b\n", "p.yaml:2: not valid YAML: while constructing a mapping: found unhashable key"),
        ("name: t\n---\nname: u\n", "p.yaml:2: not valid YAML: expected a single document"),
        ("a: &a {b: *a}\n", "p.yaml: found an alias that contains itself"),
        ("a: '\x01'\n", "p.yaml: not valid YAML: unacceptable character"),
        ("name: t\nhorizon: 2024-02-30\n", "p.yaml:2: found 2024-02-30, which cannot be (day is out of range"),
        (
            "name: t\nhorizon: !!timestamp 1\n",
            "p.yaml:2: found 1, which cannot be (no timestamp); wanted",
        ),
        (f"name: t\nhorizon: 0x{'f' * 5000}\n", f"p.yaml:2: found 0x{'f' * 38}…, a whole number of 5,002 characters"),
        (f"name: t\nhorizon: {'9' * 5000}\n", f"p.yaml:2: found {'9' * 40}…, a whole number of 5,000 characters"),
        (f"a: &a [x]\n{LAUGHS}", "p.yaml:6: found aliases that expand to more than 100,000 values, wanted"),
        (f"a: &a {{k: x}}\n{LAUGHS}", "p.yaml:6: found aliases that expand to more than 100,000 values, wanted"),
        ('name: t\nstate: "\\uD800"\n', "p.yaml:2: found '\\ud800', which holds half a letter; wanted text"),
    ],
)
def test_a_file_without_a_mapping_of_keys_is_rejected_with_the_line(read: Read, text: str, message: str) -> None:
    (line,) = mistakes(read, text)
    assert line.startswith(message)


def test_a_missing_file_is_reported_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no such file; `forecaster init DIR` makes one"):
        load(tmp_path / "p.yaml")


def test_a_folder_is_rejected_as_a_pipeline_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot be read: Is a directory; wanted a pipeline file"):
        load(tmp_path)


def test_a_byte_that_is_not_utf_8_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(b"name: t\n# caf\xe9\n")
    with pytest.raises(SpecError, match=r"p\.yaml:2: found a byte that is not UTF-8 text"):
        load(tmp_path / "p.yaml")


def test_paths_are_relative_to_the_file_and_use_the_environment(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = read(GOOD)
    monkeypatch.setenv("FEEDS", "/srv/feeds")
    assert spec.path("../a.csv") == spec.folder.parent / "a.csv"
    assert spec.path("${FEEDS}/a.csv") == Path("/srv/feeds/a.csv")
    assert spec.lake_url == str(spec.folder / "var/lake")
    assert spec.ledger_url == f"sqlite:///{spec.folder}/var/ledger.db"
    assert read(GOOD + "ledger: sqlite:///here.db\n").ledger_url == f"sqlite:///{spec.folder}/here.db"
    assert read(GOOD + "ledger: postgresql://db/forecasts\n").ledger_url == "postgresql://db/forecasts"
    assert read(GOOD + "lake: s3://bucket/lake\n").lake_url == "s3://bucket/lake"


def test_a_missing_environment_variable_is_named(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEEDS", raising=False)
    with pytest.raises(SpecError, match=r"'\$\{FEEDS\}/a.csv' needs the environment variable FEEDS, which is not set"):
        read(GOOD).path("${FEEDS}/a.csv")


def test_the_folder_of_datasets_has_a_default(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATASETS, raising=False)
    assert read(GOOD).path(f"${{{DATASETS}}}/a.parquet").name == "a.parquet"


def test_the_digest_does_not_depend_on_layout_comments_or_place(read: Read, tmp_path: Path) -> None:
    spec = read(GOOD)
    other = tmp_path / "other" / "q.yaml"
    other.parent.mkdir()
    other.write_text("# a note\ndemand:\n  source:\n    path: demand.csv\n    kind: csv\nname: t\n", "utf-8")
    assert load(other).digest == spec.digest


def test_the_digest_changes_with_any_value(read: Read) -> None:
    lines = ["", "seed: 1", "epochs: 31", "members: 4"]
    digests = {read(GOOD + f"training: {{{line}}}\n").digest for line in lines}
    assert len(digests) == len(lines)


def test_an_explicit_default_does_not_change_the_digest(read: Read) -> None:
    assert read(GOOD + "horizon: 7\n").digest == read(GOOD).digest


def test_a_spec_cannot_be_changed(read: Read) -> None:
    spec = read(GOOD)
    with pytest.raises(ValidationError, match="frozen"):
        spec.horizon = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        spec.training.epochs = 3  # type: ignore[misc]


def test_the_night_starts_at_the_scheduled_time(read: Read) -> None:
    assert read(GOOD + "schedule: {cron: 5 23 * * *}\n").schedule.hour_minute == (23, 5)


@pytest.mark.parametrize("file", PIPELINES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_json_schema_accepts_the_pipeline_files_of_this_repository(file: Path) -> None:
    Draft202012Validator.check_schema(json_schema())
    Draft202012Validator(json_schema()).validate(yaml.safe_load(file.read_text("utf-8")))
    load(file)


@pytest.mark.parametrize("wrong", [{"nam": "t"}, {"horizon": 62}, {"depots": {"source": {"kind": "cvs", "path": "a"}}}])
def test_the_json_schema_rejects_what_load_rejects(wrong: dict[str, Any]) -> None:
    good = {"name": "t", "demand": {"source": {"kind": "csv", "path": "a"}}}
    schema = Draft202012Validator(json_schema())
    assert schema.is_valid(good)
    assert not schema.is_valid(good | wrong)


def test_every_key_has_a_description_in_the_json_schema() -> None:
    schema = json_schema()
    sections = {"": schema, **schema["$defs"]}
    silent = [
        f"{name}.{key}"
        for name, section in sections.items()
        for key, value in section["properties"].items()
        if not value.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize("section", ["depots", "calendar: {events", "legacy"])
def test_only_demand_may_be_wide(read: Read, section: str) -> None:
    line = section + ": {source: {kind: csv, path: a.csv, wide: days}}" + "}" * section.count("{")
    [message] = mistakes(read, GOOD + line + "\n")
    assert "wide applies only to demand; wanted a table with one row for each record" in message


def test_a_wide_table_cannot_be_aggregated_by_count(read: Read) -> None:
    demand = "{aggregate: count, source: {kind: csv, path: a.csv, wide: depots}}"
    [message] = mistakes(read, f"name: t\ndemand: {demand}\n")
    assert "aggregate: count counts rows, and source.wide reads counts from cells; wanted only one of them" in message


def test_a_host_of_a_training_reports_the_hosts_and_limit_of_its_wait() -> None:
    hosts = Hosts(coordinator="trainer-0:8476", count=3)
    assert hosts.wait_of(1) == "waits for hosts 0, 2 at trainer-0:8476, at most 5 minutes"
