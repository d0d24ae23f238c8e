"""`grace replay`: ask the question of a record again."""

from __future__ import annotations

import json
import sys

import click

from grace.cli.save import MODEL_HELP, announced
from grace.errors import GraceError


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
    from grace.explain.audit_record import replay as again
    from grace.explain.store import load

    known = read_record(record)
    place = folder or known["explainer"].get("folder")
    if not place:
        raise GraceError(f"{record} does not say where its explainer was saved; give --folder")
    explainer = load(place, None if spec is None else announced(spec).spec, same_model=False)
    found = again(known, explainer)
    if as_json:
        said = {"same": found.same, "changed": found.changed, "different": found.different, "answer": found.answer}
        click.echo(json.dumps(said, ensure_ascii=False, indent=1))
        sys.exit(0 if found.same else 1)
    for line in found.changed:
        click.echo(f"Changed since: {line}", err=True)
    if found.same:
        click.echo(f"The same answer: {found.answer['text']}")
        return
    click.echo(f"Another answer: {found.answer['text']}")
    click.echo(f"It was: {known['answer']['text']}")
    for line in found.different:
        click.echo(f"Different: {line}", err=True)
    sys.exit(1)
