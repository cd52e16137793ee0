"""Delivery of morning digests by a real local mail server and web server: once a day, without
effect of failures on the run."""

from __future__ import annotations

import email
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from forecaster.config import Spec, load
from forecaster.ledger.publication import Publication
from forecaster.ledger.store import Ledger
from forecaster.planning import schedules
from tests.dashboards.seed import NOON, earlier, fill, publication
from tests.flows import tiny
from tests.flows.receivers import webhook

pytestmark = pytest.mark.usefixtures("prefect")

PIPELINE = """
name: harbor-fleet
timezone: America/New_York
demand: {source: {kind: csv, path: demand.csv}}
ledger: sqlite:///ledger.db
page: {access: {url: "https://depots.example"}}
notify:
  digest:
"""
TO_BOSTON = "  - {to: forecaster-email/boston, city: Boston}\n"
TO_DEPOT = "  - {to: forecaster-email/bos-01, depot: BOS-01}\n"
TO_CHAT = "  - {to: slack-webhook/depots, language: de}\n"


class Inbox:
    """Collects the mails of a server; rejects recipients named `refused`."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, EmailMessage]] = []

    async def handle_RCPT(self, _: Any, session: Any, envelope: Any, address: str, __: Any) -> str:
        if not session.authenticated:
            return "530 say who you are"
        if address.startswith("refused"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:
        message = email.message_from_bytes(envelope.content, policy=policy.default)
        self.mails += [(address, message) for address in envelope.rcpt_tos]
        return "250 OK"

    def text(self, to: str, form: str = "html") -> str:
        """Return the text of the last mail to an address."""
        message = next(message for address, message in reversed(self.mails) if address == f"{to}@fleet.example")
        part = message.get_body((form,))
        assert part is not None
        return str(part.get_content())


@contextmanager
def mail_server() -> Iterator[tuple[int, Inbox]]:
    """Run an SMTP server (RFC 5321) with authentication; yields its port and its inbox."""
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult

    def admits(_: Any, __: Any, ___: Any, ____: Any, login: Any) -> AuthResult:
        return AuthResult(success=(login.login, login.password) == (b"night", b"secret"))

    class AnyPort(Controller):
        def _trigger_server(self) -> None:
            self.port = self.server.sockets[0].getsockname()[1]
            super()._trigger_server()

    inbox = Inbox()
    server = AnyPort(
        inbox, "127.0.0.1", 0, server_hostname="mail.fleet.example", authenticator=admits, auth_require_tls=False
    )
    server.start()
    try:
        yield server.port, inbox
    finally:
        server.stop()


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inbox]:
    """A mail server, with notification blocks that use it."""
    from flows.notify import Email

    with mail_server() as (port, inbox):
        for name in ("boston", "bos-01", "refused"):
            url = (
                f"mailto://night:secret@127.0.0.1:{port}?from=night@fleet.example&to={name}@fleet.example&mode=insecure"
            )
            Email(url=url).save(name, overwrite=True)  # type: ignore[unused-coroutine, arg-type]
        yield inbox


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Bodies posted to Slack, whose address is replaced by a local one."""
    from apprise.plugins.slack import NotifySlack
    from prefect.blocks.notifications import SlackWebhook

    with webhook(200, "ok") as (address, posted):
        monkeypatch.setattr(NotifySlack, "webhook_url", address)
        url = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
        SlackWebhook(url=url).save("depots", overwrite=True)  # type: ignore[unused-coroutine, arg-type]
        yield posted


def pipeline(folder: Path, receivers: str, *publications: Publication) -> Spec:
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE + receivers, "utf-8")
    fill(f"sqlite:///{folder / 'ledger.db'}", *(publications or (publication(),)))
    return load(file)


def send(spec: Spec, now: datetime = NOON, *, again: bool = False) -> Any:
    from flows.digests import sending

    return sending.send(spec, spec.notify.digest, now, again=again)


