"""The case study: the paper's patient, kept out of the training part, explained by LIME and by GRACE."""

from __future__ import annotations

from typing import Any

from grace.experiments.reproduction.plan import Sizes
from grace.experiments.reproduction.subject import Subject
from grace.schema.features import Numeric
from grace.study.lime import Lime
from grace.study.making import embedded

GRACE = ("search", "gradient", "local")
DOMAINS = {"search": "central", "gradient": "minmax", "local": "minmax"}


def case_study(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    """Both accounts of the patient by a network of this run that has not seen the patient."""
    explainer, row = embedded(subject.table.name, subject.run)
    lime = Lime(explainer, samples=sizes.lime_samples, seed=subject.run).explain(row)[0]
    told = {m: explainer.explain(row, method=m, domain=DOMAINS[m], prove=m == "search")[0] for m in GRACE}
    first = told["search"]
    numbers = [f for f in explainer.schema_for("minmax").features if isinstance(f, Numeric)]
    return {
        "class": str(first.original_class),
        "probability": first.probability(first.original_class),
        "contrast": {
            m: e.contrast_class if e.contrast_class is None else str(e.contrast_class) for m, e in told.items()
        },
        "lime": {"text": lime.text(), "reasons": [_reason(r.to_dict(), r.inside()) for r in lime.reasons]},
        "grace": {
            m: {"text": e.text(), "changes": [{"feature": c.name, "old": c.old, "new": c.new} for c in e.changes]}
            for m, e in told.items()
        },
        "ranges": {f.name: list(f.bounds) for f in numbers},
    }


def _reason(entry: dict[str, Any], inside: str) -> dict[str, Any]:
    return {"feature": entry["feature"], "weight": entry["weight"], "inside": inside}
