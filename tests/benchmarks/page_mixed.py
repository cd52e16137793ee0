"""The page in mixed use, and the memory of its server: six readers in four languages read, search,
ask what-ifs, download files and decide.

Each reader waits for the answer, reads it for a second on average, and sends the next request. The
sample is a copy of the state after `make run`.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np

from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests.benchmarks.page_memory import memory
from tests.benchmarks.report import ROOT, Figure, below
from tests.dashboards.seed import NOON, fill, publication

READERS = (
    ("en-US", ""),
    ("en-GB", ""),
    ("de-DE", "de"),
    ("de-AT", ""),
    ("es-MX", "es"),
    ("ar-EG", "ar"),
)  # language of the browser, and the one chosen in the footer of the page
THINKING = 1.0  # seconds between an answer and the next request, on average
WRITING = 300.0  # seconds between the overrides of a planner; each is withdrawn half of that later
AIM = 150  # MB
SERVER = """
import sys, socket, time, uvicorn
import forecaster.cli.project  # with which the page is started
from datetime import datetime, timedelta
from pathlib import Path
from tests.benchmarks import page_memory
from dashboards.ops.app import create_app
from dashboards.ops.http.listening import config, quick
from dashboards.ops.http.response_cache import RecentResponses
from dashboards.ops.reading.editions import Outlines
from dashboards.ops.reading.what_if_cache import WhatIfCache
from forecaster.config import load
caches = page_memory.watch({"answers": RecentResponses, "outlines": Outlines, "what-if": WhatIfCache})
caches["languages"] = page_memory.language_tables
spec = load(Path(sys.argv[1])) if sys.argv[1].endswith(".yaml") else None
begin, begun = datetime.fromisoformat(sys.argv[2]), time.monotonic()
clock = lambda: begin + timedelta(seconds=time.monotonic() - begun)
options = {"pipeline": spec.name, "access": spec.page.access} if spec else {}
app = create_app(spec.ledger_url if spec else sys.argv[1], clock=clock, spec=spec, **options)
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
page_memory.answer_lines(caches)
quick()
uvicorn.Server(config(app)).run(sockets=[listener])
"""


@dataclass
class PageContent:
    """Possible subjects of requests to a page: its depots, cities and days, and if it answers
    planners."""

    depots: list[str]
    cities: list[str]
    days: list[str]
    plans: bool

    @classmethod
    def of(cls, address: str, plans: bool) -> PageContent:
        rows = httpx.get(f"{address}/api/v1/depots", timeout=120).raise_for_status().json()["rows"]
        return cls(
            sorted({row["depot_id"] for row in rows}),
            sorted({row["city"] for row in rows}),
            sorted({row["target_date"] for row in rows}),
            plans,
        )

    def question(self, rng: random.Random) -> tuple[str, str]:
        """Return a kind of page, and the address of one such page."""
        kinds = (READ | PLAN) if self.plans else READ
        kind = rng.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        values = {
            "depot": quote(rng.choice(self.depots)),
            "city": quote(rng.choice(self.cities)),
            "day": rng.choice(self.days),
            "percent": rng.randint(-30, 60),
            "orders": rng.randint(20, 400),
            "word": quote(rng.choice(self.depots)[: rng.randint(1, 6)]),
            "weeks": rng.choice((4, 8, 13, 26)),
            "api": rng.choice(("network", "totals", "levels", "rosters", "wall", "runs", "champions", "accuracy")),
        }
        return kind, rng.choice(kinds[kind][1]).format(**values)


READ: dict[str, tuple[int, tuple[str, ...]]] = {
    "board": (20, ("/", "/", "/?city={city}", "/?sort=city", "/?sort={day}", "/?only=short", "/?beside=last-week")),
    "search": (15, ("/?q={word}", "/?q={word}&city={city}")),
    "depot": (20, ("/depot/{depot}",)),
    "past": (3, ("/?publication=1", "/api/v1/publications")),
    "accuracy, value": (10, ("/accuracy", "/value", "/value?weeks={weeks}", "/champion", "/health")),
    "wall": (3, ("/wall", "/wall?city={city}")),
    "API": (8, ("/api/v1/{api}", "/api/v1/{api}?format=csv", "/api/v1/depots/{depot}", "/api/v1/publication")),
    "files": (6, ("/?format=xlsx", "/?format=csv", "/?city={city}&format=xlsx", "/api/v1/depots?format=csv")),
}
PLAN: dict[str, tuple[int, tuple[str, ...]]] = {
    "rosters": (
        6,
        ("/roster?format=ics&depot={depot}", "/roster?format=xlsx", "/roster?format=csv", "/roster?format=ics"),
    ),
    "day": (15, ("/day/{day}/{depot}",)),
    "what-if": (
        15,
        (
            "/day/{day}/{depot}?kind=percent&value={percent}",
            "/day/{day}/{depot}?kind=orders&value={orders}",
            "/day/{day}/{depot}?kind=percent&value={percent}&scope=city",
            "/api/v1/what-if?depot={depot}&date={day}&kind=promo&value=1",
        ),
    ),
    "people": (4, ("/shifts?depot={depot}", "/overrides", "/api/v1/shifts", "/week-file")),
}


@dataclass
class Answers:
    """Milliseconds of all answers by kind of page, and failed requests."""

    waited: dict[str, list[float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, path: str, status: int, milliseconds: float) -> None:
        with self.lock:
            self.waited.setdefault(kind, []).append(milliseconds)
            if status != 200:
                self.failed.append(f"{status} {path}")


def run_reader(address: str, number: int, content: PageContent, answers: Answers, ended: threading.Event) -> None:
    """Send the requests of one reader until the end."""
    rng, (browser, chosen) = random.Random(number), READERS[number]
    cookies = {"language": chosen} if chosen else {}
    with httpx.Client(base_url=address, headers={"Accept-Language": browser}, cookies=cookies, timeout=120) as client:
        while not ended.wait(rng.expovariate(1 / THINKING)):
            kind, path = content.question(rng)
            begun = time.perf_counter()
            status = client.get(path).status_code
            answers.add(kind, path, status, 1000 * (time.perf_counter() - begun))


def run_planner(address: str, content: PageContent, ended: threading.Event) -> None:
    """Save a planner's override now and then, and withdraw it."""
    rng = random.Random(0)
    with httpx.Client(base_url=address, timeout=120) as client:
        while not ended.wait(WRITING / 2):
            token = {"X-CSRF-Token": client.get("/api/v1/me").json()["csrf"]}
            wish = {"depot_id": rng.choice(content.depots), "target_date": content.days[-1], "orders": 150}
            wish |= {"reason": "other", "note": "mixed use", "by": "bench"}
            answer = client.post("/api/v1/overrides", json=wish, headers=token).raise_for_status().json()
            if ended.wait(WRITING / 2):
                return
            path = f"/api/v1/overrides/{answer['override']['id']}/withdrawal"
            client.post(path, json={"note": "", "by": "bench"}, headers=token).raise_for_status()


