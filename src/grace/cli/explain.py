"""`grace explain` and `grace replay`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from grace.cli.jobs import explain_job, is_job, job_options
from grace.cli.limit_options import LimitOptions, column_list, limit_options
from grace.cli.question import call_settings, load_rows, row_of
from grace.cli.save import MODEL_HELP, model_file_of
from grace.cli.terminal import is_picture, print_batch, wording_options, write_batch, write_picture
from grace.errors import GraceError
from grace.explain.saved_header import head_of
from grace.problem import METHOD_NAMES
from grace.schema.files import hash_of_file, write_text
from grace.schema.parsing import comma_separated

if TYPE_CHECKING:
    import pandas as pd

    from grace.cli.jobs import JobOptions
    from grace.explain.explanations import Explanations
    from grace.schema.schema import Schema
    from grace.text.sentence import TextOptions


@click.command()
@click.argument("folder", metavar="MODEL", type=click.Path(exists=True, file_okay=False))
@click.argument("rows", type=click.Path(exists=True))
@click.option(
    "--model", "spec", metavar="FILE", help=f"The model that MODEL was saved for, if it is not there. {MODEL_HELP}"
)
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
@click.option(
    "--record",
    "record_file",
    type=click.Path(),
    help="Write a record of model, data, question and answer for grace replay: FILE.json (--row) or .jsonl (all rows).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one explanation after another in a list.")
@click.option(
    "--method",
    type=click.Choice(METHOD_NAMES),
    help="search (the default), the paper's gradient and local, its baselines nearest and deepfool.",
)
@click.option("--max-features", type=int, help="Change at most this many features.")
@click.option("-n", type=int, help="Up to this many explanations, each with other features.")
@click.option("--prove/--no-prove", default=None, help="Prove that fewer changes would not do (ReLU networks).")
@click.option("--budget", type=float, help="Seconds a proof may take per row.")
@click.option("--confidence", type=float, help="The probability the contrast class has to reach, such as 0.6.")
@click.option("--plausible", type=float, help="How typical of its new class the row has to be, such as 0.1.")
@click.option("--prefer", type=click.Choice(("fewest", "nearest")), help="Fewest features first, or smallest distance.")
@click.option(
    "--among",
    type=click.Choice(("auto", "nearest", "steady")),
    help="Of equally few features: the nearest answer, or the nearest steady one, which leaves room around its values; "
    "auto is steady for ReLU networks and trees.",
)
@limit_options
@click.option("--gamma", type=float, help="Most redundancy (SU) between two changed features, 0 to 1.")
@click.option("--against", help="The class to contrast with; of a number, such as 'above 10' or 'by +10 %'.")
@click.option("--domain", help="Ranges: central, minmax, or a share such as 0.9.")
@click.option("--impute", is_flag=True, help="Fill in missing cells as in training, and say which.")
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Such as 'a <= b', beside the saved ones.")
@click.option("--no-rules", is_flag=True, help="Leave out the saved rules between features.")
@click.option("--follow", multiple=True, metavar="COLUMNS", help="Columns to move along by association, or all.")
@click.option(
    "--memory", metavar="SIZE", help="What may be used, such as 2GB; by a job all in all, with Ray per actor."
)
@job_options
@wording_options
def explain(
    folder: str,
    rows: str,
    spec: str | None,
    row: int | None,
    ids: tuple[str, ...],
    out: str | None,
    html: str | None,
    plot: str | None,
    record_file: str | None,
    as_json: bool,
    against: str | None,
    domain: str | None,
    impute: bool,
    rules: tuple[str, ...],
    no_rules: bool,
    follow: tuple[str, ...],
    wording: TextOptions,
    job: JobOptions,
    limits: LimitOptions,
    **options: Any,
) -> None:
    """Explain rows of a CSV or Parquet table with an explainer that `grace train` or `grace save` wrote to MODEL.

    With --out FOLDER it is a job: the table may be of any size, rows that do not fit are set aside, and a job that was
    broken off goes on where it was when the command is given again.

    \b
    Examples:
      grace explain model/ loans.csv --row 7
      grace explain model/ loans.csv --against good --max-features 3
      grace explain model/ loans.csv --row 7 --frozen age,sex --prove -n 3
      grace explain model/ loans.csv --row 7 --only income,debt --range income=:5000
      grace explain model/ loans.csv --row 7 --style magnitude --template because
      grace explain model/ loans.csv --row 7 --rule "used <= limit" --follow all
      grace explain model/ loans.csv --out why.jsonl
      grace explain model/ loans.csv --out why.csv --id customer,branch
      grace explain model/ loans.csv --html why.html
      grace explain model/ big.parquet --out why/ --memory 2GB
      grace explain why-model/ loans.csv --row 7 --model model.py:pipeline
    """
    settings = {k: v for k, v in options.items() if v is not None and v != ()}
    if is_job(out, job):
        if row is not None or html is not None or plot is not None or as_json or record_file is not None:
            raise click.BadParameter(f"--out {out} is a job: leave out --row, --html, --plot, --record and --json")
        if rules or no_rules or follow or limits:
            from grace.schema.schema import Schema

            schema = Schema.from_dict(head_of(Path(folder))["schemas"][0])
            settings |= limits.of(schema) | rule_settings(schema, rules, no_rules, follow)
        settings |= {"id": comma_separated(ids)} if ids else {}
        settings |= {"model": model_file_of(spec).spec} if spec is not None else {}
        explain_job(folder, rows, str(out), job, wording, against=against, domain=domain, impute=impute, **settings)
        return
    if plot is not None and (row is None or not is_picture(plot)):
        raise click.BadParameter(f"--plot {plot}: give --row, and a name that ends in .png, .pdf or .svg")
    if record_file is not None and Path(record_file).suffix != (".jsonl" if row is None else ".json"):
        raise click.BadParameter(f"--record {record_file}: give --row and FILE.json, or FILE.jsonl for all rows")
    explainer, frame = load_rows(folder, rows, spec)
    frame = row_of(keep_extra_columns(frame, explainer.schema, ids, rows), row, rows)
    settings |= call_settings(explainer, limits, against, domain, impute)
    settings |= rule_settings(explainer.schema, rules, no_rules, follow)
    batch = explainer.explain(frame, **settings)
    if html is not None:
        write_text(Path(html), batch.to_html() if row is None else batch[0].to_html())
        click.echo(f"A page to look at: {html}", err=True)
    if plot is not None:
        write_picture(batch[0], Path(plot))
    if record_file is not None:
        write_records(batch, Path(record_file), rows)
    if out is not None:
        write_batch(batch, Path(out), **wording)
        done = int(batch.success.sum())
        click.echo(f"{done} of {len(batch)} rows explained; written to {out}", err=True)
    elif as_json:
        click.echo(batch.to_json(**wording))
    elif html is None or row is not None:
        print_batch(Console(), batch, comma_separated(ids), **wording)


def keep_extra_columns(frame: pd.DataFrame, schema: Schema, ids: tuple[str, ...], path: str) -> pd.DataFrame:
    """The table without extra columns, except those that --id names; all are kept if it names none."""
    from grace.schema.frames import join_first
    from grace.schema.groups import layout_of

    extra = layout_of(schema, frame).extra
    selected = comma_separated(ids)
    for name in selected:
        if name not in frame.columns:
            raise GraceError(
                f"--id {name}: {path} has no such column; beside the features it has {join_first(extra) or 'none'}"
            )
    extra_kept = [c for c in extra if c in selected or not selected]
    if extra_kept:
        click.echo(f"Kept beside the answers: {', '.join(extra_kept)}", err=True)
    return frame.drop(columns=[c for c in extra if c not in extra_kept])


def write_records(batch: Explanations, path: Path, table: str) -> None:
    """Write one audit record per row, as JSON or JSON lines."""
    from grace.explain.audit_record import record
    from grace.schema.features import plain

    source = {"table": str(Path(table).resolve()), "sha256": hash_of_file(Path(table))}
    indent = 1 if path.suffix == ".json" else None
    records = (record(batch, i, {**source, "row": plain(batch.index[i])}) for i in range(len(batch)))
    write_text(path, "".join(json.dumps(one, ensure_ascii=False, indent=indent) + "\n" for one in records))
    click.echo(f"Recorded in {path}; grace replay asks again.", err=True)


def rule_settings(schema: Schema, rules: tuple[str, ...], no_rules: bool, follow: tuple[str, ...]) -> dict[str, Any]:
    """The settings `rules` and `follow` as JSON types."""
    from grace.schema.rules import rule_to_json

    out: dict[str, Any] = {}
    if follow:
        everything = follow == ("all",) and "all" not in schema.names
        out["follow"] = True if everything else column_list(follow, schema.names, "--follow")
    if rules or no_rules:
        out["rules"] = [*([] if no_rules else map(rule_to_json, schema.rules)), *rules]
    return out


@click.command()
@click.argument("record", type=click.Path(exists=True, dir_okay=False))
@click.option("--folder", type=click.Path(exists=True, file_okay=False), help="The saved explainer, if it has moved.")
@click.option("--model", "spec", metavar="FILE", help=f"The model, if it has moved. {MODEL_HELP}")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def replay(record: str, folder: str | None, spec: str | None, as_json: bool) -> None:
    """Give the answer of a record again, byte for byte, or say what has changed.

    A record is written by `grace explain --record`. The model, the schema, the training rows that the explainer keeps
    and the versions of the software are compared with the record; then its question is asked again. What depends on
    the time that a proof had (the bound on the distance) is not compared. Exit code 0: the same answer; 1: another.

    \b
    Examples:
      grace explain model/ loans.csv --row 7 --record why-7.json
      grace replay why-7.json
      grace replay why-7.json --folder model-of-today/
    """
    from grace.explain.audit_record import read_record
    from grace.explain.audit_record import replay as replay_record
    from grace.explain.store import load

    saved = read_record(record)
    path = folder or saved["explainer"].get("folder")
    if not path:
        raise GraceError(f"{record} does not say where its explainer was saved; give --folder")
    explainer = load(path, None if spec is None else model_file_of(spec).spec, same_model=False)
    replayed = replay_record(saved, explainer)
    if as_json:
        result = {key: getattr(replayed, key) for key in ("same", "changed", "different", "answer")}
        click.echo(json.dumps(result, ensure_ascii=False, indent=1))
        sys.exit(0 if replayed.same else 1)
    for line in replayed.changed:
        click.echo(f"Changed since: {line}", err=True)
    if replayed.same:
        click.echo(f"The same answer: {replayed.answer['text']}")
        return
    click.echo(f"Another answer: {replayed.answer['text']}")
    click.echo(f"It was: {saved['answer']['text']}")
    for line in replayed.different:
        click.echo(f"Different: {line}", err=True)
    sys.exit(1)
