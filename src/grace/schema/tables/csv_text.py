"""Delimited text as people save it: compression, encoding, separator and quotes are recognised, or refused with the
remedy. Cells stay text; `grace.schema.tables.text_columns` types them.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grace.errors import GraceError
from grace.schema.frames import no_duplicates

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
MARKS = (  # the longer first: that of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WINDOWS = "cp1252"  # latin-1 with quotation marks and the euro sign where latin-1 has control characters
GZIP, BZIP2, XZ, ZIP = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"PK\x03\x04"
PARQUET, OLD_EXCEL = b"PAR1", b"\xd0\xcf\x11\xe0"
HEADER = 1 << 22  # characters in which the header has to end
SAVE = "save it as CSV (UTF-8) or Parquet"


MARKUP = ("<!doctype", "<html", "<?xml", "<table", "<!--")
MARKUP_LENGTH = max(map(len, MARKUP))


@dataclass(frozen=True)
class Dialect:
    """How a table is written as text."""

    encoding: str
    separator: str
    skipped: int = 0
    """Lines before the header: 1 where a line such as `sep=;` names the separator."""


def content_of(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is compressed, whatever its name says."""
    try:
        packed = path.read_bytes()
    except OSError as reason:
        raise GraceError(f"{path} cannot be read: {reason.strerror}") from reason
    try:
        for magic, unpack in ((GZIP, gzip.decompress), (BZIP2, bz2.decompress), (XZ, lzma.decompress)):
            if packed.startswith(magic):
                return unpack(packed)
        return _unzipped(path, packed) if packed.startswith(ZIP) else packed
    except (OSError, EOFError, ValueError, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as e:
        raise GraceError(f"{path} cannot be unpacked: {e or 'the file is cut off'}; compress it anew") from e


def _unzipped(path: Path, packed: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        names = [n for n in archive.namelist() if not n.endswith("/")]
        if any(n.startswith(("xl/", "word/")) or n == "mimetype" for n in names):
            raise GraceError(f"{path} is a workbook, not a table of text: {SAVE}")
        if len(names) != 1:
            raise GraceError(f"{path} holds {len(names)} files; unpack it, and give one of them")
        return archive.read(names[0])


def decoded(path: Path, content: bytes) -> tuple[str, str]:
    """The text of a file and its encoding: that of its byte order mark, UTF-8, or else Windows-1252."""
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "utf-8")
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
    """The dialect of a text; `known` are columns that it should have, which decide where the header alone does not."""
    start = text.lstrip()[:MARKUP_LENGTH].lower()
    if not start:
        raise GraceError(f"{path} is empty: there is neither a header nor a row")
    if start.startswith(("{", "[", *MARKUP)):
        kind = "JSON" if start[0] in "{[" else "HTML or XML"
        raise GraceError(f"{path} looks like {kind}, not like a table: {SAVE}")
    first = text.split("\n", 1)[0].rstrip("\r")
    if first[:4].lower() == "sep=" and first[4:] in SEPARATORS:  # as Excel writes it
        return Dialect(encoding, first[4:], 1)
    heads = {mark: _header(path, text[:HEADER], mark) for mark in SEPARATORS}
    split = [mark for mark, names in heads.items() if len(names) > 1]
    if len(split) == 1:
        return Dialect(encoding, split[0])
    if split and known:
        fitting = [mark for mark in split if set(known) <= set(heads[mark])]
        if len(fitting) == 1:
            return Dialect(encoding, fitting[0])
    even = [mark for mark in split or SEPARATORS if _is_even(path, text, Dialect(encoding, mark))]
    if len(even) > 1 and split:
        names = " and by ".join(SEPARATORS[mark] for mark in even)
        raise GraceError(
            f"{path} can be read as separated by {names}; put quotation marks around names and cells that hold such a "
            "sign, or convert the table to Parquet"
        )
    return Dialect(encoding, (even or split or [","])[0])


def _header(path: Path, text: str, separator: str) -> list[str]:
    """The names that the first line holds; none where its quotation marks do not go with the separator."""
    try:
        return [name.strip() for name in next(records(path, text, Dialect("", separator)), [])]
    except GraceError:
        return []


def _is_even(path: Path, text: str, dialect: Dialect) -> bool:
    """Whether all lines have equally many cells."""
    try:
        widths = {len(cells) for cells in records(path, text, dialect)}
    except GraceError:
        return False
    return len(widths) == 1


def records(path: Path, text: str, dialect: Dialect) -> Iterator[list[str]]:
    """The lines as cells, without blank ones."""
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
    """The names of a header; those without one are called as pandas does."""
    names = [name.strip() or f"Unnamed: {i}" for i, name in enumerate(header)]
    no_duplicates(names, f"{path}: column")
    return names
