"""Parts of an `Explanation`, read off the arrays of a batch: remarks, and records of a miss and of a proof, which are
complete enough to be checked independently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.explain.diagnosis import LimitChange
from grace.problem.answers import NOT_ASKED, Answers
from grace.proofs.certificate import EXCEPT_TIES, PROVEN
from grace.schema.columns import date_text, is_date
from grace.schema.features import MISSING, Categorical, Feature, Floats, Numeric, Value, plain
from grace.schema.schema import Schema
from grace.text.languages import MAX_NAMED
from grace.text.sentence import MINIMAL

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations

DECIDED = (PROVEN, EXCEPT_TIES)
PROOF_SETTINGS = ("method", "confidence", "gamma", "max_features", "prefer", "distance")
"""Settings that the record of a proof holds."""


def cell_of(feature: Feature, code: float) -> Value | None:
    """The value of an encoded cell, None if it is missing; a date stays a number."""
    if isinstance(feature, Categorical):
        cell = feature.categories[int(code)]
        return None if feature.gaps and cell == MISSING else cell
    if code == feature.missing_code:
        return None
    return int(code) if feature.integer and float(code).is_integer() else float(code)


def cell_remarks(
    schema: Schema, row: Floats, filled: Sequence[int], outside: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Notes about cells of a row: the columns of imputed ones, and of numbers outside their domain."""
    for j in filled:
        feature = schema.features[j]
        cell = feature.label(feature.categories[int(row[j])]) if isinstance(feature, Categorical) else float(row[j])
        value = date_text(cell) if is_date(feature) else cell
        missing = {"what": "known missing", "feature": feature.name}
        yield missing if cell == MISSING else {"what": "filled", "feature": feature.name, "value": value}
    for j in outside:
        feature = schema.features[j]
        assert isinstance(feature, Numeric)
        low, high = feature.bounds
        ends = {"value": float(row[j]), "low": float(low), "high": float(high)}
        texts = {k: date_text(v) if is_date(feature) else v for k, v in ends.items()}
        if low <= row[j] <= high:
            yield {"what": "fraction", "feature": feature.name, "value": texts["value"]}
        else:
            yield {"what": "outside", "feature": feature.name, **texts}


def proof_record(batch: Explanations, i: int, a: Answers) -> Mapping[str, Any] | None:
    """What was proven about row i, and under which limits; None without `prove=True`. "minimal" means that no change of
    fewer features reaches the goal: "changes" is a minimum. With "except_ties", some lead to ties, which the model may
    decide as was asked for, but by less than "margin"."""
    if a.proof[i] == NOT_ASKED:
        return None
    schema, model, row = batch.schema, batch.explainer.model, a.rows[i]
    return {
        "verdict": (MINIMAL if a.success[i] else "impossible") if a.proof[i] in DECIDED else "open",
        "except_ties": bool(a.proof[i] == EXCEPT_TIES),
        "changes": int(a.changed[i].sum()) if a.success[i] else batch.call["max_features"],
        "distance_at_least": float(a.nearest[i]) if a.success[i] else None,
        "domain": batch.call["domain"],
        "box": schema.box(row),
        "against": _against(batch, i),
        "frozen": [f.name for f in schema.features if f.fixed],
        "protected": protected_in(schema),
        "increase_only": [f.name for f in schema.features if f.increase_only and not f.fixed],
        "decrease_only": [f.name for f in schema.features if f.decrease_only and not f.fixed],
        "missing": [f.name for j, f in enumerate(schema.features) if not f.fixed and cell_of(f, row[j]) is None],
        "categories": _closed(schema),
        "redundant": _redundant(batch, row),
        **{name: batch.call[name] for name in PROOF_SETTINGS},
        "cutoffs": [] if model.cutoffs is None else [list(pair) for pair in model.cutoffs.named],
        "margin": model.tolerance,
        "precision": "float64",
        "weights": model.fingerprint(),
        **({} if batch.target_ranges is None else {"wanted": dict(batch.target_ranges[i])}),
    }


def miss_record(batch: Explanations, i: int, changes: list[LimitChange]) -> Mapping[str, Any]:
    """Why row i has no answer: the settings, whether it is proven that there is none, and the `changes` of
    limits that would lead to one."""
    return {
        "why": "none",
        "proven": bool(batch.answers.proof[i] in DECIDED),
        "method": batch.call["method"],
        "most": batch.call["max_features"],
        "domain": batch.call["domain"],
        "own_ranges": any(isinstance(f, Numeric) and not (f.low is f.high is None) for f in batch.schema.features),
        "confidence": batch.call["confidence"],
        "against": _against(batch, i),
        "protected": protected_in(batch.schema),
        "ways": changes,
    }


def protected_in(schema: Schema) -> list[str]:
    """The names of the protected features in the schema of a call, which protects none that the call names."""
    return [f.name for f in schema.features if f.protected]


def mentioned(records: Iterable[Mapping[str, Any] | None]) -> frozenset[str]:
    """The names of the features that the text of some records names."""
    return frozenset(name for record in records if record for name in _names(record))


def _names(record: Mapping[str, Any]) -> Iterator[str]:
    if "what" in record:  # a remark
        yield from [record["feature"]] if "feature" in record else ()
        return
    for change in record.get("ways", ()):
        yield from change["value"] if change["limit"] == "free" else ()
    fixed = (*record.get("frozen", ()), *record.get("missing", ()))
    limited = (record.get(part, ()) for part in ("protected", "increase_only", "decrease_only"))
    for names in (fixed, *limited):
        yield from names if len(names) <= MAX_NAMED else ()


def _against(batch: Explanations, i: int) -> Any:
    """The argument `against` for row i; None for any other class."""
    return plain(batch.against_each[i] if batch.against_each is not None else batch.call["against"])


def _closed(schema: Schema) -> dict[str, list[Any]]:
    """The categories that a change may not choose."""
    features = [f for f in schema.features if isinstance(f, Categorical) and not f.fixed]
    closed = {f.name: [c for c in f.categories if c not in f.selectable] for f in features}
    return {name: categories for name, categories in closed.items() if categories}


def _redundant(batch: Explanations, row: Floats) -> bool:
    """Whether gamma excludes any pair of features of the row that may each change alone."""
    su, gamma = batch.explainer.su, batch.call["gamma"]
    if su is None or gamma >= 1:
        return False
    cells = [cell_of(f, row[j]) for j, f in enumerate(batch.schema.features)]
    box = batch.schema.box(row)
    names = batch.schema.names
    free = [
        cell is not None and set(box.get(name, ())) - {cell} != set() for name, cell in zip(names, cells, strict=True)
    ]
    conflict = batch.explainer._view.conflict(gamma).cpu().numpy()
    return bool(conflict[np.ix_(free, free)].any())
