"""The paper's experiments for one run: accuracy, the main table, the effects of K and γ, and the case study."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.metrics import f1_score

from grace.experiments.reproduction import released
from grace.experiments.reproduction.plan import Sizes
from grace.experiments.reproduction.subject import Subject
from grace.explain.explanations import Explanations
from grace.explain.metrics import Metrics
from grace.models.base import class_codes
from grace.schema.features import Numeric
from grace.study.lime import Lime
from grace.study.making import embedded

K, GAMMA = 5, 0.5
SWEPT = ("gradient", "local", "search")
BASELINES = ("nearest", "deepfool")
KS = tuple(range(1, 11))
GAMMAS = (1.0, 0.7, 0.5, 0.3)
CASE_STUDY = {"search": "central", "gradient": "minmax", "local": "minmax"}  # methods and their domains
SHARES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0)

VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "nearest": ("nearest", {}),
    "deepfool": ("deepfool", {}),
    "local": ("local", {}),
    "gradient": ("gradient", {}),
    "search": ("search", {}),
    "local-unpolished": ("local", {"polish": False}),
    "gradient-unpolished": ("gradient", {"polish": False}),
    "local-as-printed": ("local", {"as_printed": True, "polish": False}),
    "gradient-as-printed": ("gradient", {"as_printed": True, "polish": False}),
}
"""Each line of the main table: a method and its settings. "As printed" uses the paper's formulas literally; these and
the unpolished variants keep all changes of the walk."""


def accuracy(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    """Table 2: accuracy and weighted F1 on the test rows, also of a network trained as in the released program."""
    truth = subject.parts.test[subject.table.target].to_numpy()
    predicted = subject.model.predict(subject.test)
    f1 = float(f1_score(truth, predicted, average="weighted"))
    found = {"rows": len(truth), "accuracy": float((predicted == truth).mean()), "f1": f1}
    return {**found, "released": released.accuracy(subject)} if _numeric(subject) else found


def main_table(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    """The measures of every method on all test rows, K = 5, γ = 0.5, min–max domain."""
    found = {}
    for name, (method, settings) in VARIANTS.items():
        batch = subject.explain(method, max_features=K, gamma=GAMMA, **settings)
        found[name] = {**figures(batch.metrics(raw=True)), **by_cells(batch)}
    if _numeric(subject):
        rows = subject.explainer.schema.encode(subject.test)
        found["gradient-released"] = figures(released.measured(subject.explainer, rows, K, GAMMA))
        train, target = subject.parts.train, subject.table.target
        labels = class_codes(train[target], subject.model.classes, target)
        known = subject.explainer.schema.encode(subject.model.impute(train))
        measures = released.nearest_by_labels(subject.explainer, rows, known, labels, K)
        found["nearest-by-labels"] = figures(measures)
    return {"rows": len(subject.test), "methods": found}


def _numeric(subject: Subject) -> bool:
    """Whether all features are numeric, as the authors' released program requires."""
    return all(isinstance(f, Numeric) for f in subject.explainer.schema.features)


def figures(m: Metrics) -> dict[str, float]:
    """The measures, and info-gain times fidelity ("info-gain*" of the paper); 0 if no row flipped."""
    gains = {"info_gain_star": m.info_gain, "info_gain_star_raw": m.info_gain_raw}
    return {**m.to_dict(), **{name: 0.0 if m.fidelity == 0 else gain * m.fidelity for name, gain in gains.items()}}


def by_cells(batch: Explanations) -> dict[str, float]:
    """The measure "domain" as the share of changed cells within their range, integers not required, and influence and
    info-gain* computed with it."""
    a, m = batch.answers, batch.metrics(raw=True)
    low, high = batch.schema.bounds()
    changed = (a.contrast != a.rows)[a.success]
    if not len(changed):
        return {"domain_cells": float("nan"), "influence_cells_raw": 0.0, "info_gain_star_cells_raw": 0.0}
    inside = ((a.contrast >= low) & (a.contrast <= high))[a.success]
    domain = float(((inside & changed).sum(axis=1) / changed.sum(axis=1)).mean())
    gain = m.fidelity * m.info_gain_raw * domain
    return {"domain_cells": domain, "influence_cells_raw": gain / m.features, "info_gain_star_cells_raw": gain}


