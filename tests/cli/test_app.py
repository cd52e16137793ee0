from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from forecaster.cli import app, nightly, options
from forecaster.errors import LedgerError, NoUsableData
from tests.calls import Call

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(typer.main.get_command(app.app).commands)  # type: ignore[attr-defined]
HEAVY = {"pandas", "pyarrow", "numpy", "jax", "prefect", "mlflow", "sqlalchemy", "pandera", "deltalake", "onnxruntime"}
GOOD = "name: t\ntimezone: America/New_York\ndemand: {source: {kind: csv, path: demand.csv}}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(GOOD, "utf-8")
    return path


@pytest.fixture
def nights(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Instants with which runs were started; a stub that ends degraded replaces the run."""
    begun: list[Any] = []

    def night(file: Path, spec: Any, as_of: datetime | None, **options: bool) -> int:
        begun.append(as_of)
        return 3

    monkeypatch.setattr(nightly, "entry_point", lambda name: night)
    return begun


def raises(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


# --- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], *([command] for command in COMMANDS)], ids=lambda words: " ".join(words))
def test_help_imports_no_heavy_packages(arguments: list[str]) -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "from forecaster.cli.app import main; main()"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout.startswith("Usage: ")
    assert set(process.stderr.split()) & HEAVY == set()


def test_help_lists_every_command_with_a_whole_sentence(call: Call) -> None:
    code, out, _ = call("--help")
    assert code == 0
    lines = {line.split()[0]: line for line in out.partition("Begin:")[2].splitlines() if line.strip()}
    assert set(COMMANDS) <= set(lines)
    assert [command for command in COMMANDS if not lines[command].endswith(".") or lines[command].endswith("..")] == []


def test_help_lists_commands_in_groups(call: Call) -> None:
    out = call("--help")[1]
    headings = [line.removesuffix(":") for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *app.GROUPS, "Exit codes"] or headings == ["Options", *app.GROUPS]
    assert sorted(name for commands in app.GROUPS.values() for name in commands) == COMMANDS
    assert out.index("Run:") < out.index("\n  run ") < out.index("Schedule:")


def test_help_lists_the_exit_codes(call: Call) -> None:
    lines = call("--help")[1].partition("Exit codes:")[2]
    assert [int(line.split()[0]) for line in lines.strip().splitlines()] == [0, 1, 2, 3, 4, 5]


def test_version_is_the_installed_one(call: Call) -> None:
    assert call("--version") == (0, f"forecaster {version('harbor-forecaster')}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_by_task(command: str) -> None:
    by_task = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Commands by task")[2]
    assert f"`{command}`" in by_task.partition("\n## ")[0]


# --- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "run", "predict", "serve", "doctor"])
def test_missing_file_is_a_usage_error(call: Call, command: str, tmp_path: Path) -> None:
    code, out, err = call(command, tmp_path / "nowhere.yaml")
    assert (code, out) == (2, "")
    assert err == f"forecaster: {tmp_path}/nowhere.yaml: no such file; `forecaster init DIR` makes one to start from\n"


def test_mistake_in_the_file_is_reported_with_its_line(call: Call, file: Path) -> None:
    file.write_text(GOOD + "horizons: 7\n", "utf-8")
    code, _, err = call("check", file)
    assert code == 2
    assert f"{file}:4: unknown key 'horizons'; did you mean 'horizon'?" in err


@pytest.mark.parametrize("arguments", [["chek"], ["check"], ["check", "a", "b"], ["run", "a", "--asof", "x"], []])
def test_wrong_command_line_is_a_usage_error(call: Call, arguments: list[str]) -> None:
    assert call(*arguments)[0] == 2


@pytest.mark.parametrize(
    "words", [["history", "DEPOT", "2024-03-05"], ["withdraw", "1", "--by", "DEPOT"]], ids=" ".join
)
def test_invalid_utf8_is_a_usage_error(call: Call, file: Path, words: list[str]) -> None:
    command, *others = (word.replace("DEPOT", "K\udcf6ln") for word in words)
    code, _, err = call(command, file, *others)
    assert (code, err) == (2, r"forecaster: found 'K\xf6ln', wanted text in UTF-8" + "\n")


def test_rejects_an_impossible_override_number(call: Call, file: Path) -> None:
    code, _, err = call("withdraw", file, "9" * 30, "--by", "Ana")
    assert (code, "wanted the number of an override" in err) == (2, True)


def test_invalid_port_is_a_usage_error(call: Call, file: Path) -> None:
    assert call("serve", file, "--port", "65536")[0] == 2


def test_pipelines_with_the_same_name_are_not_served_together(call: Call, file: Path) -> None:
    code, _, err = call("serve", file, file, "--port", "0")
    assert (code, "wanted a name of its own for each pipeline that is served here" in err) == (2, True)


def test_check_without_its_source_has_no_usable_data(call: Call, file: Path) -> None:
    code, out, err = call("check", file)
    assert (code, err) == (4, "")
    assert "demand.csv: no such file" in out
    assert out.endswith("not usable: 1 of 1 sources cannot be read\n")


def test_check_of_a_usable_file_succeeds_with_plain_lines(call: Call, file: Path) -> None:
    (file.parent / "demand.csv").write_text("depot_id,date,demand\nA,2024-03-04,4\nA,2024-03-05,-1\n", "utf-8")
    code, out, err = call("check", file)
    assert (code, err) == (0, "")
    assert "1 accepted + 0 unchanged + 1 quarantined" in out
    assert any(len(line) > 100 and "found '-1', wanted 0 or more" in line for line in out.splitlines())
    assert "forecast  from cutoff 2024-03-04" in out


def test_predict_with_an_empty_lake_has_no_usable_data(call: Call, file: Path) -> None:
    code, _, err = call("predict", file, "--as-of", "2024-03-05")
    assert code == 4
    assert "holds no demand" in err


def test_degraded_run_exits_with_3_and_prints_where_to_look(call: Call, file: Path, nights: list[Any]) -> None:
    code, out, _ = call("run", file)
    assert code == 3
    assert f"forecaster serve {file}" in out
    assert nights == [None]


def test_commands_next_to_ours_are_named_so_that_the_shell_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "mlflow"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "forecaster")])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert options.command_here("mlflow") == "mlflow"
    beside.touch(mode=0o755)
    assert options.command_here("mlflow") == "mlflow"
    monkeypatch.setenv("PATH", "")
    assert options.command_here("mlflow") == str(beside)


@pytest.mark.parametrize(("error", "code"), [(LedgerError("found a, wanted b"), 1), (NoUsableData("no rows"), 4)])
def test_known_error_is_a_sentence_with_its_exit_code(
    call: Call, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    monkeypatch.setattr("forecaster.operations.starter.create", raises(error))
    assert call("init", "x") == (code, "", f"forecaster: {error}\n")


def test_unexpected_error_is_reported_as_our_fault_without_traceback(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecaster.operations.starter.create", raises(ZeroDivisionError("by nothing")))
    code, out, err = call("init", "x")
    assert (code, out) == (1, "")
    assert err == (
        "forecaster: our fault, not yours: ZeroDivisionError: by nothing\nFORECASTER_DEBUG=1 shows the traceback\n"
    )


def test_forecaster_debug_shows_the_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(app.DEBUG, "1")
    monkeypatch.setattr("forecaster.operations.starter.create", raises(ZeroDivisionError("by nothing")))
    code, _, err = call("init", "x")
    assert code == 1
    assert err.startswith("Traceback (most recent call last):")


def test_an_interrupted_command_ends_quietly(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecaster.operations.starter.create", raises(KeyboardInterrupt()))
    assert call("init", "x") == (130, "", "")


def test_missing_extra_is_named(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "entry_points", lambda **_: ())
    for command, extra in (("run", "train,flows"), ("serve", "dashboard")):
        code, _, err = call(command, file)
        assert code == 2
        assert f"this command needs: pip install 'harbor-forecaster[{extra}]'" in err


# --- as of ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-02", datetime(2026, 11, 2, 8, 15, tzinfo=UTC)),  # 03:15 in New York, the hour of the schedule
        ("20261102", datetime(2026, 11, 2, 8, 15, tzinfo=UTC)),
        ("2026-11-02T04:00", datetime(2026, 11, 2, 9, tzinfo=UTC)),
        ("2026-11-02T04:00:00+01:00", datetime(2026, 11, 2, 3, tzinfo=UTC)),
    ],
)
def test_as_of_is_a_day_or_an_instant(call: Call, file: Path, nights: list[Any], text: str, instant: datetime) -> None:
    call("run", file, "--as-of", text)
    assert nights == [instant]


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30", "", "2026-11-02T25:00", "9999-12-31", "0001-01-01"])
def test_rejects_an_invalid_as_of(call: Call, file: Path, nights: list[Any], text: str) -> None:
    expected = "a day such as 2026-11-01 or an instant such as 2026-11-01T03:15"
    assert call("run", file, "--as-of", text) == (2, "", f"forecaster: --as-of: found {text!r}, wanted {expected}\n")
    assert nights == []


def test_rejects_more_past_nights_than_backtest_days(call: Call, file: Path, nights: list[Any]) -> None:
    code, _, err = call("run", file, "--past", "31")
    assert code == 2
    assert "--past: found 31 nights, wanted at most the 30 of backtest.days" in err
    assert nights == []


# --- init, schema -----------------------------------------------------------------------------------------------------


def test_init_rejects_an_invalid_end(call: Call, tmp_path: Path) -> None:
    code, _, err = call("init", tmp_path / "new", "--end", "soon")
    assert (code, err) == (2, "forecaster: --end: found 'soon', wanted a day such as 2026-11-01\n")
    assert not (tmp_path / "new").exists()


def test_schema_prints_json(call: Call) -> None:
    import json

    code, out, _ = call("schema")
    assert code == 0
    assert json.loads(out)["title"] == "forecaster pipeline file"


def test_commands_also_run_as_a_module() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "forecaster", "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
