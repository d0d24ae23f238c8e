"""Embedded tables: the eleven of the paper, two with categorical features, and one for regression.

PROVENANCE.md has sources and licences.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from grace.errors import GraceError
from grace.schema.schema import Schema

PAPER = (
    "eegeye",
    "diabetes",
    "cancer95",
    "phoneme",
    "segment",
    "magic",
    "biodeg",
    "spam",
    "cancer92",
    "mfeat",
    "musk",
)
CATEGORICAL = ("adult", "german_credit")
NUMBERS = ("california_housing",)

CASE_STUDY: Mapping[str, int] = {
    "clump_thickness": 8,
    "cell_size_uniformity": 5,
    "cell_shape_uniformity": 5,
    "marginal_adhesion": 5,
    "single_epithelial_cell_size": 2,
    "bare_nuclei": 10,
    "bland_chromatin": 4,
    "normal_nucleoli": 3,
    "mitoses": 1,
}
"""The row of cancer95 in the paper's case study (Table Sup2)."""


@dataclass(frozen=True)
class Split:
    """Training, validation and test rows, each with the target column."""

    train: pd.DataFrame
    validation: pd.DataFrame
    test: pd.DataFrame


@dataclass(frozen=True)
class Table:
    """A data set. `frame` includes the target; `declared` is the hand-written part of the schema."""

    name: str
    frame: pd.DataFrame
    declared: Schema

    @property
    def target(self) -> str:
        assert self.declared.target is not None
        return self.declared.target

    @property
    def schema(self) -> Schema:
        """The hand-written schema, completed by ranges and categories of the whole table."""
        return Schema.infer(self.frame, like=self.declared)

    def split(self, seed: int = 0) -> Split:
        """The paper's split: a tenth for testing, then a tenth of the rest for validation, stratified by class."""
        return split(self.frame, self.target, seed, stratify=bool(self.declared.classes))

    def __repr__(self) -> str:
        d = self.declared
        predicted = f"{len(d.classes)} classes" if d.classes else "a number to predict"
        return f"Table({self.name!r}: {len(self.frame)} rows, {len(d)} features, {predicted})"


def split(frame: pd.DataFrame, target: str, seed: int, *, stratify: bool = True) -> Split:
    """A tenth of the rows for testing, then a tenth of the rest for validation, stratified by the target if
    `stratify`."""
    rest, test = train_test_split(frame, test_size=0.1, stratify=frame[target] if stratify else None, random_state=seed)
    labels = rest[target] if stratify else None
    train, validation = train_test_split(rest, test_size=0.1, stratify=labels, random_state=seed)
    return Split(train, validation, test)


def is_case_study(frame: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows of cancer95 (n,) equal the patient of the paper's case study."""
    patient = pd.Series(CASE_STUDY)
    return np.asarray((frame[list(patient.index)] == patient).all(axis=1))


def names() -> tuple[str, ...]:
    """The names of the embedded tables."""
    return PAPER + CATEGORICAL + NUMBERS


@cache
def _read(name: str) -> tuple[pd.DataFrame, Schema]:
    here = files("grace.datasets")
    with (here / "data" / f"{name}.csv.gz").open("rb") as file, gzip.open(file) as table:
        frame = pd.read_csv(table)
    schema = Schema.from_json((here / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    for words in sorted((here / "schemas" / "words").iterdir(), key=str):
        if words.name.startswith(f"{name}."):
            schema = schema.translate(words.name.split(".")[1], json.loads(words.read_text(encoding="utf-8")))
    return frame, schema


def load(name: str) -> Table:
    """An embedded table by name."""
    if name not in names():
        raise GraceError(f"there is no table {name!r}; there are {', '.join(names())}")
    frame, declared = _read(name)
    return Table(name, frame.copy(), declared)
