"""Data sources as the pipeline file declares them: CSV, Excel, Parquet, Delta, SQL and the sample.

A credential never stands in the file: it is named, `${NAME}` for an environment variable or `${secret:NAME}` for a
Prefect Secret block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from forecaster.config.base import Section

_SECRET_NAME = re.compile(
    r"pass(word|wd)?|secret|token|credential|(access|account|api|private)_?key|^key$", re.IGNORECASE
)


def _no_password(url: str) -> str:
    """A path passes; a URL, when it names the password and what else of it is secret."""
    user = re.match(r"[^:/]+://[^:@/]*:(?P<password>[^@]*)@", url)
    query = url.partition("?")[2].split("&") if "://" in url else ()
    secret = [user["password"]] if user else []
    secret += [value for key, _, value in (text.partition("=") for text in query) if _SECRET_NAME.search(key)]
    if any("${" not in text for text in secret):
        raise ValueError(
            "the URL holds a password; wanted it named, as in ://reader:${PASSWORD}@host for an environment variable "
            "or ${secret:NAME} for a Prefect Secret block"
        )
    return url


COUNTED_DAYS = {"excel": "45356", "unix": "1709596800", "unix_ms": "1709596800000"}
"""What `date_format` may be where days are numbers, each with 2024-03-05 in it."""
Url = Annotated[str, AfterValidator(_no_password)]


class TableSource(Section):
    """A table of any kind, and whether it has a row a reading."""

    wide: Literal["depots", "days"] | None = None
    """How the demand source is laid out where it has not a row a reading: a row a day and a column for each of the
    `depots`, whose id is its header, or a row a depot and a column for each of the `days`. Each column that nothing in
    the pipeline file names is such a one, cells are demand, and an empty cell is no reading."""
    ignore: tuple[str, ...] = ()
    """Columns of a wide table that are neither, such as a weekday or a total."""
    null_values: tuple[str, ...] = ()
    """Words that stand for nothing where the source has text, in upper or lower case, as in `["n/a", "-"]`: such a cell
    is empty."""

    @field_validator("null_values", mode="before")
    @classmethod
    def _as_written(cls, words: Any) -> Any:
        """YAML takes null for nothing, and 9999 for a number; of a source both are text."""
        if not isinstance(words, list | tuple):
            return words
        written = ["null" if word is None else str(word) if type(word) in (int, float) else word for word in words]
        if any(isinstance(word, str) and not word.strip() for word in written):
            raise ValueError('found a blank word; wanted words such as "n/a": what is blank is empty anyway')
        return written

    @model_validator(mode="after")
    def _only_wide(self) -> Self:
        if self.ignore and self.wide is None:
            raise ValueError("ignore names columns of a wide table, and wide is not set: other columns are not read")
        return self


class StoredSource(TableSource):
    """What lies in a file system or object store; each kind says what its `kind` and `path` may be."""

    reads_folders: ClassVar[bool] = False
    """Whether a folder counts as one source, its files read whole."""
    kind: str
    path: Url
    options: Mapping[str, str] = {}
    """What the object store wants to know, as fsspec or Delta names it; credentials as `${NAME}` or `${secret:NAME}`,
    which are hidden in every message."""

    @field_validator("options")
    @classmethod
    def _no_credentials(cls, options: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in options.items():
            if _SECRET_NAME.search(name) and "${" not in value:
                raise ValueError(
                    f"{name} holds a credential; wanted it named, as in {name}: ${{NAME}} for an environment variable "
                    "or ${secret:NAME} for a Prefect Secret block"
                )
        return options


class WrittenSource(StoredSource):
    """A table in which people wrote: under a header, with numbers and days in a notation of their own."""

    header_row: int = Field(default=1, ge=1)
    """The line of the header, counted from 1; what stands above it, such as a title, is passed over."""
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    """The character between thousands, as in 1,234."""
    decimal: str = Field(default=".", min_length=1, max_length=1)
    """The character before decimals."""
    date_format: str | None = None
    """How days and local times are written where not as in 2024-03-05: `%d.%m.%Y` reads 05.03.2024, and %Y, %y, %m, %b,
    %d, %H, %M and %S are the signs. `excel` reads days as spreadsheets count them (45356), `unix` and `unix_ms` read
    the seconds and milliseconds since 1970."""

    @field_validator("date_format")
    @classmethod
    def _names_a_day(cls, form: str | None) -> str | None:
        day = datetime(2024, 3, 5)
        try:
            if form is None or form in COUNTED_DAYS or datetime.strptime(day.strftime(form), form) == day:
                return form
        except ValueError:
            pass
        raise ValueError(f"found {form!r}, wanted day, month and year as signs, as in '%d.%m.%Y' for 05.03.2024")

    @model_validator(mode="after")
    def _marks_differ(self) -> Self:
        if self.thousands == self.decimal:
            raise ValueError(f"thousands and decimal are both {self.decimal!r}; wanted two characters")
        return self


class CsvSource(WrittenSource):
    kind: Literal["csv"]
    """Text with a header row, plain or compressed."""
    path: Url
    """File, glob or URL; relative to the pipeline file; `${NAME}` is taken from the environment."""
    delimiter: str = ","
    """What stands between fields: one character, or a regular expression such as `\\s+`, which knows no quotes."""
    encoding: str = "utf-8"
    """The file's text encoding, as in utf-8 or cp1252; a row with a byte that is no such text goes to quarantine."""
    compression: Literal["infer", "none", "gzip", "bz2", "xz", "zip", "zstd"] = "infer"
    """How the file is compressed; by default its name says so."""


