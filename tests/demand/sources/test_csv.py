from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecaster.config import CsvSource, Spec
from forecaster.core.language.sentences import stored
from forecaster.demand import sources
from forecaster.demand.sources import csv as delimited
from forecaster.demand.sources import feed, text_stream
from forecaster.errors import SourceError, SourceUnreachable


def read(
    spec: Spec, content: str | bytes, *required: str, file: str = "demand.csv", **options: str | int
) -> pd.DataFrame:
    (spec.folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
    source = CsvSource(kind="csv", path=file, **options)  # type: ignore[arg-type]
    return sources.read(source, spec, required, ["promo"])


def test_values_stay_text_and_rows_know_their_line(spec: Spec) -> None:
    content = '\ufeffdepot, day,orders,promo\r\nD1,2024-03-05,007,\r\n\r\n"D\n2",NA,nan,x\r\nD3,,,1\r\n'
    rows = read(spec, content, "depot", "day", "orders")
    assert rows.to_dict("list") == {
        "depot": ["D1", "D\n2", "D3"],
        "day": ["2024-03-05", "NA", ""],
        "orders": ["007", "nan", ""],
        "promo": ["", "x", "1"],
        "row": [2, 4, 6],
        ":fault": ["", "", ""],
        ":file": ["demand.csv"] * 3,
    }
    assert [str(rows[column].dtype) for column in ("depot", "row", ":fault", ":file")] == [
        "str",
        "int64",
        "str",
        "category",
    ]


def test_row_with_too_few_or_too_many_fields_has_a_fault(spec: Spec) -> None:
    rows = read(spec, "depot,day\nD1\nD2,2024-03-05,7\nD3,2024-03-06\n", "depot", "day")
    assert rows[":fault"].tolist() == [
        "1 fields, wanted 2 as in the header",
        "3 fields, wanted 2 as in the header",
        "",
    ]
    values = {"fields": "3", "width": "2"}
    assert (stored(sources.fault_sentence(rows[":fault"][1])) or {})["values"] == values
    assert sources.fault_sentence("of an earlier version") == "of an earlier version"
    assert rows["day"].tolist() == ["", "2024-03-05", "2024-03-06"]


@pytest.mark.parametrize("chunk", [7, 2**20])
def test_malformed_line_only_loses_itself(spec: Spec, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(text_stream, "CHUNK", chunk)
    lines = ["depot,day,n", "D1,2024-03-05,1", 'D2,2024-03-05,"2', "D3,2024-03-05,3", 'D4,2024-03-05,4"']
    lines += ["D5,2024-\0,5", 'D6,2024-03-05,"6"x', '"D\n7",2024-03-05,7', 'D8,"2024-03-05,8', "D9,2024-03-05,9"]
    rows = read(spec, "\n".join(lines), "depot", "day", "n")
    assert rows["depot"].tolist() == ["D1", "D2", "D3", "D4", "D5", "D6", "D\n7", "D8", "D9"]
    assert rows["row"].tolist() == [2, 3, 4, 5, 6, 7, 8, 10, 11]
    faulty = rows[rows[":fault"] != ""]
    assert faulty["depot"].tolist() == ["D2", "D5", "D6", "D8"]
    assert faulty[":fault"].str[:5].tolist() == ["a quo", "a NUL", "a quo", "a quo"]
    assert all(stored(sources.fault_sentence(fault)) for fault in faulty[":fault"])


def test_unclosed_quote_is_searched_for_within_a_thousand_lines(spec: Spec) -> None:
    lines = [f'"D{number}",1' for number in range(5_000)]
    rows = read(spec, "\n".join(["depot,day", '"D,1', *lines, "x" * 200_000 + ',"1"']), "depot", "day")
    assert len(rows) == 5_002
    assert (rows[":fault"] != "").tolist() == [True] + [False] * 5_001


def test_a_file_with_only_a_header_has_no_rows(spec: Spec) -> None:
    rows = read(spec, "depot\n", "depot")
    assert rows.empty
    assert list(rows.columns) == ["depot", "row", ":fault", ":file"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('depot,"day\nD2,2024-03-06\n', r"demand.csv:1: found a quote that is not closed, .*; wanted a header"),
        (b"depot,day,M\xfcll\nD1,\n", r"demand.csv:1: found a byte that is not utf-8 text, as in 'M\\xfcll'; .*cp1252"),
        (b"depot,day\n\xff\xfe\n".decode("latin-1").encode("utf-16"), r"demand.csv:1: found a NUL character"),
        (b"\x89PNG,day\nD1,1\n", r"demand.csv:1: found a byte that is not utf-8 text"),
        ("dep\0ot,day\nD1,2024-03-05\n", r"demand.csv:1: found a NUL character"),
        ("depots,day\n", r"found columns depots, day; wanted 'depot'; did you mean 'depots'\?"),
        ("Depot,day\n", r"wanted 'depot'; did you mean 'Depot'\? Case, spaces and punctuation matter"),
        ("depot;day\n", r"the header has one column 'depot;day': set delimiter: ';'$"),
        ("depot,day,day\n", r"found column 'day' twice"),
        ("", r"found no columns, as in an empty file; wanted 'depot', 'day'; the file is empty$"),
        ("site,tag\n", r"found columns site, tag; wanted 'depot', 'day'$"),
    ],
)
def test_error_for_an_invalid_csv_file_names_the_place(spec: Spec, content: str | bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        read(spec, content, "depot", "day")
    assert not isinstance(caught.value, SourceUnreachable)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp037"])
def test_reads_any_encoding_that_python_supports(spec: Spec, encoding: str) -> None:
    content = "depot,day\nKöln,1\nNürnberg,2\n".encode(encoding)
    assert read(spec, content, "depot", encoding=encoding)["depot"].tolist() == ["Köln", "Nürnberg"]


@pytest.mark.parametrize("chunk", [10, 2**20])
@pytest.mark.parametrize(
    ("word", "encoding"),
    [("Köln", "cp1252"), ("Łódź", "cp1250"), ("Москва", "cp1251"), ("大阪駅", "cp932"), ("北京市", "gb18030")],
)
def test_bytes_in_another_encoding_only_lose_their_row(
    spec: Spec, monkeypatch: pytest.MonkeyPatch, chunk: int, word: str, encoding: str
) -> None:
    monkeypatch.setattr(text_stream, "CHUNK", chunk)
    odd = word.encode(encoding)
    content = b"depot,day,note\nAachen,1,\nBonn,2,%b\n%b,3,\n" % (odd, odd) + "Köln,4,\n".encode()
    rows = read(spec, content, "depot", "day")
    # columns that are not read may contain anything
    assert rows["depot"].drop(2).tolist() == ["Aachen", "Bonn", "Köln"]
    assert rows["row"].tolist() == [2, 3, 4, 5]
    assert rows[":fault"].ne("").tolist() == [False, False, True, False]
    assert rows["depot"][2] == odd.decode("utf-8", "backslashreplace")
    assert "a byte that is not utf-8 text, as in '" in rows[":fault"][2]
    assert f"wanted the `encoding`, as in {encoding}, of its source" in rows[":fault"][2]


def test_undefined_byte_of_a_small_encoding_only_loses_its_row(spec: Spec) -> None:
    rows = read(spec, b"depot,day\nK\xf6ln,1\nA\x81,2\n", "depot", encoding="cp1252")
    assert rows["depot"].tolist() == ["Köln", r"A\x81"]
    assert rows[":fault"].ne("").tolist() == [False, True]


def test_error_for_an_incomplete_utf_16_letter_names_the_line(spec: Spec) -> None:
    with pytest.raises(SourceError, match=r"demand.csv:3: found a byte that is not utf-16 text"):
        read(spec, "depot\nD1\nD2".encode("utf-16") + b"\xd8", "depot", encoding="utf-16")


@pytest.mark.parametrize("encoding", ["utf-9", "rot13", "hex"])
def test_rejects_codecs_that_are_no_text_encoding(spec: Spec, encoding: str) -> None:
    with pytest.raises(SourceError, match=f"unknown encoding '{encoding}'"):
        read(spec, "depot\n", "depot", encoding=encoding)


def test_longer_delimiter_is_a_regular_expression_without_quotes(spec: Spec) -> None:
    rows = read(spec, 'depot   day\n  D1 1\n\nD2\t"2\n', "depot", "day", delimiter=r"\s+")
    assert rows["depot"].tolist() == ["D1", "D2"]
    assert rows["day"].tolist() == ["1", '"2']
    assert rows["row"].tolist() == [2, 4]
    rows = read(spec, "depot::day\nD1::1::x\n", "depot", "day", delimiter="::")
    assert rows[":fault"].tolist() == ["3 fields, wanted 2 as in the header"]


@pytest.mark.parametrize("delimiter", ["", '"', "\n", "(("])
def test_rejects_invalid_delimiters(spec: Spec, delimiter: str) -> None:
    with pytest.raises(SourceError, match=r"found delimiter .* wanted a single character"):
        read(spec, "depot\n", "depot", delimiter=delimiter)


def zipped(content: bytes, *names: str) -> bytes:
    with zipfile.ZipFile(whole := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("demand.csv",):
            archive.writestr(name, content)
    return whole.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zip": zipped,
    "zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_compressed_file_reads_like_the_plain_one(spec: Spec, suffix: str) -> None:
    content = ("depot,day\n" + "D1,2024-03-05\n" * 10_000).encode()
    plain = sources.open_feed(source(spec, "demand.csv", content), spec, ["depot", "day"])
    packed = sources.open_feed(source(spec, f"demand.csv.{suffix}", PACKED[suffix](content)), spec, ["depot", "day"])
    pd.testing.assert_frame_equal(next(plain.blocks).drop(columns=":file"), next(packed.blocks).drop(columns=":file"))
    assert not [*plain.blocks, *packed.blocks]
    assert plain.digest == packed.digest


@pytest.mark.parametrize("suffix", PACKED)
def test_rejects_a_truncated_compressed_file(spec: Spec, suffix: str) -> None:
    content = ("depot,day\n" + "".join(f"D{n % 97},{n * n}\n" for n in range(10_000))).encode()
    packed = PACKED[suffix](content)
    for broken in (packed[: len(packed) // 2], b"depot,day\n", packed[:20] + bytes(100) + packed[120:]):
        with pytest.raises(SourceError, match=rf"demand.csv.{suffix}: is truncated or damaged") as caught:
            read(spec, broken, "depot", file=f"demand.csv.{suffix}")
        assert not isinstance(caught.value, SourceUnreachable)


def test_rejects_an_archive_with_several_csv_files(spec: Spec) -> None:
    with pytest.raises(
        SourceError, match=r"found 2 files in the archive \('a.csv', 'b.csv'\); wanted exactly one CSV file"
    ):
        read(spec, zipped(b"depot\n", "a.csv", "b.csv"), "depot", file="demand.zip")


def test_reads_the_only_csv_file_of_an_archive_with_a_readme(spec: Spec) -> None:
    content = zipped(b"depot\nD1\n", "readme.txt", "demand.csv")
    assert read(spec, content, "depot", file="demand.zip")["depot"].tolist() == ["D1"]


def test_fields_omitted_at_the_end_of_a_row_are_empty(spec: Spec) -> None:
    (spec.folder / "short.csv").write_text("depot,n,note\nD1,7\nD2\n", "utf-8")
    rows = sources.read(CsvSource(kind="csv", path="short.csv"), spec, ["depot", "n"], ["note"])
    assert rows["note"].tolist() == ["", ""]
    assert rows[":fault"].tolist() == ["", "1 fields, wanted 3 as in the header"]


def test_ignores_macos_metadata_in_an_archive(spec: Spec) -> None:
    content = zipped(b"depot\nD1\n", "demand.csv", "__MACOSX/._demand.csv", ".DS_Store")
    assert read(spec, content, "depot", file="demand.zip")["depot"].tolist() == ["D1"]


def test_damaged_file_is_not_reported_as_empty(spec: Spec) -> None:
    with pytest.raises(SourceError, match="is truncated or damaged") as caught:
        read(spec, gzip.compress(b"depot\nD1\n" * 1000)[:-9], "depot", file="demand.csv.gz")
    assert "empty" not in str(caught.value)


def test_declared_compression_overrides_the_file_name(spec: Spec) -> None:
    rows = read(spec, gzip.compress(b"depot\nD1\n"), "depot", file="export.dat", compression="gzip")
    assert rows["depot"].tolist() == ["D1"]
    assert read(spec, b"depot\nD1\n", "depot", file="named.gz", compression="none")["depot"].tolist() == ["D1"]


def source(spec: Spec, file: str, content: bytes) -> CsvSource:
    (spec.folder / file).write_bytes(content)
    return CsvSource(kind="csv", path=file)


def test_files_of_a_glob_are_sorted_and_keep_their_lines_and_headers(spec: Spec) -> None:
    (spec.folder / "orders").mkdir()
    source(spec, "orders/b.csv", b"day,depot\n2024-03-06,D2\n")
    source(spec, "orders/a.csv", b"depot,day,promo\nD1,2024-03-05,1\nD3,2024-03-05,0\n")
    source(spec, "orders/c.txt", b"no\n")
    rows = sources.read(CsvSource(kind="csv", path="orders/*.csv"), spec, ["depot", "day"], ["promo"])
    assert rows["depot"].tolist() == ["D1", "D3", "D2"]
    assert rows["day"].tolist() == ["2024-03-05", "2024-03-05", "2024-03-06"]
    assert rows["row"].tolist() == [2, 3, 2]
    assert rows[":file"].tolist() == ["a.csv", "a.csv", "b.csv"]
    assert rows["promo"].fillna("?").tolist() == ["1", "0", "?"]
    assert isinstance(rows[":file"].dtype, pd.CategoricalDtype)


def test_files_below_a_globs_folder_have_relative_names(spec: Spec) -> None:
    for day in ("05", "06"):
        (spec.folder / "orders" / day).mkdir(parents=True)
        source(spec, f"orders/{day}/part.csv", b"depot\nD1\n")
    rows = sources.read(CsvSource(kind="csv", path="orders/*/part.csv"), spec, ["depot"])
    assert rows[":file"].tolist() == ["05/part.csv", "06/part.csv"]


def test_reports_a_glob_without_matches(spec: Spec) -> None:
    with pytest.raises(
        SourceUnreachable, match=r"orders/\*.csv: found no file that matches the glob; wanted at least one csv"
    ):
        sources.read(CsvSource(kind="csv", path="orders/*.csv"), spec, ["depot"])


def test_reads_a_file_whose_name_looks_like_a_glob(spec: Spec) -> None:
    assert sources.read(source(spec, "demand [1].csv", b"depot\nD1\n"), spec, ["depot"])["depot"].tolist() == ["D1"]


def test_does_not_combine_days_from_several_columns(spec: Spec) -> None:
    wanted = r"wanted 'day'; columns 'Year' and 'Month' are not combined: wanted dates such as 2024-03-05 in one"
    with pytest.raises(SourceError, match=wanted):
        read(spec, "depot,Year,Month,dom\nD1,2024,3,5\n", "depot", "day")
    with pytest.raises(SourceError, match=r"wanted 'orders'$"):
        read(spec, "depot,Year,Month,dom\nD1,2024,3,5\n", "depot", "orders")


def test_error_names_the_file_of_a_glob_that_lacks_a_column(spec: Spec) -> None:
    source(spec, "a.csv", b"depot\nD1\n")
    source(spec, "b.csv", b"shop\nD1\n")
    with pytest.raises(SourceError, match=r"b.csv: found columns shop; wanted 'depot'"):
        sources.read(CsvSource(kind="csv", path="*.csv"), spec, ["depot"])


def test_same_content_has_the_same_digest(spec: Spec) -> None:
    digests = []
    for content in (b"depot\nD1\n", b"depot\nD1\n", b"depot\nD2\n"):
        feed = sources.open_feed(source(spec, f"{len(digests)}.csv", content), spec, ["depot"])
        assert sum(map(len, feed.blocks)) == 1
        digests.append(feed.digest)
        assert feed.watermark is None
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 12


def test_block_never_exceeds_its_size(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "BLOCK", 400)
    monkeypatch.setattr(feed, "_ENOUGH", 100)
    monkeypatch.setattr(text_stream, "CHUNK", 2_000)
    lines = [f"D{n}" for n in range(5_000)]
    numbered_feed = sources.open_feed(
        source(spec, "demand.csv", "\n".join(["depot", *lines]).encode()), spec, ["depot"]
    )
    blocks = list(numbered_feed.blocks)
    assert max(map(len, blocks)) <= 400
    whole = pd.concat(blocks)
    assert whole["depot"].tolist() == lines
    assert whole["row"].tolist() == list(range(2, 5_002))


def test_small_files_share_a_block(spec: Spec) -> None:
    for number in range(30):
        source(spec, f"{number:02}.csv", f"depot\nD{number}\n".encode())
    (block,) = sources.open_feed(CsvSource(kind="csv", path="*.csv"), spec, ["depot"]).blocks
    assert block["depot"].tolist() == [f"D{number}" for number in range(30)]
    assert block[":file"].tolist() == [f"{number:02}.csv" for number in range(30)]


def obvious(text: str, delimiter: str) -> list[tuple[int, str, str, str]]:
    """Line, fault and the two columns of each record, found by the csv module on the whole text
    from each line on."""
    lines = list(io.StringIO(text, newline=""))
    rows, line = [], 0
    while line < len(lines):
        reader = csv.reader(lines[line:], delimiter=delimiter, strict=True)
        try:
            fields, fault = next(reader), ""
        except csv.Error:
            fields, fault = [], delimited._QUOTE
        spanned = reader.line_num
        if fault or (spanned > 1 and len(fields) != 2):
            fields, fault = next(csv.reader([lines[line].rstrip("\r\n")], delimiter=delimiter)), delimited._QUOTE
            spanned = 1
        elif len(fields) != 2:
            fault = f"{len(fields)} fields, wanted 2 as in the header"
        if fields:
            rows.append((line + 1, fault, *[*fields, "", ""][:2]))
        line += spanned
    return rows[1:]  # type: ignore[return-value]


LINES = ["D1,1\n", "D2,2\r\n", "D3,3\r", '"D,4",4\n', '"D""5",5\n', '"D\n6",6\n', "\n", "\r\n", "D7\n", "D8,8,8\n"]
ODD = ['""', ",", '"', "x", "\ufeff", "é\n", " \n", "ä,ö", '"a","b"\n', '"",""\n', 'a"b,c\n', '"\r\n",1\n']
texts = st.lists(st.sampled_from(LINES + ODD), max_size=12).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=texts, chunk=st.sampled_from([1, 2, 5, 11, 40, 1000]))
def test_rows_equal_those_of_the_csv_module_however_the_text_is_split(spec: Spec, text: str, chunk: int) -> None:
    text = "depot,day\n" + text
    whole = obvious(text, ",")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_stream, "CHUNK", chunk)
        patch.setattr(delimited, "_RECORDS_A_TABLE", 3)
        parsed = read(spec, text, "depot", "day")
    rows = parsed[["row", ":fault", "depot", "day"]].itertuples(index=False, name=None)
    assert list(rows) == whole


def test_decodes_letters_across_block_boundaries(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_stream, "CHUNK", 3)
    content = codecs.BOM_UTF8 + "depot,day\nKöln €,1\n大阪,2\n".encode()
    assert read(spec, content, "depot")["depot"].tolist() == ["Köln €", "大阪"]


@pytest.mark.parametrize("chunk", [3, 2**20])
def test_skips_lines_above_the_header(spec: Spec, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(text_stream, "CHUNK", chunk)
    for title in ('Parcels,,\r\n"made,\r\n\r\n', "Parcels\rK\xf6ln\r\r", "a\n\nb\n"):
        rows = read(spec, (title + "depot,day\nD1,1\n").encode("cp1252"), "depot", "day", header_row=4)
        assert (rows["depot"].tolist(), rows["row"].tolist()) == (["D1"], [5])
    with pytest.raises(SourceError, match="found no columns, as in an empty file"):
        read(spec, "depot,day\nD1,1\n", "depot", header_row=3)
