"""Call the command line in this process."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest

from forecaster.cli import app

Call = Callable[..., tuple[int, str, str]]


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs `forecaster …` and returns exit code, standard output, standard
    error."""

    def forecaster(*arguments: object) -> tuple[int, str, str]:
        code = _exit_code(monkeypatch, list(map(str, arguments)))
        return code, *capsys.readouterr()

    return forecaster


def predict_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the predictions of nights in this process, with the same arguments, instead of in a new
    one, which would first repeat the imports."""

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert list(command[:4]) == [sys.executable, "-m", "forecaster", "predict"]
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = _exit_code(monkeypatch, command[3:])
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())

    processes = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr("flows.night.subprocess", processes)


def _exit_code(monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]) -> int:
    before = gc.get_threshold()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["forecaster", *arguments])
        with pytest.raises(SystemExit) as ended:
            app.main()
    gc.set_threshold(*before)  # undo the setting of the command
    return int(ended.value.code or 0)