class ExcelSource(WrittenSource):
    kind: Literal["excel"]
    """A workbook: xlsx, xlsm, xlsb, xls or ods. Cells that are numbers or days are read as such; `thousands`, `decimal`
    and `date_format` say how those are written that are text."""
    path: Url
    """File, glob or URL; relative to the pipeline file; `${NAME}` is taken from the environment."""
    sheet: str | Annotated[int, Field(ge=1)] | None = None
    """The sheet, by its name or by its number, counted from 1; left out: the first that is shown and not empty."""


class ParquetSource(StoredSource):
    reads_folders: ClassVar[bool] = True
    kind: Literal["parquet"]
    """Parquet."""
    path: Url
    """File, folder (also partitioned, as in year=2026/), glob or URL; relative to the pipeline file; `${NAME}` is taken
    from the environment."""


class DeltaSource(StoredSource):
    kind: Literal["delta"]
    """A Delta table."""
    path: Url
    """Folder or URL of the table; relative to the pipeline file; `${NAME}` is taken from the environment."""


class SqlSource(TableSource):
    kind: Literal["sql"]
    """A database that SQLAlchemy reaches."""
    url: Url
    """SQLAlchemy URL, as in postgresql+psycopg://reader:${PASSWORD}@host/orders; an SQLite file is relative to the
    pipeline file."""
    query: str | None = None
    """What to select."""
    table: str | None = None
    """What to read instead of a query; `schema.table` names one of another schema."""
    watermark: str | None = None
    """Column that never falls from one row to a later one, such as an id or the instant of the last change: a night
    reads what is not below the highest value of the nights before."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.query is None) == (self.table is None):
            raise ValueError("wanted either query or table")
        return self


class SampleSource(StoredSource):
    kind: Literal["sample"]
    """A CSV file of the sample, Harbor Fleet, and after its last day simulated days up to yesterday, so that the sample
    lives. No other file can be continued."""
    path: Url
    """`demand.csv` or `events.csv` as they lie in `data/harbor_fleet`; relative to the pipeline file."""
    until: date | None = None
    """The last simulated day; left out: the last that such a source would have told of by now."""


AnySource = CsvSource | ExcelSource | ParquetSource | SqlSource | DeltaSource | SampleSource
"""The one list of kinds that a pipeline file may name."""
Source = Annotated[AnySource, Field(discriminator="kind")]


def is_incremental(source: AnySource) -> bool:
    """Whether a night reads only what is new of it (change data capture by a watermark)."""
    return getattr(source, "watermark", None) is not None


def whole_rows(source: AnySource) -> AnySource:
    """A source with a row a thing, to be read whole each night. Raises ValueError when it is none."""
    if is_incremental(source):
        raise ValueError("watermark reads only what is new, and this source is wanted whole each night")
    if source.wide is not None:
        raise ValueError("wide lays out demand alone; wanted a table with a row for each of them")
    return source
