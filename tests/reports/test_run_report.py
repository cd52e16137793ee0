"""The report of a night's model is one file with the verdict, the scores and the pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

from forecaster.core.forecast import Verdict
from forecaster.reports import run_figures
from forecaster.reports.run_report import GateReview, page
from tests import panels
from tests.evaluation.test_segments import four_depots, judged

REFUSED = Verdict(False, ("wape is 0.2000, wanted at most 0.1000 to beat champion",), {})


def test_the_report_has_verdict_scores_parts_and_pictures_and_loads_nothing() -> None:
    panel = four_depots()
    scores = {"candidate": replace(judged(panel), model="candidate"), "seasonal_naive": judged(panel)}
    pictures = {"calibration.png": run_figures.png(run_figures.calibration(scores))}
    totals = {"network": {"coverage": 0.812, "bias": 0.014, "width": 0.2}}
    review = GateReview("night-1", datetime(2024, 5, 1, 7, tzinfo=UTC), scores, REFUSED, totals)
    html = page(review, panel, pictures, panels.spec())
    assert "The candidate was not admitted: wape is 0.2000, wanted at most 0.1000 to beat champion." in html
    assert (
        f'<td style="text-align: right; padding: .125rem .625rem">{scores["candidate"].metrics["wape"]:.1%}</td>'
        in html
    )
    for heading in ("All on the same days", "By city", "By days ahead", "By weekday", "By kind of day"):
        assert f"<h2>{heading}</h2>" in html
    of_totals = re.search(r"<h2>Totals of groups and weeks.*?</section>", html, re.S)
    assert of_totals is not None
    assert re.findall(r"<t[hd][^>]*>([^<]*)", of_totals[0]) == [
        "", "sums of", "coverage", "bias", "width", "network", "81.2%", "+1.4%", "20.0%",
    ]  # fmt: skip
    assert html.count("data:image/png;base64,") == 1
    assert "http" not in html.replace("http-equiv", "")


def test_names_of_depots_and_cities_are_never_markup() -> None:
    evil = "<script>alert(1)</script>"
    panel = replace(four_depots(), depot_ids=(evil, "B", "C", "D"), attributes={"city": (evil, "B", "B", "B")})
    scores = {"candidate": judged(panel)}
    review = GateReview("night-1", datetime(2024, 5, 1, 7, tzinfo=UTC), scores, Verdict(True, (), {}), {})
    html = page(review, panel, {}, panels.spec())
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
