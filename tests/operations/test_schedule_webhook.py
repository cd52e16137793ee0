"""A published week and each of its changes are posted once, signed, to a real server on this
machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboards.ops.app import create_app
from forecaster.cli.app import app
from forecaster.config import Spec, load
from forecaster.errors import SpecError
from forecaster.ledger.store import Ledger
from forecaster.operations import schedule_webhook
from forecaster.planning import schedules, service
from tests import fleets
from tests.dashboards.seed import NOON, fill, publication
from tests.dashboards.visitor import ask_locally
from tests.fleets import AS_OF
from tests.planning.nights import DAY, PROPOSED, THURSDAY, current, day, publish_as_of, publish_nights

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STAFFING = (
    "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, notice_days: 6, "
    "change_premium: [{added: 15, removed: 45}]}\n"
)
MONDAY = THURSDAY - timedelta(days=3)
EVENT = {"before", "by", "crews", "depot_id", "target_date", "at", "premium", "saving"}


class Hook(ThreadingHTTPServer):
    """A receiver that records posts, and answers the next ones with the statuses in `answers`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook/path-is-secret"

    @property
    def events(self) -> list[dict[str, Any]]:
        """Posted events, with verified signatures."""
        return [_verified(headers, body) for headers, body in self.posts]


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append(({name.lower(): value for name, value in self.headers.items()}, body))
        status = self.server.answers.pop(0) if self.server.answers else 204
        if status == 0:  # received, but the answer is lost
            self.close_connection = True
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


def _verified(headers: dict[str, str], body: bytes) -> dict[str, Any]:
    """Return the event after verifying its signature per https://www.standardwebhooks.com."""
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == expected
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    assert headers["content-type"] == "application/json"
    content: dict[str, Any] = json.loads(body)
    assert content["id"] == headers["webhook-id"]
    return content


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setenv("SCHEDULE_SECRET", SECRET)
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def declared(hook: Hook) -> str:
    return f"notify: {{schedule: {{url: '{hook.url}', secret: '${{SCHEDULE_SECRET}}'}}}}\n"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def spec(tmp_path: Path, url: str, hook: Hook) -> Spec:
    """Pipeline with a publication of three depots."""
    fill(url, publication(3))
    file = tmp_path / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n{STAFFING}{declared(hook)}", "utf-8")
    return load(file)


def publish(spec: Spec, at: datetime | None = None) -> None:
    assert spec.staffing is not None
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        depots = current(spec).depots
        days = depots[0].days[0].target_date, depots[0].days[1].target_date
        instant = at or datetime.now(UTC)
        schedules.publish_days(connection, spec.name, depots, days, spec.staffing, by="Ana", at=instant)


def change(spec: Spec, drivers: int) -> None:
    """Add drivers on the first depot's second day."""
    shown = current(spec)
    depot = shown.depots[0]
    moved = replace(depot.days[1], drivers=(depot.days[1].drivers or 0) + drivers)
    after = replace(shown, depots=(replace(depot, days=(depot.days[0], moved, *depot.days[2:])), *shown.depots[1:]))
    assert spec.staffing is not None
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        schedules.record_changes(connection, after, spec.staffing, noticed=NOON, at=datetime.now(UTC))


def posted_by_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == schedule_webhook.KEY:
            thread.join(30)


def test_signature_matches_the_published_example() -> None:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = schedule_webhook.signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_publication_and_a_change_are_posted_once_each_with_crews_before_and_after(spec: Spec, hook: Hook) -> None:
    assert schedule_webhook.deliver(spec) is None
    assert hook.posts == []  # nothing is published
    publish(spec)
    assert schedule_webhook.deliver(spec) is None
    [first] = hook.events
    assert (first["type"], first["data"]["pipeline"]) == ("schedule.published", "harbor-fleet")
    days = first["data"]["days"]
    assert len(days) == 6
    assert {frozenset(each) for each in days} == {frozenset(EVENT)}
    crew = (current(spec).depots[0].days[1].drivers or 0, current(spec).depots[0].depot_id)
    [told] = [each for each in days if each["depot_id"] == crew[1] and each["target_date"] == "2025-06-18"]
    assert (told["before"], told["crews"], told["by"]) == ({}, {"": crew[0]}, "Ana")
    change(spec, 0)
    publish(spec)
    assert schedule_webhook.deliver(spec) is None
    assert len(hook.posts) == 1  # nothing changed
    change(spec, 2)
    assert schedule_webhook.deliver(spec) is None
    event = hook.events[1]
    [moved] = event["data"]["days"]
    assert (event["type"], event["data"]["premium"], moved["premium"]) == ("schedule.changed", 30, 30)
    assert (moved["before"], moved["crews"]) == ({"": crew[0]}, {"": crew[0] + 2})
    assert event["id"] != first["id"]
    assert schedule_webhook.deliver(spec) is None
    assert len(hook.posts) == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (500, "HTTP 500 Internal Server Error"),
        (302, "HTTP 302 Found"),
        (0, "Remote end closed connection without response"),
    ],
)
def test_failed_posts_are_retried_with_the_same_id_and_body(spec: Spec, hook: Hook, answer: int, why: str) -> None:
    publish(spec)
    change(spec, 1)
    hook.answers = [answer, answer]
    for _ in range(2):
        assert schedule_webhook.deliver(spec) == f"notify.schedule: not taken, and posted again by the next run: {why}"
    assert len(hook.posts) == 2  # the change waits until the publication is accepted
    assert schedule_webhook.deliver(spec) is None
    events = hook.events
    assert [each["type"] for each in events] == [*3 * ["schedule.published"], "schedule.changed"]
    assert len({each["id"] for each in events[:3]}) == 1
    assert len({body for _, body in hook.posts[:3]}) == 1


