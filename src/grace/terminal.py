"""What the command shows on the screen and how it reads and writes files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from grace.errors import GraceError

if TYPE_CHECKING:
    import pandas as pd

    from grace.batch import Explanations
    from grace.explanation import Explanation


def show(console: Console, e: Explanation) -> None:
    """The changed features as a table, and the sentence."""
    from grace import text

    if e.changes:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("feature")
        table.add_column("is", justify="right")
        table.add_column("would be", justify="right")
        for change in e.changes:
            old, new = text.value(change.feature, change.old), text.value(change.feature, change.new)
            table.add_row(Text(text.phrase(change.feature)), Text(old), Text(new, style="bold"))
        console.print(table)
        console.print()
    console.print(e.text(), highlight=False, markup=False, soft_wrap=True)
    for other in e.alternatives:
        console.print(f"Or: {other.text()}", highlight=False, markup=False, soft_wrap=True)
    for note in e.notes:
        console.print(f"Note: {note}.", style="dim", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def training_bar(console: Console, title: str) -> Iterator[Any]:
    columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[loss]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None, loss="")

        def progress(epoch: int, most: int, loss: float) -> None:
            bar.update(task, total=most, completed=epoch, loss=f"loss {loss:.4f}")

        yield progress
        bar.update(task, total=1, completed=1)


def read_table(path: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(path) if Path(path).suffix == ".parquet" else pd.read_csv(path)
    except (ValueError, OSError, ImportError) as error:
        raise GraceError(f"{path} cannot be read as a table: {error}") from error


def write_batch(batch: Explanations, path: Path) -> None:
    if path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in batch.to_dicts()))
        return
    fresh = path.with_name(f".{path.name}.part")
    try:
        frame = batch.to_frame()
        if path.suffix == ".csv":
            frame.to_csv(fresh, index_label="row")
        else:
            frame.to_parquet(fresh)
        fresh.replace(path)
    except (OSError, ImportError) as error:
        raise GraceError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def write_text(path: Path, content: str) -> None:
    fresh = path.with_name(f".{path.name}.part")
    try:
        fresh.write_text(content, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise GraceError(f"{path} cannot be written: {error.strerror}") from error


def write_picture(e: Explanation, path: Path) -> None:
    """An SVG is made here; any other format by matplotlib."""
    if path.suffix == ".svg":
        write_text(path, e.to_svg())
        return
    fresh = path.with_name(f".{path.name}.part")
    try:
        e.plot().savefig(fresh, format=path.suffix[1:], dpi=200)
        fresh.replace(path)
    except OSError as error:
        raise GraceError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        fresh.unlink(missing_ok=True)


def domain_of(said: str) -> str | float:
    try:
        return float(said)
    except ValueError:
        return said


def label_of(said: str, classes: tuple[Any, ...]) -> Any:
    """The class that was typed, whatever its type."""
    return next((c for c in classes if str(c) == said), said)
