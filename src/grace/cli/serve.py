"""`grace serve`: the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grace.cli.save import MODEL_HELP, announced
from grace.errors import GraceError, pip_install

if TYPE_CHECKING:
    import pandas as pd

    from grace.web.service import Served

SWITCH = 0.0005  # seconds; with Python's own 5 ms an answer waits after each of its many small steps for a busy server


allow_host = click.option(
    "--allow-host", multiple=True, metavar="NAME", help="Answer to this name too (repeat, or use commas; * for any)."
)
proxy = click.option(
    "--proxy", multiple=True, metavar="ADDRESS", help="A server in front whose X-Forwarded headers are believed."
)


@click.command()
@click.argument("directories", nargs=-1, metavar="[MODEL_DIR]...", type=click.Path(file_okay=False))
@click.option("--demo", is_flag=True, help="Train on embedded data and serve that.")
@click.option("--data", multiple=True, metavar="NAME", help="With --demo: an embedded table; may be repeated.")
@click.option(
    "--rows", type=click.Path(exists=True), help="A CSV or Parquet table to go through, instead of training rows."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 lets other machines in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any free one.")
@allow_host
@proxy
@click.option(
    "--model",
    "specs",
    multiple=True,
    metavar="[MODEL_DIR=]FILE",
    help=f"The model that a MODEL_DIR was saved for, if it is not there. {MODEL_HELP}",
)
def serve(
    directories: tuple[str, ...],
    demo: bool,
    data: tuple[str, ...],
    rows: str | None,
    host: str,
    port: int,
    allow_host: tuple[str, ...],
    proxy: tuple[str, ...],
    specs: tuple[str, ...],
) -> None:
    """Serve a page on which to explain rows, try changes and share what was found; and a JSON API.

    \b
    Examples:
      grace serve --demo
      grace serve --demo --data cancer95 --data adult
      grace serve model/ --port 8080
      grace serve model/ --rows mine.csv
      grace serve why-model/ --model model.py:pipeline
      grace serve model/ --allow-host grace.example.org --proxy 127.0.0.1
    """
    if demo == bool(directories) or (data and not demo) or ((rows or specs) and demo):
        raise click.UsageError("give one or more MODEL_DIR (see grace train), or --demo with --data NAME")
    try:
        from grace.web.hosts import hosts_of
        from grace.web.pages import create_app
        from grace.web.server import listen, proxies_of, run
    except ImportError as reason:
        raise GraceError(f"the page needs more packages ({reason.name}): {pip_install('web')}") from reason
    import torch

    hosts, proxies = hosts_of(host, allow_host), proxies_of(proxy)
    listen(host, port).close()  # a port that is taken is found out before the training
    torch.set_num_threads(1)  # small networks: one row is too little work to share
    sys.setswitchinterval(SWITCH)
    named = dict.fromkeys(data or ("cancer95",))
    models = [trained(name) for name in named] if demo else opened(directories, rows, specs)
    app = create_app(models, hosts)
    run(app, host, port, lambda address: click.echo(f"The page is at {address} (Ctrl-C to stop).", err=True), proxies)
    click.echo("Stopped.", err=True)


def trained(name: str) -> Served:
    """An embedded table's model, made now."""
    from grace.study.making import embedded
    from grace.web.service import Served

    click.echo(f"Training on {name} ...", err=True)
    explainer, rows = embedded(name)
    return Served(name, explainer, rows.head(1), "case_study" if name == "cancer95" else "unseen")


def opened(directories: tuple[str, ...], rows: str | None, specs: tuple[str, ...] = ()) -> list[Served]:
    """Saved explainers, by the names of their directories. One that cannot be served is said, and the others are."""
    from grace.explain.store import load
    from grace.web.service import Served

    table = None if rows is None else shortened_table(rows)
    own = model_files(directories, specs)
    models: dict[str, Served] = {}
    for directory in directories:
        name = Path(directory).resolve().name or "model"
        if name in models:
            raise GraceError(f"two models are called {name!r}; rename one of the directories")
        click.echo(f"Loading {directory} ...", err=True)
        try:
            models[name] = Served(name, load(directory, own.get(directory)), rows=table)
        except Exception as reason:  # whatever is wrong with one model: the others are served all the same
            said = " ".join(str(reason).split()) or type(reason).__name__
            click.echo(f"{directory} cannot be served: {said}", err=True)
    if not models:
        raise GraceError("no model is left to serve; see above")
    return list(models.values())


def model_files(directories: tuple[str, ...], specs: tuple[str, ...]) -> dict[str, str]:
    """The model file of each directory that one was given for."""
    out: dict[str, str] = {}
    for spec in specs:
        directory, _, file = spec.partition("=")
        if directory not in directories:
            if len(directories) > 1:
                raise GraceError(f"--model {spec}: of several models, say whose it is: --model {directories[0]}={spec}")
            directory, file = directories[0], spec
        out[directory] = announced(file).spec
    return out


def shortened_table(path: str) -> pd.DataFrame:
    """The first rows of the table to go through."""
    from grace.cli.terminal import read_table
    from grace.web import examples

    table, most = read_table(path, lenient=True), examples.MAX_ROWS
    if len(table) > most:
        click.echo(f"{path} has {len(table):,} rows; the page goes through the first {most:,}.", err=True)
        table = table.head(most).copy()  # without the memory of the others
    return table
