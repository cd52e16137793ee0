"""A test notification of the settings page: to a real receiver, through a real block of a real
Prefect server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from tests import prefect_home
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.routes.test_settings import TEXT, sentences
from tests.dashboards.seed import fill, publication
from tests.dashboards.visitor import text
from tests.flows.receivers import webhook
from tests.names import ROOT

NOTIFY = """\
notify:
  blocks: [custom-webhook/works, custom-webhook/refuses, custom-webhook/nobody-made-it]
  of: [late, failed]
  digest: [{to: custom-webhook/works, city: Boston}]
"""
SERVED = """
import os, sys
from pathlib import Path
from flows import environment, prefect_server
environment.prepare(Path(sys.argv[1]))
with prefect_server.running() as ready:
    ready(prefect_server.PATIENCE)
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    for name, url in zip(("works", "refuses"), sys.argv[2:]):
        content = {"title": "{{subject}}", "text": "{{body}}"}
        CustomWebhookNotificationBlock(name=name, url=url, json_data=content).save(name)
    print(os.environ["PREFECT_API_URL"], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    file = tmp_path / "pipeline.yaml"
    file.write_text(TEXT + NOTIFY, "utf-8")
    spec = load(file)
    fill(spec.ledger_url, publication(3))
    return spec


@pytest.fixture
def posted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the bodies posted to the working receiver; the other one answers 404. Prefect runs
    during the test."""
    prefect_home.put_into(tmp_path / "prefect")
    with webhook() as (works, bodies), webhook(404) as (refuses, _):
        command = [sys.executable, "-c", SERVED, str(tmp_path / "prefect"), works, f"{refuses}/T0K3N?key=S3CR3T"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as server:
            assert server.stdout is not None
            monkeypatch.setenv("PREFECT_API_URL", server.stdout.readline().strip())
            yield bodies
            server.communicate()


@pytest.fixture
def ada(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> Guest:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return signed_in(house(spec.ledger_url, declared(), spec=spec), "ada")


def test_a_test_notification_arrives_or_the_page_shows_the_cause_without_secrets(
    ada: Guest, posted: list[str], spec: Spec
) -> None:
    assert "custom-webhook/works late, failed, morning digest of Boston" in text(ada("/settings"))
    sent = ada.writes("/settings/notification", data={"block": "custom-webhook/works"})
    assert "A test was sent to custom-webhook/works." in text(sent)
    assert posted == [
        '{"title":"harbor-fleet: test","text":"harbor-fleet: this is a test of its notifications; nothing is wrong."}'
    ]
    refused = ada.writes("/settings/notification", data={"block": "custom-webhook/refuses"})
    assert "The test did not reach custom-webhook/refuses:" in text(refused)
    assert "Client error '404 Not Found' for url 'http://127.0.0.1:" in text(refused)
    assert "T0K3N" not in refused.text
    assert "S3CR3T" not in refused.text
    missing = ada.writes("/settings/notification", data={"block": "custom-webhook/nobody-made-it"})
    assert "Prefect has no block 'custom-webhook/nobody-made-it'; make it under Blocks" in text(missing)
    assert ada.writes("/settings/notification", data={"block": "--help"}).status_code == 404
    blocks = ("nobody-made-it: not sent", "refuses: not sent", "works: sent")
    assert sentences(spec.ledger_url) == [f"tested custom-webhook/{block}" for block in blocks]
