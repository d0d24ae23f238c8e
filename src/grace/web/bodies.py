"""The bodies of API requests, and the questions to the explainer that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, FailFast, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from grace.errors import GraceError
from grace.explain.explanations import MOST_TOGETHER
from grace.problem.settings import CHOICES
from grace.problem.target_range import target_range_of
from grace.schema.features import Categorical, Value
from grace.schema.schema import Schema
from grace.text import languages
from grace.web.aims import read_aim
from grace.web.rows import parse_cell, read_row
from grace.web.service import BUDGET, RowQuestion, Served
from grace.web.state import ALL_STYLES, MAX_ANSWERS

MAX_BUDGET = 5.0
TEXT_OPTIONS = ("style", "template", "language", "seed", "hedge")
METHODS = CHOICES["method"]
MAX_NAMES = 50_000  # in a list
MAX_CHANGES = 10**9
MAX_SETS = 50  # shown with values
MAX_SEED = 2**63 - 1


def one_of(*words: str) -> dict[str, Any]:
    """OpenAPI: a string among these words, or null."""
    return {"enum": [*words, None]}


class Ask(BaseModel):
    """A row to predict."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_flood(cls, data: Any) -> Any:
        """Report one unknown field instead of thousands."""
        if isinstance(data, dict) and len(data) > len(cls.model_fields):
            unknown = next(str(part) for part in data if part not in cls.model_fields)
            raise PydanticCustomError("unknown_part", "{part} is unknown; leave it out", {"part": unknown[:60]})
        return data

    @field_validator(
        *("max_features", "n", "budget", "gamma", "confidence", "seed", "seconds", "shown"),
        mode="before",
        check_fields=False,
    )
    @classmethod
    def _number(cls, value: Any) -> Any:
        if isinstance(value, bool | str):
            raise PydanticCustomError("no_number", "input should be a number")
        return value

    @field_validator("impute", "prove", "hedge", "forecasts", "smallest", mode="before", check_fields=False)
    @classmethod
    def _truth(cls, value: Any) -> Any:
        if not isinstance(value, bool):
            raise PydanticCustomError("no_truth", "input should be true or false")
        return value

    row: dict[str, Any] = Field(description="A value for each column; see /api/schema.")
    model: str | None = Field(None, description="Which model, if the server has several; else the first.")
    impute: bool = Field(False, description="Fill in missing cells as in training, and say which.")


Names = Annotated[list[str], FailFast(), Field(max_length=MAX_NAMES)]


class Limited(Ask):
    """A row and what may change about it. What is left out is as the explainer was saved."""

    against: str | int | float | bool | None = Field(
        None,
        description="The class to contrast with, any by default; of a number what it should have been, such as "
        "above 10, below 10, within 5 10, by -3 or by +10 %.",
    )
    max_features: int | None = Field(None, ge=1, le=MAX_CHANGES, description="K, the most features that may change.")
    frozen: Names = Field([], description="Features that must not change.")
    only: list[str] | None = Field(None, max_length=MAX_NAMES, description="Features that may change, and no others.")
    protected: Names = Field([], description="Further features to protect, as the schema may protect some.")
    increase_only: Names = Field([], description="Features that may only rise.")
    decrease_only: Names = Field([], description="Features that may only fall.")
    ranges: dict[str, Any] = Field(
        {},
        max_length=MAX_NAMES,
        description="By feature [low, high], null for no bound; of a category, the values that may be chosen.",
        json_schema_extra={"additionalProperties": {"type": "array", "items": {}}},
    )
    costs: dict[str, Any] = Field(
        {},
        max_length=MAX_NAMES,
        description="By feature, what a change of one spread costs; 1 by default.",
        json_schema_extra={"additionalProperties": {"type": "number"}},
    )
    gamma: float | None = Field(None, ge=0, le=1, description="Most redundancy between two changed features.")
    confidence: float | None = Field(None, ge=0, lt=1, description="The probability the contrast class has to reach.")
    prefer: str | None = Field(None, description="fewest or nearest.", json_schema_extra=one_of(*CHOICES["prefer"]))
    among: str | None = Field(
        None,
        description="Of equally few features the nearest answer, or the nearest steady one, with room around it; auto "
        "is steady for ReLU networks and trees.",
        json_schema_extra=one_of(*CHOICES["among"]),
    )
    distance: str | None = Field(None, description="l1, l2 or linf.", json_schema_extra=one_of(*CHOICES["distance"]))
    method: str | None = Field(None, description=f"{', '.join(METHODS)}.", json_schema_extra=one_of(*METHODS))
    language: str | None = Field(
        None, description=f"{', '.join(languages.names())}.", json_schema_extra=one_of(*languages.names())
    )


