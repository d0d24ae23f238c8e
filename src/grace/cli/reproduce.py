"""`grace reproduce`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from grace.errors import GraceError

if TYPE_CHECKING:
    from grace.experiments.reproduction.plan import Plan, Unit


@click.command()
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="Seeds 0, 1, ...")
@click.option("--data", default="", help="Embedded tables, separated by commas; without it, the paper's eleven.")
@click.option(
    "--only",
    default="",
    help="Parts, separated by commas: table2, table3, figure-fidelity, figure-k, figure-gamma, case-study, reader.",
)
@click.option("--out", default="results", show_default=True, help="Directory for all results.", type=click.Path())
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes, one core each.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Rows a simulated reader gets per run; fewer of wide tables.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all tables as JSON.")
def reproduce(runs: int, data: str, only: str, out: str, workers: int, rows: int, as_json: bool) -> None:
    """Run the paper's experiments again, beside its figures.

    Results are stored as they come: a run that was stopped goes on where it was, and with everything in --out
    the tables and figures are only drawn again. What readers do with an explanation is simulated by
    programs; no people are involved.

    \b
    Examples:
      grace reproduce --runs 1 --data cancer95,diabetes
      grace reproduce --only table2,table3 --out results/
      grace reproduce --runs 10 --workers 16
    """
    from grace import datasets
    from grace.experiments.reproduction.plan import PARTS, Sizes, plan_of
    from grace.experiments.reproduction.results import Reproduction

    plan = plan_of(_names(data) or datasets.PAPER, runs, _names(only) or PARTS, Sizes(reader_rows=rows))
    wanting = _computed(plan, out, workers)
    results = Reproduction(plan, out, wanting)
    for line in [*wanting, *results.write()]:
        click.echo(f"Note: {line}.", err=True)
    if as_json:
        click.echo(results.to_json())
        return
    for block in results.summary():
        show(*block)
    click.echo(f"Tables, figures and a page: {out}/reproduction.html, reproduction.md, *.csv, *.png, *.svg")


def _computed(plan: Plan, out: str, workers: int) -> list[str]:
    """What is not stored yet, with a bar."""
    from grace.experiments.reproduction.plan import Store
    from grace.experiments.reproduction.runs import compute

    units = plan.units()
    left = len(Store(out, plan).missing())
    if not left:
        return []
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("Starting", total=len(units), completed=len(units) - left)

        def tell(unit: Unit, why: str) -> None:
            bar.update(task, advance=1, description=f"{unit.data}, run {unit.run}")

        return compute(plan, out, workers, tell)


def show(title: str, heads: list[str], lines: list[list[str]]) -> None:
    """A table on the screen."""
    table = Table(box=None, header_style="bold", pad_edge=False, title=title, title_justify="left", title_style="bold")
    for place, head in enumerate(heads):
        words = head in ("data", "method", "policy")
        table.add_column(head, justify="left" if words else "right", no_wrap=place == 0)
    for line in lines:
        table.add_row(*map(Text, line))
    console = Console()
    console.print(table)
    console.print()


def _names(said: str) -> list[str]:
    names = [n.strip() for n in said.split(",") if n.strip()]
    if said.strip() and not names:
        raise GraceError(f"{said!r} names nothing")
    return names
