"""Data sources as the pipeline file declares them: CSV, Excel, Parquet, Delta, SQL and the sample.

The file never contains a credential, only a reference: `${NAME}` for an environment variable or
`${secret:NAME}` for a Prefect Secret block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from forecaster.config.base import Section

_SECRET_NAME = re.compile(
    r"pass(word|wd)?|secret|token|credential|(access|account|api|private)_?key|^key$", re.IGNORECASE
)


def _no_password(url: str) -> str:
    """Return the path or URL. Raises ValueError for a URL that contains a password or another
    secret in plain text."""
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
"""Values of `date_format` for numeric days, each with its number for 2024-03-05."""
ALL_SHEETS = "*"
Url = Annotated[str, AfterValidator(_no_password)]


class TableSource(Section):
    """A table in long or wide form."""

    wide: Literal["depots", "days"] | None = None
    """Layout of a wide demand source: `depots` has a row for each day and a column for each depot
    (its id is the header); `days` has a row for each depot and a column for each day. All
    columns that the pipeline file does not name are counts; an empty cell is no reading."""
    ignore: tuple[str, ...] = ()
    """Further columns of a wide table, such as a weekday or a total."""
    null_values: tuple[str, ...] = ()
    """Words for an empty text cell, in any case, as in `["n/a", "-"]`."""
    fill_down: tuple[str, ...] = ()
    """Columns of the demand source in which a blank cell has the value of the row above it in the
    same file, such as a depot that is written only in the first row of its block. If order numbers
    repeat (`demand.columns.order_id`), it has the value of the row above it with the same number."""

    @field_validator("null_values", mode="before")
    @classmethod
    def _as_written(cls, words: Any) -> Any:
        """Convert words to text: YAML reads null as nothing, and 9999 as a number."""
        if not isinstance(words, list | tuple):
            return words
        texts = ["null" if word is None else str(word) if type(word) in (int, float) else word for word in words]
        if any(isinstance(word, str) and not word.strip() for word in texts):
            raise ValueError('found a blank word; wanted words such as "n/a": blank cells are empty anyway')
        return texts

    @model_validator(mode="after")
    def _only_wide(self) -> Self:
        if self.ignore and self.wide is None:
            raise ValueError("ignore names columns of a wide table, but wide is not set: other columns are not read")
        return self


class StoredSource(TableSource):
    """A source in a file system or object store; each kind defines `kind` and `path`."""

    reads_folders: ClassVar[bool] = False
    """True if a folder is one source whose files are read whole."""
    kind: str
    path: Url
    options: Mapping[str, str] = {}
    """Options of the object store, as fsspec or Delta names them; credentials as `${NAME}` or
    `${secret:NAME}`, which are hidden in every message."""

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
    """A table with a header, and with numbers and days in a declared notation."""

    header_row: int = Field(default=1, ge=1)
    """Line of the header, counted from 1; lines above, such as a title, are skipped."""
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    """Thousands separator, as in 1,234."""
    decimal: str = Field(default=".", min_length=1, max_length=1)
    """Decimal separator."""
    date_format: str | None = None
    """Format of days and local times other than 2024-03-05: `%d.%m.%Y` reads 05.03.2024, with %Y,
    %y, %m, %b, %B, %d, %A, %a, %H, %M, %S and %Z (UTC); `%G-W%V-%u` reads 2024-W10-2. `excel` reads
    spreadsheet days (45356), `unix` and `unix_ms` read seconds and milliseconds since 1970."""

    @field_validator("date_format")
    @classmethod
    def _names_a_day(cls, form: str | None) -> str | None:
        if form is None or form in COUNTED_DAYS:
            return form
        day = datetime(2024, 3, 5, tzinfo=UTC)
        try:
            if datetime.strptime(day.strftime(form), form).replace(tzinfo=UTC) == day:
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
    """File, glob or URL, relative to the pipeline file; `${NAME}` comes from the environment."""
    delimiter: str = ","
    """Field separator: one character, or a regular expression such as `\\s+`, which ignores
    quotes."""
    encoding: str = "utf-8"
    """Text encoding, as in utf-8 or cp1252; a row with an invalid byte is quarantined."""
    compression: Literal["infer", "none", "gzip", "bz2", "xz", "zip", "zstd"] = "infer"
    """Compression; by default from the file name."""


class ExcelSource(WrittenSource):
    kind: Literal["excel"]
    """A workbook: xlsx, xlsm, xlsb, xls or ods. Numeric and date cells are read as such;
    `thousands`, `decimal` and `date_format` apply to text cells."""
    path: Url
    """File, glob or URL, relative to the pipeline file; `${NAME}` comes from the environment."""
    sheet: str | Annotated[int, Field(ge=1)] | None = None
    """Sheet, by name or by number from 1; `"*"` reads all visible ones, which have the same columns.
    Left out: the first visible sheet with content."""


class ParquetSource(StoredSource):
    reads_folders: ClassVar[bool] = True
    kind: Literal["parquet"]
    """Parquet."""
    path: Url
    """File, folder (also partitioned, as in year=2026/), glob or URL, relative to the pipeline
    file; `${NAME}` comes from the environment."""


class DeltaSource(StoredSource):
    kind: Literal["delta"]
    """A Delta table."""
    path: Url
    """Folder or URL of the table, relative to the pipeline file; `${NAME}` comes from the
    environment."""


class SqlSource(TableSource):
    kind: Literal["sql"]
    """A database with an SQLAlchemy driver."""
    url: Url
    """SQLAlchemy URL, as in postgresql+psycopg://reader:${PASSWORD}@host/orders; an SQLite file is relative to the
    pipeline file."""
    query: str | None = None
    """SELECT statement."""
    table: str | None = None
    """Table instead of a query; `schema.table` for another schema."""
    watermark: str | None = None
    """Column that never decreases from one row to the next, such as an id or the instant of the
    last change: a night reads rows from the highest value of the previous nights."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.query is None) == (self.table is None):
            raise ValueError("wanted either query or table")
        return self


