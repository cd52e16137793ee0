"""Artifacts, states and notifications of a run; with a real Prefect and real receivers."""

from __future__ import annotations

import email
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import policy
from pathlib import Path
from typing import Any

import pytest

from forecaster.config import Spec, load
from forecaster.core.forecast import Verdict
from forecaster.errors import DEGRADED, NO_DATA, ForecasterError, SpecError
from forecaster.ledger import lease
from forecaster.ledger.store import Ledger
from tests.flows.receivers import mailbox, webhook
from tests.flows.tiny import NIGHT, pipeline

pytestmark = pytest.mark.usefixtures("prefect")

NEW = ("first", "second")
BLOCKS = "notify: {blocks: [custom-webhook/on-call, forecaster-email/on-call]}\n"


@dataclass(frozen=True)
class Received:
    """Messages that reached the receivers."""

    posted: list[str]
    mailed: list[str]

    def mail(self) -> tuple[str, str]:
        """Return subject and text of the only message."""
        [text] = self.mailed
        message = email.message_from_string(text, policy=policy.default)
        part = message.get_body(("plain", "html"))
        assert part is not None
        return str(message["Subject"]), str(part.get_content())


@pytest.fixture
def received() -> Iterator[Received]:
    """Receivers of two blocks named on-call."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    from flows.notify import Email

    with ExitStack() as stack:
        address, posted = stack.enter_context(webhook())
        port, mailed = stack.enter_context(mailbox())
        hook = CustomWebhookNotificationBlock(
            name="on-call", url=address, json_data={"title": "{{subject}}", "text": "{{body}}"}
        )
        hook.save("on-call", overwrite=True)  # type: ignore[unused-coroutine]
        url = f"mailto://127.0.0.1:{port}?from=night@fleet.example&to=on-call@fleet.example&mode=insecure"
        Email(url=url).save("on-call", overwrite=True)  # type: ignore[unused-coroutine, arg-type]
        yield Received(posted, mailed)


def refreshed(file: Path) -> Any:
    from flows.predict_only import predict_only

    return predict_only(str(file), as_of=NIGHT.isoformat(), return_state=True)


def running_flow_runs(file: Path) -> dict[str, Any]:
    """Return flow runs without an end: of a run killed before and after it was named; of an ended
    run without its process; of a running one; of another pipeline."""
    from prefect.client.orchestration import get_client
    from prefect.states import Pending, Running

    from flows.predict_only import predict_only

    spec, numbers = load(file), dict[str, Any]()
    living = lease.this_process()
    gone = f"{living.rpartition(' ')[0]} 0"  # with the same PID, but another start time
    with Ledger.open(spec.ledger_url) as ledger, get_client(sync_client=True) as client:
        for name in ("unnamed", "killed", "ended", "elsewhere"):
            pipeline_name = "other" if name == "elsewhere" else spec.name
            ledger.start_run(name, pipeline=pipeline_name, as_of=NIGHT, spec_digest=spec.digest, at=NIGHT)
        ledger.finish_run("ended", "published", 0, at=NIGHT)
        for name, process in (
            ("unnamed", ""),
            ("killed", gone),
            ("ended", gone),
            ("at work", living),
            ("elsewhere", ""),
        ):
            parameters = {"file": str(file), "run_id": name if name in ("unnamed", "elsewhere") else None}
            state = Pending() if name == "unnamed" else Running()
            numbers[name] = client.create_flow_run(predict_only, parameters=parameters, state=state).id
            if process:
                client.update_flow_run_labels(numbers[name], {"forecaster.run": name, "forecaster.process": process})
    return numbers


def test_a_run_is_named_and_reported_and_a_degraded_one_notified(tmp_path: Path, received: Received) -> None:
    from prefect.client.orchestration import get_client

    file = pipeline(tmp_path, BLOCKS)
    numbers = running_flow_runs(file)
    state = refreshed(file)
    assert (state.type.value, state.name) == ("COMPLETED", "Degraded")
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        run, *_ = ledger.runs()
    with get_client(sync_client=True) as client:
        flow_run = client.read_flow_run(state.state_details.flow_run_id)
        assert flow_run.name == "predict-only 2026-05-11 degraded"
        assert flow_run.labels["forecaster.run"] == run.run_id
        states = {name: client.read_flow_run(number).state for name, number in numbers.items()}
        sentence = f"it was killed, or its machine went down; run {run.run_id} detected it"
        assert {name: (state.name, state.message) for name, state in states.items() if state} == {
            "unnamed": ("Crashed", sentence),
            "killed": ("Crashed", sentence),
            "ended": ("Crashed", "it was killed"),
            "at work": ("Running", None),
            "elsewhere": ("Running", None),
        }
        artifacts = {
            artifact.key: artifact for artifact in client.read_artifacts() if artifact.flow_run_id == flow_run.id
        }
    assert artifacts.keys() == {"tiny-refresh-report", "tiny-refresh-depots"}
    page = str(artifacts["tiny-refresh-report"].data)
    assert page.startswith("# tiny: degraded")
    for words in (run.run_id, "| ingest |", "| predict |", "tier **fallback**", "Seasonal-naive fallback"):
        assert words in page
    assert '"depot": "D3"' in str(artifacts["tiny-refresh-depots"].data)
    subject, text = received.mail()
    assert subject == "tiny: degraded"
    sentence = f"tiny, run {run.run_id}: published at tier fallback."
    assert sentence in text
    [posted] = received.posted
    assert "tiny: degraded" in posted
    assert sentence in posted


def test_a_failed_run_fails_in_prefect_and_a_stopped_batch_is_notified(tmp_path: Path, received: Received) -> None:
    file = pipeline(tmp_path, BLOCKS, days=129)
    rows = (tmp_path / "demand.csv").read_text("utf-8")
    (tmp_path / "demand.csv").write_text(rows + "D0,2026-05-10,30\n", "utf-8")  # one depot of four, on the newest day
    state = refreshed(file)
    assert state.type.value == "FAILED"
    assert "holds no demand" in str(state.message)
    subjects = [str(email.message_from_string(text, policy=policy.default)["Subject"]) for text in received.mailed]
    assert subjects == ["tiny: failed", "tiny: stop"]
    assert "a batch was stopped. thin_feed: " in received.posted[1]


def test_a_concurrent_run_completes_as_busy(tmp_path: Path) -> None:
    from flows.night import Night

    file = pipeline(tmp_path)
    first = Night.begin(str(file))
    state = refreshed(file)
    assert (state.type.value, state.name) == ("COMPLETED", "Busy")
    assert f"run {first.run_id} has been active" in str(state.message)


def test_a_night_that_is_not_due_does_nothing(tmp_path: Path) -> None:
    from flows.nightly import nightly

    file = pipeline(tmp_path)
    published_night(file, datetime.now(UTC))
    state = nightly(str(file), due=True, return_state=True)
    assert state.name == "Nothing due"
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert len(ledger.runs()) == 1


def published_night(file: Path, as_of: datetime) -> Spec:
    """Write a published run into the ledger only."""
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run(f"night-{as_of:%d}", pipeline=spec.name, as_of=as_of, spec_digest=spec.digest, at=as_of)
        ledger.finish_run(f"night-{as_of:%d}", "published", 0)
    return spec


def test_notifies_only_a_missed_deadline(tmp_path: Path, received: Received) -> None:
    from flows import notify
    from flows.deadline import deadline

    file = pipeline(tmp_path, BLOCKS)
    yesterday = datetime(2026, 6, 19, 3, 20, tzinfo=UTC)
    published_night(file, yesterday)
    after = datetime(2026, 6, 20, 5, 31, tzinfo=UTC)
    assert notify.late_sentence(str(file), after - timedelta(minutes=2)) is None  # still time until 05:30
    assert notify.late_sentence(str(file), after - timedelta(minutes=1, seconds=0.5)) is not None  # begins 0.5 s early
    assert notify.late_sentence(str(file), yesterday + timedelta(hours=3)) is None
    sentence = notify.late_sentence(str(file), after)
    assert sentence == "tiny: not published by 05:30 on 2026-06-20; the last run, night-19, is published"
    state = deadline(str(file), return_state=True)
    assert (state.type.value, "; the last run, night-19, is published" in str(state.message)) == ("FAILED", True)
    assert received.mail()[0] == "tiny: late"
    # By then the next run is in progress, and this night is still missing.
    assert notify.late_sentence(str(file), after + timedelta(hours=23)) == sentence
    published_night(file, datetime(2026, 6, 20, 3, 40, tzinfo=UTC))
    assert notify.late_sentence(str(file), after) is None
    assert notify.late_sentence(str(file), after + timedelta(hours=23)) is None


def test_a_night_that_begins_in_the_evening_has_the_next_days_deadline(tmp_path: Path) -> None:
    from flows import notify

    file = pipeline(tmp_path, "schedule: {cron: '0 23 * * *'}\n")
    published_night(file, datetime(2026, 6, 18, 23, 1, tzinfo=UTC))
    assert notify.late_sentence(str(file), datetime(2026, 6, 20, 5, 29, tzinfo=UTC)) is None
    assert notify.late_sentence(str(file), datetime(2026, 6, 20, 5, 31, tzinfo=UTC)) == (
        "tiny: not published by 05:30 on 2026-06-20; the last run, night-18, is published"
    )


def test_notifies_only_declared_occasions_and_names_a_missing_block(tmp_path: Path) -> None:
    from flows import notify

    spec = load(pipeline(tmp_path, "notify: {blocks: [custom-webhook/nobody-made-it], of: [late]}\n"))
    assert notify.send(spec, "promotion", "a new champion") == 0
    with pytest.raises(SpecError, match="Prefect has no block 'custom-webhook/nobody-made-it'"):
        notify.send(spec, "late", "nothing came")


HANGING = """
import socket, sys, threading
from pathlib import Path
from flows import notify, prefect_view
from flows.night import Night
from forecaster.config import load
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from tests.flows.tiny import NIGHT

