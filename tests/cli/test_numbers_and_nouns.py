"""Commands use the singular for one thing: a fleet of one depot, with one override."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from forecaster.ledger.store import Ledger
from tests import fleets
from tests.calls import Call
from tests.nouns import wrong_plurals
from tests.planning.nights import publish_nights


def test_every_command_uses_the_singular_for_one(tmp_path: Path, call: Call) -> None:
    (tmp_path / "one").mkdir()
    fleet = publish_nights(tmp_path / "one", fleets.counts("A"), {"A": "Ulm"})
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        run_id = ledger.runs("small", limit=1)[0].run_id
    day = date(2024, 4, 11)
    commands: list[tuple[object, ...]] = [
        ("override", "--depot", "A", "--date", day, "--orders", 1, "--reason", "weather", "--by", "Ana"),
        ("overrides",),
        ("overrides", "--worth"),
        ("withdraw", 1, "--by", "Ana"),
        ("champions",),
        ("status",),
        ("audit",),
        ("links",),
        ("history", "A", day - timedelta(days=5)),
        ("replay", run_id),
        ("predict", "--as-of", "2024-04-10T08:00+00:00"),
        ("quarantine", "list"),
        ("check", "--as-of", "2024-04-10"),
        ("backup", "--to", tmp_path / "backup"),
        ("doctor",),
    ]
    for name, *more in commands:
        words = [name, *more] if name != "quarantine" else [name, *more[:1]]
        at = 2 if name == "quarantine" else 1
        code, out, err = call(*words[:at], fleet.file, *words[at:])
        assert wrong_plurals(out + err) == [], (name, out, err)
        assert code != 2, (name, out, err)
