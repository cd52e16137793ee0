"""Call the command line in this process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest

from forecaster.cli import app

Call = Callable[..., tuple[int, str, str]]


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """`forecaster …`: exit code, standard output, standard error."""

    def forecaster(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["forecaster", *map(str, arguments)])
        before = gc.get_threshold()
        with pytest.raises(SystemExit) as ended:
            app.main()
        gc.set_threshold(*before)  # which a command sets for its own process
        return int(ended.value.code or 0), *capsys.readouterr()

    return forecaster
