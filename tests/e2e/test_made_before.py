"""A state that an earlier version made still opens and publishes, and every name that others hold on to is still there.

The code behind a name may move and be called otherwise. So these tests know commands, files, tables, columns and
addresses, and nothing of the inside; see `tests/fixtures/README.md`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import outside_names, small_fleet
from tests.fixtures.make_made_before import LISTING, unpacked
from tests.small_fleet import NEXT, NIGHT, PLANNED, RESTATED

pytestmark = pytest.mark.e2e

Call = Callable[..., tuple[int, str, str]]
CLOSE = 1e-6  # relative: what another processor's rounding may differ by


@pytest.fixture(scope="module")
def listing() -> Any:
    return json.loads(LISTING.read_text("utf-8"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The pipeline file of the unpacked state, which a test may change."""
    return unpacked(tmp_path)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for tests that only read."""
    return unpacked(tmp_path_factory.mktemp("opened"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with small_fleet.page(unpacked(tmp_path_factory.mktemp("page"))) as client:
        yield client


@pytest.fixture(scope="module")
def api(page: httpx.Client) -> Any:
    return outside_names.of_api(page.get("/api/v1/openapi.json").json())


@pytest.fixture(scope="module")
def night(opened: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline file of a state that the code of the day has made, where a record of before waited; its programs
    compile without optimizing, in a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
        return small_fleet.fresh(opened.parent, tmp_path_factory.mktemp("night"))


def rows(file: Path, query: str, database: str = "ledger.db") -> list[dict[str, Any]]:
    """Rows of the pipeline's ledger, or another database of its state."""
    with closing(sqlite3.connect(file.parent / "var" / database)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def quantiles(file: Path, publication: int) -> dict[tuple[str, str], list[float]]:
    """Depot and day → what was published of it; the totals under the name of their city."""
    query = "select depot_id as what, target_date, quantiles from published where publication_id = {0} union all "
    query += "select '/' || city, target_date, quantiles from published_totals where publication_id = {0}"
    return {
        (row["what"], row["target_date"]): json.loads(row["quantiles"]) for row in rows(file, query.format(publication))
    }


def days(file: Path, publication: int) -> list[dict[str, Any]]:
    """What else was published of each depot and day."""
    columns = "depot_id, target_date, horizon, open, override"
    return rows(file, f"select {columns} from published where publication_id = {publication} order by 1, 2")


def drivers(file: Path, publication: int) -> list[dict[str, Any]]:
    """Of all depots together, day by day: which of them gets a scarce van is decided otherwise than it was."""
    query = f"select target_date, sum(drivers) as drivers from published where publication_id = {publication}"
    return rows(file, f"{query} group by 1 order by 1")


def hold(before: Any, now: Any) -> None:
    missing = outside_names.gone(before, now)
    assert not missing, "gone or renamed, though others hold on to it: " + ", ".join(missing)


# --- it opens, and goes on --------------------------------------------------------------------------------------------


def test_the_champion_of_before_publishes_what_it_published_before(file: Path, call: Call, listing: Any) -> None:
    code, out, err = call("predict", file, "--as-of", str(NEXT), "--json")
    assert code == 0, out + err
    assert json.loads(out)["tier"] == "champion"
    before, now = rows(file, "select * from publications where publication_id >= 3 order by publication_id")
    same = (
        "pipeline",
        "cutoff",
        "tier",
        "model",
        "bundle_digest",
        "as_of",
        "levels",
        "horizon",
        "timezone",
        "note",
    )
    assert {name: now[name] for name in same} == {name: before[name] for name in same}
    published = quantiles(file, 3)
    assert len(published) == (4 + 3) * 7
    assert quantiles(file, now["publication_id"]) == {
        key: pytest.approx(values, rel=CLOSE, abs=CLOSE) for key, values in published.items()
    }
    assert days(file, now["publication_id"]) == days(file, 3)
    assert drivers(file, now["publication_id"]) == drivers(file, 3)
    assert rows(file, "select outcome, kind from runs order by started_at desc limit 1") == [
        {"outcome": "published", "kind": "predict"}
    ]
    hold(listing["publication"], outside_names.of_publication(file.parent / "var" / "ledger.db"))


def test_a_bundle_of_before_is_believed_as_a_file_and_refused_when_it_was_changed(file: Path, call: Call) -> None:
    packed = sorted((file.parent / "var" / "bundles").glob("*.tar.zst"))
    assert len(packed) == 2
    for bundle in packed:
        code, out, err = call("predict", file, "--as-of", str(NEXT), "--bundle", bundle, "--json")
        assert (code, json.loads(out)["bundle_digest"]) == (0, bundle.name.removesuffix(".tar.zst")), err
    folder = packed[0].with_name(packed[0].name.removesuffix(".tar.zst"))
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"D0", b"D8"))
    assert call("predict", file, "--as-of", str(NEXT), "--bundle", folder, "--json")[0] == 2


