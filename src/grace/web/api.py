"""The JSON API: POST /api/predict, /api/explain, /api/profile, /api/reasons and /api/because, GET /api/schema."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from grace.schema.features import Categorical, Value
from grace.schema.schema import Schema
from grace.text import languages
from grace.web.bodies import TEXT_OPTIONS, Alone, Ask, Enough, WhichSets, Why, check_text_options, question
from grace.web.rows import read_row
from grace.web.service import Served, find_model
from grace.web.state import ALL_STYLES


class Health(BaseModel):
    """The server is there."""

    status: str
    models: list[str]
    version: str


class Error(BaseModel):
    """What went wrong, in one line that names the culprit and the remedy."""

    error: str


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
        check_text_options(text_options)
        answer = await served.explain(await asyncio.to_thread(question, asked, served))
        return JSONResponse(finite({**answer.e.to_dict(), "text": answer.e.text(**text_options)}))

    @routes.post("/profile", summary="What each feature of a row would do alone", responses=POST_ERRORS)
    async def profile(asked: Alone) -> JSONResponse:
        served = find_model(models, asked.model)
        check_text_options({"language": asked.language})
        found = await served.profile(await asyncio.to_thread(question, asked, served), asked.forecasts)
        return JSONResponse(finite(found.to_dict(language=asked.language)))

    @routes.post(
        "/reasons", summary="All minimal sets of features that could have changed the prediction", responses=POST_ERRORS
    )
    async def reasons(asked: WhichSets) -> JSONResponse:
        served = find_model(models, asked.model)
        check_text_options({"language": asked.language})
        size = 2 if asked.max_features is None else asked.max_features
        asked_row = await asyncio.to_thread(question, asked, served)
        found = await served.reasons(asked_row, size, asked.seconds, asked.shown)
        return JSONResponse(finite(found.to_dict(language=asked.language)))

    @routes.post(
        "/because", summary="Features that suffice for the prediction, whatever the others are", responses=POST_ERRORS
    )
    async def because(asked: Enough) -> JSONResponse:
        served = find_model(models, asked.model)
        check_text_options({"language": asked.language})
        asked_row = await asyncio.to_thread(question, asked, served)
        found = await served.because(asked_row, asked.smallest, asked.seconds)
        return JSONResponse(finite(found.to_dict(language=asked.language)))

    @routes.get("/schema", summary="The columns, classes and words of the models", responses=GET_ERRORS)
    async def schema() -> JSONResponse:
        summaries = [
            {"model": m.name, "task": m.task, "examples": len(m.examples), **schema_summary(m.schema, m.classes)}
            for m in models.values()
        ]
        return JSONResponse(finite({"models": summaries, "styles": ALL_STYLES, "languages": languages.names()}))

    return routes


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
