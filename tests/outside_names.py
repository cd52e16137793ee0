"""The names that others hold on to: files, tables, columns, commands, addresses, keys; each function lists some.

Scripts, dashboards, schedules and what earlier versions have left on disk know these names, whatever the code calls
things inside. Nothing here imports the project.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
from deltalake import DeltaTable

OF_OPTIONS = ("Arguments", "Options")  # headings in `--help`; below the others stand commands
ROOT = Path(__file__).resolve().parents[1]
Names = dict[str, Any]
APART = ("jax_cache", "mlflow_artifacts")  # compiled programs, whose names are JAX's, and what is listed by run
_CHANGING = (  # parts of paths that are other ones each time
    (r"m-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\d{4}-\d\d-\d\d-(\w+-)?[0-9a-f]{8}", "RUN"),
    (r"\b([0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16})\b", "DIGEST"),
    (r"\b\d{20}\b", "VERSION"),
)
_FLOWS = """
import importlib, json, yaml
found = []
for each in yaml.safe_load(open("flows/prefect.yaml", encoding="utf-8"))["deployments"]:
    module, _, name = each["entrypoint"].partition(":")
    flow = getattr(importlib.import_module(module.removesuffix(".py").replace("/", ".")), name)
    found.append({
        "flow": flow.name,
        "entrypoint": each["entrypoint"],
        "parameters": sorted(each["parameters"]),
        "schedules": [schedule["slug"] for schedule in each.get("schedules", ())],
    })
print(json.dumps(found))
"""


def gone(before: Any, now: Any, where: str = "") -> list[str]:
    """What was there and is not any more, as paths such as `ledger/runs/run_id`; what is new does not matter."""
    if isinstance(before, Mapping):
        mapping = now if isinstance(now, Mapping) else {}
        return [
            lost
            for name, inner in before.items()
            for lost in (gone(inner, mapping[name], f"{where}/{name}") if name in mapping else [f"{where}/{name}"])
        ]
    if isinstance(before, list):
        return [f"{where}/{name}" for name in before if name not in (now if isinstance(now, list) else ())]
    return [] if before == now else [f"{where}: {before}, now {now}"]


# --- what lies on disk ------------------------------------------------------------------------------------------------


def of_state(folder: Path, before: Path) -> Names:
    """What a night has put into the folder `state` of its pipeline, beside the files of `before`, its start."""
    ledger = folder / "ledger.db"
    (digest,) = _rows(ledger, "select bundle_digest from promotions order by id desc limit 1")[0]
    (desk,) = _rows(ledger, "select desk from publications order by publication_id desc limit 1")[0]
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    entries = {
        _lasting(file.as_posix()) for file in files if file.parts[0] not in APART and not (before / file).exists()
    }
    return {
        "entries": sorted(entries),
        "ledger": of_ledger(ledger),
        "run": of_json(ledger, "select findings, timings, verdict, lake_versions from runs order by started_at desc"),
        "lake": {table.name: of_table(table) for table in sorted((folder / "lake").iterdir())},
        "bundle": of_bundle(folder / "bundles" / digest),
        "desk": of_desk(folder / "desks" / f"{desk}.npz"),
        "spec": [
            key for file in (folder / "specs").glob("*.json") for key in paths(json.loads(file.read_text("utf-8")))
        ],
        "registry": of_registry(folder / "mlflow.db", folder / "mlflow_artifacts"),
    }


def _lasting(path: str) -> str:
    for pattern, name in _CHANGING:
        path = re.sub(pattern, name, path)
    return path


def of_ledger(file: Path) -> Names:
    """Table → its columns."""
    tables = [name for (name,) in _rows(file, "select name from sqlite_master where type = 'table' order by name")]
    return {name: [row[1] for row in _rows(file, f"pragma table_info('{name}')")] for name in tables}


def of_json(file: Path, query: str) -> list[str]:
    """Column and path of every key within the JSON of a query's first row."""
    with closing(sqlite3.connect(file)) as connection:
        cursor = connection.execute(query)
        columns, row = [each[0] for each in cursor.description], cursor.fetchone()
    return sorted({f"{column}.{key}" for column, text in zip(columns, row, strict=True) for key in _of_text(text)})


