"""Findings about a panel compared with its knowledge; shared by the nightly run, a refresh and
`forecaster check`."""

from __future__ import annotations

from forecaster.config import Spec
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.panel import Panel
from forecaster.demand.panel.business_days import out_of_business
from forecaster.demand.panel.capped.suspected import suspected_caps
from forecaster.demand.panel.changed_sites import changed_sites
from forecaster.demand.panel.closed_weekdays import never_on_weekdays
from forecaster.demand.panel.closure_counts import closure_counts
from forecaster.demand.panel.known_future.covariates import covariate_findings


def panel_findings(knowledge: Knowledge, panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Findings about missing or implausible covariates, depots with counts while out of business or
    closed, weekdays that depots never have, sites that changed their id, ids that changed their
    site, and counts that look capped."""
    return (
        *out_of_business(knowledge, panel, spec),
        *closure_counts(knowledge, panel, spec),
        *never_on_weekdays(panel, spec),
        *changed_sites(knowledge, panel, spec),
        *suspected_caps(panel, spec),
        *covariate_findings(knowledge, panel, spec),
    )
