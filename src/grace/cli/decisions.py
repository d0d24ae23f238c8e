"""`grace profile` and `grace reasons`: how the model decides about a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grace.cli.question import Question, question_options
from grace.cli.terminal import is_picture, rows_shown, write_picture

if TYPE_CHECKING:
    from grace.explain.decisions.profile import Profile
    from grace.explain.decisions.reasons import Reasons
    from grace.explain.decisions.row_results import RowResults

MOST = 30  # features of a profile that are printed

language_option = click.option("--language", metavar="CODE", help="The language of the text, such as en or de.")


@click.command()
@click.argument("folder", metavar="MODEL", type=click.Path(exists=True, file_okay=False))
@click.argument("rows", type=click.Path(exists=True))
@question_options
@click.option("--most", type=click.IntRange(min=1), default=MOST, show_default=True, help="Print so many features.")
@click.option("--forecasts", is_flag=True, help="Also say how well adding up points forecasts other changes.")
@click.option("--plot", type=click.Path(), help="Draw one row (--row) to FILE.png, .pdf or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one profile after another in a list.")
@language_option
def profile(
    folder: str,
    rows: str,
    question: Question,
    most: int,
    forecasts: bool,
    plot: str | None,
    as_json: bool,
    language: str | None,
) -> None:
    """Show what each feature of a row would do alone, while all others stay as they are.

    Each feature goes through its whole range: which of its values change the prediction, and how much of the way to
    the other class its best value makes, in points (100 reach the boundary). Of ReLU networks and trees the values are
    exact, and "cannot" is proven; of other models they are those of a grid, and "none found" is said.

    \b
    Examples:
      grace profile model/ loans.csv --row 7
      grace profile model/ loans.csv --row 7 --against good --frozen age,sex
      grace profile model/ loans.csv --row 7 --forecasts
      grace profile model/ loans.csv --row 7 --plot profile.svg
      grace profile model/ loans.csv --json
    """
    if plot is not None and (question.row is None or not is_picture(plot)):
        raise click.BadParameter(f"--plot {plot}: give --row, and a name that ends in .png, .pdf or .svg")
    _check(language)
    batch = question.ask(folder, rows).profile(forecasts=forecasts)
    if plot is not None:
        write_picture(_worded(batch[0], language), Path(plot))
    if as_json:
        click.echo(batch.to_json(language=language))
    elif plot is None:
        print_rows(batch, lambda console, p: print_profile(console, _worded(p, language), most))


@click.command()
@click.argument("folder", metavar="MODEL", type=click.Path(exists=True, file_okay=False))
@click.argument("rows", type=click.Path(exists=True))
@question_options
@click.option("--max-features", type=int, default=2, show_default=True, help="Sets of at most so many features.")
@click.option("--seconds", type=float, default=1.0, show_default=True, help="Work on each row.")
@click.option("--shown", type=int, default=10, show_default=True, help="Sets with values; all are counted.")
@click.option("--because", is_flag=True, help="Also the features that suffice for the prediction, with proof.")
@click.option("--smallest", is_flag=True, help="The same, and the fewest of them that there are.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one row after another in a list.")
@language_option
def reasons(
    folder: str,
    rows: str,
    question: Question,
    max_features: int,
    seconds: float,
    shown: int,
    because: bool,
    smallest: bool,
    as_json: bool,
    language: str | None,
) -> None:
    """List all sets of features that could have changed the prediction of a row.

    A set is minimal: none of its features can be left out. That there are no other sets is proven for ReLU networks
    and trees, as far as the seconds reach, and said so; of other models, sets are those that a grid of values finds.
    The nearest sets are shown with values.

    With --because, also a few features that entail the prediction: while they stay, nothing that the others do within
    their ranges changes it, which is proven. For ReLU networks and trees.

    \b
    Examples:
      grace reasons model/ loans.csv --row 7
      grace reasons model/ loans.csv --row 7 --max-features 3 --seconds 10
      grace reasons model/ loans.csv --row 7 --because
      grace reasons model/ loans.csv --row 7 --frozen age,sex --language de
      grace reasons model/ loans.csv --json --shown 0
    """
    from grace.explain.decisions.row_results import RowResults

    _check(language)
    answers = question.ask(folder, rows)
    batch = answers.reasons(max_features, seconds=seconds, shown=shown)
    if because or smallest:
        enough = answers.because(smallest=smallest, seconds=seconds)
        batch = RowResults([replace(r, because=b) for r, b in zip(batch, enough, strict=True)], batch.index)
    if as_json:
        click.echo(batch.to_json(language=language))
    else:
        print_rows(batch, lambda console, r: print_reasons(console, _worded(r, language)))


def _check(language: str | None) -> None:
    """Reject an unknown language before anything is computed."""
    from grace.text import languages

    if language is not None:
        languages.load(language)


def _worded(of_row: Any, language: str | None) -> Any:
    return of_row if language is None else of_row.in_language(language)


def print_rows(batch: RowResults[Any], show: Callable[[Console, Any], None]) -> None:
    """Print each row under its number; on a terminal, only the first of many."""
    console = Console()
    count = rows_shown(console, len(batch))
    for i in range(count):
        lead = "\n" if i else ""
        if len(batch) > 1:
            console.print(f"{lead}row {batch.index[i]}", style="bold", highlight=False, markup=False)
        show(console, batch[i])
    if count < len(batch):
        more = f"\nThese are {count} of {len(batch):,} rows. All of them: --json; one of them: --row NUMBER"
        console.print(more, style="dim", highlight=False, markup=False, soft_wrap=True)


def print_profile(console: Console, profile: Profile, most: int) -> None:
    """The text, and a line per feature: its value, the values that flip, and its points."""
    from grace.schema.formatting import shortened
    from grace.text import languages
    from grace.text.decisions import cell_words, flipping_words, whole_points
    from grace.text.sentence import heading

    about, code = profile.about, profile.about.words.language
    language = languages.load(code)
    console.print(f"{profile.text()}\n", highlight=False, markup=False, soft_wrap=True)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(language.SCREEN["feature"])
    table.add_column(language.SCREEN["is"], justify="right")
    table.add_column(language.SCREEN["alone"])
    table.add_column(language.SCREEN["points"], justify="right", no_wrap=True)
    for known in profile.features[:most]:
        style = "" if known.flips else "dim"
        does = flipping_words(about, known) or language.PICTURES[f"alone_{known.verdict}"]
        points = "" if known.verdict == "fixed" else language.number(Decimal(whole_points(known.most_points)))
        name = shortened(heading(known.feature, about.words))
        table.add_row(*(Text(cell, style) for cell in (name, cell_words(about, known.name), does, points)))
    console.print(table)
    left = len(profile.features) - most
    if left > 0:
        console.print(language.SCREEN["more"].format(n=left), style="dim", highlight=False)


def print_reasons(console: Console, reasons: Reasons) -> None:
    """The text, and a line for each set that has values."""
    from grace.text.decisions import reason_lines

    console.print(reasons.text(), highlight=False, markup=False, soft_wrap=True)
    for line in reason_lines(reasons):
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    if reasons.because is not None:
        console.print(reasons.because.text(), highlight=False, markup=False, soft_wrap=True)
