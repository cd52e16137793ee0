"""The executive's dashboard: what is promised and how that stands, how wrong forecasts were, orders, and money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana import inference
from dashboards.grafana.panels import LEFT, board, lines, number, query
from dashboards.grafana.panels import bars as bar_gauge

PROMISES: Mapping[str, tuple[str, str, int]] = {  # label → title, what it is of, width
    "S1_deadline": ("S1 Nights out in time", "ninety nights, out by their deadline", 6),
    "S2_tier": ("S2 Forecast by a model", "depot-nights of 28 days that no fallback forecast", 6),
    "S3_availability": ("S3 Answers without an error", "the page's answers of 28 days that are no 5xx", 6),
    "S4_latency": ("S4 Answers within 0.2 s", "the page's answers of 28 days", 6),
    "S7_cache": ("S7 Programs from the cache", "programs of 28 days whose versions are as before", 8),
    "S8_night_time": ("S8 Nights in their usual time", "nights of 28 days, within 1.5 of the median before", 8),
    "S9_error_ratio": ("S9 Error as judged", "WAPE of four weeks against the champion's backtest", 8),
    "S9_coverage": ("S9 Ranges hold what they say", "actuals of four weeks within the 80 % range", 8),
    "S9_bias": ("S9 Neither too high nor too low", "bias of four weeks", 8),
}


def content() -> dict[str, Any]:
    """The dashboard as JSON."""
    return board(
        "forecaster-executive",
        "Forecaster: executive",
        "What is promised, how wrong the forecasts were, the orders to expect, and what rosters cost.",
        "now-90d",
        {"Promises: what is left of each error budget": _promises(), "Forecasts": _forecasts(), "Money": _money()},
    )


def _promises() -> Sequence[Builder[Panel]]:
    stats = [
        number(
            title,
            f"Budget left: of {of}. 100 % where nothing was spent; below 0 the promise is broken.",
            f"min({query('forecaster_slo_budget_left_ratio', slo=label)})",
            "percentunit",
            width,
            steps=LEFT,
            decimals=0,
            nothing="not measured yet",
        )
        for label, (title, of, width) in PROMISES.items()
    ]
    burns = lines(
        "How fast the budgets burn",
        "Burn rate of the last week: 1 spends exactly the budget of the whole window, above 1 the promise is burning.",
        {"{{slo}}": f"max by (slo) ({query('forecaster_slo_burn_rate')})"},
        "short",
        24,
    )
    return [*stats, *inference.promises(), burns]


def _forecasts() -> Sequence[Builder[Panel]]:
    errors = query("forecaster_realised_error_ratio", weeks="4")
    ours, naive = (
        f"max({query('forecaster_realised_error_ratio', model=model, weeks='4')})"
        for model in ("published", "seasonal_naive")
    )
    orders = f"max by (ahead) ({query('forecaster_publication_orders')})"
    return [
        lines(
            "Error of what was published, beside its rivals",
            "WAPE over the newest four weeks: the sum of all misses over the sum of all orders. The seasonal naive "
            "repeats the last same weekday; the legacy system is there where one is declared.",
            {"{{model}}": f"max by (model) ({errors})"},
            "percentunit",
            16,
            runbook="worse-forecasts",
        ),
        bar_gauge(
            "Orders to expect, by days ahead",
            "The network's median on each day of what is shown now. Empty for a publication without totals.",
            {"{{ahead}} days ahead": orders},
            "short",
            8,
        ),
        number(
            "Orders of the days ahead",
            "The sum of the medians of all days of what is shown now.",
            f"sum({orders})",
            "short",
            8,
            decimals=0,
        ),
        number(
            "Better than repeating the weekday",
            "How much of the seasonal naive's error our forecasts spare, over the newest four weeks.",
            f"1 - {ours} / {naive}",
            "percentunit",
            8,
            decimals=1,
        ),
        number(
            "Promotions frozen",
            "1 while nights promote nothing, because a promise on accuracy is broken.",
            f"max({query('forecaster_promotions_frozen')})",
            "short",
            8,
            steps=((None, "green"), (1.0, "red")),
            runbook="worse-forecasts",
        ),
    ]


def _money() -> Sequence[Builder[Panel]]:
    cost = f"max by (way) ({query('forecaster_roster_cost')})"
    ours, rival = (f"max({query('forecaster_roster_cost', way=way)})" for way in ("published", "last_week"))
    return [
        lines(
            "What each way to roster cost",
            "Missing and idle drivers over the newest four weeks, in the currency of `staffing`: ours as published, "
            "the same as last week, the median plus a buffer, and perfect foresight. Wages are not in it.",
            {"{{way}}": cost},
            "short",
            16,
        ),
        bar_gauge("By way, now", "The newest of the same.", {"{{way}}": cost}, "short", 8),
        number(
            "Saved in four weeks",
            "What rostering the same as last week would have cost more than ours; below 0 ours cost more.",
            f"{rival} - {ours}",
            "short",
            12,
            steps=((None, "red"), (0.0, "green")),
            decimals=0,
        ),
        number(
            "Cost of our rosters", "Missing and idle drivers over the newest four weeks.", ours, "short", 12, decimals=0
        ),
    ]
