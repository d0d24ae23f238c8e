"""`grace explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from grace.errors import GraceError
from grace.saved import head_of
from grace.scale.command import explain_job, is_job, job_options
from grace.terminal import domain_of, label_of, read_table, saying, show_batch, write_batch, write_picture, write_text

if TYPE_CHECKING:
    import pandas as pd

    from grace.scale.command import Ways
    from grace.schema import Schema
    from grace.text import Saying

METHODS = ("search", "gradient", "local", "nearest", "deepfool")
PICTURES = (".png", ".pdf", ".svg")


@click.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False))
@click.argument("rows", type=click.Path(exists=True))
@click.option("--row", type=int, help="Explain only this row (0 is the first).")
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="COLUMN",
    help="Keep only these further columns beside the answers, and call rows by them; may be repeated, or use commas.",
)
@click.option("--out", type=click.Path(), help="Write to FILE.csv, .parquet or .jsonl, or as a job to a FOLDER.")
@click.option("--html", type=click.Path(), help="Write a page to look at to FILE, for one row or all of them.")
@click.option("--plot", type=click.Path(), help="Draw one row (--row) to FILE.png, .pdf or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one explanation after another in a list.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="search (the default), the paper's gradient and local, its baselines nearest and deepfool.",
)
@click.option("--max-features", type=int, help="Change at most this many features.")
@click.option("-n", type=int, help="Up to this many explanations, each with other features.")
@click.option("--prove/--no-prove", default=None, help="Prove that fewer changes would not do (ReLU networks).")
@click.option("--budget", type=float, help="Seconds a proof may take per row.")
@click.option("--confidence", type=float, help="The probability the contrast class has to reach, such as 0.6.")
@click.option("--plausible", type=float, help="How typical of its new class the row has to be, such as 0.1.")
@click.option("--prefer", type=click.Choice(("fewest", "nearest")), help="Fewest features first, or smallest distance.")
@click.option("--frozen", multiple=True, metavar="COLUMN", help="A column that must not change; may be repeated.")
@click.option("--increase-only", multiple=True, metavar="COLUMN", help="A column that may only go up.")
@click.option("--decrease-only", multiple=True, metavar="COLUMN", help="A column that may only go down.")
@click.option("--gamma", type=float, help="Most redundancy (SU) between two changed features, 0 to 1.")
@click.option("--against", help="The class to contrast with; of a number, such as 'above 10' or 'by +10 %'.")
@click.option("--domain", help="Ranges: central, minmax, or a share such as 0.9.")
@click.option("--impute", is_flag=True, help="Fill in missing cells as in training, and say which.")
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Such as 'a <= b', beside the saved ones.")
@click.option("--no-rules", is_flag=True, help="Leave out the saved rules between features.")
@click.option("--follow", multiple=True, metavar="COLUMN", help="A column to move along by association, or all.")
@click.option(
    "--memory", metavar="SIZE", help="What may be used, such as 2GB; by a job all in all, with Ray per actor."
)
@job_options
@saying
def explain(
    model: str,
    rows: str,
    row: int | None,
    ids: tuple[str, ...],
    out: str | None,
    html: str | None,
    plot: str | None,
    as_json: bool,
    against: str | None,
    domain: str | None,
    impute: bool,
    rules: tuple[str, ...],
    no_rules: bool,
    follow: tuple[str, ...],
    how: Saying,
    ways: Ways,
    **settings: Any,
) -> None:
    """Explain rows of a CSV or Parquet table with an explainer that `grace train` saved.

    With --out FOLDER it is a job: the table may be of any size, rows that do not fit are set aside, and a job that was
    broken off goes on where it was when the command is given again.

    \b
    Examples:
      grace explain model/ loans.csv --row 7
      grace explain model/ loans.csv --against good --max-features 3
      grace explain model/ loans.csv --row 7 --frozen age --prove -n 3
      grace explain model/ loans.csv --row 7 --style magnitude --template because
      grace explain model/ loans.csv --row 7 --rule "used <= limit" --follow all
      grace explain model/ loans.csv --out why.jsonl
      grace explain model/ loans.csv --out why.csv --id customer,branch
      grace explain model/ loans.csv --html why.html
      grace explain model/ big.parquet --out why/ --memory 2GB
    """
    chosen = {k: v for k, v in settings.items() if v is not None and v != ()}
    if is_job(out, ways):
        if row is not None or html is not None or plot is not None or as_json:
            raise click.BadParameter(f"--out {out} is a job: leave out --row, --html, --plot and --json")
        if rules or no_rules or follow:
            from grace.schema import Schema

            chosen |= realism(Schema.from_dict(head_of(Path(model))["schemas"][0]), rules, no_rules, follow)
        chosen |= {"id": named(ids)} if ids else {}
        explain_job(model, rows, str(out), ways, how, against=against, domain=domain, impute=impute, **chosen)
        return
    if plot is not None and (row is None or Path(plot).suffix not in PICTURES):
        raise click.BadParameter(f"--plot {plot}: give --row, and a name that ends in .png, .pdf or .svg")
    from grace.store import load

    explainer = load(model)
    frame = with_ids(read_table(rows, explainer.schema), explainer.schema, ids, rows)
    if row is not None:
        if not 0 <= row < len(frame):
            raise GraceError(f"--row {row}: {rows} has rows 0 to {len(frame) - 1}")
        frame = frame.iloc[[row]]
    chosen |= realism(explainer.schema, rules, no_rules, follow)
    if impute:
        chosen["missing"] = "fill"
    label = None if against is None else label_of(against, explainer.model.task, explainer.model.classes)
    batch = explainer.explain(frame, against=label, domain=None if domain is None else domain_of(domain), **chosen)
    if html is not None:
        write_text(Path(html), batch.to_html() if row is None else batch[0].to_html())
        click.echo(f"A page to look at: {html}", err=True)
    if plot is not None:
        write_picture(batch[0], Path(plot))
    if out is not None:
        write_batch(batch, Path(out), **how)
        done = int(batch.success.sum())
        click.echo(f"{done} of {len(batch)} rows explained; written to {out}", err=True)
    elif as_json:
        click.echo(batch.to_json(**how))
    elif html is None or row is not None:
        show_batch(Console(), batch, named(ids), **how)


def named(given: tuple[str, ...]) -> list[str]:
    """Columns from options that may be repeated and hold several names with commas between them."""
    return [name.strip() for said in given for name in said.split(",") if name.strip()]


def with_ids(frame: pd.DataFrame, schema: Schema, ids: tuple[str, ...], path: str) -> pd.DataFrame:
    """The table with the columns that are kept beside the answers: all, or those that --id names."""
    from grace.frames import some
    from grace.groups import extra_columns

    extra = extra_columns(schema, frame)
    wanted = named(ids)
    for name in wanted:
        if name not in frame.columns:
            raise GraceError(
                f"--id {name}: {path} has no such column; beside the features it has {some(extra) or 'none'}"
            )
    kept = [c for c in extra if c in wanted or not wanted]
    if kept:
        click.echo(f"Kept beside the answers: {', '.join(kept)}", err=True)
    return frame.drop(columns=[c for c in extra if c not in kept])


def realism(schema: Schema, rules: tuple[str, ...], no_rules: bool, follow: tuple[str, ...]) -> dict[str, Any]:
    """The settings that rules between features and features that follow come to, as JSON has them."""
    from grace.rules import rule_to_json

    out: dict[str, Any] = {}
    if follow:
        out["follow"] = True if follow == ("all",) and "all" not in schema.names else follow
    if rules or no_rules:
        out["rules"] = [*([] if no_rules else map(rule_to_json, schema.rules)), *rules]
    return out
