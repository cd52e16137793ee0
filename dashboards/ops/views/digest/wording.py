"""Wording of a digest: its subject, its plain text, and a short chat message."""

from __future__ import annotations

from collections.abc import Iterator

from dashboards.ops.formatting.far_weeks import GLANCE
from dashboards.ops.views.digest.content import Digest, DigestDay, DigestLine
from forecaster.core.language import _

SHORT_LINES = 12  # depots of a city in a chat message


def headline(name: str, day: DigestDay) -> str:
    """Return a headline that is valid on any day: "BOS-01, Thu 19 Jun: 131 orders, 4 drivers"."""
    return _("{name}, {day}: {numbers}", name=name, day=day.day, numbers=numbers(day, ranged=False))


def subject(digest: Digest, changed: bool = False) -> str:
    """Return the subject: "BOS-01, tomorrow, Thu 19 Jun: 131 orders, 4 drivers", prefixed if it is
    old or has changed."""
    expected = numbers(digest.meant, ranged=False)
    text = _("{name}, {day}: {numbers}", name=digest.name, day=when(digest.meant), numbers=expected)
    if changed:
        return _("Changed: {subject}", subject=text)
    return marked_old(digest, text)


def marked_old(digest: Digest, text: str) -> str:
    """Prefix a text with a warning if it is from an earlier run."""
    return _("Old forecast: {subject}", subject=text) if digest.old else text


def when(day: DigestDay) -> str:
    """Return the day in words: "tomorrow, Thu 19 Jun"."""
    return _("{near}, {day}", near=day.near, day=day.day) if day.near else day.day


def numbers(day: DigestDay | DigestLine, *, ranged: bool = True) -> str:
    """Return the numbers in words: "131 orders (97–163), 4 drivers"; a closed day is "closed"."""
    span = f" ({day.range})" if ranged and day.range else ""
    return ", ".join(part for part in (day.orders + span, day.crew) if part)


def text(digest: Digest, changed: tuple[str, ...] = ()) -> str:
    """Return the digest as plain text; `changed` describes the changes since the previous one."""
    return "\n".join(_lines(digest, changed)) + "\n"


def short(digest: Digest, changed: tuple[str, ...] = ()) -> str:
    """Return a chat message: the day in front with its remarks, and for a city its first depots."""
    lines = [*changed, *([digest.alarm] if digest.alarm else [])]
    lines.append(f"{_capital(when(digest.meant))}: {numbers(digest.meant)}")
    lines += [part for part in (digest.planned, digest.because, *digest.meant.remarks) if part]
    lines += [f"• {sentence}" for sentence in outstanding(digest)]
    lines += [f"• {line_sentence(line)}" for line in digest.lines[:SHORT_LINES]]
    return "\n".join([*lines, *([digest.address] if digest.address else [])])


def published(digest: Digest) -> str:
    """Sentence about the time of publication, and the meaning of the interval."""
    return _(
        "Published {instant}. In brackets the 80\N{NO-BREAK SPACE}% range: eight days in ten end inside it.",
        instant=digest.published,
    )


def outstanding(digest: Digest) -> tuple[str, ...]:
    """Sentences about the depots that need attention."""
    return tuple(f"{depot_id}: {why}" if depot_id else why for depot_id, why in digest.outstanding)


def line_sentence(line: DigestLine) -> str:
    """Return a line such as "NYC-02: 210 orders (180–240), 6 drivers; Ana’s number; the model says
    190"."""
    return f"{line.depot_id}: {numbers(line)}" + (f"; {line.remark}" if line.remark else "")


def day_sentence(day: DigestDay) -> str:
    """Return a line such as "Thu 19 Jun, tomorrow: 131 orders (97–163), 4 drivers"."""
    return f"{day.day}{f', {day.near}' if day.near else ''}: {numbers(day)}"


def _lines(digest: Digest, changed: tuple[str, ...]) -> Iterator[str]:
    yield f"{digest.title}: {digest.name}"
    yield from changed
    if digest.alarm:
        yield f"\n{digest.alarm}"
    expected = _("Orders expected {when}", when=when(digest.meant))
    yield f"\n{expected}: {numbers(digest.meant)}"
    yield from (part for part in (digest.planned, digest.because) if part)
    if digest.outstanding:
        yield "\n" + _("Highlights")
        yield from map("- {}".format, outstanding(digest))
    yield "\n" + _("The days ahead")
    for day in digest.days[:GLANCE]:  # the page has the others
        yield f"- {day_sentence(day)}"
        yield from (f"  {remark}" for remark in day.remarks)
    if digest.lines:
        yield "\n" + _("The depots, {when}", when=when(digest.meant))
        yield from map("- {}".format, map(line_sentence, digest.lines))
        yield from ([digest.more] if digest.more else [])
    yield f"\n{published(digest)}"
    if digest.address:
        yield digest.address


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
