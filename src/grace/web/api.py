"""The JSON API: POST /api/predict, POST /api/explain, GET /api/schema."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, FailFast, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from grace.errors import GraceError
from grace.problem.settings import CHOICES
from grace.problem.target_range import target_range_of
from grace.schema.features import Categorical, Value
from grace.schema.schema import Schema
from grace.text import languages
from grace.web.aims import read_aim
from grace.web.rows import parse_cell, read_row
from grace.web.service import BUDGET, RowQuestion, Served, find_model
from grace.web.state import ALL_STYLES, MAX_ANSWERS

MAX_BUDGET = 5.0
TEXT_OPTIONS = ("style", "template", "language", "seed", "hedge")
METHODS = CHOICES["method"]
MAX_NAMES = 50_000  # in a list
MAX_CHANGES = 10**9
MAX_SEED = 2**63 - 1


class Health(BaseModel):
    """The server is there."""

    status: str
    models: list[str]
    version: str


class Error(BaseModel):
    """What went wrong, in one line that names the culprit and the remedy."""

    error: str


def one_of(*words: str) -> dict[str, Any]:
    """OpenAPI: a string among these words, or null."""
    return {"enum": [*words, None]}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI: the responses of these error statuses."""
    return {status: {"model": Error, "description": ERROR_DESCRIPTIONS[status]} for status in statuses}


ERROR_DESCRIPTIONS = {
    400: "The body cannot be read.",
    403: "The request comes from a page of another site.",
    404: "There is no such address.",
    405: "The address takes other methods; `Allow` says which.",
    408: "The body did not arrive in time.",
    413: "More than 1 MB was sent.",
    421: "The server does not go by the name in `Host`.",
    422: "Something in the question is wrong.",
    429: "Too many questions of this client are waiting; `Retry-After` says when to come back.",
    500: "A fault of the server.",
    503: "Too many questions are waiting; `Retry-After` says when to come back.",
}
GET_ERRORS = error_responses(403, 405, 408, 413, 421, 500)
POST_ERRORS = error_responses(400, 403, 405, 408, 413, 421, 422, 429, 500, 503)


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

    @field_validator("max_features", "n", "budget", "gamma", "confidence", "seed", mode="before", check_fields=False)
    @classmethod
    def _number(cls, value: Any) -> Any:
        if isinstance(value, bool | str):
            raise PydanticCustomError("no_number", "input should be a number")
        return value

    @field_validator("impute", "prove", "hedge", mode="before", check_fields=False)
    @classmethod
    def _truth(cls, value: Any) -> Any:
        if not isinstance(value, bool):
            raise PydanticCustomError("no_truth", "input should be true or false")
        return value

    row: dict[str, Any] = Field(description="A value for each column; see /api/schema.")
    model: str | None = Field(None, description="Which model, if the server has several; else the first.")
    impute: bool = Field(False, description="Fill in missing cells as in training, and say which.")


Names = Annotated[list[str], FailFast(), Field(max_length=MAX_NAMES)]


class Why(Ask):
    """A row to explain. What is left out is as the explainer was saved."""

    against: str | int | float | bool | None = Field(
        None,
        description="The class to contrast with, any by default; of a number what it should have been, such as "
        "above 10, below 10, within 5 10, by -3 or by +10 %.",
    )
    max_features: int | None = Field(None, ge=1, le=MAX_CHANGES, description="K, the most features that may change.")
    n: int = Field(1, ge=1, le=MAX_ANSWERS, description="How many answers, each with other features.")
    prove: bool = Field(False, description="Prove that no answer with fewer changes exists (ReLU networks).")
    budget: float = Field(BUDGET, ge=0, le=MAX_BUDGET, description="Seconds that a proof may take.")
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
    distance: str | None = Field(None, description="l1, l2 or linf.", json_schema_extra=one_of(*CHOICES["distance"]))
    method: str | None = Field(None, description=f"{', '.join(METHODS)}.", json_schema_extra=one_of(*METHODS))
    style: str | None = Field(None, description=f"{', '.join(ALL_STYLES)}.", json_schema_extra=one_of(*ALL_STYLES))
    template: str | None = Field(
        None, description=f"{', '.join(languages.FORMS)}.", json_schema_extra=one_of(*languages.FORMS)
    )
    language: str | None = Field(
        None, description=f"{', '.join(languages.names())}.", json_schema_extra=one_of(*languages.names())
    )
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Draw the words of the template by this number.")
    hedge: bool = Field(False, description="Say how sure the model is.")