def test_every_run_of_before_is_replayed_to_the_published_values(opened: Path, call: Call) -> None:
    runs = rows(opened, "select run_id, kind from runs order by started_at")
    assert [run["kind"] for run in runs] == ["night", "night", "predict"]
    for run in runs:
        code, out, err = call("replay", opened, run["run_id"], "--verify")
        assert code == 0, out + err
        assert "values are the published ones" in out


def test_the_commands_read_what_people_and_nights_have_left(opened: Path, call: Call) -> None:
    def output_of(*arguments: object) -> Any:
        code, out, err = call(*arguments)
        assert code == 0, err
        return out

    waiting = json.loads(output_of("quarantine", "list", opened, "--json"))
    assert [(row["rule"], row["depot_id"], row["state"]) for row in waiting] == [("count_negative", "D0", "open")]
    every = json.loads(output_of("quarantine", "list", opened, "--all", "--json"))
    assert {(row["rule"], row["state"], row["by"]) for row in every} == {
        ("count_negative", "open", None),
        ("unknown_depot", "discarded", "Ana"),
    }
    assert "found '-4', wanted 0 or more" in output_of("quarantine", "show", opened, waiting[0]["id"])
    versions = json.loads(output_of("history", opened, "D0", RESTATED, "--json"))["versions"]
    assert [(row["demand"], row["covariates"], row["counts"]) for row in versions] == [
        (32.0, {"rain": 1.0}, False),
        (55.0, {"rain": 1.0}, True),
    ]
    assert "as Pier 3" in output_of("history", opened, "D3", "2026-01-05")
    overrides = json.loads(output_of("overrides", opened, "--json"))
    assert [(row["depot_id"], row["orders"], row["reason"], row["by"]) for row in overrides] == [
        ("D2", 110, "other", "Ana"),
        ("D1", 150, "weather", "Ana"),
        ("D0", 70, "weather", "Ana"),
        ("D3", 160, "other", "Bo"),
    ]
    assert [row["withdrawn"] is not None for row in overrides] == [False, False, True, False]
    assert json.loads(output_of("overrides", opened, "--worth", "--json"))["everyone"]["days"] == 1
    champions = json.loads(output_of("champions", opened, "--json"))
    assert [(row["model_version"], row["by"], row["reason"]) for row in champions] == [
        (None, "gate", "admitted"),
        ("1", "gate", "admitted"),
    ]
    assert champions[0]["previous_digest"] == champions[1]["bundle_digest"]
    assert [entry["path"] for entry in json.loads(output_of("audit", opened, "--json"))] == [
        "/api/v1/links",
        "/api/v1/overrides",
    ]
    assert [link["city"] for link in json.loads(output_of("links", opened, "--json"))] == ["Boston"]
    assert "tier champion" in output_of("status", opened)
    assert "cutoff 2026-05-10" in output_of("status", opened)


def test_a_plan_compares_with_the_night_of_before(opened: Path, call: Call) -> None:
    code, out, err = call("plan", opened)
    assert code == 0, err
    assert "small-fleet" in out


def test_the_doctor_finds_nothing_broken_in_it(opened: Path, call: Call) -> None:
    _, out, _ = call("doctor", opened)
    about = [line for line in out.splitlines() if any(word in line for word in ("lake ", "ledger ", "champion "))]
    assert len(about) >= 8
    assert [line for line in about if line.startswith("broken")] == []


def test_a_backup_of_before_is_restored_and_replays_its_night(file: Path, call: Call, listing: Any) -> None:
    shutil.rmtree(file.parent / "var")
    code, _, err = call("restore", file, "--from", file.parent / "backup")
    assert code == 0, err
    [run] = rows(file, "select run_id from runs")
    code, out, err = call("replay", file, run["run_id"], "--verify")
    assert code == 0, out + err
    again = file.parent / "again"
    code, _, err = call("backup", file, "--to", again)
    assert code == 0, err
    hold(listing["backup"], list(json.loads((again / "backup.json").read_text("utf-8"))))


