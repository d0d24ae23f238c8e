"""The design of a study, which is fixed when the study is created. Files of its directory:

study.json        the design: rows, texts, pictures
model/            the model that classifies adjusted rows, without its training rows
responses.sqlite  participants and their answers
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from grace.errors import GraceError
from grace.schema.features import Value
from grace.schema.parsing import read_json, read_text, record
from grace.schema.schema import Schema

FORMAT = 1
DESIGN, MODEL, RESPONSES = "study.json", "model", "responses.sqlite"

METHODS = ("grace", "lime")
TASKS = ("rate", "adjust")
MINUTES: Mapping[str, float] = {"rate": 1.5, "adjust": 3.0}
"""Answers given faster are excluded, as in the paper (its appendix, "Evaluation of Explanation")."""


@dataclass(frozen=True)
class Arm:
    """A treatment: the explanations of one method, with or without its picture."""

    method: str
    picture: bool


@dataclass(frozen=True)
class Account:
    """One method's explanation of one row. The text beside a picture is shorter, as in the paper."""

    text: str
    text_beside_picture: str
    picture: str


@dataclass(frozen=True)
class Item:
    """A row, the model's prediction, and each method's explanation."""

    row: Mapping[str, Value]
    predicted: Value
    probability: float | None  # None for a model without probabilities
    accounts: Mapping[str, Account]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study of one task. `consent` is a custom information text, with paragraphs separated by empty lines."""

    task: str
    source: str
    seed: int
    schema: Schema
    arms: tuple[Arm, ...]
    items: tuple[Item, ...]
    min_minutes: float
    title: str
    contact: str = ""
    consent: str = ""

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise GraceError(f"task {self.task!r} is unknown; use {' or '.join(TASKS)}")
        if not self.items or not self.arms:
            raise GraceError("a study needs at least one item and one arm")
        if not 0 <= self.min_minutes < 24 * 60:
            raise GraceError(f"min_minutes={self.min_minutes}: give minutes, such as {MINUTES[self.task]}")
        for arm in self.arms:
            if arm.method not in METHODS:
                raise GraceError(f"an arm's method is {arm.method!r}; it must be {' or '.join(METHODS)}")
            if not all(arm.method in item.accounts for item in self.items):
                raise GraceError(f"an item has no account by {arm.method}, which an arm of the study shows")

    def shown(self, arm: int, item: int) -> tuple[Account, str, bool]:
        """The explanation that an arm shows of an item, its text, and whether there is a picture."""
        treatment = self.arms[arm]
        account = self.items[item].accounts[treatment.method]
        return account, account.text_beside_picture if treatment.picture else account.text, treatment.picture

    @cached_property
    def name(self) -> str:
        """A short identifier: the hash of the study."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    # -- JSON ---------------------------------------------------------------------------------

    def to_json(self) -> str:
        parts = {
            "format": FORMAT,
            **{k: getattr(self, k) for k in ("task", "title", "source", "seed", "min_minutes", "contact", "consent")},
            "arms": [asdict(arm) for arm in self.arms],
            "schema": self.schema.to_dict(),
            "items": [{**asdict(item), "row": dict(item.row)} for item in self.items],
        }
        return json.dumps(parts, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, written: str) -> Study:
        parts = read_json(written, "the study")
        if not isinstance(parts, dict) or parts.pop("format", None) != FORMAT:
            raise GraceError(f"this version reads studies of format {FORMAT}")
        return cls(**record(cls, parts, "the study"))


def load(directory: str | Path) -> Study:
    """Load the study in a directory made by `grace study new`."""
    file = Path(directory) / DESIGN
    if not file.is_file():
        raise GraceError(f"{directory} is not a study: it has no {DESIGN}; make one with grace study new")
    try:
        return Study.from_json(read_text(file))
    except GraceError as reason:
        raise GraceError(f"{file}: {reason}") from reason
