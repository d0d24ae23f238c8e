"""CSV files: compression, encoding, separator and header are detected, or refused with an error that names the remedy.

Cells stay text; `grace.schema.tables.text_columns` types them. `CsvFile` is read in blocks, `content_of` as a whole.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from grace.errors import GraceError
from grace.schema.frames import no_duplicates
from grace.schema.tables.text_columns import Columns, TextColumn

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
BYTE_ORDER_MARKS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WINDOWS = "cp1252"  # a superset of the printable characters of latin-1
GZIP, BZIP2, XZ, ZIP = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"PK\x03\x04"
PARQUET, OLD_EXCEL = b"PAR1", b"\xd0\xcf\x11\xe0"
MAX_HEADER = 1 << 22  # characters
SAVE = "save it as CSV (UTF-8) or Parquet"
FIRST_BLOCK = 1 << 20  # bytes from which the dialect is detected
CONVERT = "convert the table to Parquet"
MARKUP = ("<!doctype", "<html", "<?xml", "<table", "<!--")
MARKUP_LENGTH = max(map(len, MARKUP))


@dataclass(frozen=True)
class Dialect:
    """Encoding and separator of delimited text."""

    encoding: str
    separator: str
    skipped: int = 0
    """Lines before the header: 1 where a line such as `sep=;` names the separator."""


def content_of(path: Path) -> bytes:
    """The bytes of a file, decompressed according to its magic number."""
    try:
        content = path.read_bytes()
    except OSError as reason:
        raise GraceError(f"{path} cannot be read: {reason.strerror}") from reason
    try:
        for magic, unpack in ((GZIP, gzip.decompress), (BZIP2, bz2.decompress), (XZ, lzma.decompress)):
            if content.startswith(magic):
                return unpack(content)
        return _unzipped(path, content) if content.startswith(ZIP) else content
    except (OSError, EOFError, ValueError, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as e:
        raise GraceError(f"{path} cannot be unpacked: {e or 'the file is cut off'}; compress it anew") from e


def _unzipped(path: Path, content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [n for n in archive.namelist() if not n.endswith("/")]
        if any(n.startswith(("xl/", "word/")) or n == "mimetype" for n in names):
            raise GraceError(f"{path} is a workbook, not a table of text: {SAVE}")
        if len(names) != 1:
            raise GraceError(f"{path} holds {len(names)} files; unpack it, and give one of them")
        return archive.read(names[0])


def decode_text(path: Path, content: bytes) -> tuple[str, str]:
    """The text of a file and its encoding: by its byte order mark, else UTF-8, else Windows-1252."""
    encoding = next((name for mark, name in BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as reason:
        if encoding != "utf-8":
            raise GraceError(f"{path} is not the {encoding} that its first bytes announce: {SAVE}") from reason
        encoding, text = WINDOWS, ""
    if b"\x00" in content and encoding in ("utf-8", "utf-8-sig", WINDOWS):
        what = "an old Excel workbook" if content.startswith(OLD_EXCEL) else "no table of text: it holds NUL bytes"
        raise GraceError(f"{path} is {what}; {SAVE}")
    if encoding == WINDOWS:
        try:
            text = content.decode(WINDOWS)
        except UnicodeDecodeError as reason:
            raise GraceError(f"{path} is neither UTF-8 nor Windows-1252 (latin-1): {SAVE}") from reason
    text = text.removeprefix("\ufeff")
    if "\x00" in text:
        raise GraceError(f"{path} is no table of text: it holds NUL characters; {SAVE}")
    return text, encoding


def dialect_of(path: Path, text: str, encoding: str, known: Sequence[str] = ()) -> Dialect:
    """The dialect of a text; `known`, columns that it should have, decide if the header is ambiguous."""
    start = text.lstrip()[:MARKUP_LENGTH].lower()
    if not start:
        raise GraceError(f"{path} is empty: there is neither a header nor a row")
    if start.startswith(("{", "[", *MARKUP)):
        kind = "JSON" if start[0] in "{[" else "HTML or XML"
        raise GraceError(f"{path} looks like {kind}, not like a table: {SAVE}")
    first = text.split("\n", 1)[0].rstrip("\r")
    if first[:4].lower() == "sep=" and first[4:] in SEPARATORS:  # written by Excel
        return Dialect(encoding, first[4:], 1)
    headers = {separator: _header(path, text[:MAX_HEADER], separator) for separator in SEPARATORS}
    splitting = [separator for separator, names in headers.items() if len(names) > 1]
    if len(splitting) == 1:
        return Dialect(encoding, splitting[0])
    if splitting and known:
        fitting = [separator for separator in splitting if set(known) <= set(headers[separator])]
        if len(fitting) == 1:
            return Dialect(encoding, fitting[0])
    rectangular = [s for s in splitting or SEPARATORS if _is_rectangular(path, text, Dialect(encoding, s))]
    if len(rectangular) > 1 and splitting:
        names = " and by ".join(SEPARATORS[separator] for separator in rectangular)
        raise GraceError(
            f"{path} can be read as separated by {names}; put quotation marks around names and cells that hold such a "
            "sign, or convert the table to Parquet"
        )
    return Dialect(encoding, (rectangular or splitting or [","])[0])


def _header(path: Path, text: str, separator: str) -> list[str]:
    """The column names in the first line; none if its quotation marks do not fit the separator."""
    try:
        return [name.strip() for name in next(records(path, text, Dialect("", separator)), [])]
    except GraceError:
        return []


def _is_rectangular(path: Path, text: str, dialect: Dialect) -> bool:
    """Whether all lines have the same number of cells."""
    try:
        widths = {len(cells) for cells in records(path, text, dialect)}
    except GraceError:
        return False
    return len(widths) == 1


def records(path: Path, text: str, dialect: Dialect) -> Iterator[list[str]]:
    """The cells of each line that is not blank."""
    stream = io.StringIO(text, newline="")
    for _ in range(dialect.skipped):
        stream.readline()
    reader = csv.reader(stream, delimiter=dialect.separator, strict=True)
    while True:
        line = reader.line_num + 1 + dialect.skipped
        try:
            cells = next(reader, None)
        except csv.Error as reason:
            if "end of data" in str(reason) or "field larger" in str(reason):
                wrong = "a quotation mark is opened and not closed; close it, or double it where it belongs to the cell"
            else:
                wrong = "text follows a closing quotation mark; double quotation marks that belong to a cell"
            raise GraceError(f"{path}, line {line}: {wrong}") from reason
        if cells is None:
            return
        if cells:
            yield cells


def named_columns(path: Path, header: Sequence[str]) -> list[str]:
    """The names of a header; empty ones are named as by pandas."""
    names = [name.strip() or f"Unnamed: {i}" for i, name in enumerate(header)]
    no_duplicates(names, f"{path}: column")
    return names


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, plain or compressed by gzip or bzip2; its dialect is detected from its first block, once."""

    path: Path

    @cached_property
    def _opener(self) -> Callable[[Path], IO[bytes] | gzip.GzipFile]:
        with self.path.open("rb") as stream:
            magic = stream.read(6)
        if magic.startswith((XZ, ZIP)):
            raise GraceError(f"{self.path}: a job does not unpack .zip or .xz; unpack it, or {CONVERT}")
        if magic.startswith(GZIP):
            return gzip.open
        return bz2.open if magic.startswith(BZIP2) else lambda path: path.open("rb")

    def open(self) -> IO[bytes] | gzip.GzipFile:
        """A stream of the decompressed bytes."""
        try:
            return self._opener(self.path)
        except OSError as reason:
            raise GraceError(f"{self.path} cannot be read: {reason.strerror or reason}") from reason

    @property
    def compressed(self) -> bool:
        return self._opener in (gzip.open, bz2.open)

    @property
    def dialect(self) -> Dialect:
        return self._first_block[1]

    def columns(self) -> list[str]:
        text, dialect = self._first_block
        raw = next(records(self.path, text, dialect), [])
        named_columns(self.path, raw)
        return raw

    def check_numbers(self, names: Sequence[str]) -> None:
        """Raises an error if numbers in the first block are not written as 1234.5: parts of a job are parsed
        separately, and a single row does not show whether its comma is a decimal one."""
        text, dialect = self._first_block
        lines = records(self.path, text, dialect)
        columns = next(lines)
        try:
            cells = [line for line in islice(lines, FIRST_BLOCK) if len(line) == len(columns)]
        except GraceError:  # the block ends within a quoted cell
            return
        texts = {
            name: pd.Series([line[j] for line in cells], dtype="str") for j, name in enumerate(columns) if name in names
        }
        table = Columns({n: TextColumn.of(n, c) for n, c in texts.items()}, dialect.separator, list(texts))
        for column in table.columns.values():
            try:
                if column.readings:
                    table.numbers(column)
            except GraceError as reason:
                raise GraceError(f"{self.path}: {reason}") from reason
        for form, columns in table.formats.items():
            raise GraceError(
                f"{self.path}: numbers of column {columns[0]!r} are written with {form}, which a job does not read; "
                f"{CONVERT}"
            )

    @cached_property
    def _first_block(self) -> tuple[str, Dialect]:
        """The text of the first block, up to the end of a line, and its dialect."""
        path = self.path
        try:
            with self.open() as stream:
                block = stream.read(FIRST_BLOCK)
        except (OSError, EOFError) as reason:
            raise GraceError(f"{path} cannot be unpacked: {reason}; compress it anew, or {CONVERT}") from reason
        cut = block
        if len(block) == FIRST_BLOCK:  # cut at a line end, not inside a character
            end = block.rfind(b"\n")
            wide = block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
            cut = block if wide or end < 0 else block[: end + 1]
        text, encoding = decode_text(path, cut)
        dialect = dialect_of(path, text, encoding)
        if dialect.skipped:
            raise GraceError(f"{path}: take out the line {text.splitlines()[0]!r} above the header, or {CONVERT}")
        return text, dialect


def read_options(dialect: Dialect, block: int) -> tuple[Any, str]:
    """The read options of pyarrow, and the separator."""
    from pyarrow import csv

    encoding = "utf8" if dialect.encoding in ("utf-8", "utf-8-sig") else dialect.encoding
    return csv.ReadOptions(use_threads=False, block_size=block, encoding=encoding), dialect.separator
