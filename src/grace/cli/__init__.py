"""The `grace` command. Torch is imported inside functions, so that `--help` is instant.

This module   main, demo, datasets, train
explain       explain, replay; jobs is `explain --out FOLDER`, limit_options the options that limit changes
decisions     profile, reasons; question is what they share with explain
schema        schema, rules
save, serve, study   one command (or group) each
experiments   benchmark, reproduce
terminal      shared options, printing, reading and writing
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from grace import __version__
from grace.cli.decisions import profile, reasons
from grace.cli.experiments import benchmark, reproduce
from grace.cli.explain import explain, replay
from grace.cli.save import save
from grace.cli.schema import rules, schema, without_columns
from grace.cli.serve import serve
from grace.cli.study import study
from grace.cli.terminal import (
    category_option,
    domain_of,
    print_explanation,
    read_schema,
    read_table,
    training_bar,
    wording_options,
)
from grace.errors import GraceError
from grace.problem import METHOD_NAMES
from grace.schema.files import write_text

if TYPE_CHECKING:
    import pandas as pd

    from grace.schema.schema import Schema
    from grace.text.sentence import TextOptions


class Group(click.Group):
    """Prints errors as one line on stderr with exit code 1 (wrong usage: 2), without traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GraceError as error:
            raise click.ClickException(" ".join(str(error).split())) from error


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="grace")
def main() -> None:
    """Why this class rather than that one? GRACE changes as few features of a row as it can until the
    model changes its mind, and says so in a sentence.

    \b
    Examples:
      grace demo                                     see it work on embedded data
      grace train loans.csv --target risk -o model/  train a network on your table
      grace save loans.csv --target risk --model model.json -o model/   or bring your own model
      grace explain model/ loans.csv --row 7         explain its prediction for row 7
      grace profile model/ loans.csv --row 7         what each feature does alone
      grace reasons model/ loans.csv --row 7         all that could have changed it
      grace explain model/ loans.csv --out why.csv   explain every row
      grace explain model/ big.parquet --out why/    however many there are
      grace serve model/                             a page to ask and try
    """


