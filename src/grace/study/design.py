"""What a study is: fixed when it is made, the same for everybody who serves or analyses it.

study.json        this design, with every row, text and picture a participant may see
model/            the model that judges adjusted rows, without its training rows
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
"""Answers given in less time are left out, as in the paper (its appendix, "Evaluation of Explanation")."""


@dataclass(frozen=True)
class Arm:
    """What a participant is shown: the words of one method, with or without its picture."""

    method: str
    picture: bool


@dataclass(frozen=True)
class Account:
    """One method's explanation of one row. Beside a picture the text is shorter, as in the paper."""

    text: str
    text_beside_picture: str
    picture: str


@dataclass(frozen=True)
class Item:
    """A row, what the model says about it, and each method's account of that."""

    row: Mapping[str, Value]
    predicted: Value
    probability: float | None  # None if the model gives none
    accounts: Mapping[str, Account]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study of one task. `consent` is the maker's own text, paragraphs apart by empty lines."""

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
        """What an arm shows of an item: the account, its text there, and whether there is a picture."""
        chosen = self.arms[arm]
        account = self.items[item].accounts[chosen.method]
        return account, account.text_beside_picture if chosen.picture else account.text, chosen.picture

    @cached_property
    def name(self) -> str:
        """A short name that no other study has."""
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
    """The study in a directory that `grace study new` made."""
    file = Path(directory) / DESIGN
    if not file.is_file():
        raise GraceError(f"{directory} is not a study: it has no {DESIGN}; make one with grace study new")
    try:
        return Study.from_json(read_text(file))
    except GraceError as reason:
        raise GraceError(f"{file}: {reason}") from reason
