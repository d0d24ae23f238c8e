"""What the command shows on the screen and how it reads and writes files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from grace.errors import GraceError
from grace.parsing import read_text

if TYPE_CHECKING:
    import pandas as pd

    from grace.batch import Explanations
    from grace.explanation import Explanation
    from grace.schema import Schema
    from grace.text import Saying


STYLES = ("exact", "magnitude", "relative", "auto")
FORMS = ("had", "because", "typical")


def saying(command: Callable[..., None]) -> Callable[..., None]:
    """Options for how an explanation is said, given to the command as `how`."""

    @click.option("--style", type=click.Choice(STYLES), help="How precisely a difference is said.")
    @click.option("--template", type=click.Choice(FORMS), help="Had ...; because ...; beside what is typical.")
    @click.option("--language", metavar="CODE", help="The language of the sentence, such as en or de.")
    @click.option("--seed", type=int, default=0, help="Draw the words of the template by this number.")
    @click.option("--hedge", is_flag=True, help="Say how sure the model is.")
    @wraps(command)
    def wrapped(
        style: str | None, template: str | None, language: str | None, seed: int, hedge: bool, **rest: Any
    ) -> None:
        from grace import languages

        if language is not None:
            languages.load(language)
        how = {"style": style, "template": template, "language": language, "seed": seed, "hedge": hedge}
        command(how=how, **rest)

    return wrapped


def show(console: Console, e: Explanation, **how: Unpack[Saying]) -> None:
    """The changed features as a table, and the sentence."""
    from grace import languages, text

    own = e.words.language
    code = how.get("language") or own
    heads = languages.load(code).SCREEN
    if e.changes:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(heads["feature"])
        table.add_column(heads["is"], justify="right")
        table.add_column(heads["would"], justify="right")
        for change in e.changes:
            old, new = (text.value(change.feature, cell, code, own) for cell in (change.old, change.new))
            table.add_row(Text(text.phrase(change.feature, code, own)), Text(old), Text(new, style="bold"))
        for change in e.follow_on:
            old, new = (text.value(change.feature, cell, code, own) for cell in (change.old, change.new))
            table.add_row(Text(f"{text.phrase(change.feature, code, own)} ({heads['along']})", "dim"), old, new)
        console.print(table)
        console.print()
    console.print(e.text(**how), highlight=False, markup=False, soft_wrap=True)
    for other in e.alternatives:
        console.print(f"{heads['or']}{other.text(**how)}", highlight=False, markup=False, soft_wrap=True)
    for note in text.notes(e, code):
        console.print(f"{heads['note']}{note}.", style="dim", highlight=False, markup=False, soft_wrap=True)


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


def read_schema(path: str) -> Schema:
    from grace.schema import Schema

    try:
        return Schema.from_json(read_text(Path(path)))
    except GraceError as error:
        raise GraceError(f"{path}: {error}") from error


def write_batch(batch: Explanations, path: Path, **how: Unpack[Saying]) -> None:
    if path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in batch.to_dicts(**how)))
        return
    from grace.spreadsheets import defused_frame

    with whole(path) as fresh:
        frame = batch.to_frame(**how)
        if path.suffix == ".csv":
            defused_frame(frame).to_csv(fresh, index_label="row")
        else:
            frame.to_parquet(fresh)


def write_text(path: Path, content: str) -> None:
    with whole(path) as fresh:
        fresh.write_text(content, encoding="utf-8")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write a file, so that it is there whole or as it was before."""
    fresh = path.with_name(f".{path.name}.part")
    try:
        yield fresh
        fresh.replace(path)
    except (OSError, ImportError) as error:
        raise GraceError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def write_picture(e: Explanation, path: Path) -> None:
    """An SVG is made here; any other format by matplotlib."""
    if path.suffix == ".svg":
        write_text(path, e.to_svg())
        return
    with whole(path) as fresh:
        e.plot().savefig(fresh, format=path.suffix[1:], dpi=200)


def domain_of(said: str) -> str | float:
    try:
        return float(said)
    except ValueError:
        return said


def label_of(said: str, task: str, classes: Sequence[Any]) -> Any:
    """The class that was typed, whatever its type; of a number, what it should have been."""
    if task == "regression":
        from grace.wanted import wanted_of

        return wanted_of(said)
    return next((c for c in classes if str(c) == said), said)
