"""What commands that ask about rows have in common: loading the explainer and the rows, and the settings of a call."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from grace.cli.limit_options import LIMITS, LimitOptions
from grace.cli.save import MODEL_HELP, model_file_of
from grace.cli.terminal import domain_of, grouped_options, label_of, read_table
from grace.errors import GraceError

if TYPE_CHECKING:
    import pandas as pd

    from grace.explain.explainer import Explainer
    from grace.explain.explanations import Explanations


@dataclass(frozen=True)
class Question:
    """The options of a question about rows, as typed."""

    spec: str | None
    row: int | None
    against: str | None
    domain: str | None
    impute: bool
    limits: LimitOptions

    def ask(self, folder: str, rows: str) -> Explanations:
        """The explanations of the rows of a table, or of one of them."""
        explainer, frame = load_rows(folder, rows, self.spec)
        settings = call_settings(explainer, self.limits, self.against, self.domain, self.impute)
        return explainer.explain(row_of(frame, self.row, rows), **settings)


def _question(**typed: Any) -> Question:
    limits = LimitOptions(**{f.name: typed.pop(f.name) for f in fields(LimitOptions)})
    return Question(**typed, limits=limits)


OWN = ("spec", "row", "against", "domain", "impute")

question_options = grouped_options(
    "question",
    [*OWN, *(f.name for f in fields(LimitOptions))],
    _question,
    click.option("--model", "spec", metavar="FILE", help=f"The model, if it is not in MODEL. {MODEL_HELP}"),
    click.option("--row", type=int, help="Only this row (0 is the first)."),
    click.option("--against", help="The class to contrast with; of a number, such as 'above 10' or 'by +10 %'."),
    *LIMITS,
    click.option("--domain", help="Ranges: central, minmax, or a share such as 0.9."),
    click.option("--impute", is_flag=True, help="Fill in missing cells as in training."),
)
"""Adds the options of a `Question`, which the command gets as the argument `question`."""


def load_rows(folder: str, rows: str, spec: str | None) -> tuple[Explainer, pd.DataFrame]:
    """The explainer saved in a folder, and the rows of a table."""
    from grace.explain.store import load

    explainer = load(folder, None if spec is None else model_file_of(spec).spec)
    frame = read_table(rows, explainer.schema)
    if len(frame) == 0:
        raise GraceError(f"{rows} has no rows: the table is empty")
    return explainer, frame


def row_of(frame: pd.DataFrame, row: int | None, path: str) -> pd.DataFrame:
    """One row of a table as a table, or all of them."""
    if row is None:
        return frame
    if not 0 <= row < len(frame):
        raise GraceError(f"--row {row}: {path} has rows 0 to {len(frame) - 1}")
    return frame.iloc[[row]]


def call_settings(
    explainer: Explainer, limits: LimitOptions, against: str | None, domain: str | None, impute: bool
) -> dict[str, Any]:
    """The options as keywords of `Explainer.explain`, without those not given."""
    out, model = limits.of(explainer.schema), explainer.model
    if impute:
        out["missing"] = "fill"
    if against is not None:
        out["against"] = label_of(against, model.task, model.classes)
    if domain is not None:
        out["domain"] = domain_of(domain)
    return out
