"""`grace schema` and `grace rules`: infer a schema from a table, and suggest rules between its columns."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grace.cli.limit_options import column_list
from grace.cli.save import MODEL_HELP, columns_in
from grace.cli.terminal import category_option, read_schema, read_table
from grace.errors import GraceError
from grace.schema.files import write_text

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@click.argument("data", type=click.Path(exists=True, dir_okay=False))
@click.option("--target", required=True, help="The column to predict.")
@click.option("-o", "--out", required=True, help="JSON file to write.", type=click.Path())
@click.option("--drop", multiple=True, metavar="COLUMNS", help="Columns that are no features, such as an id.")
@category_option
@click.option("--model", "spec", metavar="FILE", help=f"Take the columns that it was fitted on. {MODEL_HELP}")
def schema(data: str, target: str, out: str, drop: tuple[str, ...], categories: list[str], spec: str | None) -> None:
    """Write what GRACE infers about a table, to edit: ranges, whole numbers, categories, words, units, costs, and what
    must not change. The file explains each part; every edit counts or is refused when it is read.

    \b
    Example:
      grace schema loans.csv --target risk -o loans.json
      grace train loans.csv --target risk -o model/ --schema loans.json
    """
    from grace.schema.limits import looks_protected
    from grace.schema.schema import Schema

    frame = without_columns(read_table(data, categories=categories), drop)
    inferred = Schema.infer(frame if spec is None else columns_in(frame, spec, target, data), target)
    write_text(Path(out), inferred.to_json() + "\n")
    click.echo(
        f"Written to {out}: edit it, then grace train {shlex.quote(data)} --schema {shlex.quote(out)} ...", err=True
    )
    suspects = looks_protected(inferred.names)
    if suspects:
        click.echo(
            f"By their names, these may be protected attributes: {', '.join(suspects)}. Whether answers may change "
            'them is your choice: with "protected": true, they stay as they are unless a call asks for them by name.',
            err=True,
        )


def without_columns(frame: pd.DataFrame, drop: tuple[str, ...]) -> pd.DataFrame:
    """The table without the columns of --drop."""
    names = column_list(drop, list(frame.columns), "--drop") if drop else []
    for name in names:
        if name not in frame.columns:
            raise GraceError(f"--drop: there is no column {name!r} in the table")
    return frame.drop(columns=names)


@click.command()
@click.argument("data", type=click.Path(exists=True, dir_okay=False))
@click.option("--target", help="The column to predict, which no rule is about.")
@click.option("--schema", type=click.Path(exists=True, dir_okay=False), help="A JSON schema; the default is inferred.")
@click.option("--model", "spec", metavar="FILE", help=f"Look at the columns that it was fitted on. {MODEL_HELP}")
@click.option("--most", type=click.IntRange(min=1), default=20, show_default=True, help="How many to suggest.")
@click.option("--take", metavar="1,3,...", help="Write a schema with these suggestions, by number, to --out.")
@click.option("-o", "--out", type=click.Path(), help="JSON file to write the schema with rules to.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@category_option
def rules(
    data: str,
    target: str | None,
    schema: str | None,
    spec: str | None,
    most: int,
    take: str | None,
    out: str | None,
    as_json: bool,
    categories: list[str],
) -> None:
    """Suggest rules between columns: what no row breaks, though by chance many would.

    \b
    Examples:
      grace rules loans.csv --target risk
      grace rules loans.csv --target risk --take 1,3 -o loans.json
      grace train loans.csv --target risk -o model/ --schema loans.json
    """
    from grace.schema.rules import rule_to_json, suggest
    from grace.schema.schema import Schema

    if (take is None) != (out is None):
        raise click.UsageError("--take and --out go together: which suggestions, and where to write the schema")
    declared = None if schema is None else read_schema(schema)
    frame = read_table(data, declared, used=() if target is None else [target], categories=categories)
    frame = frame if spec is None else columns_in(frame, spec, target, data)
    known = Schema.infer(frame, target, like=declared)
    suggestions = suggest(known, frame, most=most)
    if as_json:
        lines = [{"rule": rule_to_json(s.rule), "rows": s.rows, "by_chance": s.by_chance} for s in suggestions]
        click.echo(json.dumps(lines, ensure_ascii=False, indent=1))
    elif not suggestions:
        click.echo("No rule stands out.")
    else:
        click.echo(f"No row breaks these, of {suggestions[0].rows}; in brackets, how many would by chance:")
        for number, s in enumerate(suggestions, 1):
            click.echo(f"{number:3}. {s.rule}  ({s.by_chance:.0f})")
    if take is not None and out is not None:
        chosen = [suggestions[i - 1].rule for i in _numbers(take, len(suggestions))]
        write_text(Path(out), known.with_rules(*chosen).to_json() + "\n")
        click.echo(f"Written to {out} with {len(chosen)} rules.", err=True)


def _numbers(text: str, most: int) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = [0]
    if not all(1 <= n <= most for n in numbers):
        raise click.BadParameter(f"--take {text}: give numbers from 1 to {most}, as in 1,3")
    return numbers
