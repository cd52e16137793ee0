"""The page of a dry run is complete and self-contained, whatever the data contain."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from forecaster.check import figures, html_report
from forecaster.check.dry_run import DryRun, check
from forecaster.check.html_report import MISSING_PICTURES, page, write_page
from forecaster.config import Spec, load
from forecaster.core.knowledge import Finding
from forecaster.errors import SpecError
from forecaster.reports.finding_examples import FindingExample
from forecaster.reports.svg import COLOURS, inline
from tests.panels import NAN, bare, panel

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
FIRST = date(2023, 11, 1)
EVIL = ["<script>alert(1)</script>", "\"'><img src=x>", "=cmd()!A0", "🚚 $x^2$ 東京", "]]>&amp;", "y" * 200]
SPEC = """name: t
demand: {source: {kind: csv, path: demand.csv}, columns: {recorded_at: at}}
calendar: {holidays: false}
"""


def spec_of(folder: Path, ids: list[str], days: int = 120) -> Spec:
    """Depots with odd names, a negative count each, and one late row."""
    import csv

    (folder / "pipeline.yaml").write_text(SPEC, "utf-8")
    with (folder / "demand.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["depot_id", "date", "demand", "at"])
        for depot in ids:
            for day in (FIRST + timedelta(days=i) for i in range(days)):
                late = 20 if day == FIRST else 1
                count = -5 if day == FIRST + timedelta(days=90) else 10 + day.weekday()
                rows.writerow([depot, day, count, f"{day + timedelta(days=late)}T04:00:00Z"])
    return load(folder / "pipeline.yaml")


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> DryRun:
    return check(spec_of(tmp_path_factory.mktemp("trial"), EVIL), now=NOW)


class ParsedPage(HTMLParser):
    """Every element with its attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_shows_the_text_report_and_its_pictures(trial: DryRun) -> None:
    document = ParsedPage(page(trial, now=NOW))
    assert "contract  720 rows read = 714 accepted + 0 unchanged + 6 quarantined" in document.text
    assert "usable; nothing else was changed" in document.text
    headings = (
        "The network, day by day",
        "Every depot and day",
        "Quarantined rows, by rule and file",
        "count_negative: ",
    )
    assert [document.text.index(heading) for heading in headings] == sorted(
        document.text.index(heading) for heading in headings
    )
    pictures = [attributes for tag, attributes in document.elements if tag == "svg"]
    assert len(pictures) == 3 + 3 + 1  # the overview, three depots with a negative count, lateness
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in pictures)


def test_page_escapes_text_from_the_data(trial: DryRun) -> None:
    document = ParsedPage(page(trial, now=NOW))
    assert "script" not in {tag for tag, _ in document.elements}
    assert "img" not in {tag for tag, _ in document.elements}
    for depot in EVIL[:5]:
        assert depot in document.text
    assert "y" * 200 not in document.text


