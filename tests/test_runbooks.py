"""A runbook's commands exist, with the options that it uses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import typer

from forecaster.cli import app
from forecaster.publishing.predict import predict
from tests import fleets

ROOT = Path(__file__).resolve().parents[1]
RUNBOOKS = sorted((ROOT / "dashboards" / "runbooks").glob("*.md"))
GUIDES = {"production", "cluster", "postmortem"}  # guides that are not for a single problem
# These need a training, a server or Prefect, and other tests run them.
LONG = {"run", "backtest", "serve", "infer", "predict-only", "status", "plan", "apply", "deploy", "compare-hlo", "warm"}
STAFFED = "staffing: {orders_per_driver: 9, cost_short: 38, cost_idle: 22}\n"
NOTHING_TO_DO = {  # correct messages of an installation without the problem
    "rollback": "nothing to roll back to",
    "canary": "nothing to stop",
    "history": "no depot 'BOS-01' is known",
    "promote": "3fa9c1d2",
    "quarantine release": "no open row of the quarantine",
    "quarantine discard": "no open row of the quarantine",
}


def commands(text: str) -> Iterator[list[str]]:
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        yield from (shlex.split(line, comments=True) for line in block.splitlines())


@pytest.mark.parametrize("runbook", RUNBOOKS, ids=lambda file: file.stem)
def test_each_command_of_ours_can_be_parsed(runbook: Path) -> None:
    group = typer.main.get_command(app.app)
    ours = [words[1:] for words in commands(runbook.read_text("utf-8")) if words[:1] == ["forecaster"]]
    for name, *arguments in ours:
        group.commands[name].make_context(name, arguments).close()  # type: ignore[attr-defined]


def test_the_files_named_by_the_cluster_guide_exist() -> None:
    text = (ROOT / "dashboards" / "runbooks" / "cluster.md").read_text("utf-8")
    team = ROOT / "flows" / "kubernetes" / "team"  # the folder in which its commands are run
    places = [ROOT / file for file in re.findall(r"flows/(?:kubernetes|containers)/?\w*", text)]
    places += [team / file for file in re.findall(r"(?:\.\./)+\S+\.json", text)]
    assert len(places) > 3
    for place in places:
        assert place.exists(), place


def test_the_extras_named_by_the_production_guide_are_declared() -> None:
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    text = (ROOT / "dashboards" / "runbooks" / "production.md").read_text("utf-8")
    for extras in re.findall(r"(?:forecaster|\.whl)\[([\w,-]+)\]", text):
        assert set(extras.split(",")) <= declared.keys()


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the pipeline file of an installation that has published twice."""
    fleet = fleets.build_fleet(tmp_path_factory.mktemp("installation"), STAFFED)
    fleet.file.write_text(fleet.file.read_text("utf-8").replace(", rules: {max_age_days: 5}", ""), "utf-8")
    for hours in (0, 1):
        predict(fleet.spec, as_of=fleets.AS_OF + timedelta(hours=hours), bundle=None, run_id=None, note=None)
    return fleet.file


SHORT = sorted(
    {
        tuple(words[1:])
        for runbook in RUNBOOKS
        if runbook.stem not in GUIDES
        for words in commands(runbook.read_text("utf-8"))
        if words[:1] == ["forecaster"] and words[1] not in LONG
    }
)


@pytest.mark.parametrize("words", SHORT, ids=" ".join)
def test_each_command_runs_on_an_installation(
    words: tuple[str, ...], installation: Path, tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    """It works, or reports in a sentence that there is nothing to do."""
    places = {"/srv/forecaster/pipeline.yaml": str(installation), "roster.csv": str(tmp_path / "roster.csv")}
    code, out, err = call(*(places.get(word, word.replace("/backup/", f"{tmp_path}/")) for word in words))
    assert code in (0, 2, 3, 4), err
    if code in (2, 4):
        assert NOTHING_TO_DO[" ".join(words[:2]) if words[0] == "quarantine" else words[0]] in err
    elif "-o" not in words:
        assert out.strip() or err.strip()


@pytest.mark.parametrize("runbook", RUNBOOKS, ids=lambda file: file.stem)
def test_a_runbook_fits_on_a_screen_and_has_see_decide_do_and_check(runbook: Path) -> None:
    text = runbook.read_text("utf-8")
    assert len(text.splitlines()) <= 110 if runbook.stem == "production" else len(text.splitlines()) <= 75
    if runbook.stem not in GUIDES | {"incident"}:
        assert re.findall(r"^## (.*)$", text, re.M) == ["See", "Decide", "Do", "Check"]
        assert re.match(r"# .+\n\n\*.+?\*\n\n## See", text, re.S)


def test_every_runbook_is_linked_by_the_incident_checklist_or_another() -> None:
    texts = {file.name: file.read_text("utf-8") for file in RUNBOOKS}
    for name in texts:
        assert any(f"]({name}" in text for other, text in texts.items() if other != name) or name == "incident.md", name
