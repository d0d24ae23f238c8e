"""`grace benchmark` and `grace reproduce`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from grace.cli.terminal import domain_of
from grace.errors import GraceError
from grace.schema.parsing import comma_separated

if TYPE_CHECKING:
    import pandas as pd

    from grace.experiments.reproduction.plan import Plan, Unit

COLUMNS = ("valid", "within_k", "in_domain", "features", "distance", "ms")


@click.command()
@click.option("--data", default="diabetes", show_default=True, help="Embedded tables, separated by commas.")
@click.option(
    "--peers",
    default="",
    help="Other methods, separated by commas: dice, nice, cfnow, sparsefool, jsma, one variant such as "
    "dice-random, or a function of your own, path/to/file.py:function.",
)
@click.option(
    "--methods", default="search,gradient,local,nearest,deepfool", show_default=True, help="GRACE's methods to run."
)
@click.option("--domain", default="central", show_default=True, help="Ranges, separated by commas: central,minmax.")
@click.option("--rows", type=click.IntRange(min=1), default=50, show_default=True, help="Test rows per table.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", default="results", show_default=True, help="Directory for the tables.", type=click.Path())
@click.option("--time-limit", type=float, default=10.0, show_default=True, help="Seconds a peer may take per row.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def benchmark(
    data: str, peers: str, methods: str, domain: str, rows: int, seed: int, out: str, time_limit: float, as_json: bool
) -> None:
    """Compare GRACE's methods with other libraries' on the same network and rows.

    Each library gets an environment of its own in .venv-peers, made on first use (this needs pip and a
    network). A method that fails or cannot be installed is reported as such. What --out holds already is
    not computed again.

    \b
    Examples:
      grace benchmark --data diabetes --rows 20
      grace benchmark --data spam,diabetes --peers dice,nice,cfnow,sparsefool,jsma --rows 100
      grace benchmark --peers mine.py:explain --domain central,minmax
    """
    from grace.experiments.benchmarking import benchmark as run

    console = Console(stderr=True)
    with console.status("Starting") as status:
        results = run(
            _names(data, "--data"),
            own=_names(methods, ""),
            peers=_names(peers, ""),
            domains=[domain_of(d) for d in _names(domain, "--domain")],
            rows=rows,
            seed=seed,
            time_limit=time_limit,
            out=out,
            tell=status.update,
        )
    results.write(out)
    if as_json:
        click.echo(results.to_json())
        return
    print_results(results.frame())
    click.echo(f"Tables and a page: {out}/results.csv, pairs.csv, results.md, results.html")


def print_results(frame: pd.DataFrame) -> None:
    """Print the main metrics of each method, one table per dataset and domain, then failures and notes."""
    from grace.experiments.results import number

    console = Console()
    for (data, domain), part in frame.groupby(["data", "domain"], sort=False):
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(f"{data}, {domain}", no_wrap=True)
        for head in COLUMNS:
            table.add_column(head, justify="right", no_wrap=True)
        for row in part.to_dict("records"):
            table.add_row(Text(str(row["method"])), *(number(row[m]) for m in COLUMNS))
        console.print(table)
        for row in part.to_dict("records"):
            remark = f"failed: {row['failed']}" if row["failed"] else row["note"]
            if remark:
                console.print(f"{row['method']}: {remark}", style="dim", highlight=False, markup=False, soft_wrap=True)
        console.print()


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

    plan = plan_of(_selection(data) or datasets.PAPER, runs, _selection(only) or PARTS, Sizes(reader_rows=rows))
    failures = compute_missing(plan, out, workers)
    results = Reproduction(plan, out, failures)
    for line in [*failures, *results.write()]:
        click.echo(f"Note: {line}.", err=True)
    if as_json:
        click.echo(results.to_json())
        return
    for block in results.summary():
        print_table(*block)
    click.echo(f"Tables, figures and a page: {out}/reproduction.html, reproduction.md, *.csv, *.png, *.svg")


def compute_missing(plan: Plan, out: str, workers: int) -> list[str]:
    """Compute the units that are not stored yet, with a progress bar; what could not be computed."""
    from grace.experiments.reproduction.plan import Store
    from grace.experiments.reproduction.runs import compute

    total, left = len(plan.units()), len(Store(out, plan).missing())
    if not left:
        return []
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("Starting", total=total, completed=total - left)

        def advance(unit: Unit, why: str) -> None:
            bar.update(task, advance=1, description=f"{unit.data}, run {unit.run}")

        return compute(plan, out, workers, advance)


def print_table(title: str, heads: list[str], lines: list[list[str]]) -> None:
    """Print a table; columns of words are aligned left, numbers right."""
    table = Table(box=None, header_style="bold", pad_edge=False, title=title, title_justify="left", title_style="bold")
    for i, head in enumerate(heads):
        is_text = head in ("data", "method", "policy")
        table.add_column(head, justify="left" if is_text else "right", no_wrap=i == 0)
    for line in lines:
        table.add_row(*map(Text, line))
    console = Console()
    console.print(table)
    console.print()


def _names(text: str, option: str) -> list[str]:
    names = comma_separated([text])
    if option and not names:
        raise GraceError(f"{option} is empty; name at least one")
    return names


def _selection(text: str) -> list[str]:
    """Names separated by commas; an empty list, which stands for all, only if nothing was typed."""
    names = comma_separated([text])
    if text.strip() and not names:
        raise GraceError(f"{text!r} names nothing")
    return names
