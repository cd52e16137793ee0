"""Answers carry security headers, are revalidated, and report errors in plain sentences."""

from __future__ import annotations

import gc
import gzip
import re
import socket
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from dashboards.ops.server import serve
from forecaster.config import Calendar, Page
from forecaster.errors import SpecError
from forecaster.ledger import connect
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import NOON, fill, publication
from tests.dashboards.visitor import Balanced, Get, text, visitor

PAGES = ("/", "/depot/BOS-01", "/day/2025-06-18/BOS-01", "/wall", "/accuracy", "/value", "/champion", "/health")
ROOT = Path(__file__).parents[3]
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def test_every_answer_carries_the_security_headers(get: Get, url: str, tmp_path: Path) -> None:
    paths = ["/", "/depot/BOS-01", "/depot/none", "/nowhere", "/static/style.css", "/api/v1/publication", "/healthz"]
    paths += ["/health", "/api/v1/runs"]
    for path in paths:
        answer = get(path)
        assert answer.headers["content-security-policy"] == CSP
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_pages_need_no_inline_style_or_script_and_no_other_host(get: Get) -> None:
    for path in (*PAGES, "/depot/none"):
        page = get(path).text
        assert not re.search(
            r"<script(?! src=\"/static/(page|board).js\?v=\w+\" defer></script>)|<style|\sstyle=|\son\w+=|javascript:",
            page,
        )
        assert {link[:1] for link in re.findall(r'(?:href|src)="([^"]*)"', page)} <= {"/", "#", "?"}


def test_answers_304_until_something_changes(url: str) -> None:
    fill(url, publication())
    get = visitor(url)
    for path in ("/", "/depot/BOS-01", "/api/v1/publication", "/health", "/api/v1/runs"):
        tag = get(path).headers["etag"]
        again = get(path, if_none_match=tag)
        assert (again.status_code, again.content) == (304, b"")
        assert get(path, if_none_match=f'"other", {tag}').status_code == 304
    tag = get("/").headers["etag"]
    assert get("/depot/BOS-01").headers["etag"] != tag
    assert visitor(url, NOON + timedelta(days=1))("/", if_none_match=tag).status_code == 200
    fill(url, publication(tier="champion"))
    changed = get("/", if_none_match=tag)
    assert changed.status_code == 200
    assert "earlier model" in text(changed)
    with Ledger.open(url) as ledger:
        ledger.rollback("harbor-fleet")
    assert get("/", if_none_match=tag).status_code == 304


def test_an_unknown_depot_has_no_page_even_when_its_tag_is_guessed(get: Get) -> None:
    answer = get("/depot/none")
    assert answer.status_code == 404
    assert "There is no depot “none” in the current forecasts." in text(answer)
    assert get("/api/v1/depots/none").json() == {"detail": "there is no depot “none” in the current forecasts"}
    assert get("/nowhere").status_code == 404
    assert "There is nothing at /nowhere." in text(get("/nowhere"))
    assert get("/depot/none", if_none_match="*").status_code == 404


@pytest.mark.parametrize("horizon", [7, 61])
def test_the_first_view_of_64_depots_is_small(url: str, horizon: int) -> None:
    fill(url, publication(64, horizon))
    page = visitor(url)("/", accept_encoding="identity").content
    names = ("style.css", "page.js", "board.js", "icon.svg")
    beside = [(ROOT / "dashboards/ops/static" / name).read_bytes() for name in names]
    assert sum(len(gzip.compress(part)) for part in (page, *beside)) < 24_000


def test_compresses_pages_for_browsers_that_accept_it(get: Get) -> None:
    assert get("/", accept_encoding="gzip").headers["content-encoding"] == "gzip"
    assert "content-encoding" not in get("/", accept_encoding="identity").headers