def test_silent_receiver_only_costs_seconds(spec: Spec, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_webhook, "EACH", 0.3)
    publish(spec)
    hook.shutdown()
    begun = time.monotonic()
    fault = schedule_webhook.deliver(spec)
    assert time.monotonic() - begun < 5
    assert fault is not None
    assert "path-is-secret" not in fault
    assert fault.endswith(("timed out", "did not answer within 0 s"))


def test_event_is_not_reposted_after_its_row_is_deleted(spec: Spec, hook: Hook) -> None:
    publish(spec, datetime.now(UTC) - timedelta(days=29, seconds=1))
    assert schedule_webhook.deliver(spec) is None
    assert hook.posts == []
    change(spec, 1)
    assert schedule_webhook.deliver(spec) is None
    [event] = hook.events
    assert event["data"]["days"][0]["before"] != {}  # the crews published then are known


def test_page_posts_its_publications(spec: Spec, url: str, hook: Hook) -> None:
    page = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)
    with Ledger.open_reader(url) as ledger:
        head = ledger.current("harbor-fleet")
        assert head is not None
    form = {"week": "2025-06-16", "publication": str(head.publication_id), "by": "Ana"}
    for _ in range(2):
        assert ask_locally(page, "POST", "/schedule", data=form).status_code == 303
        posted_by_threads()
    assert [each["type"] for each in hook.events] == ["schedule.published"]


def test_command_override_and_run_post_their_changes(tmp_path: Path, hook: Hook) -> None:
    staffing = STAFFING.replace("notice_days: 6", "notice_days: 2")
    fleet = publish_nights(tmp_path / "fleet", fleets.counts("ABCD"), staffing=staffing)
    fleet.file.write_text(fleet.file.read_text("utf-8") + declared(hook), "utf-8")
    spec = load(fleet.file)
    hook.answers = [500]
    answer = CliRunner().invoke(app, ["schedule", str(fleet.file), "--publish", THURSDAY.isoformat(), "--by", "Ana"])
    assert answer.exit_code == 0
    assert answer.stderr.splitlines()[-1].endswith("posted again by the next run: HTTP 500 Internal Server Error")
    orders = round(day(current(spec)).quantiles[1]) + 100
    service.save(spec, replace(PROPOSED, orders=orders))
    posted_by_threads()
    events = hook.events
    assert [each["type"] for each in events] == ["schedule.published", "schedule.published", "schedule.changed"]
    assert events[0]["id"] == events[1]["id"]
    [moved] = events[2]["data"]["days"]
    assert (moved["depot_id"], moved["target_date"], moved["by"]) == ("A", THURSDAY.isoformat(), "Ana")
    fleet.file.write_text(fleet.file.read_text("utf-8").replace("cost_short: 38", "cost_short: 380"), "utf-8")
    spec = load(fleet.file)  # more drivers are wanted
    fleets.fill(spec, fleets.counts("ABCD", 101, 100), fleets.CITIES, now=AS_OF + DAY)
    hook.answers = [503]
    night = publish_as_of(spec, AS_OF + DAY)
    assert "posted again by the next run: HTTP 503 Service Unavailable" in str(night.remark)
    publish_as_of(spec, AS_OF + DAY + timedelta(hours=1))
    later = hook.events[3:]
    assert [each["type"] for each in later] == 2 * ["schedule.changed"]
    assert later[0] == later[1]
    assert all(each["before"] != each["crews"] for each in later[0]["data"]["days"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{url: 'ftp://x', secret: '${S}'}", "wanted a URL as in"),
        ("{url: 'http://x', secret: whsec_abc}", "wanted it named, as in"),
        ("{url: 'http://x', secret: '${S}'}", "there is no staffing.notice_days"),
    ],
)
def test_rejects_invalid_declarations(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"name: x\ndemand: {{source: {{kind: csv, path: d.csv}}}}\nnotify: {{schedule: {text}}}\n", "utf-8")
    with pytest.raises(SpecError, match=sentence):
        load(file)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_short", "whsec_%%%", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
def test_invalid_secret_is_reported_by_its_setting(
    spec: Spec, hook: Hook, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("SCHEDULE_SECRET", secret)
    publish(spec)
    fault = schedule_webhook.deliver(spec)
    assert fault is not None
    assert "notify.schedule.secret: ${SCHEDULE_SECRET} is no such key, wanted whsec_ and 24 to 64 bytes" in fault
    assert hook.posts == []