def _of_text(text: str | None) -> list[str]:
    return paths(json.loads(text)) if text else []


def of_publication(ledger: Path) -> list[str]:
    """The keys within the JSON of a depot's day that planners have changed, and of a depot, as last published."""
    last = "publication_id = (select max(publication_id) from publications)"
    day = f"select roster, override, change from published where {last} and override is not null and change is not null"
    return of_json(ledger, day) + of_json(ledger, f"select attributes from published_depots where {last}")


def of_table(folder: Path) -> Names:
    table = DeltaTable(str(folder))
    columns = [f"{field.name}: {field.type.to_json().strip(chr(34))}" for field in table.schema().fields]
    return {"columns": [_lasting(each) for each in columns], "partitions": table.metadata().partition_columns}


def of_bundle(folder: Path) -> Names:
    """Files of a bundle, in its folder and packed, and the names within them."""
    graph = onnxruntime.InferenceSession((folder / "model.onnx").read_bytes())
    with np.load(folder / "weights.npz", allow_pickle=False) as arrays:
        weights = list(arrays)
    with pa.CompressedInputStream(pa.OSFile(str(folder.with_name(folder.name + ".tar.zst"))), "zstd") as stream:
        content = io.BytesIO(stream.read())
    with tarfile.open(fileobj=content) as tar:
        packed = tar.getnames()
    return {
        "files": sorted(file.name for file in folder.iterdir()),
        "packed": sorted(_lasting(name) for name in packed),
        "manifest": paths(json.loads((folder / "manifest.json").read_text("utf-8"))),
        "inputs": [part.name for part in graph.get_inputs()],
        "outputs": [part.name for part in graph.get_outputs()],
        "weights": sorted(weights),
    }


def of_desk(file: Path) -> Names:
    with np.load(file, allow_pickle=False) as arrays:
        says = json.loads(arrays["says"].tobytes())
        return {"arrays": sorted(arrays), "says": paths(says)}


def of_registry(file: Path, artifacts: Path) -> Names:
    """What MLflow was told of the last run that it was told of, by name."""
    ((run,),) = _rows(file, "select run_uuid from runs order by rowid desc limit 1")
    names = {
        "experiments": "select name from experiments where experiment_id > 0",
        "models": "select name from registered_models",
        "aliases": "select alias from registered_model_aliases",
        "metrics": f"select key from latest_metrics where run_uuid = '{run}'",
        "parameters": f"select key from params where run_uuid = '{run}'",
        "tags": f"select key from tags where run_uuid = '{run}' and key not like 'mlflow.%'",
        "version tags": "select key from model_version_tags",
        "inputs": "select name from datasets",
    }
    folder = artifacts / run / "artifacts"
    logged = {what: sorted({name for (name,) in _rows(file, query)}) for what, query in names.items()}
    return logged | {
        "artifacts": sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    }


def _rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def paths(value: Any, where: str = "") -> list[str]:
    """The path of every key in a JSON value, as in `encoding.statics` and `findings[].rule`."""
    return sorted(set(_paths(value, where)))


