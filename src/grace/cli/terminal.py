"""Shared options, printing, and reading and writing of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
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

    from grace.explain.decisions.profile import Profile
    from grace.explain.explanation import Explanation
    from grace.explain.explanations import Explanations
    from grace.schema.schema import Schema
    from grace.text.sentence import TextOptions


STYLES = ("exact", "magnitude", "relative", "auto")
FORMS = ("had", "because", "typical")
MAX_SHOWN, FIRST_SHOWN = 20, 5  # a terminal shows all rows up to the first number, else the second

Command = Callable[..., None]


def grouped_options(
    argument: str, names: Iterable[str], make: Callable[..., Any], *options: Callable[[Command], Command]
) -> Callable[[Command], Command]:
    """A decorator that adds click options, and passes `make(**values)` to the command as one argument."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(**values: Any) -> None:
            command(**{argument: make(**{name: values.pop(name) for name in names})}, **values)

        decorated: Command = wrapped
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _checked_wording(**options: Any) -> dict[str, Any]:
    from grace.text import languages

    if options["language"] is not None:
        languages.load(options["language"])
    return options


wording_options = grouped_options(
    "wording",
    ("style", "template", "language", "seed", "hedge"),
    _checked_wording,
    click.option("--style", type=click.Choice(STYLES), help="How precisely a difference is said."),
    click.option("--template", type=click.Choice(FORMS), help="Had ...; because ...; beside what is typical."),
    click.option("--language", metavar="CODE", help="The language of the sentence, such as en or de."),
    click.option("--seed", type=int, default=0, help="Draw the words of the template by this number."),
    click.option("--hedge", is_flag=True, help="Say how sure the model is."),
)
"""The keywords of `Explanation.text` as options."""


def category_option(command: Command) -> Command:
    """Adds --categories: columns to be read as categories."""
    return click.option(
        "--categories",
        multiple=True,
        metavar="COLUMN",
        callback=lambda context, parameter, given: comma_separated(given),
        help="Of CSV: a column of categories, though its cells look like numbers or dates; may be repeated.",
    )(command)


def print_explanation(console: Console, e: Explanation, **wording: Unpack[TextOptions]) -> None:
    """Print the changed features as a table, and the sentence."""
    from grace.schema.formatting import shortened
    from grace.text import languages, sentence

    schema_language = e.words.language
    code = wording.get("language") or schema_language
    heads = languages.load(code).SCREEN
    if e.changes:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(heads["feature"])
        table.add_column(heads["is"], justify="right")
        table.add_column(heads["would"], justify="right")
        for i, c in enumerate((*e.changes, *e.follow_on)):
            old, new = (sentence.value(c.feature, cell, code, schema_language) for cell in (c.old, c.new))
            name = shortened(sentence.phrase(c.feature, code, schema_language))
            if i < len(e.changes):
                table.add_row(Text(name), Text(old), Text(new, style="bold"))
            else:
                table.add_row(Text(f"{name} ({heads['along']})", "dim"), Text(old), Text(new))
        console.print(table)
        console.print()
    console.print(e.text(**wording), highlight=False, markup=False, soft_wrap=True)
    for other in e.alternatives:
        console.print(f"{heads['or']}{other.text(**wording)}", highlight=False, markup=False, soft_wrap=True)
    for note in sentence.notes(e, code):
        console.print(f"{heads['note']}{note}.", style="dim", highlight=False, markup=False, soft_wrap=True)


def print_batch(console: Console, batch: Explanations, ids: Sequence[str] = (), **wording: Unpack[TextOptions]) -> None:
    """Print each explanation under its row number and its cells in the columns `ids`; on a terminal, only the first of
    many."""
    shown = rows_shown(console, len(batch))
    for i in range(shown):
        if i:
            console.print()
        if len(batch) > 1 or ids:
            identifiers = [f"{c} {_cell(batch, c, i)}" for c in ids]
            title = f"{', '.join(identifiers)} (row {batch.index[i]})" if identifiers else f"row {batch.index[i]}"
            console.print(title, style="bold", highlight=False, markup=False, soft_wrap=True)
        print_explanation(console, batch[i], **wording)
    if shown < len(batch):
        count = int(batch.success.sum())
        console.print(
            f"\nThese are {FIRST_SHOWN} of {len(batch):,} rows; {count:,} are explained. All of them: --out FILE.csv "
            "(.parquet, .jsonl), or here with --json; one of them: --row NUMBER",
            style="dim",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def rows_shown(console: Console, count: int) -> int:
    """How many of the rows are printed: all, unless they are many on a terminal."""
    return FIRST_SHOWN if count > MAX_SHOWN and console.is_terminal else count


def _cell(batch: Explanations, column: str, i: int) -> str:
    """The cell of an extra column or a feature."""
    return str(batch.extra[column].iloc[i] if column in batch.extra.columns else batch[i].row[column])


@contextmanager
def training_bar(console: Console, title: str) -> Iterator[Any]:
    columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[loss]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None, loss="")

        def progress(epoch: int, max_epochs: int, loss: float) -> None:
            bar.update(task, total=max_epochs, completed=epoch, loss=f"loss {loss:.4f}")

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
    """Read a CSV or Parquet table, see `grace.schema.tables.reading.read`; prints what was recognised to stderr."""
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


def write_batch(batch: Explanations, path: Path, **wording: Unpack[TextOptions]) -> None:
    if path.suffix == ".jsonl":
        lines = (json.dumps(line, ensure_ascii=False) for line in batch.to_dicts(**wording))
        write_text(path, "".join(f"{line}\n" for line in lines))
        return
    from grace.schema.files import escape_formulas

    with atomic_replace(path) as temporary:
        frame = batch.to_frame(**wording)
        if path.suffix == ".csv":
            escape_formulas(frame).to_csv(temporary, index_label="row")
        else:
            frame.to_parquet(temporary)


def is_picture(path: str) -> bool:
    """Whether the name of a file ends like that of a picture."""
    return Path(path).suffix in (".png", ".pdf", ".svg")


def write_picture(shown: Explanation | Profile, path: Path) -> None:
    """Write an SVG directly, other formats by matplotlib."""
    if path.suffix == ".svg":
        write_text(path, shown.to_svg())
        return
    with atomic_replace(path) as temporary:
        shown.plot().savefig(temporary, format=path.suffix[1:], dpi=200)


def domain_of(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def label_of(text: str, task: str, classes: Sequence[Any]) -> Any:
    """The class that was typed, with its type; in regression, the target range."""
    if task == "regression":
        from grace.problem.target_range import target_range_of

        return target_range_of(text)
    return next((c for c in classes if str(c) == text), text)
