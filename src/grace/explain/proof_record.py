"""Records of what was proven about an answer and of why there is none, complete enough to be checked by others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.explain.changes import cell_of
from grace.explain.diagnosis import LimitChange
from grace.problem.answers import NOT_ASKED, Answers
from grace.proofs.certificate import PROVEN
from grace.schema.features import Categorical, Feature, Floats, Numeric, plain
from grace.schema.schema import Schema
from grace.text.languages import MAX_NAMED
from grace.text.sentence import MINIMAL

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations

PARTS = ("method", "confidence", "gamma", "max_features", "prefer", "distance")
"""Settings that a record of a proof holds."""


def proof_record(batch: Explanations, i: int, a: Answers) -> Mapping[str, Any] | None:
    """What was proven about row i, and under which limits; None if nothing was asked to be. "minimal" means that no
    change of fewer features reaches the goal: "changes" is a minimum."""
    if a.proof[i] == NOT_ASKED:
        return None
    schema, model, row = batch.schema, batch.explainer.model, a.rows[i]
    return {
        "verdict": (MINIMAL if a.success[i] else "impossible") if a.proof[i] == PROVEN else "open",
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
        **{name: batch.call[name] for name in PARTS},
        "cutoffs": [] if model.cutoffs is None else [list(pair) for pair in model.cutoffs.named],
        "margin": model.tolerance,
        "precision": "float64",
        "weights": model.fingerprint(),
    }


def miss_record(batch: Explanations, i: int, ways: list[LimitChange]) -> Mapping[str, Any]:
    """Why row i has no answer: what was asked for, whether it is proven that there is none, and what would help."""
    return {
        "why": "none",
        "proven": bool(batch.answers.proof[i] == PROVEN),
        "method": batch.call["method"],
        "most": batch.call["max_features"],
        "domain": batch.call["domain"],
        "own_ranges": any(isinstance(f, Numeric) and not (f.low is f.high is None) for f in batch.schema.features),
        "confidence": batch.call["confidence"],
        "against": _against(batch, i),
        "protected": protected_in(batch.schema),
        "ways": ways,
    }


def protected_in(schema: Schema) -> list[str]:
    """The features that are protected, and not asked for by name in the call whose schema it is."""
    return [f.name for f in schema.features if f.protected]


def mentioned(schema: Schema, *records: Mapping[str, Any] | None) -> tuple[Feature, ...]:
    """The features that the words for some records name."""
    names = {name for record in records for name in _names(record or {})}
    return tuple(f for f in schema.features if f.name in names)


def _names(record: Mapping[str, Any]) -> Iterator[str]:
    if "feature" in record:
        yield record["feature"]
    for way in record.get("ways", ()):
        yield from way["value"] if way["limit"] == "free" else ()
    fixed = (*record.get("frozen", ()), *record.get("missing", ()))
    ways = (record.get(part, ()) for part in ("protected", "increase_only", "decrease_only"))
    for some in (fixed, *ways):
        yield from some if len(some) <= MAX_NAMED else ()


def _against(batch: Explanations, i: int) -> Any:
    """What row i is contrasted with; None for any other class."""
    return plain(batch.asked[i] if batch.asked is not None else batch.call["against"])


def _closed(schema: Schema) -> dict[str, list[Any]]:
    """The categories that a change may not choose."""
    features = [f for f in schema.features if isinstance(f, Categorical) and not f.fixed]
    closed = {f.name: [c for c in f.categories if c not in f.selectable] for f in features}
    return {name: some for name, some in closed.items() if some}


def _redundant(batch: Explanations, row: Floats) -> bool:
    """Whether gamma keeps two features of the row from changing together that may change alone."""
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
