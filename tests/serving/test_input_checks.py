"""Valid inputs of a bundle pass; invalid ones are rejected with their depot and day."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

from forecaster.errors import BundleError, InputError
from forecaster.serving import input_checks
from forecaster.serving.bundle import Bundle
from forecaster.serving.input_checks import InputSpec

SPEC = InputSpec(4, 2, ("promo",), ("weekend", "holiday"), (("city", 2),))
DEPOTS, CUTOFF = ("D0", "D1"), date(2024, 1, 4)


def inputs(**changed: Any) -> dict[str, Any]:
    good = {
        "demand": np.array([[1, np.nan, 3, 4], [0, 6, 7, 8]], np.float32),
        "open": np.ones((2, 6), np.float32),
        "covariates": np.zeros((2, 6, 1), np.float32),
        "calendar": np.zeros((2, 6, 2), np.float32),
        "statics": np.array([[1], [0]], np.int32),
    }
    return {name: x for name, x in {**good, **changed}.items() if x is not None}


def with_(name: str, place: tuple[int, ...], value: float) -> dict[str, Any]:
    changed = inputs()
    changed[name][place] = value
    return changed


def test_valid_inputs_pass() -> None:
    input_checks.check(inputs(), SPEC, DEPOTS, CUTOFF)
    input_checks.check(with_("statics", (1, 0), 2), SPEC, DEPOTS, CUTOFF)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (inputs(covariates=None), r"input 'covariates' is missing; wanted covariates \(2, 6, 1\)"),
        (inputs(open=np.ones((2, 6), bool)), "input 'open' has the type bool, wanted float32"),
        (inputs(statics=np.ones((2, 1), np.int64)), "input 'statics' has the type int64, wanted int32"),
        (inputs(demand=np.ones((2, 5), np.float32)), r"input 'demand' has the shape \(2, 5\), wanted \(2, 4\)$"),
        (inputs(demand=np.ones((1, 4), np.float32)), r"input 'demand' has the shape \(1, 4\), wanted \(2, 4\)"),
        (
            inputs(calendar=np.zeros((2, 5, 2), np.float32)),
            r"input 'calendar' has the shape \(2, 5, 2\), wanted .*: it ends before 2024-01-06, which has to be known",
        ),
        (with_("demand", (1, 2), -1), "input 'demand' of depot 'D1' on 2024-01-03 is -1.0, wanted a count, or NaN"),
        (with_("demand", (0, 0), np.inf), "input 'demand' of depot 'D0' on 2024-01-01 is inf"),
        (with_("open", (1, 5), 0.5), "input 'open' of depot 'D1' on 2024-01-06 is 0.5, wanted 0 or 1"),
        (with_("open", (0, 3), np.nan), "input 'open' of depot 'D0' on 2024-01-04 is nan"),
        (with_("covariates", (1, 4, 0), np.nan), "input 'covariates' of depot 'D1' on 2024-01-05: 'promo' is nan"),
        (with_("calendar", (0, 5, 1), np.nan), "input 'calendar' of depot 'D0' on 2024-01-06: 'holiday' is nan"),
        (with_("statics", (1, 0), -1), "depot 'D1', for 2024-01-04: 'city' has the code -1, wanted 0 .* to 2"),
        (with_("statics", (0, 0), 3), "depot 'D0', for 2024-01-04: 'city' has the code 3, wanted 0 .* to 2"),
    ],
)
def test_invalid_inputs_are_reported_with_depot_and_day(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        input_checks.check(arrays, SPEC, DEPOTS, CUTOFF)


def test_a_manifest_without_its_inputs_is_rejected() -> None:
    manifest = {"encoding": {"covariates": [], "statics": []}, "lookback": 3}
    with pytest.raises(BundleError, match=r"bundle f{16}: the manifest does not declare its inputs: 'horizon'"):
        InputSpec.of(Bundle("f" * 64, b"", manifest))
