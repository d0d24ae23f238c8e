"""`grace save`: an explainer for a model that was trained elsewhere."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from grace.cli.terminal import category_option, domain_of, read_schema, read_table
from grace.errors import GraceError

if TYPE_CHECKING:
    import pandas as pd

    from grace.models.base import Model
    from grace.models.files import ModelFile

MODEL_HELP = (
    "Your own model: a file of XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm) or ONNX, one of torch.export "
    "(.pt2) or FILE.py:NAME; the last two run code, so use only your own."
)


@click.command()
@click.argument("data", type=click.Path(exists=True, dir_okay=False))
@click.option("--model", "spec", required=True, metavar="FILE", help=MODEL_HELP)
@click.option("--target", help="The column that the model predicts, if the table has it.")
@click.option("-o", "--out", required=True, help="Directory to write the explainer to.", type=click.Path())
@click.option(
    "--classes", metavar="A,B,...", help="The classes in the order of the model's outputs, where it does not say them."
)
@click.option(
    "--outputs",
    type=click.Choice(("probabilities", "logits", "labels", "numbers")),
    help="What the model returns; left out, it is found out.",
)
@click.option("--task", type=click.Choice(("classification", "clustering", "regression")), help="If it does not say.")
@click.option(
    "--schema", type=click.Path(exists=True, dir_okay=False), help="A JSON schema with your ranges and words."
)
@click.option(
    "--domain", default="central", show_default=True, help="Ranges: central (1-99 %), minmax, or a share such as 0.9."
)
@click.option("--threshold", multiple=True, metavar="[CLASS=]P", help="As in grace train --threshold.")
@click.option("--no-background", is_flag=True, help="Keep no training rows in the folder.")
@category_option
@click.option("--force", is_flag=True, help="Write over an explainer that is there already.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides which rows are kept.")
def save(
    data: str,
    spec: str,
    target: str | None,
    out: str,
    classes: str | None,
    outputs: str | None,
    task: str | None,
    schema: str | None,
    domain: str,
    threshold: tuple[str, ...],
    no_background: bool,
    categories: list[str],
    force: bool,
    seed: int,
) -> None:
    """Save an explainer for a model of your own, with what explaining needs to know of its training data.

    DATA holds the rows that the model was trained on, or some like them. The folder remembers which model it is for:
    explain, serve and jobs find the file again, or are told by --model, and refuse any other.

    \b
    Examples:
      grace save loans.csv --target risk --model model.json --classes bad,good -o why-model/
      grace save loans.csv --target risk --model model.py:pipeline -o why-model/
      grace explain why-model/ new.csv --row 7
      grace serve why-model/ --rows new.csv
    """
    from grace.explain.explainer import Explainer
    from grace.explain.store import check_target_folder
    from grace.models.threshold import typed
    from grace.models.wrapping import wrap_file
    from grace.schema.domains import tail_of

    tail_of(domain_of(domain))
    check_target_folder(out, overwrite=force)
    file = model_file_of(spec)
    declared = None if schema is None else read_schema(schema)
    frame = read_table(data, declared, used=() if target is None else [target], categories=categories)
    typed_classes = named_classes(classes, frame, target)
    model = wrap_file(file, classes=typed_classes, outputs=outputs, task=task)
    check_classes(model, frame, target, spec)
    if threshold:
        model = model.with_threshold(typed(threshold, model.classes or typed_classes or ()))
    columns = columns_of_model(model)
    if columns is not None and declared is None:
        frame = with_columns(frame, columns, target, data)
    explainer = Explainer(model, frame, target=target, schema=declared, domain=domain_of(domain), seed=seed)
    explainer.save(out, background=not no_background)
    click.echo(f"{agreement(explainer.model, frame, target)}Saved to {out}.", err=True)
    more = f" --model {shlex.quote(spec)}" if file.runs_code else ""
    more += " --against 'by +10 %'" if explainer.model.task == "regression" else ""
    click.echo(f"Now: grace explain {shlex.quote(out)} {shlex.quote(data)} --row 0{more}", err=True)


def model_file_of(spec: str) -> ModelFile:
    """The model file; prints a notice if loading it runs code."""
    from grace.models.files import model_file

    file = model_file(spec)
    if file.runs_code:
        click.echo(f"Running code of {file.path}.", err=True)
    return file


def named_classes(text: str | None, frame: pd.DataFrame, target: str | None) -> list[Any] | None:
    """The typed classes, with the types of the target column."""
    if text is None:
        return None
    from grace.schema.features import plain

    column = [] if target is None or target not in frame.columns else list(frame[target].map(plain).unique())
    typed_classes = {str(label): label for label in column}
    return [typed_classes.get(word.strip(), word.strip()) for word in text.split(",")]


def check_classes(model: Model, frame: pd.DataFrame, target: str | None, spec: str) -> None:
    """Raise an error unless the model knows its classes, or they are 0, 1, ...: the order of names cannot be inferred,
    and a wrong one would invert every explanation."""
    from grace.schema.features import plain

    if model.classes or model.task == "regression":
        return
    labels = [] if target is None or target not in frame.columns else sorted({str(plain(v)) for v in frame[target]})
    if labels and set(labels) == {str(i) for i in range(len(labels))}:
        return
    example = ",".join(labels[:5]) or "bad,good"
    raise GraceError(
        f"{spec} does not say the names of its classes; give them in the order of its outputs: --classes {example}"
    )


def columns_of_model(model: Model) -> list[str] | None:
    """The columns that a model was fitted on, if it knows them."""
    columns = getattr(model, "columns", None)
    if columns is None and model.schema is not None:
        columns = model.schema.columns
    return None if columns is None else list(columns)


def columns_in(frame: pd.DataFrame, spec: str, target: str | None, data: str) -> pd.DataFrame:
    """The columns of the model in a file (all, if it does not know them) and the target."""
    from grace.models.files import EXPORT, ONNX
    from grace.models.wrapping import wrap_file

    file = model_file_of(spec)
    columns = None if file.kind in (EXPORT, ONNX) else columns_of_model(wrap_file(file))  # these store no names
    return frame if columns is None else with_columns(frame, columns, target, data)


def with_columns(frame: pd.DataFrame, columns: list[str], target: str | None, data: str) -> pd.DataFrame:
    """The columns of the model and the target; prints the others."""
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise GraceError(f"{data} has no column {missing[0]!r}, on which the model was fitted")
    used = [c for c in frame.columns if c in set(columns) or c == target]
    left_out = [c for c in frame.columns if c not in set(used)]
    if left_out:
        click.echo(f"Left out, as the model was not fitted on them: {', '.join(map(str, left_out))}.", err=True)
    return frame[used]


def agreement(model: Model, frame: pd.DataFrame, target: str | None) -> str:
    """Accuracy or R² of the model on these rows, as a sentence."""
    import numpy as np

    if target is None or target not in frame.columns or model.task == "clustering":
        return ""
    rows = frame[frame[target].notna()]
    truth = rows[target].to_numpy()
    predicted = model.predict(rows.drop(columns=target))
    if model.task == "regression":
        share = 1 - np.square(predicted - truth).mean() / np.square(truth - truth.mean()).mean()
        return f"R² of the model on these {len(rows)} rows: {share:.3f}. "
    return f"The model classifies {np.mean(predicted == truth):.1%} of these {len(rows)} rows as {target} says. "
