"""Validates the JSON of an explanation: its parts, their types, and their consistency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from grace.errors import GraceError
from grace.explain.diagnosis import ORDER
from grace.schema.domains import Domain
from grace.schema.features import Categorical, Feature, Numeric, Value
from grace.schema.parsing import Bound, fitted
from grace.schema.schema_file import feature_from_dict

LIMITS = ("method", *ORDER)
LISTS = ("free", "rules")  # limits whose values are lists of names
REMARKS = {
    "known missing": ("feature",),
    "filled": ("feature", "value"),
    "outside": ("feature", "value", "low", "high"),
    "fraction": ("feature", "value"),
    "rule": ("rule",),
    "brittle": ("feature",),
    "tie": (),
}
"""The kinds of remarks, and the parts of each."""


class ChangeJson(TypedDict):
    schema: Mapping[str, Any]
    old: Value
    new: Value
    span: NotRequired[tuple[Bound, Bound] | None]


class LimitChangeJson(TypedDict):
    limit: str
    value: NotRequired[Value | list[str] | None]


class MissJson(TypedDict):
    why: str
    proven: NotRequired[bool]
    most: NotRequired[int]
    domain: NotRequired[Domain]
    confidence: NotRequired[float]
    against: NotRequired[Value | Mapping[str, Any] | None]
    ways: NotRequired[list[LimitChangeJson]]


class WantedJson(TypedDict):
    low: float | None
    high: float | None
    spread: float


class ProofJson(TypedDict):
    verdict: str
    except_ties: NotRequired[bool]
    box: NotRequired[Mapping[str, list[str | bool | Bound]]]
    frozen: NotRequired[list[str]]
    missing: NotRequired[list[str]]
    increase_only: NotRequired[list[str]]
    decrease_only: NotRequired[list[str]]
    gamma: NotRequired[float]
    confidence: NotRequired[float]
    against: NotRequired[Value | Mapping[str, Any] | None]
    wanted: NotRequired[WantedJson]


class RemarkJson(TypedDict):
    what: str
    feature: NotRequired[str]
    value: NotRequired[Value]
    low: NotRequired[Bound | str]
    high: NotRequired[Bound | str]
    rule: NotRequired[str]


class SettingsJson(TypedDict):
    confidence: NotRequired[float]


class ExplanationJson(TypedDict):
    row: Mapping[str, Value | None]
    changes: list[ChangeJson]
    classes: tuple[Value, ...]
    original_class: Value
    contrast_class: Value | None
    before: tuple[float, ...]
    after: tuple[float, ...]
    success: bool
    miss: MissJson | None
    proof: ProofJson | None
    checks: Mapping[str, bool]
    distance: float
    remarks: tuple[RemarkJson, ...]
    settings: SettingsJson
    words: Mapping[str, Any]
    typical: NotRequired[Mapping[str, float]]
    task: NotRequired[str]
    sure: NotRequired[bool]
    cutoffs: NotRequired[tuple[tuple[Value, float], ...]]
    wanted: NotRequired[WantedJson | None]
    alternatives: NotRequired[list[Mapping[str, Any]]]
    follow_on: NotRequired[list[ChangeJson]]
    protected: NotRequired[tuple[str, ...]]
    region: NotRequired[Mapping[str, Any] | None]


def explanation_parts(data: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the JSON of an explanation, validated."""
    parts: dict[str, Any] = fitted(data, ExplanationJson, "the explanation")
    sure, regression = parts.get("sure", True), parts.get("task", "classification") == "regression"
    labels, ends = parts["classes"], (parts["original_class"], parts["contrast_class"])
    if regression != (parts.get("wanted") is not None):
        raise GraceError("the explanation is damaged: `wanted` goes with a regression, and only with that")
    if regression and not all(isinstance(end, int | float) for end in ends if end is not None):
        raise GraceError("the explanation is damaged: what a regression predicts is not a number")
    if regression and not parts["wanted"]["spread"] > 0:
        raise GraceError("the explanation is damaged: the spread of predictions is not positive")
    if not regression and any(end is not None and end not in labels for end in ends):
        raise GraceError("the explanation is damaged: its classes are not among those of the model")
    if any(label not in labels or not 0 < share < 1 for label, share in parts.get("cutoffs", ())):
        raise GraceError("the explanation is damaged: its cut-offs are not probabilities of its classes")
    if sure and any(len(parts[name]) != (1 if regression else len(labels)) for name in ("before", "after")):
        raise GraceError("the explanation is damaged: `before` and `after` have not one number per class")
    complete = ends[1] is not None and len(parts["changes"]) > 0
    if parts["success"] == (parts["miss"] is not None) or (parts["success"] and not complete):
        raise GraceError("the explanation is damaged: it has an answer or the reason why there is none, not both")
    for change in (parts["miss"] or {}).get("ways", ()):
        if change["limit"] not in LIMITS or set(change) - {"limit", "value"}:
            raise GraceError(f"the explanation is damaged: there is no limit {change['limit']!r} to lift")
        if (change["limit"] in LISTS) != isinstance(change.get("value"), list) or change.get("value") == []:
            raise GraceError(f"the explanation is damaged: the way out by {change['limit']!r} has another value")
    for remark in parts["remarks"]:
        if set(remark) != {"what", *REMARKS.get(remark["what"], ("unknown",))}:
            raise GraceError(f"the explanation is damaged: it has an unknown remark {remark['what']!r}")
    return parts


def change_parts(data: Mapping[str, Any]) -> tuple[Feature, Value, Value, tuple[float, float] | None]:
    """Feature, old and new value, and span of a change, validated."""
    parts = fitted(data, ChangeJson, "a change")
    feature = feature_from_dict(parts["schema"])
    for name in ("old", "new"):
        if isinstance(feature, Numeric) and isinstance(parts[name], str | bool):
            raise GraceError(f"feature {feature.name!r} is a number, and its {name} value {parts[name]!r} is none")
    if isinstance(feature, Categorical) and parts.get("span") is not None:
        raise GraceError(f"feature {feature.name!r} is a category, which has no span")
    return feature, parts["old"], parts["new"], parts.get("span")
