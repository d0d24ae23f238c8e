"""Files that are written as a whole or not at all, and their SHA-256."""

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
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; when the block ends without an error, the file replaces `path`."""
    fresh = path.with_name(f".{path.name}.part")
    try:
        yield fresh
        fresh.replace(path)
    except (OSError, ImportError) as error:
        raise GraceError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def write_text(path: Path, content: str) -> None:
    """Write a text file as a whole."""
    with replacing(path) as fresh:
        fresh.write_text(content, encoding="utf-8")


def write_durably(path: Path, *content: Any) -> None:
    """Write a file so that it is there as a whole or not at all, even if the power fails."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        try:
            with fresh.open("wb") as stream:
                for block in content:
                    stream.write(block)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)  # what is left of it would only fill the disk
            raise
        flush_folder(path.parent)
    except OSError as reason:
        raise GraceError(f"{path} cannot be written: {reason.strerror}") from reason


def remove(path: Path) -> None:
    """Remove a file for good."""
    try:
        if path.exists():
            path.unlink()
            flush_folder(path.parent)
    except OSError as reason:
        raise GraceError(f"{path} cannot be removed: {reason.strerror}") from reason


def flush_folder(folder: Path) -> None:
    """Have the disk keep which files the folder has."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def hash_of_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    found = hash_if_exists(path)
    if found is None:
        raise GraceError(f"{path} cannot be read: {os.strerror(errno.ENOENT)}")
    return found


def hash_if_exists(path: Path) -> str | None:
    """The SHA-256 of a file, in hexadecimal; None if there is no such file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as reason:
        raise GraceError(f"{path} cannot be read: {reason.strerror}") from reason


FORMULA = re.compile(r"[\s\x00'\"]*[=+\-@＝＋－＠\t\r\n]")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def defused(cell: Any) -> Any:
    """A cell of a CSV file, with an apostrophe in front if it is text that would start a formula."""
    return f"'{cell}" if isinstance(cell, str) and _starts_formula(cell) else cell


def restored(text: str) -> str:
    """The text that `defused` was given."""
    return text[1:] if text.startswith("'") and _starts_formula(text[1:]) else text


def defused_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A table to write as CSV: cells, column names and row labels without formulas."""
    from pandas.api.types import is_numeric_dtype

    out = frame.set_axis([defused(column) for column in frame.columns], axis=1)
    for j, dtype in enumerate(frame.dtypes):
        if not is_numeric_dtype(dtype):
            out.isetitem(j, frame.iloc[:, j].map(defused, na_action="ignore").array)
    if not is_numeric_dtype(frame.index.dtype):
        out.index = out.index.map(defused)
    return out


def _starts_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None