class SampleSource(StoredSource):
    kind: Literal["sample"]
    """A CSV file of the Harbor Fleet sample, continued by simulated days up to yesterday. No other
    file can be continued."""
    path: Url
    """`demand.csv` or `events.csv` of `data/harbor_fleet`, relative to the pipeline file."""
    until: date | None = None
    """Last simulated day. Left out: the newest day that a real source would have by now."""


AnySource = CsvSource | ExcelSource | ParquetSource | SqlSource | DeltaSource | SampleSource
"""All source kinds of a pipeline file."""
Source = Annotated[AnySource, Field(discriminator="kind")]


def is_incremental(source: AnySource) -> bool:
    """True if a night reads only new rows of the source (change data capture by a watermark)."""
    return getattr(source, "watermark", None) is not None


def _whole_rows(source: AnySource) -> AnySource:
    """Return the source if it has one row for each object and is read in full each night. Raises
    ValueError otherwise."""
    if is_incremental(source):
        raise ValueError("watermark reads only new rows, but this source must be read whole each night")
    if source.wide is not None:
        raise ValueError("wide applies only to demand; wanted a table with one row for each record")
    if source.fill_down:
        raise ValueError("fill_down applies only to columns of demand; wanted a table without blank cells")
    return source


WholeSource = Annotated[Source, AfterValidator(_whole_rows)]


class TableColumns(Section):
    """Names of the columns of a table; None if it has no such column."""

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that the source must have; external ids are read only by `schedule --export`."""
        return tuple(name for name in self.model_dump(exclude={"external_id"}).values() if name)


class WholeTable(Section):
    """A table that is read whole, and whose columns all differ."""

    source: WholeSource
    columns: TableColumns

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        names = self.columns.required
        if len(set(names)) < len(names):
            raise ValueError(f"columns name {', '.join(names)}; wanted a column of its own for each")
        return self
