"""A browser remembers one depot, without sign-in or script."""

from __future__ import annotations

from dataclasses import replace

from tests.dashboards.seed import ODD_ID, depot, fill, publication
from tests.dashboards.visitor import Get, text, visitor


def _cookie(answer: object) -> str:
    return str(answer.headers["set-cookie"]).partition(";")[0]  # type: ignore[attr-defined]


def test_every_page_links_to_my_depot_and_a_depots_page_can_set_it(get: Get) -> None:
    assert '<a class="crumb" href="/my-depot">My depot</a>' in get("/accuracy").text
    assert '<a href="/my-depot?depot=NYC-01" rel="nofollow">Make this my depot</a>' in get("/depot/NYC-01").text
    unknown = text(get("/my-depot"))
    assert "This browser does not remember a depot yet." in unknown


def test_the_remembered_depot_is_shown_until_it_is_cleared(get: Get) -> None:
    chosen = get("/my-depot?depot=NYC-01")
    assert (chosen.status_code, _cookie(chosen)) == (200, "my_depot=NYC-01")
    assert "HttpOnly; Max-Age=31536000; Path=/; SameSite=lax" in chosen.headers["set-cookie"]
    later = get("/my-depot", cookie="my_depot=NYC-01")
    assert "set-cookie" not in later.headers
    assert later.headers["cache-control"] == "no-store"  # personal to one browser
    assert "NYC-01 Orders expected tomorrow" in text(later)
    assert "Your depot in this browser: “My depot” leads here. Forget it" in text(later)
    assert 'my_depot=""; ' in get("/my-depot?depot=", cookie="my_depot=NYC-01").headers["set-cookie"]


def test_remembers_ids_with_special_characters(url: str) -> None:
    fill(url, replace(publication(), depots=(depot(1, ODD_ID),)))
    get = visitor(url)
    href = get("/depot/" + _quoted(ODD_ID)).text.partition('href="/my-depot?depot=')[2].partition('"')[0]
    chosen = get(f"/my-depot?depot={href}")
    assert chosen.status_code == 200
    assert "Forget it" in text(get("/my-depot", cookie=_cookie(chosen)))


def _quoted(depot_id: str) -> str:
    from urllib.parse import quote

    return quote(depot_id, safe="")


def test_does_not_remember_unknown_depots_and_reports_removed_ones(get: Get) -> None:
    answer = get("/my-depot?depot=none")
    assert answer.status_code == 404
    assert "set-cookie" not in answer.headers
    gone = get("/my-depot", cookie="my_depot=CLOSED-7")
    assert gone.status_code == 200
    assert "“CLOSED-7”, which this browser remembers as your depot, is not among the depots" in text(gone)