def test_mail_and_chat_get_their_digests_once_a_day(tmp_path: Path, inbox: Inbox, chat: list[str]) -> None:
    spec = pipeline(tmp_path, TO_BOSTON + TO_DEPOT + TO_CHAT)
    first, second = send(spec), send(spec, NOON + timedelta(hours=3))
    assert (first.sent, first.faults, first.sentence()) == (3, (), "3 digests sent")
    assert (second.sent, second.sentence()) == (0, "0 digests sent; 3 receivers had theirs already")
    subjects = {address: message["Subject"] for address, message in inbox.mails}
    assert subjects == {
        "boston@fleet.example": "Boston, tomorrow, Wed 18 Jun: 510 orders, 13 drivers",
        "bos-01@fleet.example": "BOS-01, tomorrow, Wed 18 Jun: 364 orders, 9 drivers",
    }
    page = inbox.text("bos-01")
    assert ">364</p>" in page
    assert "https://depots.example/depot/BOS-01" in page
    assert not {"<img", "<link", "<script", "url("} & set(page.split())
    assert "Wed 18 Jun, tomorrow: 364 orders (280–448), 9 drivers" in " ".join(inbox.text("bos-01", "plain").split())
    [posted] = chat
    assert "alle 6 Depots, morgen, Mi., 18. Juni: 1.451 Auftr" in posted  # in German; JSON escapes the umlauts
    assert send(spec, again=True).sent == 3
    assert send(spec, NOON + timedelta(days=1)).sent == 3


def test_a_refresh_is_sent_only_if_it_changes_a_crew(tmp_path: Path, inbox: Inbox) -> None:
    spec = pipeline(tmp_path, TO_BOSTON + TO_DEPOT)
    send(spec)
    same = publication(run_id="refresh-1", published_at=NOON, as_of=NOON, model="harbor-fleet v4")
    fill(spec.ledger_url, same)
    assert send(spec, NOON).sent == 0
    depots = list(same.depots)
    tomorrow = replace(depots[3].days[1], drivers=5)  # BOS-02, from 4
    depots[3] = replace(depots[3], days=(depots[3].days[0], tomorrow, *depots[3].days[2:]))
    fill(spec.ledger_url, replace(same, run_id="refresh-2", depots=tuple(depots)))
    assert send(spec, NOON).sent == 1
    address, message = inbox.mails[-1]
    assert (address, str(message["Subject"])) == (
        "boston@fleet.example",
        "Changed: Boston, tomorrow, Wed 18 Jun: 510 orders, 14 drivers",
    )
    assert "Drivers changed for Wed 18 Jun: BOS-02 4 → 5." in inbox.text("boston")
    assert send(spec, NOON).sent == 0


def test_changes_of_the_schedule_are_sent_once_to_affected_receivers_in_their_language(
    tmp_path: Path, inbox: Inbox, chat: list[str]
) -> None:
    notice = (
        "staffing: {orders_per_driver: 45, cost_short: 38, cost_idle: 22, notice_days: 6, "
        "change_premium: [{added: 15, removed: 45}]}\n"
    )
    philadelphia = "  - {to: forecaster-email/boston, city: Philadelphia}\n"
    spec = pipeline(tmp_path, TO_DEPOT + philadelphia + TO_CHAT + notice)
    depots, hour = publication().depots, timedelta(hours=1)
    days, crew = (depots[0].days[0].target_date, depots[0].days[5].target_date), depots[0].days[3].drivers or 0
    assert spec.staffing is not None

    def change(drivers: int, at: datetime) -> None:
        day = replace(depots[0].days[3], drivers=crew + drivers)
        first = replace(depots[0], days=(*depots[0].days[:3], day, *depots[0].days[4:]))
        after = replace(publication(), depots=(first, *depots[1:]))
        with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
            assert schedules.record_changes(connection, after, spec.staffing, noticed=NOON, at=at) == 1  # type: ignore[arg-type]

    assert send(spec).sent == 3
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        schedules.publish_days(connection, spec.name, depots, days, spec.staffing, by="Ana", at=NOON + hour)
    assert send(spec, NOON + 2 * hour).sent == 0  # publishing a schedule changes no crew
    change(1, NOON + 3 * hour)
    assert send(spec, NOON + 4 * hour).sent == 2  # the depot and the network; Philadelphia has no change
    sentence = f"Drivers changed for Fri 20 Jun: BOS-01 {crew} → {crew + 1}."
    assert sentence in inbox.text("bos-01")
    assert str(inbox.mails[-1][1]["Subject"]).startswith("Changed: BOS-01, tomorrow")
    assert f"BOS-01 {crew} → {crew + 1}." in json.loads(chat[-1])["attachments"][0]["text"]
    assert "Fr., 20. Juni" in json.loads(chat[-1])["attachments"][0]["text"].partition("→")[0]
    assert send(spec, NOON + 5 * hour).sent == 0
    change(3, NOON + 6 * hour)
    assert send(spec, NOON + timedelta(days=1)).sent == 3  # with the first digest of the next day
    assert f"Drivers changed for Fri 20 Jun: BOS-01 {crew + 1} → {crew + 3}." in inbox.text("bos-01")
    assert "Drivers changed" not in inbox.text("boston")
    assert send(spec, NOON + timedelta(days=1, hours=1)).sent == 0