@contextmanager
def server(source: str, at: datetime) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the page; yield its process, which answers each line with its memory by holder, and its
    address."""
    command = [sys.executable, "-c", SERVER, source, at.isoformat()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, bufsize=1, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()


def sample(folder: Path) -> tuple[str, datetime]:
    """Copy the sample after its nightly run; return its pipeline file and the time of its
    publication."""
    if not (ROOT / "var" / "harbor_fleet" / "ledger.db").exists():
        raise SystemExit("var/harbor_fleet/ledger.db: found none, wanted the sample after a night; run: make run")
    for part in ("data/harbor_fleet", "var/harbor_fleet"):
        shutil.copytree(ROOT / part, folder / part)
    file = folder / "data" / "harbor_fleet" / "pipeline.yaml"
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
    assert head is not None, "the sample's ledger has no publication"
    return str(file), head.published_at


def mixed(depots: int | None, minutes: float, folder: Path) -> list[Figure]:
    """Return the figures of some minutes of use: of the sample if `depots` is None, else of a
    generated ledger without people and what-ifs."""
    if depots is None:
        source, at = sample(folder)
    else:
        source, at = f"sqlite:///{folder / 'mixed.db'}", NOON
        fill(source, publication(depots))
    with server(source, at) as (process, address):
        content, answers, ended = PageContent.of(address, depots is None), Answers(), threading.Event()
        readers = [
            threading.Thread(target=run_reader, args=(address, number, content, answers, ended))
            for number in range(len(READERS))
        ]
        if content.plans:
            readers.append(threading.Thread(target=run_planner, args=(address, content, ended)))
        for reader in readers:
            reader.start()
        highest = _watch_memory(process, answers, minutes)
        ended.set()
        for reader in readers:
            reader.join()
    return _figures(f"{len(content.depots):,} depots, mixed, {minutes:g} min", highest, answers)


def _watch_memory(process: subprocess.Popen[str], answers: Answers, minutes: float) -> tuple[float, float]:
    """Print the memory by holder twelve times; return the highest RSS with its PSS, in MB."""
    assert process.stdin is not None
    assert process.stdout is not None
    begun, highest = time.monotonic(), (0.0, 0.0)
    for part in range(1, 13):
        while time.monotonic() < begun + 60 * minutes * part / 12:
            time.sleep(1)
            highest = max(highest, (memory(process.pid), memory(process.pid, "Pss")))
        print(
            f"\n{(time.monotonic() - begun) / 60:.1f} min: RSS {memory(process.pid):.0f} MB, PSS "
            f"{memory(process.pid, 'Pss'):.0f} MB, {sum(map(len, answers.waited.values())):,} answers",
            flush=True,
        )
        process.stdin.write("\n")
        process.stdin.flush()
        megabytes = json.loads(process.stdout.readline())
        print("; ".join(f"{name} {value:.1f}" for name, value in megabytes.items()), flush=True)
    return highest


def _figures(label: str, highest: tuple[float, float], answers: Answers) -> list[Figure]:
    waited = np.concatenate([np.array(latencies) for latencies in answers.waited.values()])
    if answers.failed:
        print(f"\n{len(answers.failed)} failed requests, such as {sorted(set(answers.failed))[:9]}")
    return [
        below(f"{label}: highest RSS", highest[0], "MB", AIM),
        Figure(f"{label}: PSS at that time", highest[1], "MB"),
        Figure(f"{label}: p50", float(np.percentile(waited, 50)), "ms", n=len(waited)),
        Figure(f"{label}: p95", float(np.percentile(waited, 95)), "ms", n=len(waited)),
        *(
            Figure(f"{label}: p95 of {kind}", float(np.percentile(latencies, 95)), "ms", n=len(latencies))
            for kind, latencies in sorted(answers.waited.items())
        ),
    ]
