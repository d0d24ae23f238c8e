"""`grace serve`: the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grace.cli.save import MODEL_HELP, model_file_of
from grace.errors import GraceError, pip_install

if TYPE_CHECKING:
    import pandas as pd

    from grace.explain.explainer import Explainer
    from grace.web.service import Served

SWITCH_INTERVAL = 0.0005  # seconds; with the default of 5 ms, worker threads wait too long for a busy event loop


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
    listen(host, port).close()  # fail before the training if the port is taken
    torch.set_num_threads(1)  # single rows are too little work for several threads
    sys.setswitchinterval(SWITCH_INTERVAL)
    datasets = dict.fromkeys(data or ("cancer95",))
    models = [train_embedded(name) for name in datasets] if demo else load_saved(directories, rows, specs)
    warm_up([served.instant.explainer for served in models])
    app = create_app(models, hosts)
    run(app, host, port, lambda address: click.echo(f"The page is at {address} (Ctrl-C to stop).", err=True), proxies)
    click.echo("Stopped.", err=True)


def warm_up(explainers: Sequence[Explainer]) -> None:
    """Compile, or load, search and proofs now rather than at the first request."""
    from grace.proofs.warm_up import warm_up as compile_for

    for explainer in explainers:
        compile_for(explainer.model)


def train_embedded(name: str) -> Served:
    """Train a model on an embedded table."""
    from grace.study.making import embedded
    from grace.web.service import Served

    click.echo(f"Training on {name} ...", err=True)
    explainer, rows = embedded(name)
    return Served(name, explainer, rows.head(1), "case_study" if name == "cancer95" else "unseen")


def load_saved(directories: tuple[str, ...], rows: str | None, specs: tuple[str, ...] = ()) -> list[Served]:
    """Load saved explainers, named by their directories; prints those that fail and skips them."""
    from grace.explain.store import load
    from grace.web.service import Served

    table = None if rows is None else read_examples(rows)
    files = model_files(directories, specs)
    models: dict[str, Served] = {}
    for directory in directories:
        name = Path(directory).resolve().name or "model"
        if name in models:
            raise GraceError(f"two models are called {name!r}; rename one of the directories")
        click.echo(f"Loading {directory} ...", err=True)
        try:
            models[name] = Served(name, load(directory, files.get(directory)), rows=table)
        except Exception as reason:  # serve the other models
            message = " ".join(str(reason).split()) or type(reason).__name__
            click.echo(f"{directory} cannot be served: {message}", err=True)
    if not models:
        raise GraceError("no model is left to serve; see above")
    return list(models.values())


def model_files(directories: tuple[str, ...], specs: tuple[str, ...]) -> dict[str, str]:
    """The model files given by --model, by directory."""
    out: dict[str, str] = {}
    for spec in specs:
        directory, _, file = spec.partition("=")
        if directory not in directories:
            if len(directories) > 1:
                raise GraceError(f"--model {spec}: of several models, say whose it is: --model {directories[0]}={spec}")
            directory, file = directories[0], spec
        out[directory] = model_file_of(file).spec
    return out


def read_examples(path: str) -> pd.DataFrame:
    """The first rows of the table to browse."""
    from grace.cli.terminal import read_table
    from grace.web import examples

    table, max_rows = read_table(path, lenient=True), examples.MAX_ROWS
    if len(table) > max_rows:
        click.echo(f"{path} has {len(table):,} rows; the page goes through the first {max_rows:,}.", err=True)
        table = table.head(max_rows).copy()  # release the other rows
    return table