def effect_of_k(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    """Fidelity and features for K = 1 ... 10."""
    max_rows = sizes.sweep_for(len(subject.explainer.schema))
    out: dict[str, Any] = {}
    for method in SWEPT:
        out[method] = []
        for k in KS:
            m = subject.explain(method, max_rows=max_rows, max_features=k, gamma=GAMMA).metrics()
            out[method].append({"k": k, "fidelity": m.fidelity, "features": m.features})
    return {"rows": min(len(subject.test), max_rows), "methods": out}


def effect_of_share(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    """Fidelity if at most a share of the features may change; for the baselines, fidelity and the share they change.

    Methods add features one by one until the class flips: once all rows flip, a larger share changes nothing.
    """
    d = len(subject.explainer.schema)
    max_rows = sizes.sweep_for(d)
    out: dict[str, Any] = {}
    for method in SWEPT:
        out[method] = []
        fidelity = 0.0
        for share in SHARES:
            k = max(1, math.floor(share * d + 1e-9))
            if fidelity < 1:
                fidelity = float(subject.explain(method, max_rows=max_rows, max_features=k, gamma=GAMMA).success.mean())
            out[method].append({"share": share, "k": k, "fidelity": fidelity})
    for method in BASELINES:
        m = subject.explain(method, max_features=K, gamma=GAMMA).metrics()
        out[method] = [{"share": m.features / d, "k": m.features, "fidelity": m.fidelity}]
    return {"features": d, "methods": out}


def effect_of_gamma(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    """Info-gain in both readings, and fidelity, for each γ."""
    max_rows = sizes.sweep_for(len(subject.explainer.schema))
    out: dict[str, Any] = {}
    for method in SWEPT:
        out[method] = []
        for gamma in GAMMAS:
            m = subject.explain(method, max_rows=max_rows, max_features=K, gamma=gamma).metrics(raw=True)
            line = {"info_gain": m.info_gain, "info_gain_raw": m.info_gain_raw, "fidelity": m.fidelity}
            out[method].append({"gamma": gamma, **line})
    return {"methods": out}


def case_study(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    """LIME's and GRACE's explanations of the paper's patient, by a network of this run that was trained without it."""
    explainer, row = embedded(subject.table.name, subject.run)
    lime = Lime(explainer, samples=sizes.lime_samples, seed=subject.run).explain(row)[0]
    grace = {m: explainer.explain(row, method=m, domain=d, prove=m == "search")[0] for m, d in CASE_STUDY.items()}
    first = grace["search"]
    numbers = [f for f in explainer.schema_for("minmax").features if isinstance(f, Numeric)]
    reasons = [{"feature": r.feature.name, "weight": r.weight, "inside": r.inside()} for r in lime.reasons]
    return {
        "class": str(first.original_class),
        "probability": first.probability(first.original_class),
        "contrast": {m: None if e.contrast_class is None else str(e.contrast_class) for m, e in grace.items()},
        "lime": {"text": lime.text(), "reasons": reasons},
        "grace": {
            m: {"text": e.text(), "changes": [{"feature": c.name, "old": c.old, "new": c.new} for c in e.changes]}
            for m, e in grace.items()
        },
        "ranges": {f.name: list(f.bounds) for f in numbers},
    }


PARTS: Mapping[str, Callable[[Subject, Sizes], dict[str, Any]]] = {
    "table2": accuracy,
    "table3": main_table,
    "figure-k": effect_of_k,
    "figure-fidelity": effect_of_share,
    "figure-gamma": effect_of_gamma,
    "case-study": case_study,
}