def router(models: Mapping[str, Served]) -> APIRouter:
    """The API's routes for these models."""
    routes = APIRouter(prefix="/api")

    @routes.post(
        "/predict",
        summary="The class of a row and the probability of each, or the number predicted for it",
        responses=POST_ERRORS,
    )
    async def predict(asked: Ask) -> JSONResponse:
        served = find_model(models, asked.model)
        fill = served.schema.names if asked.impute else ()
        row, filled = await asyncio.to_thread(read_row, served.schema, asked.row, fill)
        extra = {"filled": {name: row[name] for name in filled}} if asked.impute else {}
        if served.is_regression:
            return JSONResponse(finite({"prediction": await served.number(row), **extra}))
        best, shares = await served.predict(row)
        each = [{"class": c, "probability": p} for c, p in zip(served.classes, shares, strict=False)] or None
        return JSONResponse({"class": served.classes[best], "probabilities": each, **extra})

    @routes.post("/explain", summary="Why this class rather than that one", responses=POST_ERRORS)
    async def explain(asked: Why) -> JSONResponse:
        served = find_model(models, asked.model)
        text_options: Any = {key: getattr(asked, key) for key in TEXT_OPTIONS}
        _check_text_options(text_options)
        answer = await served.explain(await asyncio.to_thread(question, asked, served))
        return JSONResponse(finite({**answer.e.to_dict(), "text": answer.e.text(**text_options)}))

    @routes.get("/schema", summary="The columns, classes and words of the models", responses=GET_ERRORS)
    async def schema() -> JSONResponse:
        summaries = [
            {"model": m.name, "task": m.task, "examples": len(m.examples), **schema_summary(m.schema, m.classes)}
            for m in models.values()
        ]
        return JSONResponse(finite({"models": summaries, "styles": ALL_STYLES, "languages": languages.names()}))

    return routes


def question(asked: Why, served: Served) -> RowQuestion:
    """The question to the explainer."""
    schema = served.schema
    row, filled = read_row(schema, asked.row, schema.names if asked.impute else ())
    words = {*TEXT_OPTIONS, "row", "model", "impute", "against", "ranges"}
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


def _check_text_options(text_options: Mapping[str, Any]) -> None:
    """Reject unknown words before the explanation is computed."""
    known = {"style": ALL_STYLES, "template": languages.FORMS, "language": languages.names()}
    for key, words in known.items():
        if text_options[key] is not None and text_options[key] not in words:
            raise GraceError(f"{key}={text_options[key]!r} is unknown; use one of {', '.join(words)}")


def schema_summary(schema: Schema, classes: tuple[Value, ...]) -> dict[str, Any]:
    """The schema as the API describes it."""
    features = []
    for f in schema.features:
        line: dict[str, Any] = {"name": f.name, "phrase": f.phrase, "typical": f.typical}
        line |= {"frozen": f.frozen, "protected": f.protected}
        if isinstance(f, Categorical):
            line |= {"kind": "category", "categories": list(f.categories), "open": list(f.selectable)}
        else:
            low, high = f.bounds
            line |= {"kind": "number", "whole": bool(f.integer), "low": low, "high": high, "unit": f.unit}
        features.append(line)
    return {"row": schema.row, "target": schema.target, "classes": list(classes), "features": features}


def finite(data: Any) -> Any:
    """The same with null for numbers that JSON does not have."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(k): finite(v) for k, v in data.items()}
    return [finite(v) for v in data] if isinstance(data, list | tuple) else data


def validation_message(reason: RequestValidationError) -> str:
    """The first validation error as a sentence that names the field."""
    first = reason.errors()[0]
    part = ".".join(str(p) for p in first["loc"] if p != "body") or "the body"
    words = {
        "missing": f"{part} is missing; send it as JSON",
        "extra_forbidden": f"{part} is unknown; leave it out, or see /api for what there is",
        "json_invalid": "the body is not JSON; check it for missing quotes and commas",
        "model_attributes_type": "the body must be a JSON object, sent as application/json",
    }
    return words.get(first["type"], f"{part}: {first['msg'][:1].lower()}{first['msg'][1:]}")


def route_table(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The routes of an OpenAPI description, for the HTML page."""
    out = []
    for path, methods in spec["paths"].items():
        for method, route in methods.items():
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            parts = spec["components"]["schemas"].get(body.get("$ref", "").rsplit("/", 1)[-1], {})
            required = parts.get("required", [])
            fields = [(n, n in required, p.get("description", "")) for n, p in parts.get("properties", {}).items()]
            out.append({"path": path, "method": method.upper(), "summary": route["summary"], "fields": fields})
    return out