def test_page_loads_no_external_resources(trial: DryRun) -> None:
    text = page(trial, now=NOW)
    assert "default-src 'none'" in text
    for _, attributes in ParsedPage(text).elements:
        for name in ("src", "href", "xlink:href", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    assert not re.search(r"@import|url\((?!#)", text)


def test_element_ids_are_unique_and_references_resolve(trial: DryRun) -> None:
    text = page(trial, now=NOW)
    ids = [attributes["id"] for _, attributes in ParsedPage(text).elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 0
    assert set(re.findall(r'(?:url\(|href=")#([\w-]+)', text)) <= set(ids)


def test_page_uses_only_its_own_color_variables(trial: DryRun) -> None:
    text = page(trial, now=NOW)
    assert "var(--found)" in text
    assert not re.search("|".join(COLOURS), text)
    used = set(re.findall(r"var\((--\w+)\)", text))
    assert used <= set(re.findall(r"(--\w+):", text))


def test_page_without_matplotlib_names_the_package_for_pictures(trial: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "pictures", lambda: False)
    document = ParsedPage(page(trial, now=NOW))
    assert "svg" not in {tag for tag, _ in document.elements}
    assert MISSING_PICTURES in document.text
    assert "count_negative" in document.text
    assert write_page(trial, None, now=NOW).endswith(MISSING_PICTURES)


def test_failed_dry_run_has_a_page_too(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ["A"])
    (tmp_path / "demand.csv").unlink()
    document = ParsedPage(page(check(spec, now=NOW), now=NOW))
    assert "not usable: 1 of 1 sources cannot be read" in document.text
    assert "svg" not in {tag for tag, _ in document.elements}


def test_page_is_written_only_to_the_given_path(trial: DryRun, tmp_path: Path) -> None:
    assert write_page(trial, None, now=NOW) == f"page      {trial.spec.paths.folder}/check.html"
    assert [path.name for path in trial.spec.paths.folder.iterdir()] == ["check.html"]
    assert write_page(trial, tmp_path / "new" / "x.html", now=NOW) == f"page      {tmp_path}/new/x.html"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.html"]


def test_page_that_cannot_be_written_is_reported(trial: DryRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match=r"--html: .*/file/x.html cannot be written"):
        write_page(trial, tmp_path / "file" / "x.html", now=NOW)
    nowhere = replace(trial, spec=trial.spec.model_copy(update={"state": str(tmp_path / "file")}))
    assert "cannot be written" in write_page(nowhere, None, now=NOW)


def test_heat_map_of_many_depots_shows_those_with_findings_and_a_sample(trial: DryRun) -> None:
    assert trial.evidence is not None
    many = replace(trial.evidence, panel=bare([[1.0] * 10] * 100))
    finding = Finding("late", "warn", 2, "m", (("D7", "2024-01-02"), ("D9", "2024-01-02"), ("D9", "2024-01-03")))
    depots, words = html_report._depots_to_draw(many, [finding])
    assert words == "60 of 100 depots: the 2 with the most findings and 58 of the 98 others, evenly sampled."
    assert depots[:2] == [9, 7]
    assert len(set(depots)) == 60


@pytest.mark.parametrize(
    ("rule", "pictures"),
    [
        ("thin_feed", 1),
        ("covariate_missing", 1),
        ("flat_line", 1),
        ("silent_depot", 1),
        ("unit_change", 1),
        ("late", 0),
    ],
)
def test_every_kind_of_finding_can_be_drawn(trial: DryRun, rule: str, pictures: int) -> None:
    assert trial.ingested is not None
    assert trial.evidence is not None
    place = ("D1", "2024-03-01")  # of a panel with covariates, whose source does not state when a row was recorded
    finding = Finding(rule, "warn", 1, "m", (place,) if pictures else ())
    evidence = replace(trial.evidence, panel=panel(history=70), ages=None)
    with_finding = replace(trial, ingested=replace(trial.ingested, findings=(finding,)), evidence=evidence)
    assert page(with_finding, now=NOW).count("<svg") == 2 + pictures


def test_column_of_several_days_shows_the_most_critical_state() -> None:
    panel = bare([[1, 0, 1, NAN, 0, 1, 1, 1]], closed=[(0, 5), (0, 6)])
    columns = figures._bin_states(figures.states(panel), 2)
    assert columns.tolist() == [[1, 3, 1, 0]]  # zero, missing, zero, observed and closed in equal parts
    assert figures._bin_states(np.array([[2, 2, 0]], np.int8), 3).tolist() == [[2]]


def test_usual_range_covers_the_same_weekdays_before() -> None:
    counts = np.arange(70, dtype=np.float32)
    low, high = figures._usual_range(counts, np.ones(70, bool))
    assert np.isnan(low[:21]).all()
    past = counts[[69 - 7 * week for week in range(1, 9)]]
    assert (low[69], high[69]) == pytest.approx(tuple(np.quantile(past, [0.1, 0.9])))
    closed = np.ones(70, bool)
    closed[62] = False
    past = np.delete(past, 0)
    assert figures._usual_range(counts, closed)[1][69] == pytest.approx(np.quantile(past, 0.9))


def test_shades_the_whole_flat_line_and_a_silence_up_to_its_end() -> None:
    days = np.arange("2024-01-01", "2024-01-09", dtype="datetime64[D]")
    counts = np.array([1, 5, 5, 5, 2, 5, NAN, NAN], np.float32)
    inside = FindingExample("A", {date(2024, 1, 3): None})
    assert np.flatnonzero(figures._days_to_shade(counts, days, inside, "flat_line")).tolist() == [1, 2, 3]
    last = FindingExample("A", {date(2024, 1, 8): None})
    assert np.flatnonzero(figures._days_to_shade(counts, days, last, "silent_depot")).tolist() == [6, 7]
    assert np.flatnonzero(figures._days_to_shade(counts, days, inside, "spike")).tolist() == [2]


def test_histogram_of_delays_has_a_bin_edge_right_after_the_limit() -> None:
    figure = figures.reporting_delay(np.array([1] * 50 + [3, 4, 400]), 3)
    (axes,) = figure.axes
    edges = [bar.get_x() for bar in axes.patches]
    assert 3.5 in edges
    assert sum(bar.get_height() for bar in axes.patches) == 53
    assert sum(bar.get_height() for bar in axes.patches if bar.get_x() < 3.5) == 51


def test_picture_has_a_text_description() -> None:
    description = 'of "A" & <B>'
    svg = inline(figures.bars(["a", "b"], [1, 2]), description, "name")
    assert (svg.get("role"), svg.get("aria-label")) == ("img", description)
    assert svg.get("width") is None
