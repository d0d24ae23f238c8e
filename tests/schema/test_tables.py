"""Tables as people have them are read as what they are, or refused with the cell and the remedy."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grace import Categorical, GraceError, Numeric, Schema
from grace.schema.tables.reading import read
from grace.schema.tables.text_cells import FORMATS, NumberFormat, readings


def table(here: Path, content: str | bytes, name: str = "table.csv", **how: Any) -> pd.DataFrame:
    path = here / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(path, **how)[0]


def refusal(here: Path, content: str | bytes, name: str = "table.csv", **how: Any) -> str:
    with pytest.raises(GraceError) as caught:
        table(here, content, name, **how)
    message = str(caught.value)
    assert "\n" not in message
    assert name in message
    return message


# -- any dialect is read back equal ---------------------------------------------------------------------

WORDS = st.text(st.sampled_from("abcdäöüßéXYZ ,;|\t'\"%"), min_size=1, max_size=8).map(lambda s: f"w{s}")
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 2))
PROOF = 12345.5  # has one reading only, in any format


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(1, 6))

    def column(cells: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(cells, min_size=rows, max_size=rows))

    gaps = st.none() | NUMBERS
    frame = pd.DataFrame(
        {
            "amount": [*column(NUMBERS), PROOF],
            "count": [*column(st.integers(-(2**60), 2**60)), 0],
            "maybe": [*column(gaps), PROOF],
            "kind": [*column(WORDS), "word"],
            "yes": [*column(st.booleans()), True],
            "since": pd.to_datetime([*column(st.dates(date(1900, 1, 1))), "2020-12-31"]),
        }
    )
    return frame.astype({"maybe": np.float64, "kind": "str"})


def number_text(value: float, form: NumberFormat) -> str:
    if np.isnan(value):
        return ""
    digits = f"{value:,.2f}" if form.group else f"{value:.2f}"
    return digits.translate({ord(","): form.group, ord("."): form.point})


PACKING = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "cp1252", "utf-32")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frame=frames(),
    separator=st.sampled_from(",;\t|"),
    form=st.sampled_from(FORMATS),
    encoding=st.sampled_from(ENCODINGS),
    packing=st.sampled_from(list(PACKING)),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    day=st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"]),
)
def test_a_frame_written_in_any_dialect_is_read_back_equal(
    tmp_path: Path,
    frame: pd.DataFrame,
    separator: str,
    form: NumberFormat,
    encoding: str,
    packing: str,
    quoting: Any,
    end: str,
    day: str,
) -> None:
    written = frame.assign(
        amount=[number_text(v, form) for v in frame["amount"]],
        maybe=[number_text(v, form) for v in frame["maybe"]],
        since=frame["since"].dt.strftime(day),
    )
    out = io.StringIO()
    written.to_csv(out, sep=separator, index=False, quoting=quoting, lineterminator=end)
    found = table(tmp_path, PACKING[packing](out.getvalue().encode(encoding)), f"table.csv{packing}")
    assert list(found.columns) == list(frame.columns)
    assert found["kind"].tolist() == frame["kind"].tolist()
    assert found["count"].tolist() == frame["count"].tolist()
    assert found["yes"].tolist() == frame["yes"].tolist()
    np.testing.assert_array_equal(found["amount"], frame["amount"])
    np.testing.assert_array_equal(found["maybe"], frame["maybe"])
    assert (found["since"] == frame["since"]).all()


def test_plain_csv_is_read_as_pandas_reads_it(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": random.normal(size=50),
            "n": random.integers(-9, 9, 50),
            "half": np.where(random.random(50) < 0.5, np.nan, 1.0),
            "word": random.choice(["a", "b", None], 50),
            "yes": random.random(50) < 0.5,
        }
    ).astype({"word": "str"})
    pd.testing.assert_frame_equal(table(tmp_path, frame.to_csv(index=False)), frame)


# -- numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a;b\n1.234,56;x\n0,5;y\n", [1234.56, 0.5]),
        ("a;b\n1234,5;x\n7;y\n", [1234.5, 7]),
        ('a,b\n"1,234.50",x\n"12,000",y\n', [1234.5, 12000]),
        ("a|b\n1 234|x\n12 345 678|y\n", [1234, 12345678]),
        ("a|b\n1\u00a0234,5|x\n2|y\n", [1234.5, 2]),
        ("a|b\n1'234|x\n1'234'567|y\n", [1234, 1234567]),
        ("a,b\n\u22125.5,x\n1e3,y\n", [-5.5, 1000]),
        ("a,b\n1.234,x\n2.000,y\n", [1.234, 2.0]),
        ("a;b\n1.234;0,5\n2.000;1\n", [1234, 2000]),  # the other column has decimal commas
        ("a;b\n1.234;0.5\n2.000;1\n", [1.234, 2]),
        ('a,b\n"1,234",0.5\n"2,000",1\n', [1234, 2000]),
        ("a;b\n1,234;0,5\n2,000;1\n", [1.234, 2]),
        ("a\n1,5\n2,5\n", [1.5, 2.5]),
    ],
)
def test_numbers(tmp_path: Path, content: str, expected: list[float]) -> None:
    assert table(tmp_path, content)["a"].tolist() == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,b\n"1,234",x\n"2,000",y\n', "'a', row 0: '1,234' may be 1.234 or 1234.*write numbers as 1234.5"),
        ("a;b\n1;x\n1.234;y\n", "'a', row 1: '1.234' may be 1.234 or 1234"),
        ('a;b;c;d\n1,234;0,5;1.5;"2,000"\n', "'a', row 0"),  # columns that prove both
        ('a,b\n1.5,x\n"1,5",y\n', "'a', row 1: '1,5' and '1.5' are not written alike"),
        ("a,b\n€ 5,x\n€7,y\n", "'a', row 0: '€ 5' is a number with '€'; take it out"),
        ("a,b\n5 EUR,x\n7 EUR,y\n", "number with 'EUR'"),
        ('a,b\n"$1,200.50",x\n$7,y\n', "'a', row 0: .* number with '\\$'"),
        ("a,b\n5 %,x\n7%,y\n", "'a', row 0: '5 %' is a number with '%'"),
        ("a,b\n(5),x\n(7),y\n3,z\n", "'a', row 0: .*minus sign"),
        ("a,b\n" + "".join(f"{i} kg,x\n" for i in range(30)), "number with 'kg'"),
        ("a,b\n5,x\n6,y\n-,z\n", "'a', row 2: '-' is not a number; leave the cell empty.*--categories"),
        ("a,b\n5,x\nunknown,y\n7,z\n", "'a', row 1: 'unknown' is not a number"),
        ("a,b\nunknown,x\nunknown,y\nunknown,y\n7,z\n", "'a', row 0: 'unknown'"),  # half of the different cells
    ],
)
def test_what_is_nearly_numbers_is_refused(tmp_path: Path, content: str, message: str) -> None:
    assert re.search(message, refusal(tmp_path, content))


@pytest.mark.parametrize("cells", [["1", "2", "3+"], ["2020-01-01", "never"], ["5 %", "6 %"]])
def test_what_is_declared_is_categories(tmp_path: Path, cells: list[str]) -> None:
    content = "a,b\n" + "".join(f"{cell},1\n" for cell in cells)
    refusal(tmp_path, content)
    assert table(tmp_path, content, categories=["a"])["a"].tolist() == cells
    schema = Schema(features=(Categorical(name="a"), Numeric(name="b")))
    assert table(tmp_path, content, schema=schema)["a"].tolist() == cells


def test_codes_keep_their_zeros(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"zip,account,n\n01234,{2**64},1\n98765,7,2\n")
    frame, notes = read(path)
    assert frame["zip"].tolist() == ["01234", "98765"]
    assert frame["account"].tolist() == [str(2**64), "7"]
    assert frame["n"].dtype == np.int64
    assert any("'zip', 'account'" in note for note in notes)


def test_missing_cells(tmp_path: Path) -> None:
    frame = table(tmp_path, "a,b,c\n1,x,true\nn/a,,false\n,NA,\n")
    assert frame["a"].isna().tolist() == [False, True, True]
    assert frame["b"].isna().tolist() == [False, True, True]
    assert frame["c"].tolist()[:2] == [True, False]
    assert frame["c"].isna().tolist() == [False, False, True]


def test_what_was_recognised_is_said(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("größe;seit\n1.234,5;31.12.2024\n2,5;01.02.2024\n".encode("latin-1"))
    notes = " ".join(read(path)[1])
    assert "Windows-1252" in notes
    assert "decimal comma, digits grouped by '.' in 'größe'" in notes
    assert "day first in 'seit'" in notes
    path.write_text("a,b\n1.5,x\n")
    assert read(path)[1] == []


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.sampled_from(FORMATS))
def test_no_reading_is_lost(values: list[float], form: NumberFormat) -> None:
    """Whatever else the cells may be, what was written is among it."""
    cells = [number_text(v, form) for v in values]
    assert any(reading.values.tolist() == values for reading in readings(cells))


# -- dates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2024-12-31", "2024-01-02"], ["2024-12-31", "2024-01-02"]),
        (["2024-12-31 10:30", "2024-01-02T00:00:01"], ["2024-12-31 10:30", "2024-01-02 00:00:01"]),
        (["2024/12/31", "2024/1/2"], ["2024-12-31", "2024-01-02"]),
        (["31.12.2024", "02.01.2024"], ["2024-12-31", "2024-01-02"]),
        (["12/31/2024", "1/2/2024"], ["2024-12-31", "2024-01-02"]),
        (["12/31/2024 9:05", "1/2/2024"], ["2024-12-31 09:05", "2024-01-02"]),
        (["2024-12-31T00:00:00Z", "2024-01-02T01:00:00+01:00"], ["2024-12-31T00:00Z", "2024-01-02T00:00Z"]),
    ],
)
def test_dates(tmp_path: Path, cells: list[str], expected: list[str]) -> None:
    found = table(tmp_path, "a,b\n" + "".join(f"{cell},1\n" for cell in cells) + ",2\n")["a"]
    assert found.iloc[:2].tolist() == [pd.Timestamp(e) for e in expected]
    assert found.isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["03/04/2024", "05/06/2024"], "'a', row 0: '03/04/2024' may be day and month.*2024-12-31"),
        (["03.04.2024", "05.06.2024"], "'a', row 0"),
        (["31.12.2024", "12.31.2024"], "not written alike"),
        (["31.12.24", "01.01.24"], "'a', row 0: '31.12.24' is not a date that can be read"),
        (["31 Dec 2024", "1 Jan 2025"], "'a', row 0: '31 Dec 2024' is not a date"),
        (["2024-12-31", "soon"], "'a', row 1: 'soon' is not a date"),
        (["2024-02-31", "2024-01-01"], "'a', row 0: '2024-02-31' is no day that there is"),
        (["2024-12-31T00:00Z", "2024-12-31"], "'a', row 1: .* no time zone"),
    ],
)
def test_dates_that_are_not_clear_are_refused(tmp_path: Path, cells: list[str], message: str) -> None:
    assert re.search(message, refusal(tmp_path, "a,b\n" + "".join(f"{cell},1\n" for cell in cells)))


def test_text_of_a_date_feature_is_never_guessed() -> None:
    frame = pd.DataFrame({"since": pd.to_datetime(["2024-03-01", "2024-12-31"])})
    schema = Schema.infer(frame)
    assert schema.encode(pd.DataFrame({"since": ["2024-03-01"]})).tolist() == schema.encode(frame[:1]).tolist()
    with pytest.raises(GraceError, match=r"'since', row 0: '01/03/2024' is not a date; write it as 2020-12-31"):
        schema.encode(pd.DataFrame({"since": ["01/03/2024"]}))


# -- the schema decides --------------------------------------------------------------------------------

KNOWN = Schema(
    features=(
        Numeric(name="x", low=0, high=9),
        Categorical(name="code", categories=("01", "02")),
        Categorical(name="level", categories=(1, 2)),
        Categorical(name="none", categories=("None", "some")),
        Categorical(name="flag", categories=(False, True)),
    ),
    target="y",
)


def test_a_known_schema_decides_the_types(tmp_path: Path) -> None:
    head = "id;x;code;level;none;flag;y\n"
    frame = table(tmp_path, head + "007;1,5; 01;1;None;TRUE;a\n008;2,5;02;2.0;some;false;1\n", schema=KNOWN)
    assert frame["x"].tolist() == [1.5, 2.5]
    assert frame["code"].tolist() == ["01", "02"]
    assert frame["level"].tolist() == [1, 2]
    assert frame["none"].tolist() == ["None", "some"]
    assert frame["flag"].tolist() == [True, False]
    assert frame["id"].tolist() == ["007", "008"]
    assert KNOWN.encode(frame).tolist() == [[1.5, 0, 0, 0, 1], [2.5, 1, 1, 1, 0]]


def test_a_number_of_a_known_schema_has_to_be_one(tmp_path: Path) -> None:
    rest = ";01;1;some;true\n"
    head = "x;code;level;none;flag\n"
    message = refusal(tmp_path, f"{head}much{rest}", schema=KNOWN)
    assert "'x', row 0: 'much' is not a number; leave the cell empty" in message
    assert "--categories" not in message  # the schema has decided
    assert "number with '%'" in refusal(tmp_path, f"{head}5%{rest}", schema=KNOWN)
    assert "may be 1.234 or 1234" in refusal(tmp_path, f"{head}1,234{rest}", schema=KNOWN)


def test_columns_beside_the_schema_stay_as_they_are_written(tmp_path: Path) -> None:
    content = "id,price,since,x\n4711,€ 5,03/04/2024,1\n4712,n/a,1.50,2\n"
    frame = table(tmp_path, content, schema=Schema(features=(Numeric(name="x"),)))
    assert frame["id"].tolist() == [4711, 4712]
    assert frame["price"].tolist()[0] == "€ 5"
    assert frame["since"].tolist() == ["03/04/2024", "1.50"]
    assert "'price'" in refusal(tmp_path, content, schema=Schema(features=(Numeric(name="x"),)), used=["price"])


def test_known_columns_tell_the_separator(tmp_path: Path) -> None:
    content = "price, EUR;area, m2\n1,5;2,5\n"
    assert "comma and by semicolon" in refusal(tmp_path, content)
    schema = Schema(features=(Numeric(name="price, EUR"), Numeric(name="area, m2")))
    assert table(tmp_path, content, schema=schema).iloc[0].tolist() == [1.5, 2.5]


# -- files ---------------------------------------------------------------------------------------------


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,b\n\n\n", "has no rows"),
        (b"a,a\n1,2\n", "column 'a' occurs twice; rename"),
        (b"a, a\n1,2\n", "column 'a' occurs twice"),
        (b"a,b\n1,2\n3\n", "row 1: the line has 1 cells instead of 2"),
        (b"a,b\n1,2\n3,4,5\n", "row 1: the line has 3 cells instead of 2"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "line 3: a quotation mark is opened and not closed"),
        (b'a,b\n1,"' + b"x" * 200_000, "line 2: a quotation mark is opened and not closed"),
        (b'a,b\n1,"x"y\n', "line 2: text follows a closing quotation mark"),
        (b"a,b\n1,\x00\n", "NUL"),
        ("a,b\n1,2\n".encode("utf-16-le"), "NUL"),
        (b"a,b\n1,\x81\n", "neither UTF-8 nor Windows-1252"),
        (b"\xd0\xcf\x11\xe0" + bytes(99), "old Excel workbook; save it as CSV"),
        (zipped(xl__workbook="x"), "workbook.*save it as CSV"),
        (zipped(a="a,b\n1,2\n", b="a\n1\n"), "holds 2 files; unpack"),
        (b"PK\x03\x04broken", "cannot be unpacked"),
        (gzip.compress(b"a,b\n1,2\n")[:-9], "cannot be unpacked"),
        (b'{"a": 1}', "JSON"),
        (b"<html>", "HTML"),
        (b"\xff\xfea", "utf-16"),
        (b"PAR1 and no more", "cannot be read as a table"),
    ],
    ids=lambda part: part if isinstance(part, str) else "bytes",
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    assert re.search(message, refusal(tmp_path, content))


def test_other_ways_to_write_a_table(tmp_path: Path) -> None:
    plain = pd.DataFrame({"a": [1, 3], "b": [2, 4]})
    for content in ("sep=;\na;b\n1;2\n3;4\n", "a,b,\n1,2,\n3,4,\n", "a,b\r1,2\r3,4\r", " a , b\n1, 2\n\n 3,4\n"):
        pd.testing.assert_frame_equal(table(tmp_path, content), plain)
    pd.testing.assert_frame_equal(table(tmp_path, zipped(table="a,b\n1,2\n3,4\n"), "table.zip"), plain)
    pd.testing.assert_frame_equal(table(tmp_path, "a\tb\n1\t2\n3\t4\n", "table.tsv"), plain)
    assert list(table(tmp_path, ",a\n0,1\n1,3\n").columns) == ["Unnamed: 0", "a"]


def test_parquet_rows_are_numbered_from_zero(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index([7, 8, 9], name="customer"))
    frame.to_parquet(tmp_path / "named.parquet")
    found = read(tmp_path / "named.parquet")[0]
    assert found.index.tolist() == [0, 1, 2]
    assert found["customer"].tolist() == [7, 8, 9]
    frame.rename_axis(None).to_parquet(tmp_path / "bare.parquet")
    assert list(read(tmp_path / "bare.parquet")[0].columns) == ["a"]
    (tmp_path / "odd.csv").write_bytes((tmp_path / "bare.parquet").read_bytes())
    assert read(tmp_path / "odd.csv")[0]["a"].tolist() == [1, 2, 3]


def test_parquet_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(GraceError, match="column 'a' occurs twice"):
        read(tmp_path / "twice.parquet")
