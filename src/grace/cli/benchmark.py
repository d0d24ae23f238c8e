"""`grace benchmark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grace.errors import GraceError
from grace.schema.parsing import comma_separated

if TYPE_CHECKING:
    import pandas as pd

SHORT = ("valid", "within_k", "in_domain", "features", "distance", "ms")


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
    data: str,
    peers: str,
    methods: str,
    domain: str,
    rows: int,
    seed: int,
    out: str,
    time_limit: float,
    as_json: bool,
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
    from grace.cli.terminal import domain_of
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
    show(results.frame())
    click.echo(f"Tables and a page: {out}/results.csv, pairs.csv, results.md, results.html")


def show(frame: pd.DataFrame) -> None:
    """The most telling figures of each method on the screen, and what went wrong."""
    from grace.experiments.results import number

    console = Console()
    for (data, domain), part in frame.groupby(["data", "domain"], sort=False):
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(f"{data}, {domain}", no_wrap=True)
        for head in SHORT:
            table.add_column(head, justify="right", no_wrap=True)
        for row in part.to_dict("records"):
            table.add_row(Text(str(row["method"])), *(number(row[m]) for m in SHORT))
        console.print(table)
        for row in part.to_dict("records"):
            said = f"failed: {row['failed']}" if row["failed"] else row["note"]
            if said:
                console.print(f"{row['method']}: {said}", style="dim", highlight=False, markup=False, soft_wrap=True)
        console.print()


def _names(said: str, option: str) -> list[str]:
    names = comma_separated([said])
    if option and not names:
        raise GraceError(f"{option} is empty; name at least one")
    return names