def trickle(server):
    while True:
        there = server.accept()[0]
        if sys.argv[2] == "trickles":
            threading.Thread(target=lambda: [there.send(b"H") for _ in iter(lambda: never.wait(1), True)]).start()
        kept.append(there)

kept, never, server = [], threading.Event(), socket.create_server(("127.0.0.1", 0), backlog=20)
threading.Thread(target=trickle, args=(server,), daemon=True).start()
url = f"127.0.0.1:{server.getsockname()[1]}"
hook = CustomWebhookNotificationBlock(name="hook", url=f"http://{url}/", timeout=600, json_data={})
hook.save("hook", overwrite=True)
mail = notify.Email(url=f"mailto://{url}?from=night@fleet.example&to=a@fleet.example&mode=insecure")
mail.save("mail", overwrite=True)
try:
    notify.send(load(Path(sys.argv[1])), "late", "nothing came")
except Exception as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize("how", ["trickles", "accepts and is silent"])
@pytest.mark.long
def test_a_hanging_receiver_delays_neither_others_nor_the_process(tmp_path: Path, received: Received, how: str) -> None:
    from prefect.settings import PREFECT_API_URL

    blocks = "[custom-webhook/hook, custom-webhook/on-call, forecaster-email/on-call, forecaster-email/mail]"
    file = pipeline(tmp_path, f"notify: {{blocks: {blocks}}}\n")
    begun = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", HANGING, str(file), how],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value()},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    print(how, time.monotonic() - begun, process.stdout)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("notify.blocks: custom-webhook/hook did not answer within 10 s; ")
    assert "on-call" not in process.stdout
    assert len(received.posted) == len(received.mailed) == 1