def test_after_a_failed_run_sends_yesterdays_numbers_with_a_note_and_later_the_new_ones(
    tmp_path: Path, inbox: Inbox
) -> None:
    spec = pipeline(tmp_path, TO_DEPOT, earlier())
    morning = NOON - timedelta(hours=8)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("night-1", pipeline=spec.name, as_of=morning, spec_digest="x", at=morning)
        ledger.finish_run("night-1", "failed", 1, at=morning)
    assert (send(spec, morning).sent, send(spec, morning).sent) == (1, 0)
    [(_, message)] = inbox.mails
    assert str(message["Subject"]).startswith("Old forecast: BOS-01, tomorrow, Wed 18 Jun: ")
    assert "Yesterday’s forecast: this night’s run failed." in inbox.text("bos-01")
    fill(spec.ledger_url, publication(run_id="night-2", published_at=NOON))
    assert send(spec).sent == 1
    assert str(inbox.mails[-1][1]["Subject"]).startswith("BOS-01, tomorrow")
    assert "Yesterday" not in inbox.text("bos-01")


def test_names_failed_digests_with_the_reason_and_retries_them_in_the_next_run(
    tmp_path: Path, inbox: Inbox, chat: list[str]
) -> None:
    others = (
        "  - {to: forecaster-email/refused, city: Boston}\n  - {to: custom-webhook/nobody-made-it}\n"
        "  - {to: forecaster-email/boston, depot: XXX-99}\n"
    )
    spec = pipeline(tmp_path, others + TO_DEPOT)
    result = send(spec)
    assert result.sent == 1
    unknown, refused, missing = result.faults
    assert unknown == "forecaster-email/boston: there is no depot 'XXX-99' in what is published"
    assert refused.startswith("forecaster-email/refused (Boston): ")
    assert "refused@fleet.example" in refused
    assert missing.startswith(
        "custom-webhook/nobody-made-it (all 6 depots): Prefect has no block 'custom-webhook/nobody-made-it'"
    )
    again = send(spec)
    assert (again.sent, again.had, len(again.faults)) == (0, 1, 3)


@pytest.mark.long
def test_a_hanging_receiver_gets_no_second_digest_and_delays_no_other(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    from flows.digests import sending

    monkeypatch.setattr(sending, "EACH", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        hook = CustomWebhookNotificationBlock(name="silent", url=url, timeout=600, json_data={"text": "{{body}}"})
        hook.save("silent", overwrite=True)  # type: ignore[unused-coroutine]
        to_silent = "  - {to: custom-webhook/silent}\n  - {to: custom-webhook/silent, city: Boston}\n"
        spec = pipeline(tmp_path, to_silent + TO_DEPOT)
        result = send(spec)
        assert (result.sent, [address for address, _ in inbox.mails]) == (1, ["bos-01@fleet.example"])
        hanging = "custom-webhook/silent did not answer within 5 s"
        assert result.faults == (
            f"custom-webhook/silent (all 6 depots): {hanging}; whether it arrived is not known",
            f"custom-webhook/silent (Boston): not tried, {hanging}",
        )
        again = send(spec)
    assert again.had == 2  # the one that timed out may have arrived
    assert len(again.faults) == 1


def test_a_run_sends_its_digests_and_remarks_failures_in_its_outcome(tmp_path: Path, inbox: Inbox) -> None:
    from flows.predict_only import predict_only

    digests = "notify: {digest: [{to: forecaster-email/bos-01, depot: D1}, {to: custom-webhook/nobody-made-it}]}\n"
    days = (datetime.now(UTC).date() - tiny.FIRST).days
    file = tiny.pipeline(tmp_path, digests, days=days)
    for _ in range(2):
        state = predict_only(str(file), return_state=True)
        with Ledger.open_reader(load(file).ledger_url) as ledger:
            [run] = ledger.runs(limit=1)
        assert (run.outcome, run.exit_code) == ("degraded", 3)  # since there is no champion
        missing = "notify.digest: custom-webhook/nobody-made-it (all 4 depots): Prefect has no block"
        assert missing in str(run.message)
        assert missing in str(state.message)
    [(_, message)] = inbox.mails
    assert str(message["Subject"]).startswith("D1, tomorrow, ")
    assert "No model could forecast this night" in inbox.text("bos-01")


def test_sends_nothing_for_a_past_instant(tmp_path: Path, inbox: Inbox) -> None:
    spec = pipeline(tmp_path, TO_DEPOT, publication(as_of=NOON - timedelta(days=400)))
    result = send(spec)
    assert (result.sent, inbox.mails) == (0, [])
    assert result.faults == ("the publication was made as of a past instant, so no digest is sent",)