def test_a_head_request_has_no_body(get: Get) -> None:
    answer = get("/", method="HEAD")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("missing", "there is no ledger at"),
        ("empty", "nothing has been published yet"),
        ("older", "has revision 0000, this program knows"),
        ("broken", "is not a database"),
    ],
)
def test_reports_ledger_errors_in_plain_sentences(url: str, tmp_path: Path, state: str, sentence: str) -> None:
    file = tmp_path / "ledger.db"
    if state == "broken":
        file.write_text("orders " * 999)
    elif state != "missing":
        Ledger.open(url).close()
    if state == "older":
        _sql(url, "update forecaster_revision set version_num = '0000'")
    get = visitor(url)
    for path in ("/", "/depot/BOS-01", "/api/v1/publication", "/readyz", "/health", "/api/v1/runs"):
        answer = get(path)
        if state == "empty" and path in ("/health", "/api/v1/runs"):  # needs no publication
            assert answer.status_code == 200
            continue
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "60"
        assert sentence in answer.text.replace("Nothing", "nothing").replace("There", "there")
        assert "Traceback" not in answer.text
    assert get("/healthz").text == "ok\n"
    assert file.exists() == (state != "missing")


def test_the_page_recovers_when_the_ledger_returns(url: str, tmp_path: Path) -> None:
    get = visitor(url)
    assert get("/readyz").status_code == 503
    fill(url, publication())
    assert get("/readyz").text == "publication 1 of harbor-fleet\n"
    for file in tmp_path.glob("ledger.db*"):
        file.rename(tmp_path / f"away-{file.name}")
    assert get("/").status_code == 503
    for file in tmp_path.glob("away-*"):
        file.rename(tmp_path / file.name.removeprefix("away-"))
    assert get("/").status_code == 200


def test_one_page_shows_one_pipeline(url: str) -> None:
    fill(url, publication(), publication(pipeline="other", run_id="other-1", title="Other"))
    assert "name one of harbor-fleet, other" in visitor(url)("/").text
    assert "Harbor Fleet" in visitor(url, pipeline="harbor-fleet")("/").text
    assert "nothing has been published for third yet" in visitor(url, pipeline="third")("/readyz").text


def test_reports_an_internal_error_without_details(get: Get, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("dashboards.ops.routes.board.network", fail)
    answer = visitor(url, raise_app_exceptions=False)("/")
    assert answer.status_code == 500
    assert "The page could not be rendered" in text(answer)
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"] == CSP


def test_every_element_that_opens_is_closed(get: Get) -> None:
    for path in (*PAGES, "/depot/none"):
        checker = Balanced()
        checker.feed(get(path).text)
        assert checker.stack == []
        assert checker.wrong == []
        assert len(checker.ids) == len(set(checker.ids))


def test_rendering_an_answer_leaves_no_garbage(get: Get) -> None:
    """They must not wait for the garbage collector, which a server runs rarely."""

    def alive() -> Counter[str]:
        kinds = (type(each) for each in gc.get_objects())
        parts = ("dashboards.ops.views.", "xlsxwriter.worksheet")
        return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith(parts))

    # those about runs import macros with their context, which is small
    for path in (*(path for path in PAGES if path not in ("/champion", "/health")), "/?format=xlsx"):
        get(path)
        gc.collect()
        before = alive()
        gc.disable()
        try:
            get(f"{path}{'&' if '?' in path else '?'}city=Boston")
            more = alive() - before
        finally:
            gc.enable()
        # a few settings of each sheet remain, and none of its cells
        assert {kind: count for kind, count in more.items() if kind not in ("Worksheet", "ColumnInfo")} == {}, path


def test_the_page_runs_without_jax_prefect_mlflow_pandas_or_pyarrow() -> None:
    code = (
        "import sys, dashboards.ops.app as s; s.create_app('sqlite:////nowhere/ledger.db');"
        "print(sorted({'jax', 'flax', 'prefect', 'mlflow', 'pandas', 'onnxruntime', 'deltalake', 'pyarrow'}"
        " & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


def test_reports_a_port_in_use(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    spec = SimpleNamespace(
        name="harbor-fleet", ledger_url=url, page=Page(), calendar=Calendar(), staffing=None, file=None
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(SpecError, match=r"cannot listen on 127\.0\.0\.1"),
    ):
        serve(spec, port=listener.getsockname()[1])  # type: ignore[arg-type]


def _sql(url: str, statement: str) -> None:
    engine = connect.writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
