"""CSV files of jobs: the dialects that are streamed, and those that are refused with the remedy."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from grace import GraceError
from grace.schema.tables.table_file import TableFile

TEXT = "a{0}b\n1{0}ä\n2\n3{0}ö\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress], ids=["plain", "gzip", "bzip2"])
def test_dialects_are_streamed(tmp_path: Path, separator: str, encoding: str, pack: type[bytes]) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(pack(TEXT.format(separator).encode(encoding)))
    table = TableFile.of(path)
    table.need(["a", "b"])
    assert table.columns() == ["a", "b"]
    assert table.fingerprint()[1] >= 3
    (part,) = table.parts(10, ["a", "b"])
    assert part.rows is not None
    assert part.rows["a"].to_pylist() == [b"1", b"3"]
    assert part.rows["b"].to_pylist() == ["ä".encode(), "ö".encode()]
    assert part.rows["__row__"].to_pylist() == [0, 2]
    assert [lost.row for lost in part.lost] == [1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b,a\n1,2,3\n", "'a' occurs twice"),
        (b"a;b\n1,5;x\n", "column 'a' are written with decimal comma.*convert the table to Parquet"),
        (b'a,b\n"1,234.5",x\n', "digits grouped by ','.*convert the table to Parquet"),
        (b"a;b\n1.234;x\n", "'1.234' may be 1.234 or 1234"),
        (b"sep=;\na;b\n1;x\n", "take out the line 'sep=;'"),
        (lzma.compress(b"a,b\n1,2\n"), "unpack it, or convert"),
        (gzip.compress(b"a,b\n1,2\n" * 9)[:-12], "cannot be unpacked"),
        (b"a,b\n1,\x00\n", "NUL"),
        (b"", "is empty"),
    ],
    ids=lambda part: part if isinstance(part, str) else "bytes",
)
def test_what_a_job_does_not_read_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(GraceError, match=message):
        TableFile.of(path).need(["a", "b"])