def test_notifies_a_new_champion_but_not_a_confirmed_one(tmp_path: Path, received: Received) -> None:
    from flows import notify
    from flows.night import Night

    file = pipeline(tmp_path, BLOCKS)
    night = Night.begin(str(file), NIGHT)
    night.outcome, night.verdict = "published", Verdict(admitted=True, objections=(), compared={})
    occasions = []
    for bundle in (*NEW, NEW[-1]):
        night.promote(bundle)
        occasions.append(notify.occasions(night))
    night.outcome = "running"
    night.run(lambda: None)
    first, sentence = (f"tiny, run {night.run_id}: bundle {name} is champion now. It was admitted." for name in NEW)
    assert occasions == [{"promotion": first}, {"promotion": sentence}, {}]
    assert notify.send(load(file), "promotion", sentence) == 2
    assert received.mail()[0] == "tiny: promotion"


def test_the_rollback_command_notifies_it(tmp_path: Path, received: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_API_URL

    from flows import prefect_server, start

    monkeypatch.setenv(prefect_server.URL, PREFECT_API_URL.value())
    start.notify_blocks(load(pipeline(tmp_path, BLOCKS)), "rollback", "tiny: rolled back. bundle first reigns")
    subject, text = received.mail()
    assert (subject, "bundle first reigns" in text) == ("tiny: rollback", True)
    assert len(received.posted) == 1


def test_deletes_old_flow_runs_and_keeps_recent_ones(tmp_path: Path) -> None:
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Running

    from flows import prefect_view
    from flows.night import Night

    @flow(name="some-flow", persist_result=False)
    def some_flow() -> None:
        return None

    number = some_flow(return_state=True).state_details.flow_run_id
    with get_client(sync_client=True) as client:
        killed = client.create_flow_run(some_flow, state=Running(timestamp=datetime.now(UTC))).id
    night = Night.begin(str(pipeline(tmp_path, "retention: {caches: 30}\n")), kind="maintain")
    ended = night.begun
    with get_client(sync_client=True) as client:
        night.begun = ended + timedelta(days=29)
        prefect_view.forget_flow_runs(night)
        assert client.read_flow_run(number).name
        assert client.read_flow_run(killed).name
        night.begun = ended + timedelta(days=31)
        prefect_view.forget_flow_runs(night)
        for forgotten in (number, killed):
            with pytest.raises(ObjectNotFound):
                client.read_flow_run(forgotten)
    night.run(lambda: None)


def test_a_run_that_fails_before_prefects_server_answers_is_shown_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client

    from flows import prefect_server, start

    file, asked = pipeline(tmp_path, days=0), list[float]()

    def ready(within: float) -> str:
        asked.append(within)
        if not within:
            raise ForecasterError("not yet")
        return ""

    monkeypatch.setattr(prefect_server, "running", lambda _: nullcontext(ready))
    with get_client(sync_client=True) as client:
        before = {run.id for run in client.read_flow_runs()}
        assert start.refresh(file, load(file), NIGHT) == NO_DATA
        [run] = [run for run in client.read_flow_runs() if run.id not in before]
    assert (run.name, run.state_name) == ("predict-only 2026-05-11 no_data", "Failed")
    assert asked == [0, prefect_server.PATIENCE]
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert "without it" not in str(ledger.runs()[0].message)


def test_a_run_by_hand_is_a_flow_run_from_the_start_if_prefect_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    from flows import prefect_server, start

    monkeypatch.setenv(prefect_server.URL, PREFECT_API_URL.value())
    file, handler = pipeline(tmp_path), signal.getsignal(signal.SIGTERM)
    with get_client(sync_client=True) as client:
        before = {run.id for run in client.read_flow_runs()}
        assert start.refresh(file, load(file), NIGHT) == DEGRADED
        ours = signal.signal(signal.SIGTERM, handler)
        [run] = [run for run in client.read_flow_runs() if run.id not in before]
    assert (run.name, run.state_name) == ("predict-only 2026-05-11 degraded", "Degraded")
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        [of_ledger] = ledger.runs()
    assert (run.parameters["run_id"], run.labels["forecaster.run"]) == (of_ledger.run_id, of_ledger.run_id)
    with pytest.raises(start.Terminated):  # Prefect's handler is removed with the flow
        ours(signal.SIGTERM, None)  # type: ignore[operator, misc]