def test_the_page_serves_what_was_published_before(page: httpx.Client, opened: Path) -> None:
    def get_json(view: str, **parameters: Any) -> Any:
        answer = page.get(f"/api/v1/{view}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert page.get("/readyz").text == "publication 3 of small-fleet\n"
    about = get_json("publication")["about"]
    assert (about["publication_id"], about["tier"], about["cutoff"]) == (3, "champion", str(NIGHT))
    assert get_json("publication", publication=1)["about"]["tier"] == "fresh"
    assert [row["publication_id"] for row in get_json("publications")["rows"]] == [3, 2, 1]
    [row] = [row for row in get_json("depots")["rows"] if (row["depot_id"], row["target_date"]) == ("D1", str(PLANNED))]
    assert row["median"] == 150
    quantiles_of_day = {row["target_date"]: row["quantiles"] for row in get_json("depots/D1")["days"]}
    assert quantiles_of_day == {day: values for (what, day), values in quantiles(opened, 3).items() if what == "D1"}
    assert [row["orders"] for row in get_json("overrides")["overrides"]] == [110, 150, 70, 160]
    assert get_json("overrides/worth")["everyone"]["days"] == 1
    assert [row["outcome"] for row in get_json("runs")["runs"]] == ["published", "degraded", "published"]
    assert [row["reason"] for row in get_json("champions")["rows"]] == ["admitted", "admitted"]
    assert {row["model"] for row in get_json("accuracy")["rows"]} >= {"forecast", "seasonal naive"}
    assert [row["method"] for row in get_json("audit")["rows"]] == ["POST", "POST"]
    assert [row["view"] for row in get_json("links")["rows"]] == ["network"]
    # asks the model of what was kept
    closed = get_json("what-if", depot="D0", date=str(PLANNED), kind="closed", value=1)
    assert closed["before"]["orders"] == pytest.approx(quantiles(opened, 3)["D0", str(PLANNED)][1], rel=CLOSE)
    assert closed["after"]["orders"] == 0
    for path in ("/", "/depot/D1", "/roster", "/accuracy", "/value", "/champion", "/health", "/wall", "/overrides"):
        assert page.get(path).status_code == 200, path


def test_a_planner_goes_on_where_another_stopped(file: Path, call: Call) -> None:
    wish = ("--depot", "D0", "--date", str(PLANNED), "--orders", "44", "--reason", "weather", "--by", "Cy")
    code, _, err = call("override", file, *wish)
    assert code == 0, err
    code, _, err = call("withdraw", file, "4", "--by", "Cy")
    assert code == 0, err
    middle = {depot: values[1] for (depot, day), values in quantiles(file, 3).items() if day == str(PLANNED)}
    assert (middle["D0"], middle["D1"]) == (44, 150)
    assert middle["D3"] != 160


def test_the_champion_before_comes_back(file: Path, call: Call) -> None:
    code, out, err = call("rollback", file, "--reason", "to see it", "--by", "Cy")
    assert code == 0, out + err
    [first, _, last] = rows(file, "select bundle_digest, by from promotions order by id")
    assert (last["bundle_digest"], last["by"]) == (first["bundle_digest"], "Cy")


# --- a night of today, and what it calls things -----------------------------------------------------------------------


def test_a_night_of_today_calls_all_that_it_leaves_what_it_was_called_before(
    night: Path, opened: Path, listing: Any
) -> None:
    hold(listing["state"], outside_names.of_state(night.parent / "var", opened.parent / "var"))


def test_a_night_of_today_publishes_what_the_night_of_before_published(night: Path, opened: Path) -> None:
    [head] = rows(night, "select tier, cutoff, publication_id from publications")
    assert (head["tier"], head["cutoff"]) == ("fresh", str(NIGHT))
    overridden = [{"depot_id": "D1", "target_date": str(PLANNED)}, {"depot_id": "D3", "target_date": str(PLANNED)}]
    query = "select depot_id, target_date from published where publication_id = 3 and override is not null order by 1"
    assert rows(opened, query) == overridden
    then, now = quantiles(opened, 3), quantiles(night, 1)
    changed = {(row["depot_id"], row["target_date"]) for row in overridden}
    changed |= {key for key in then if key[0].startswith("/") and key[1] == str(PLANNED)}
    # Trained anew, on another processor too, where the training of before is not found: then nearly the same comes out.
    for key in then.keys() - changed:
        assert now[key] == pytest.approx(then[key], rel=0.05), key


def test_the_registry_is_told_of_the_night_that_waited(night: Path, opened: Path) -> None:
    [waited] = [path.name for path in (opened.parent / "var" / "registry_waiting").iterdir()]
    assert list((night.parent / "var" / "registry_waiting").iterdir()) == []
    runs = rows(night, f"select run_uuid from tags where key = 'run_id' and value = '{waited}'", "mlflow.db")
    assert len(runs) == 1
    query = f"select count(*) as metrics from latest_metrics where run_uuid = '{runs[0]['run_uuid']}'"
    assert rows(night, query, "mlflow.db")[0]["metrics"] > 100
    assert len(rows(night, "select version from model_versions", "mlflow.db")) == 2


def test_every_column_of_the_lake_of_before_is_written_today(night: Path, opened: Path) -> None:
    before, today = (
        {folder.name: outside_names.of_table(folder) for folder in (file.parent / "var" / "lake").iterdir()}
        for file in (opened, night)
    )
    assert before.keys() - today.keys() == {"decisions"}  # which a night does not make
    hold({table: before[table] for table in today.keys() & before.keys()}, today)


def test_every_command_takes_what_it_took(call: Call, listing: Any) -> None:
    hold(listing["commands"], outside_names.of_commands(call))


def test_every_key_of_the_pipeline_file_is_still_one(call: Call, listing: Any) -> None:
    hold(listing["pipeline file"], outside_names.of_schema(json.loads(call("schema")[1])))


def test_the_api_answers_at_every_address_as_it_did(api: Any, page: httpx.Client, listing: Any) -> None:
    hold(listing["api"], api)
    hold(listing["sheets"], outside_names.of_sheets(page, api))


def test_prefect_finds_every_flow_where_it_was_deployed(listing: Any) -> None:
    hold(listing["deployments"], outside_names.of_deployments())


def test_what_is_installed_promises_the_same_entry_points_and_variables(listing: Any) -> None:
    hold(listing["installation"], outside_names.of_installation())
