"""Prometheus rules and Alertmanager routes: each alert is tested firing and silent, has a runbook,
and uses existing metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from forecaster.core.metric_names import MEASURES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dashboards" / "prometheus"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "forecaster.rules.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
CASE_FILES = ("forecaster.rules_test.yml", "forecaster.rules_days_test.yml")
CASES = [
    check
    for file in CASE_FILES
    for case in yaml.safe_load((FOLDER / file).read_text("utf-8"))["tests"]
    for check in case["alert_rule_test"]
]
ROUTED = {"ForecasterDeploying", "ForecasterWatchdog"}  # they alert nobody
BY_NAME = {measure.prometheus: measure for measure in MEASURES.values()}


def tool(name: str, *arguments: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    """Call a program of Debian's `prometheus` or `prometheus-alertmanager`; skip the test if it is
    not installed."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: apt-get install prometheus prometheus-alertmanager")
    return subprocess.run([name, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_prometheus_accepts_its_files_and_each_rule_passes_its_cases() -> None:
    for arguments in (("check", "config", "prometheus.yml"), ("test", "rules", *CASE_FILES)):
        process = tool("promtool", *arguments)
        assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("bound", ["50 * {}", "0 * {}"])
def test_a_traffic_guard_of_another_size_fails_the_cases_of_its_alert(tmp_path: Path, bound: str) -> None:
    """A guard requires a minimum number of requests or rows before its alert may fire."""
    guard = re.compile(r"> (100+)$", re.MULTILINE)
    guarded = {name for name, rule in ALERTS.items() if guard.search(rule["expr"])}
    for file in CASE_FILES:
        content = yaml.safe_load((FOLDER / file).read_text("utf-8"))
        content["tests"] = [
            case for case in content["tests"] if guarded & {check["alertname"] for check in case["alert_rule_test"]}
        ]
        (tmp_path / file).write_text(yaml.safe_dump(content), "utf-8")
    mutated, count = [], 0
    for rule in RULES:
        if rule.get("alert", next(iter(guarded))) in guarded:  # including the recording rules for them
            expression, found = guard.subn(lambda size: f"> {bound.format(size[1])}", rule["expr"])
            mutated.append(rule | {"expr": expression})
            count += found
    content = {"groups": [{"name": "guarded", "rules": mutated}]}
    (tmp_path / "forecaster.rules.yml").write_text(yaml.safe_dump(content), "utf-8")
    process = tool("promtool", "test", "rules", *CASE_FILES, folder=tmp_path)
    failed = set(re.findall(r"alertname: ?(\w+)", process.stdout + process.stderr))
    assert (count, failed) == (len(guarded), guarded)


def test_each_alert_has_a_firing_and_a_silent_case() -> None:
    fires = {case["alertname"] for case in CASES if case["exp_alerts"]}
    silent = {case["alertname"] for case in CASES if not case["exp_alerts"]}
    assert fires == set(ALERTS)
    assert silent == set(ALERTS) - {"ForecasterWatchdog"}  # an external heartbeat detects its silence


@pytest.mark.parametrize("alert", ALERTS.values(), ids=lambda rule: rule["alert"])
def test_an_alert_has_a_severity_and_a_runbook_that_names_it(alert: Mapping[str, Any]) -> None:
    name, labels, annotations = alert["alert"], alert["labels"], alert["annotations"]
    assert annotations["summary"]
    if name in ROUTED:
        assert labels["severity"] in ("none", "heartbeat")
        return
    assert labels["severity"] in ("page", "ticket")
    runbook = ROOT / "dashboards" / "runbooks" / f"{Path(annotations['runbook_url']).stem}.md"
    assert name in runbook.read_text("utf-8").split("## ")[0]  # so that the on-call person finds the right page


def test_runbooks_name_only_existing_alerts() -> None:
    runbooks = (ROOT / "dashboards" / "runbooks").glob("*.md")
    names = {name for file in runbooks for name in re.findall(r"\bForecaster[A-Z]\w+", file.read_text("utf-8"))}
    assert names <= set(ALERTS)


def test_rules_use_existing_metrics_and_labels() -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    for rule in RULES:
        expression = rule["expr"]
        assert set(re.findall(r"forecaster:\w+:\w+", expression)) <= recorded
        for name, selector in re.findall(r"(?<!:)\b(forecaster_\w+)(?:\{(.*?)\})?", expression):
            bare = re.sub(r"_(bucket|count|sum)$", "", name)
            assert bare in BY_NAME, name
            labels = set(re.findall(r"(\w+)\s*[=!]", selector))
            assert labels <= {*BY_NAME[bare].labels, "pipeline", *({"le"} if bare != name else ())}, expression


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("severity=page", "page"),
        ("severity=ticket", "ticket"),
        ("severity=none", "nobody"),
        ("severity=heartbeat", "heartbeat"),
    ],
)
def test_alerts_reach_their_receivers(labels: str, receiver: str) -> None:
    process = tool("amtool", "config", "routes", "test", "--config.file=alertmanager.yml", labels, "pipeline=h")
    assert (process.stdout.strip(), process.returncode) == (receiver, 0), process.stderr


def test_alertmanager_accepts_its_file() -> None:
    process = tool("amtool", "check-config", "alertmanager.yml")
    assert process.returncode == 0, process.stdout + process.stderr
