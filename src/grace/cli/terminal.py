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
from grace.schema.files import atomic_replace, write_text
from grace.schema.parsing import comma_separated, read_text

if TYPE_CHECKING:
    import pandas as pd

    from grace.explain.explanation import Explanation
    from grace.explain.explanations import Explanations
    from grace.schema.schema import Schema
    from grace.text.sentence import TextOptions


STYLES = ("exact", "magnitude", "relative", "auto")
FORMS = ("had", "because", "typical")
MOST_SHOWN, FIRST_SHOWN = 20, 5  # rows that a terminal shows all of, and how many of more


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
        from grace.text import languages

        if language is not None:
            languages.load(language)
        how = {"style": style, "template": template, "language": language, "seed": seed, "hedge": hedge}
        command(how=how, **rest)

    return wrapped


def category_option(command: Callable[..., None]) -> Callable[..., None]:
    """Columns of a table to be read as categories, given to the command as `categories`."""

    def names(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[str]:
        return comma_separated(given)

    return click.option(
        "--categories",
        multiple=True,
        metavar="COLUMN",
        callback=names,
        help="Of CSV: a column of categories, though its cells look like numbers or dates; may be repeated.",
    )(command)


def show(console: Console, e: Explanation, **how: Unpack[TextOptions]) -> None:
    """The changed features as a table, and the sentence."""
    from grace.schema.formatting import shortened
    from grace.text import languages, sentence

    own = e.words.language
    code = how.get("language") or own
    heads = languages.load(code).SCREEN
    if e.changes:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(heads["feature"])
        table.add_column(heads["is"], justify="right")
        table.add_column(heads["would"], justify="right")
        for change in e.changes:
            old, new = (sentence.value(change.feature, cell, code, own) for cell in (change.old, change.new))
            name = shortened(sentence.phrase(change.feature, code, own))
            table.add_row(Text(name), Text(old), Text(new, style="bold"))
        for change in e.follow_on:
            old, new = (sentence.value(change.feature, cell, code, own) for cell in (change.old, change.new))
            name = shortened(sentence.phrase(change.feature, code, own))
            table.add_row(Text(f"{name} ({heads['along']})", "dim"), old, new)
        console.print(table)
        console.print()
    console.print(e.text(**how), highlight=False, markup=False, soft_wrap=True)
    for other in e.alternatives:
        console.print(f"{heads['or']}{other.text(**how)}", highlight=False, markup=False, soft_wrap=True)
    for note in sentence.notes(e, code):
        console.print(f"{heads['note']}{note}.", style="dim", highlight=False, markup=False, soft_wrap=True)


def show_batch(console: Console, batch: Explanations, ids: Sequence[str] = (), **how: Unpack[TextOptions]) -> None:
    """Each explanation under the number of its row, and the columns that rows are called by. Of many rows, a terminal
    shows the first few."""
    few = len(batch) > MOST_SHOWN and console.is_terminal
    for i in range(FIRST_SHOWN if few else len(batch)):
        if i:
            console.print()
        if len(batch) > 1 or ids:
            called = [f"{c} {_cell(batch, c, i)}" for c in ids]
            title = f"{', '.join(called)} (row {batch.index[i]})" if called else f"row {batch.index[i]}"
            console.print(title, style="bold", highlight=False, markup=False, soft_wrap=True)
        show(console, batch[i], **how)
    if few:
        done = int(batch.success.sum())
        console.print(
            f"\nThese are {FIRST_SHOWN} of {len(batch):,} rows; {done:,} are explained. All of them: --out FILE.csv "
            "(.parquet, .jsonl), or here with --json; one of them: --row NUMBER",
            style="dim",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _cell(batch: Explanations, column: str, i: int) -> str:
    """The cell of a column that rows are called by: one beside the features, or a feature's own."""
    return str(batch.extra[column].iloc[i] if column in batch.extra.columns else batch[i].row[column])


@contextmanager
def training_bar(console: Console, title: str) -> Iterator[Any]:
    columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[loss]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None, loss="")

        def progress(epoch: int, most: int, loss: float) -> None:
            bar.update(task, total=most, completed=epoch, loss=f"loss {loss:.4f}")

        yield progress
        bar.update(task, total=1, completed=1)


def read_table(
    path: str,
    schema: Schema | None = None,
    *,
    used: Sequence[str] = (),
    categories: Sequence[str] = (),
    lenient: bool = False,
) -> pd.DataFrame:
    """A CSV or Parquet table, see `grace.schema.tables.reading.read`; what was recognised in it is said on stderr."""
    from grace.schema.tables.reading import read

    frame, notes = read(path, schema, used=used, categories=categories, lenient=lenient)
    if notes:
        click.echo(f"{path} is read with {'; '.join(notes)}.", err=True)
    return frame


def read_schema(path: str) -> Schema:
    from grace.schema.schema import Schema

    try:
        return Schema.from_json(read_text(Path(path)))
    except GraceError as error:
        raise GraceError(f"{path}: {error}") from error


def write_batch(batch: Explanations, path: Path, **how: Unpack[TextOptions]) -> None:
    if path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in batch.to_dicts(**how)))
        return
    from grace.schema.files import escape_formulas

    with atomic_replace(path) as fresh:
        frame = batch.to_frame(**how)
        if path.suffix == ".csv":
            escape_formulas(frame).to_csv(fresh, index_label="row")
        else:
            frame.to_parquet(fresh)


def write_picture(e: Explanation, path: Path) -> None:
    """An SVG is made here; any other format by matplotlib."""
    if path.suffix == ".svg":
        write_text(path, e.to_svg())
        return
    with atomic_replace(path) as fresh:
        e.plot().savefig(fresh, format=path.suffix[1:], dpi=200)


def domain_of(said: str) -> str | float:
    try:
        return float(said)
    except ValueError:
        return said


def label_of(said: str, task: str, classes: Sequence[Any]) -> Any:
    """The class that was typed, whatever its type; of a number, what it should have been."""
    if task == "regression":
        from grace.problem.target_range import target_range_of

        return target_range_of(said)
    return next((c for c in classes if str(c) == said), said)
