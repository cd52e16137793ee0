"""Panels of a Grafana dashboard: a number, lines over time, bars, text; each says what it shows and in which unit.

Every query is of the pipeline that the reader has chosen (`$pipeline`), in the Prometheus of their choice
(`$datasource`). A panel that may stand empty says so with `nothing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, text, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import BigValueColorMode, BigValueGraphMode, VizOrientation
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    Panel,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)
from grafana_foundation_sdk.models.text import TextMode

WIDTH = 24  # columns of Grafana's grid
SHORT, TALL = 4, 8  # heights of panels
TAG = "forecaster"
RUNBOOKS = "https://forecaster.example/dashboards/runbooks"  # whoever provisions puts their own in its place
SOURCE = DataSourceRef("prometheus", "${datasource}")
OF_PIPELINE = 'pipeline="$pipeline"'
LEFT = ((None, "red"), (0.0, "orange"), (0.25, "green"))  # of an error budget
GOOD_IS_NONE = ((None, "green"), (1.0, "red"))

Steps = Sequence[tuple[float | None, str]]


def query(metric: str, /, **labels: str) -> str:
    """A selector of the chosen pipeline: `metric{pipeline="$pipeline", label="value"}`."""
    chosen = ", ".join([OF_PIPELINE, *(f'{name}="{value}"' for name, value in labels.items())])
    return f"{metric}{{{chosen}}}"


def rate(metric: str, /, **labels: str) -> str:
    """By how much a counter of the chosen pipeline grows in a second."""
    return f"rate({query(metric, **labels)}[$__rate_interval])"


def number(
    title: str,
    says: str,
    expression: str,
    unit: str,
    width: int,
    *,
    steps: Steps = ((None, "blue"),),
    decimals: int | None = None,
    nothing: str = "not measured",
    runbook: str | None = None,
) -> Builder[Panel]:
    """The newest value, as a number; `steps` are the colours from each value on."""
    panel = stat.Panel().targets(_targets({"__auto": expression}, instant=True)).graph_mode(BigValueGraphMode.NONE)
    panel = panel.color_mode(BigValueColorMode.BACKGROUND if len(steps) > 1 else BigValueColorMode.VALUE)
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"])).thresholds(_thresholds(steps))
    if decimals is not None:
        panel = panel.decimals(decimals)
    return _described(panel, title, says, unit, width, SHORT, nothing, runbook)


def lines(
    title: str,
    says: str,
    expressions: Mapping[str, str],
    unit: str,
    width: int,
    *,
    nothing: str = "not measured",
    runbook: str | None = None,
) -> Builder[Panel]:
    """Lines over time: legend → expression."""
    panel = timeseries.Panel().fill_opacity(8).axis_soft_min(0).targets(_targets(expressions))
    return _described(panel, title, says, unit, width, TALL, nothing, runbook)


def bars(
    title: str,
    says: str,
    expressions: Mapping[str, str],
    unit: str,
    width: int,
    *,
    nothing: str = "not measured",
    runbook: str | None = None,
) -> Builder[Panel]:
    """The newest values beside one another, one bar each: legend → expression."""
    panel = bargauge.Panel().orientation(VizOrientation.HORIZONTAL).min(0).thresholds(_thresholds(((None, "blue"),)))
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    panel = panel.targets(_targets(expressions, instant=True))
    return _described(panel, title, says, unit, width, TALL, nothing, runbook)


def words(title: str, says: str, content: str, width: int, height: int = SHORT) -> Builder[Panel]:
    """Markdown, which asks Prometheus nothing."""
    return (
        text.Panel().title(title).description(says).content(content).mode(TextMode.MARKDOWN).span(width).height(height)
    )


def board(uid: str, title: str, says: str, since: str, rows: Mapping[str, Sequence[Builder[Panel]]]) -> dict[str, Any]:
    """A dashboard as Grafana reads it: rows of panels under their headings, the two choices, and the ways to its
    siblings. Panels of a row fill the columns from left to right."""
    builder = dashboard.Dashboard(title).uid(uid).description(says).tags([TAG]).timezone("browser").readonly()
    builder = builder.time(since, "now").refresh("1m").tooltip(DashboardCursorSync.CROSSHAIR)
    siblings = dashboard.DashboardLink("Forecaster").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    builder = builder.link(siblings.include_vars(True).keep_time(False))
    pipelines = dashboard.QueryVariable("pipeline").label("Pipeline").datasource(SOURCE)
    pipelines = pipelines.query("label_values(forecaster_ledger_readable, pipeline)")
    builder = builder.with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    builder = builder.with_variable(pipelines.refresh(VariableRefresh.ON_DASHBOARD_LOAD))
    builder = builder.with_variable(dashboard.TextBoxVariable("runbooks").label("Runbooks").default_value(RUNBOOKS))
    for heading, panels in rows.items():
        builder = builder.with_row(dashboard.Row(heading))
        for panel in panels:
            builder = builder.with_panel(panel)
    built = builder.build()
    for variable in built.templating.list_val or ():
        variable.auto = variable.auto_count = variable.auto_min = None  # of intervals alone, says Grafana's schema
    for place, panel in enumerate(built.panels or (), 1):
        panel.id_val = place
    content: dict[str, Any] = built.to_json()
    return content


def _targets(expressions: Mapping[str, str], *, instant: bool = False) -> list[Builder[Dataquery]]:
    """Legend → expression, each under a letter of its own; an instant query never shows what was long ago."""
    targets: list[Builder[Dataquery]] = []
    for letter, (legend, expression) in zip(ascii_uppercase, expressions.items(), strict=False):
        target = prometheus.Dataquery().expr(expression).legend_format(legend).datasource(SOURCE).ref_id(letter)
        targets.append(target.instant() if instant else target.range())
    return targets


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    thresholds = [Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(thresholds)


def _described(
    panel: Any, title: str, says: str, unit: str, width: int, height: int, nothing: str, runbook: str | None
) -> Builder[Panel]:
    panel = panel.title(title).description(says).unit(unit).span(width).height(height).datasource(SOURCE)
    panel = panel.no_value(nothing)
    if runbook is not None:
        panel = panel.links([dashboard.DashboardLink(f"Runbook: {runbook}").url(f"${{runbooks}}/{runbook}.html")])
    described: Builder[Panel] = panel
    return described
