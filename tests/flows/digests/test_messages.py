"""Links in messages point to the pages, wherever they are served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboards.ops import server
from dashboards.ops.views.digest.preview import preview
from flows.digests import messages
from forecaster.config import Spec, load
from tests.dashboards.seed import NOON, fill, publication


def spec_of(folder: Path, page: str) -> Spec:
    file = folder / "pipeline.yaml"
    file.write_text(
        "name: harbor-fleet\ndemand: {source: {kind: csv, path: demand.csv}}\nledger: sqlite:///ledger.db\n"
        f"page: {page}\nnotify: {{digest: [{{to: slack-webhook/x}}, {{to: forecaster-email/y, depot: BOS-01}}]}}\n",
        "utf-8",
    )
    return load(file)


@pytest.mark.parametrize(
    ("page", "base"),
    [
        ('{access: {url: "https://depots.example"}}', "https://depots.example"),
        ('{together: true, access: {url: "https://depots.example"}}', "https://depots.example/p/harbor-fleet"),
        ("{together: true}", ""),
    ],
)
def test_each_link_of_a_message_has_the_prefix_of_its_pipeline(tmp_path: Path, page: str, base: str) -> None:
    spec = spec_of(tmp_path, page)
    fill(spec.ledger_url, publication())
    made = messages.morning(spec, spec.notify.digest, NOON).digests
    forms = [messages.message(receiver, content, ()) for receiver, content in made]
    texts = [text for form in forms for text in (form.text, form.short, form.html)]
    links = {
        link
        for text in [*texts, preview(spec, "BOS-01", None, "html")]
        for link in re.findall(r"https?://[^\s\"<>)|]+", text)
    }
    assert bool(links) == bool(base)
    assert all(link.startswith(f"{base}/") for link in links), links
    assert not base or f"{base}/depot/BOS-01" in links


def test_names_pipelines_served_together_with_dead_links(tmp_path: Path) -> None:
    one, other = (
        '{access: {url: "https://depots.example"}}',
        '{together: true, access: {url: "https://depots.example"}}',
    )
    lost, found = spec_of(tmp_path, one), spec_of(tmp_path, other)
    assert server.misled([lost]) == ""
    assert server.misled([found, found]) == ""
    assert server.misled([lost, found]) == (
        "harbor-fleet: links of digests lead to pages that are not there: several pipelines lie under /p/NAME/; wanted "
        "page.together: true in the pipeline file"
    )
