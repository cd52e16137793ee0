"""Sections of the pipeline file, each a frozen pydantic model, and `load`, which reads and checks
the whole file."""

from __future__ import annotations

from forecaster.config.access import Access, Page
from forecaster.config.credentials import DATASETS, ENVIRONMENT_DEFAULTS
from forecaster.config.demand import (
    WEEKDAYS,
    Aliases,
    Calendar,
    Demand,
    DemandColumns,
    DemandRules,
    DepotColumns,
    Depots,
    EventColumns,
    Events,
)
from forecaster.config.execution import Execution
from forecaster.config.external import Legacy, LegacyColumns
from forecaster.config.model import Backtest, Canary, Gate, Model, Training
from forecaster.config.operations import DigestReceiver, Notify, Retention, Schedule, ScheduleWebhook
from forecaster.config.pipeline import Spec, json_schema, load, spec_of
from forecaster.config.shifts import EmploymentContract, PeopleTable, Shift, WorkedTable
from forecaster.config.slo import Slo
from forecaster.config.sources import (
    AnySource,
    CsvSource,
    DeltaSource,
    ExcelSource,
    ParquetSource,
    SampleSource,
    Source,
    SqlSource,
    WrittenSource,
)
from forecaster.config.staffing import Crew, Overrides, PremiumStep, Staffing, Vans

__all__ = [
    "DATASETS",
    "ENVIRONMENT_DEFAULTS",
    "WEEKDAYS",
    "Access",
    "Aliases",
    "AnySource",
    "Backtest",
    "Calendar",
    "Canary",
    "Crew",
    "CsvSource",
    "DeltaSource",
    "Demand",
    "DemandColumns",
    "DemandRules",
    "DepotColumns",
    "Depots",
    "DigestReceiver",
    "EmploymentContract",
    "EventColumns",
    "Events",
    "ExcelSource",
    "Execution",
    "Gate",
    "Legacy",
    "LegacyColumns",
    "Model",
    "Notify",
    "Overrides",
    "Page",
    "ParquetSource",
    "PeopleTable",
    "PremiumStep",
    "Retention",
    "SampleSource",
    "Schedule",
    "ScheduleWebhook",
    "Shift",
    "Slo",
    "Source",
    "Spec",
    "SqlSource",
    "Staffing",
    "Training",
    "Vans",
    "WorkedTable",
    "WrittenSource",
    "json_schema",
    "load",
    "spec_of",
]