def _paths(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{where}.{key}" if where else key
            yield here
            yield from _paths(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{where}[]")


# --- what people and programs call ------------------------------------------------------------------------------------


def of_commands(run: Callable[..., tuple[int, str, str]], *command: str) -> dict[str, list[str]]:
    """Command → its arguments and options, an option's choices as `--out=csv`; `run` calls the command line."""
    text = run(*command, "--help")[1]
    options, below = [], {}
    for section, line in _help(text):
        name, _, value = re.split(r"\s{2,}", line.strip())[0].partition(" ")
        if section not in OF_OPTIONS:
            below |= of_commands(run, *command, name)
        else:
            options.append(name)
            if section == "Arguments" and name.startswith("["):
                options.append(name.strip("[]"))  # who always gave it may go on so
            choices = value.strip("<>[]").split("|")
            options += [f"{name}={choice}" for choice in choices if len(choices) > 1]
    return {" ".join(command): sorted(options), **below}


def _help(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r" {0,2}(\w[\w ]*):", line):
            section = heading[1]
        elif section not in ("", "Exit codes") and re.match(r"  \S", line):
            yield section, line


def of_schema(schema: Mapping[str, Any]) -> list[str]:
    """Every key of the pipeline file by its path, and every word that a key may have, as `gate.metric = wape`."""
    return sorted(set(_of_schema(schema, schema.get("$defs", {}), "", ())))


def _of_schema(part: Any, shared: Mapping[str, Any], where: str, above: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(part, Mapping):
        return
    if reference := part.get("$ref"):
        name = reference.rpartition("/")[2]
        if name not in above:
            yield from _of_schema(shared[name], shared, where, (*above, name))
    for key, inner in part.get("properties", {}).items():
        here = f"{where}.{key}" if where else key
        yield here
        yield from _of_schema(inner, shared, here, above)
    words = [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]
    yield from (f"{where} = {word}" for word in words)
    for some in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in part.get(some, ()):
            yield from _of_schema(inner, shared, where, above)
    yield from _of_schema(part.get("items"), shared, f"{where}[]", above)
    yield from _of_schema(part.get("additionalProperties"), shared, f"{where}.*", above)


def of_api(schema: Mapping[str, Any]) -> Names:
    """Method and path → what the operation is called, takes and answers."""
    shared = schema["components"]["schemas"]
    names: Names = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            answers = {
                code: sorted(set(_of_content(answer, shared))) for code, answer in operation["responses"].items()
            }
            names[f"{method.upper()} {path}"] = {
                "operationId": operation["operationId"],
                "parameters": [f"{part['in']} {part['name']}" for part in operation.get("parameters", ())],
                "body": sorted(set(_of_content(operation.get("requestBody", {}), shared))),
                "answers": answers,
            }
    return names


def _of_content(part: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[str]:
    for kind, content in part.get("content", {}).items():
        yield kind
        yield from _of_schema(content.get("schema"), shared, "", ())


def of_sheets(client: Any, api: Names) -> dict[str, list[str]]:
    """Address → the columns of its CSV, of every list of the API."""
    headers = {}
    for operation, operation_names in api.items():
        method, _, path = operation.partition(" ")
        if method == "GET" and "query format" in operation_names["parameters"] and "what-if" not in path:
            answer = client.get(path.replace("{depot_id}", "D0"), params={"format": "csv"})
            headers[path] = answer.text.removeprefix("\ufeff").splitlines()[0].split(",")
    return headers


def of_deployments() -> dict[str, Names]:
    """What Prefect is told of each flow that is deployed: where it begins, its parameters and schedules."""
    process = subprocess.run([sys.executable, "-c", _FLOWS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return {flow.pop("flow"): flow for flow in json.loads(process.stdout.splitlines()[-1])}


def of_installation() -> Names:
    """Entry points, and the variables of the environment that are read."""
    source = "".join(
        file.read_text("utf-8")
        for part in ("forecaster", "flows", "dashboards")
        for file in (ROOT / part).rglob("*.py")
    )
    declaration = (ROOT / "flows" / "prefect.yaml").read_text("utf-8")  # what is filled in there, nobody sets
    return {
        "forecaster.lines": sorted({entry.name for entry in entry_points(group="forecaster.lines")}),
        "console_scripts": [entry.name for entry in entry_points(group="console_scripts", name="forecaster")],
        "environment": sorted(
            {name for name in re.findall(r'"(FORECASTER_[A-Z_]+)"', source) if f"${name} " not in declaration}
        ),
    }
