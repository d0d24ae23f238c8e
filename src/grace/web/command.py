"""`grace serve`: the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grace.errors import GraceError
from grace.extras import pip_install

if TYPE_CHECKING:
    from grace.web.served import Served

SWITCH = 0.0005  # seconds; with Python's own 5 ms an answer waits after each of its many small steps for a busy server
CASE_STUDY = "Row 1 is the patient of the paper’s case study, whom the network has not seen."
UNSEEN = "Row 1 is one that the network has not seen."


@click.command()
@click.argument("directories", nargs=-1, metavar="[MODEL_DIR]...", type=click.Path(exists=True, file_okay=False))
@click.option("--demo", is_flag=True, help="Train on embedded data and serve that.")
@click.option("--data", multiple=True, metavar="NAME", help="With --demo: an embedded table; may be repeated.")
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 lets other machines in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any free one.")
def serve(directories: tuple[str, ...], demo: bool, data: tuple[str, ...], host: str, port: int) -> None:
    """Serve a page on which to explain rows, try changes and share what was found; and a JSON API.

    \b
    Examples:
      grace serve --demo
      grace serve --demo --data cancer95 --data adult
      grace serve model/ --port 8080
    """
    if demo == bool(directories) or (data and not demo):
        raise click.UsageError("give one or more MODEL_DIR (see grace train), or --demo with --data NAME")
    try:
        from grace.web.guard import listen, run
        from grace.web.pages import create_app
    except ImportError as reason:
        raise GraceError(f"the page needs more packages ({reason.name}): {pip_install('web')}") from reason
    import torch

    listen(host, port).close()  # a port that is taken is found out before the training
    torch.set_num_threads(1)  # small networks: one row is too little work to share
    sys.setswitchinterval(SWITCH)
    models = [trained(name) for name in dict.fromkeys(data or ("cancer95",))] if demo else opened(directories)
    app = create_app(models)
    run(app, host, port, lambda address: click.echo(f"The page is at {address} (Ctrl-C to stop).", err=True))
    click.echo("Stopped.", err=True)


def trained(name: str) -> Served:
    """An embedded table's model, made now."""
    from grace.study.making import embedded
    from grace.web.served import Served

    click.echo(f"Training on {name} ...", err=True)
    explainer, rows = embedded(name)
    return Served(name, explainer, rows.head(1), CASE_STUDY if name == "cancer95" else UNSEEN)


def opened(directories: tuple[str, ...]) -> list[Served]:
    """Explainers that `grace train` saved, by the names of their directories."""
    from grace.store import load
    from grace.web.served import Served

    models: dict[str, Served] = {}
    for directory in directories:
        name = Path(directory).resolve().name or "model"
        if name in models:
            raise GraceError(f"two models are called {name!r}; rename one of the directories")
        click.echo(f"Loading {directory} ...", err=True)
        models[name] = Served(name, load(directory))
    return list(models.values())