@main.command()
@click.option("--out", default="grace-demo.html", show_default=True, help="Where to write the page.", type=click.Path())
@click.option("--method", type=click.Choice(METHOD_NAMES), default="search", show_default=True)
@wording_options
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON instead.")
def demo(out: str, method: str, as_json: bool, wording: TextOptions) -> None:
    """Train the paper's network on breast-cancer data and explain the patient of its case study.

    \b
    Example:
      grace demo --out patient.html
    """
    from grace import datasets, training
    from grace.explain.explainer import Explainer

    console = Console(stderr=as_json)
    table = datasets.load("cancer95")
    patient = datasets.is_case_study(table.frame)
    parts = datasets.split(table.frame[~patient], table.target, seed=0)
    with training_bar(console, "Training on cancer95") as progress:
        model = training.fit(
            parts.train,
            schema=table.declared,
            recipe=training.RECIPES["cancer95"],
            validation=parts.validation,
            progress=progress,
        )
    test = model.impute(parts.test)
    accuracy = float((model.predict(test) == parts.test[table.target]).mean())
    explainer = Explainer(model, parts.train, method=method)
    e = explainer.explain(table.frame[patient], prove=True, n=3)[0]
    if as_json:
        click.echo(json.dumps({**e.to_dict(), "text": e.text(**wording)}, ensure_ascii=False, indent=1))
        return
    write_text(Path(out), e.to_html())
    console.print(f"It classifies {accuracy:.1%} of {len(test)} unseen patients correctly.\n")
    console.print("The patient of the paper's case study, whom the network has not seen either, is")
    console.print(f"[bold]{e.original_class}[/] with probability {e.probability(e.original_class):.0%}. Why?\n")
    print_explanation(console, e, **wording)
    click.echo(f"\nThe same as a page to look at: {out}")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def datasets(as_json: bool) -> None:
    """List the embedded tables.

    \b
    Example:
      grace datasets --json
    """
    from grace import datasets as embedded

    lines: list[dict[str, Any]] = []
    for name in embedded.names():
        t = embedded.load(name)
        kinds = sum(type(f).__name__ == "Categorical" for f in t.declared.features)
        line = {"name": name, "rows": len(t.frame), "features": len(t.declared), "categorical": kinds}
        lines.append({**line, "classes": list(t.declared.classes), "row": t.declared.row})
    if as_json:
        click.echo(json.dumps(lines, indent=1))
        return
    table = Table(box=None, header_style="bold")
    table.add_column("name", no_wrap=True)
    for head in ("rows", "features", "categorical"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("a row is", no_wrap=True)
    table.add_column("classes")
    for entry in lines:
        numbers = [str(entry[k]) for k in ("name", "rows", "features", "categorical", "row")]
        table.add_row(*numbers, ", ".join(map(str, entry["classes"])) or "a number")
    Console().print(table)


@main.command()
@click.argument("data", type=click.Path(exists=True, dir_okay=False))
@click.option("--target", required=True, help="The column to predict.")
@click.option("-o", "--out", required=True, help="Directory to write the explainer to.", type=click.Path())
@click.option(
    "--schema", type=click.Path(exists=True, dir_okay=False), help="A JSON schema with your ranges and words."
)
@click.option("--domain", help="Ranges: central (1-99 %), minmax, or a share such as 0.9  [central, or the schema's]")
@click.option("--drop", multiple=True, metavar="COLUMNS", help="Columns that are no features, such as an id.")
@click.option("--force", is_flag=True, help="Overwrite an explainer that is saved there already.")
@click.option("--hidden", default="64,32", show_default=True, help="Sizes of the hidden layers.")
@click.option(
    "--task",
    type=click.Choice(("classification", "regression")),
    help="Predict classes or a number; by default a number if the target has more than 50 different ones.",
)
@click.option("--rare", metavar="NAME", help="Put categories with fewer than 10 rows together as NAME, such as other.")
@click.option(
    "--threshold",
    multiple=True,
    metavar="[CLASS=]P",
    help="The probability from which on the second of two classes is decided, or CLASS=P; of several, one for each.",
)
@click.option(
    "--sample", type=click.IntRange(min=10), help="Train on so many rows of a big Parquet table; ranges are from all."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides the split and the first weights."
)
@category_option
def train(
    data: str,
    target: str,
    out: str,
    schema: str | None,
    domain: str | None,
    drop: tuple[str, ...],
    force: bool,
    hidden: str,
    task: str | None,
    rare: str | None,
    threshold: tuple[str, ...],
    sample: int | None,
    seed: int,
    categories: list[str],
) -> None:
    """Train a network on a CSV or Parquet table, and save it with all that explaining needs.

    Missing cells are filled in (the median, or a category "missing"); a tenth of the rows is held out to
    report the accuracy, or of a predicted number the share of its variance that is explained (R²).

    \b
    Examples:
      grace train loans.csv --target risk -o model/
      grace train loans.csv --target risk -o model/ --hidden 32,16 --domain minmax
      grace train loans.csv --target risk -o model/ --threshold bad=0.3
      grace train big.parquet --target risk -o model/ --sample 500000
    """
    from grace import training
    from grace.datasets import split
    from grace.explain.explainer import Explainer
    from grace.explain.store import check_target_folder
    from grace.models.threshold import typed
    from grace.schema.domains import tail_of
    from grace.schema.features import plain

    console = Console(stderr=True)
    ranges = None if domain is None else domain_of(domain)
    if ranges is not None:
        tail_of(ranges)
    check_target_folder(out, overwrite=force)
    declared = None if schema is None else read_schema(schema)
    if sample is None:
        frame = read_table(data, declared, used=[target], categories=categories)
    else:
        from grace.scale import sample as drawn

        frame = drawn(data, sample, seed=seed)
    frame = without_columns(frame, drop)
    if declared is not None:
        check_declared(str(schema), declared, frame, target)
    task = training.check_target(frame, target, task, declared)
    try:
        sizes = tuple(int(h) for h in hidden.split(",") if h.strip())
        if min(sizes, default=1) < 1:
            raise ValueError
    except ValueError:
        raise click.BadParameter(f"--hidden {hidden!r}: give whole numbers, as in 64,32") from None
    try:
        parts = split(frame, target, seed, stratify=task == "classification")
    except ValueError as error:
        raise GraceError(f"{data} cannot be split into training and test rows: {error}") from error
    declared = training.with_categories(declared, frame, parts.train, target)
    with training_bar(console, f"Training on {len(parts.train)} rows") as progress:
        model = training.fit(
            parts.train,
            target,
            schema=declared,
            validation=parts.validation,
            seed=seed,
            progress=progress,
            hidden=sizes,
            task=task,
            rare=rare,
            threshold=typed(threshold, frame[target].map(plain).unique()),
        )
    Explainer(model, parts.train if sample is None else data, domain=ranges, seed=seed).save(out)
    click.echo(f"{training.score(model, parts.test)} Saved to {out}.", err=True)
    more = " --impute" if frame.isna().any().any() else ""
    more += " --against 'by +10 %'" if task == "regression" else ""
    click.echo(f"Now: grace explain {shlex.quote(out)} {shlex.quote(data)} --row 0{more}", err=True)


def check_declared(path: str, found: Schema, frame: pd.DataFrame, target: str) -> None:
    """Raise an error unless the schema fits the table and the target."""
    from grace.training import check_columns

    if found.target not in (None, target):
        raise GraceError(f"{path}: its target is {found.target!r}, but --target is {target!r}; give the same")
    try:
        check_columns(frame, found, target)
    except GraceError as error:
        raise GraceError(f"{path}: {error}") from error


for command in (benchmark, explain, profile, reasons, replay, reproduce, rules, save, schema, serve, study):
    main.add_command(command)
