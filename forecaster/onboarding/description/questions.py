"""Open questions about a table, and answers given on the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from forecaster.errors import SpecError

Part = Literal["rows", "site", "day", "count", "where"]
ROWS = ("readings", "events")
ONE_A_COLUMN = "columns"  # answer to `--site`: each column of counts is a site
NO_COLUMN = "none"  # answer to `--site`: one site, named after the file
ROW_COUNT = "rows"  # answer to `--count`: each row counts as one


@dataclass(frozen=True)
class Choice:
    """Possible answer, in the notation of the command line, and its evidence."""

    answer: str
    evidence: str


@dataclass(frozen=True)
class Question:
    """Decision without sufficient evidence; the likeliest choice comes first."""

    part: Part
    text: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class TableAnswers:
    """Decisions made for the table; None where its evidence decides."""

    rows: str | None = None
    site: str | None = None
    day: tuple[str, ...] | None = None
    count: tuple[str, ...] | None = None
    where: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: str | None, site: str | None, day: str | None, count: str | None, where: Sequence[str] = ()
    ) -> Self:
        """Parse answers in the notation of the command line. Raises SpecError for `--rows` that is
        neither readings nor events, and for `--where` that is no condition."""
        if rows is not None and rows not in ROWS:
            raise SpecError(f"--rows: found '{rows}', wanted {' or '.join(ROWS)}")
        return cls(rows, site, _names(day), _names(count), dict(map(condition, where)))

    def answered(self, part: Part, answer: str) -> Self:
        """These answers plus another one."""
        changes: dict[str, Any] = {part: answer}
        if part in ("day", "count"):
            changes = {part: _names(answer)}
        elif part == "where":
            changes = {part: {**self.where, **dict([condition(answer)])}}
        return replace(self, **changes)

    def refuse_unknown_columns(self, names: Sequence[str], path: object) -> None:
        """Raise SpecError for an answer that names a column missing in the table."""
        columns_by_option = {"--day": self.day or (), "--count": self.count or (), "--where": tuple(self.where)}
        for option, columns in columns_by_option.items():
            for name in columns:
                if name not in names and not (option == "--count" and name == ROW_COUNT):
                    raise SpecError(f"{path}: found '{name}' in {option}; wanted one of the columns {', '.join(names)}")


def _names(text: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in text.split(",")) if text is not None else None


def condition(text: str) -> tuple[str, Any]:
    """Column and condition of `demand.where`, from `status=Out,Done` or `status!=Cancelled`. Raises
    SpecError for another form."""
    name, mark, values = text.partition("!=") if "!=" in text else text.partition("=")
    if not mark or not name.strip():
        raise SpecError(f"--where: found '{text}', wanted COLUMN=VALUE or COLUMN!=VALUE, as in status=Out")
    listed = [value.strip() for value in values.split(",")]
    return name.strip(), {"not": listed} if mark == "!=" else listed


def written(name: str, row_condition: Any) -> str:
    """A condition of `demand.where` in the notation of the command line."""
    if isinstance(row_condition, Mapping):
        return f"{name}!={','.join(map(str, row_condition['not']))}"
    return f"{name}={','.join(map(str, row_condition))}"


def options(answers: TableAnswers) -> list[str]:
    """Command line arguments that give these answers."""
    arguments: list[str] = []
    for part, value in (("rows", answers.rows), ("site", answers.site)):
        arguments += [f"--{part}", value] if value is not None else []
    for part, names in (("day", answers.day), ("count", answers.count)):
        arguments += [f"--{part}", ",".join(names)] if names is not None else []
    for name, row_condition in answers.where.items():
        arguments += ["--where", written(name, row_condition)]
    return [shlex.quote(word) for word in arguments]


class OpenQuestions(SpecError):
    """Raised if a table is only partly understood: its questions with the choices, and the command
    that answers all of them with the likeliest choices."""

    def __init__(self, path: object, questions: Sequence[Question], command: str) -> None:
        self.questions, self.command = tuple(questions), command
        lines = [f"{path}: the table has open questions; nothing was written"]
        for question in questions:
            lines.append(f"  {question.text}")
            lines += [
                f"    --{question.part} {shlex.quote(choice.answer)}: {choice.evidence}" for choice in question.choices
            ]
        super().__init__("\n".join([*lines, "wanted the answers, as in:", f"  {command}"]))
