"""The table of OWASP ASVS 5.0 lists every requirement of levels 1 and 2 once, with correct counts."""

import re
from collections import Counter

from tests.docs.markdown import DOCS, ROOT

CHAPTERS = (27, 11, 19, 10, 9, 35, 18, 7, 7, 29, 14, 9, 13, 9, 13, 16, 7)  # requirements of V1, V2, …
WORDS = "holds|left to the proxy|left to the identity provider|not applicable|not done"


def test_every_requirement_is_listed_once_and_counted() -> None:
    section = (DOCS / "SECURITY.md").read_text("utf-8").partition("\n## OWASP ASVS")[2].partition("\n## ")[0]
    verdicts: dict[tuple[int, int, int], str] = {}
    for numbers, verdict, why in re.findall(rf"^\| (\d[\d.–, ]+) \| [^|]+ \| ({WORDS}) \| (.+) \|$", section, re.M):
        files = [(ROOT / test).is_file() for test in re.findall(r"`(tests/[^`]+)`", why)]
        assert all(files or [verdict != "holds"]), numbers
        for chapter, part, first, last in re.findall(r"(\d+)\.(\d+)\.(\d+)(?:–\1\.\2\.(\d+))?(?=,|$)", numbers):
            rows = {(int(chapter), int(part), number): verdict for number in range(int(first), int(last or first) + 1)}
            assert not verdicts.keys() & rows, numbers
            verdicts |= rows
    assert Counter(chapter for chapter, *_ in verdicts) == dict(enumerate(CHAPTERS, 1))
    assert [place for place in verdicts if place[2] > 1 and (*place[:2], place[2] - 1) not in verdicts] == []
    counts = re.findall(rf"^\| (\d+) \| ({WORDS}) \|$", section, re.M)
    assert Counter(verdicts.values()) == {name: int(count) for count, name in counts}
