"""A run's report is served in a sandbox to readers of every city, and linked from the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.registry import addresses
from forecaster.registry.addresses import RegisteredRun
from tests.dashboards.guests import SECRET, declared, house, signed_in
from tests.dashboards.seed import fill, publication, remember

REPORT = "<!doctype html><html><style>p { color: red }</style><p>how tonight's model did</p></html>"


@pytest.fixture
def spec(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """A pipeline whose first run has a report and a run in MLflow."""
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    file = tmp_path / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}\nregistry: http://ada:pw@mlflow.internal:5000"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: var\nledger: {url}\n", "utf-8")
    spec = load(file)
    fill(url, publication())
    remember(url)
    addresses.keep(spec, "night-1", RegisteredRun("7", "ab12", "2"))
    spec.paths.report_of("night-1").write_text(REPORT, "utf-8")
    return spec


def test_a_report_is_served_in_a_sandbox_and_linked_from_champion_and_health(url: str, spec: Spec) -> None:
    get = signed_in(house(url, declared(), spec=spec), "vic")
    answer = get("/runs/night-1/report")
    assert (answer.status_code, answer.text) == (200, REPORT)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert answer.headers["x-frame-options"] == "DENY"
    assert "sandbox" not in get("/health").headers["content-security-policy"]
    run = "http://mlflow.internal:5000/#/experiments/7/runs/ab12?workflowType=machine_learning"
    for page in (get("/champion").text, get("/health").text):
        assert 'href="/runs/night-1/report"' in page
        assert f'href="{run}"' in page
        assert "ada:pw" not in page
    assert "http://mlflow.internal:5000/#/models/harbor-fleet/versions/2?workflowType" in get("/champion").text


@pytest.mark.parametrize("run", ["night-2", "..%2F..%2Freport", ".", "night-1%00"])
def test_a_run_without_a_report_has_none(url: str, spec: Spec, run: str) -> None:
    assert signed_in(house(url, declared(), spec=spec), "vic")(f"/runs/{run}/report").status_code == 404


def test_a_reader_of_one_city_gets_neither_report_nor_links(url: str, spec: Spec) -> None:
    access = declared(cities={"vic": ["Boston"]})
    get = signed_in(house(url, access, spec=spec), "vic")
    assert get("/runs/night-1/report").status_code == 403
    assert "/runs/night-1" not in get("/health").text
    assert "mlflow.internal" not in get("/champion").text
    assert signed_in(house(url, access, spec=spec), "ada")("/runs/night-1/report").status_code == 200
    without = signed_in(house(url, access), "ada")  # without a pipeline file
    assert without("/runs/night-1/report").status_code == 404
