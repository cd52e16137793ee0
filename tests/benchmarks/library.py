"""Compare `import forecaster` with other libraries: seconds from import to the first forecast, and
MASE on the same split.

    make bench-library ARGS="--only neuralforecast --datasets rossmann"

Each dataset contributes fifty series of its last two years (those with the fewest gaps; all if
there are fewer), with dates and counts only; the last four weeks are held out
(`library_rivals.py`). Each library has its own environment in build/bench-library, installed from
the ordinary package index; a failed installation is reported. Results are kept there in `results`,
and not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.library_rivals import HORIZON, WINDOWS
from tests.benchmarks.real import NAMES, ROOT, folder, spec_of

WORK = ROOT / "build" / "bench-library"
SERIES, DAYS = 50, 730
TIMED = "favorita_transactions"
RIVALS = {
    "neuralforecast": ["neuralforecast", "pyarrow"],
    "autogluon": ["autogluon.timeseries", "pyarrow"],
    "mlforecast": ["mlforecast", "lightgbm", "pyarrow"],
    "prophet": ["prophet", "pyarrow"],
}
OURS = "forecaster"
TIMEOUT = 900


def frame(dataset: str) -> pd.DataFrame:
    """Return the series that every library gets: unique_id, ds, y (NaN if unknown), country."""
    rows = pd.read_parquet(folder() / f"{dataset}.parquet", columns=["depot_id", "date", "demand"])
    rows["date"] = pd.to_datetime(rows["date"])
    wide = rows.pivot_table(index="date", columns="depot_id", values="demand", aggfunc="sum", min_count=1).asfreq("D")
    wide = wide[wide.notna().mean(axis=1) >= 0.5].asfreq("D").iloc[-DAYS:]
    ends = wide.iloc[-HORIZON * WINDOWS :].notna().mean() >= 0.5
    fullest = wide.loc[:, ends].notna().sum().sort_values(ascending=False, kind="stable").index[:SERIES]
    long = wide[sorted(fullest)].melt(ignore_index=False, var_name="unique_id", value_name="y").reset_index(names="ds")
    long["unique_id"] = long["unique_id"].astype(str)
    return long.assign(country=spec_of(dataset).calendar.country)[["unique_id", "ds", "y", "country"]]


def mase(whole: pd.DataFrame, forecasts: pd.DataFrame) -> float:
    """Return the mean over series of the mean absolute error, relative to that of the seasonal
    naive within the history. A series that a library leaves out of a window, as ours does if a
    depot has stopped reporting, is scored with the week before."""
    first = whole["ds"].max() - pd.Timedelta(days=HORIZON * WINDOWS)
    past = whole[whole["ds"] <= first]
    steps = (past["y"] - past.groupby("unique_id")["y"].shift(7)).abs()
    scale = steps.groupby(past["unique_id"]).mean()
    by_weekday = whole.groupby(["unique_id", whole["ds"].dt.day_of_week])["y"]
    naive = whole.assign(naive=by_weekday.transform(lambda counts: counts.ffill().shift(1)))
    scored_days = naive[(naive["ds"] > first) & naive["y"].notna()]
    of_ids = forecasts.assign(unique_id=forecasts["unique_id"].astype(str))
    rows = scored_days.merge(of_ids, on=["unique_id", "ds"], how="left")
    if len(rows) != len(scored_days) or rows["forecast"].notna().mean() < 0.9:
        raise ValueError(f"found forecasts of {rows['forecast'].notna().sum()} days, wanted {len(scored_days)}")
    errors = (rows["y"] - rows["forecast"].fillna(rows["naive"])).abs().groupby(rows["unique_id"]).mean()
    return float((errors / scale)[scale > 0].mean())


def environment(name: str) -> Path | None:
    """Return the Python of a rival's environment, created if absent; None if the installation
    fails."""
    path = WORK / "environments" / name
    python = path / "bin" / "python"
    if python.exists():
        return python
    uv = shutil.which("uv") or next((str(file) for file in [ROOT / ".tools/bin/uv"] if file.exists()), None)
    if uv:
        commands = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(path)],
            [uv, "pip", "install", "--quiet", "--python", str(python), *RIVALS[name]],
        ]
    else:
        commands = [[sys.executable, "-m", "venv", str(path)], [str(python), "-m", "pip", "install", *RIVALS[name]]]
    try:
        for command in commands:
            subprocess.run(command, check=True, timeout=TIMEOUT)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(path, ignore_errors=True)
        print(f"{name} cannot be installed: {error}")
        return None
    return python


def measure(name: str, dataset: str, cache: Path) -> dict[str, Any]:
    """Return seconds and MASE of a library on a dataset, or its error; our compiled programs are
    stored in `cache`."""
    python = Path(sys.executable) if name == OURS else environment(name)
    if python is None:
        return {"error": "cannot be installed"}
    whole = frame(dataset)
    with tempfile.TemporaryDirectory() as work:
        source, target = Path(work, "frame.parquet"), Path(work, "forecasts.parquet")
        whole.to_parquet(source)
        variables = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONWARNINGS": "ignore"}
        variables |= {"PYTHONPATH": str(ROOT)} if name == OURS else {}
        script = str(ROOT / "tests/benchmarks/library_rivals.py")
        try:
            process = subprocess.run(
                [str(python), script, name, str(source), str(target)],
                env=variables,
                cwd=work,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=True,
            )
            measured: dict[str, Any] = json.loads(process.stdout.strip().splitlines()[-1])
            return {**measured, "mase": mase(whole, pd.read_parquet(target))}
        except subprocess.CalledProcessError as error:
            return {"error": error.stderr.strip().splitlines()[-1:]}
        except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
            return {"error": str(error)[:200]}


def report(results: dict[str, Any]) -> None:
    """Print times and MASE as in the page of results."""
    print(f"\n{SERIES} series of {TIMED}, {DAYS} days: from import to first forecast")
    for key, row in results.items():
        name, dataset, *rest = key.split()
        if dataset == TIMED and "seconds" in row:
            figures = f"{row['seconds']:.0f} s, {row['processor']:.0f} s of processor time, load {row['load']:.1f}"
            print(f"  {' '.join([name, *rest])}: {figures}")
    table = pd.DataFrame(
        {name: {d: results.get(f"{name} {d}", {}).get("mase", np.nan) for d in NAMES} for name in (OURS, *RIVALS)}
    )
    print("\nMASE\n", table.round(3).to_string())
    complete = table.dropna()
    lowest = int((complete.idxmin(axis=1) == OURS).sum())
    print(
        f"our MASE is the lowest on {lowest} of the {len(complete)} datasets measured with all libraries (aim: 6 of 8)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[OURS, *RIVALS], choices=[OURS, *RIVALS])
    parser.add_argument("--datasets", nargs="*", default=list(NAMES), choices=NAMES)
    arguments = parser.parse_args()
    (WORK / "results").mkdir(parents=True, exist_ok=True)
    results = {file.stem: json.loads(file.read_text()) for file in (WORK / "results").glob("*.json")}
    cache = WORK / "cache"
    for dataset in sorted(arguments.datasets, key=lambda dataset: dataset != TIMED):
        for name in arguments.only:
            keys = [f"{name} {dataset}"]
            if name == OURS and dataset == TIMED:  # with nothing compiled before, and a second time
                keys.append(f"{keys[0]} warm")
                if keys[0] not in results:
                    shutil.rmtree(cache, ignore_errors=True)
            for key in keys:
                if key not in results:
                    started = time.monotonic()
                    results[key] = measure(name, dataset, cache)
                    (WORK / "results" / f"{key}.json").write_text(json.dumps(results[key]))
                    print(f"{key}: {results[key]}, {time.monotonic() - started:.0f} s", flush=True)
    report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