class Why(Limited):
    """A row to explain. What is left out is as the explainer was saved."""

    n: int = Field(1, ge=1, le=MAX_ANSWERS, description="How many answers, each with other features.")
    prove: bool = Field(False, description="Prove that no answer with fewer changes exists (ReLU networks).")
    budget: float = Field(BUDGET, ge=0, le=MAX_BUDGET, description="Seconds that a proof may take.")
    style: str | None = Field(None, description=f"{', '.join(ALL_STYLES)}.", json_schema_extra=one_of(*ALL_STYLES))
    template: str | None = Field(
        None, description=f"{', '.join(languages.FORMS)}.", json_schema_extra=one_of(*languages.FORMS)
    )
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Draw the words of the template by this number.")
    hedge: bool = Field(False, description="Say how sure the model is.")


class Alone(Limited):
    """A row whose profile is asked for. What is left out is as the explainer was saved."""

    forecasts: bool = Field(False, description="Also how well adding up points forecasts other changes of the row.")


class Enough(Limited):
    """A row of which is asked what suffices for its class. What is left out is as the explainer was saved."""

    smallest: bool = Field(False, description="As few features as there can be.")
    seconds: float = Field(BUDGET, ge=0, le=MAX_BUDGET, description="Seconds of work.")


class WhichSets(Limited):
    """A row whose reasons are asked for. What is left out is as the explainer was saved."""

    max_features: int | None = Field(
        2, ge=1, le=MOST_TOGETHER, description="Sets of at most so many features; 2 by default."
    )
    seconds: float = Field(BUDGET, ge=0, le=MAX_BUDGET, description="Seconds of work.")
    shown: int = Field(10, ge=0, le=MAX_SETS, description="How many sets are given with values; all are counted.")


def question(asked: Limited, served: Served) -> RowQuestion:
    """The question to the explainer."""
    schema = served.schema
    row, filled = read_row(schema, asked.row, schema.names if asked.impute else ())
    words = {*TEXT_OPTIONS, "row", "model", "impute", "against", "ranges"}
    words |= {"forecasts", "smallest", "seconds", "shown"}
    words |= {"max_features"} if isinstance(asked, WhichSets) else set()
    limits = {k: v for k, v in asked.model_dump(exclude=words).items() if v is not None}
    for part in ("frozen", "only", "protected", "increase_only", "decrease_only"):
        if part in limits:
            limits[part] = list(dict.fromkeys(limits[part]))
    limits["costs"] = {name: _cost(name, cost) for name, cost in asked.costs.items()}
    limits["ranges"] = {name: _range(schema, name, span) for name, span in asked.ranges.items()} or None
    if served.is_regression:
        limits["against"] = target_range_of(read_aim(str(asked.against or "")).text)
    elif asked.against is not None:
        limits["against"] = next((c for c in served.classes if str(c) == str(asked.against)), asked.against)
    return RowQuestion(row, limits, filled, with_pictures=False)


def _cost(name: str, cost: Any) -> float:
    number = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and abs(cost) < 1e300 else 0.0
    if not number > 0:
        raise GraceError(f"costs: column {name!r} needs a number above 0 and below 1e300, such as 2.5")
    return number


def _range(schema: Schema, name: str, span: Any) -> list[Value | None]:
    feature = schema[name]
    if not isinstance(span, list):
        raise GraceError(f"ranges: column {name!r} needs a list")
    if not isinstance(feature, Categorical) and len(span) != 2:
        raise GraceError(f"ranges: column {name!r} needs [low, high], with null for no bound; not {span!r}")
    return [None if end is None else parse_cell(feature, end) for end in span]


def check_text_options(text_options: Mapping[str, Any]) -> None:
    """Reject unknown words before the explanation is computed."""
    known = {"style": ALL_STYLES, "template": languages.FORMS, "language": languages.names()}
    for key, words in known.items():
        if text_options.get(key) is not None and text_options[key] not in words:
            raise GraceError(f"{key}={text_options[key]!r} is unknown; use one of {', '.join(words)}")
