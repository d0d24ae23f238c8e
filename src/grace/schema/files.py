"""Atomic file writes, SHA-256 of files, and CSV cells without spreadsheet formulas."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces `path` when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        yield temporary
        temporary.replace(path)
    except (OSError, ImportError) as error:
        raise GraceError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, content: str) -> None:
    """Write a text file atomically."""
    with atomic_replace(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def write_durably(path: Path, *content: Any) -> None:
    """Write a file atomically, also in case of a power failure."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        try:
            with temporary.open("wb") as stream:
                for block in content:
                    stream.write(block)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        flush_folder(path.parent)
    except OSError as reason:
        raise GraceError(f"{path} cannot be written: {reason.strerror}") from reason


def remove(path: Path) -> None:
    """Remove a file durably."""
    try:
        if path.exists():
            path.unlink()
            flush_folder(path.parent)
    except OSError as reason:
        raise GraceError(f"{path} cannot be removed: {reason.strerror}") from reason


def flush_folder(folder: Path) -> None:
    """Flush a directory to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_of_file(path: Path) -> str:
    """The hexadecimal SHA-256 of a file."""
    digest = hash_if_exists(path)
    if digest is None:
        raise GraceError(f"{path} cannot be read: {os.strerror(errno.ENOENT)}")
    return digest


def hash_if_exists(path: Path) -> str | None:
    """The hexadecimal SHA-256 of a file; None if it does not exist."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as reason:
        raise GraceError(f"{path} cannot be read: {reason.strerror}") from reason


FORMULA = re.compile(r"[\s\x00'\"]*[=+\-@＝＋－＠\t\r\n]")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def escape_formula(cell: Any) -> Any:
    """A CSV cell, with a leading apostrophe if a spreadsheet would interpret its text as a formula."""
    return f"'{cell}" if isinstance(cell, str) and _starts_formula(cell) else cell


def unescape_formula(text: str) -> str:
    """The inverse of `escape_formula`."""
    return text[1:] if text.startswith("'") and _starts_formula(text[1:]) else text


def escape_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """A table to write as CSV, with cells, column names and row labels escaped."""
    from pandas.api.types import is_numeric_dtype

    out = frame.set_axis([escape_formula(column) for column in frame.columns], axis=1)
    for j, dtype in enumerate(frame.dtypes):
        if not is_numeric_dtype(dtype):
            out.isetitem(j, frame.iloc[:, j].map(escape_formula, na_action="ignore").array)
    if not is_numeric_dtype(frame.index.dtype):
        out.index = out.index.map(escape_formula)
    return out


def _starts_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None
