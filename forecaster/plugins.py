"""Plug-ins: optional features whose packages nothing else imports; each is looked up here by name
and imported on use.

A pipeline that does not declare a feature runs without its packages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from forecaster.errors import MissingExtra


class Plugin(NamedTuple):
    """An optional feature."""

    keys: tuple[str, ...]  # keys of the pipeline file that declare it, with the value if only one value does
    purpose: str
    packages: tuple[str, ...]


PLUGINS: Mapping[str, Plugin] = {
    "worthwhile": Plugin(("training.when: worthwhile",), "skipped trainings", ("forecaster.training.worthwhile",)),
    "hosts": Plugin(("training.hosts",), "training on several machines", ("flows.orchestration.training_hosts",)),
    "groups": Plugin(
        ("execution.depots_at_a_time", "execution.runner: dask"),
        "a publication by groups of depots, and work on a Dask cluster",
        (
            "forecaster.publishing.groups",
            "forecaster.demand.history.shuffle",
            "flows.orchestration.grouped_prediction",
            "flows.orchestration.dask_workers",
        ),
    ),
    "prior": Plugin(
        ("training.start: prior",),
        "a training that starts from pretrained parameters, and their forecast before the first model",
        (
            "forecaster.model.prior",
            "forecaster.demand.synthetic",
            "forecaster.training.preview",
            "forecaster.training.pretrain",
            "forecaster.training.pooling",
        ),
    ),
    "canary": Plugin(
        ("canary",),
        "a trial of new models at some depots",
        (
            "forecaster.publishing.canary",
            "forecaster.ledger.trials",
            "forecaster.evaluation.canary",
            "forecaster.evaluation.student",
        ),
    ),
    "portal": Plugin(
        ("page.together", "forecaster serve FILE FILE"),
        "several pipelines on one page",
        ("dashboards.ops.portal", "dashboards.ops.views.tiles", "dashboards.ops.reading.overview"),
    ),
    "inference": Plugin(
        ("forecaster infer",), "other programs that ask for forecasts over HTTP", ("dashboards.inference",)
    ),
    "people": Plugin(
        ("staffing.people",),
        "people by name, and their plans of the week",
        (
            "forecaster.staffing.people",
            "forecaster.planning.people",
            "dashboards.ops.views.shifts",
            "dashboards.ops.routes.weeks",
            "dashboards.ops.routes.planners.shift_edits",
            "dashboards.ops.routes.my_week",
        ),
    ),
    "shifts": Plugin(("staffing.shifts",), "crews by shift", ("forecaster.staffing.shifts",)),
    "notice": Plugin(
        ("staffing.notice_days",),
        "published schedules, and premiums of their changes",
        (
            "forecaster.staffing.notice",
            "forecaster.planning.schedules",
            "forecaster.operations.schedule_webhook",
            "dashboards.ops.views.planning.schedules",
            "dashboards.ops.routes.planners.schedules",
        ),
    ),
}
MODULES: Mapping[str, str] = {
    "worthwhile": "forecaster.training.worthwhile",
    "hosts": "flows.orchestration.training_hosts",
    "groups": "flows.orchestration.grouped_prediction",
    "groups.workers": "flows.orchestration.dask_workers",
    "prior": "forecaster.model.prior.store",
    "prior.warm_start": "forecaster.model.prior.warm_start",
    "prior.preview": "forecaster.training.preview",
    "canary": "forecaster.publishing.canary.trial",
    "canary.ledger": "forecaster.ledger.trials.canaries",
    "canary.side_by_side": "forecaster.publishing.canary.side_by_side",
    "portal": "dashboards.ops.portal.app",
    "inference": "dashboards.inference.server",
    "people": "forecaster.staffing.people.week_plans",
    "people.attendance": "forecaster.staffing.people.attendance",
    "people.table": "forecaster.staffing.people.people_table",
    "people.files": "forecaster.staffing.people.roster_files",
    "people.exports": "forecaster.staffing.people.schedule_exports",
    "people.replan": "forecaster.planning.people.replan",
    "people.forget": "forecaster.planning.people.forget",
    "people.days": "forecaster.planning.people.person_days",
    "people.rows": "dashboards.ops.views.shifts.shift_rows",
    "people.routes": "dashboards.ops.routes.weeks",
    "people.edits": "dashboards.ops.routes.planners.shift_edits",
    "people.my_week": "dashboards.ops.routes.my_week",
    "shifts": "forecaster.staffing.shifts.shift_crews",
    "shifts.changes": "forecaster.staffing.shifts.shift_changes",
    "shifts.shares": "forecaster.staffing.shifts.shift_shares",
    "shifts.learning": "forecaster.staffing.shifts.shift_learning",
    "notice": "forecaster.staffing.notice.premiums",
    "notice.replay": "forecaster.staffing.notice.replay",
    "notice.schedules": "forecaster.planning.schedules",
    "notice.webhook": "forecaster.operations.schedule_webhook",
    "notice.routes": "dashboards.ops.routes.planners.schedules",
}
"""Modules through which the core reaches a plug-in: its name, or its name and one of its parts."""


def plugin(entry: str) -> Any:
    """Return the module of an entry of `MODULES`. Raises MissingExtra if the plug-in is not
    installed."""
    name = entry.partition(".")[0]
    if not is_installed(name):
        raise MissingExtra(missing(name))
    return import_module(MODULES[entry])


def optional(entry: str) -> Any:
    """Return the module of an entry of `MODULES`; None if the plug-in is not installed."""
    return import_module(MODULES[entry]) if is_installed(entry.partition(".")[0]) else None


def is_installed(name: str) -> bool:
    """True if all packages of a plug-in are installed."""
    try:
        return all(map(find_spec, PLUGINS[name].packages))
    except ModuleNotFoundError:  # a parent package is missing
        return False


def undeclarable(spec: object) -> Iterator[str]:
    """Yield sentences about keys of a pipeline file that declare a plug-in which is not installed."""
    for name, (keys, _, _) in PLUGINS.items():
        if any(_declares(spec, key) for key in keys) and not is_installed(name):
            yield missing(name)


def missing(name: str) -> str:
    """Return a sentence about a plug-in that is not installed."""
    keys, _, packages = PLUGINS[name]
    return f"{' or '.join(keys)} needs {', '.join(packages)}, which this installation does not have"


def _declares(spec: object, key: str) -> bool:
    path, _, value = key.partition(": ")
    for name in path.split("."):
        spec = getattr(spec, name, None)
    return spec == value if value else bool(spec)
