"""Evaluates simulated readers (programs) of explanations.

Round trip: the reader edits the row by the text; does its predicted class change? Forward simulation: the reader
predicts which other edits of the row change the class. Half of them do, so that guessing has an accuracy of 0.5. Edits
are drawn from all features ("any"), the same for all methods, and from the features that a text names ("own").
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from grace.errors import GraceError, pip_install
from grace.experiments.reproduction.plan import Sizes
from grace.experiments.reproduction.reader import POLICIES, Belief, Shown, TableStatistics, believe
from grace.experiments.reproduction.subject import Subject
from grace.explain.explainer import Explainer
from grace.models.base import checked_scores, softmax
from grace.schema.features import Bools, Floats, Value
from grace.schema.words import DEFAULT
from grace.study.lime import FEATURES, Lime

BACKGROUND = 50  # training rows that replace unknown features in SHAP
CANDIDATES, OF_EACH = 400, 10  # edits that are drawn, and edits that are used of those that change the class or not


@dataclass(frozen=True)
class Attribution:
    """SHAP values of the features with the largest ones, for the probability of a class."""

    label: Value
    shares: tuple[tuple[str, float], ...]

    def text(self) -> str:
        """One sentence per feature, the largest value first."""
        parts = [f"“{name}” {'adds' if w >= 0 else 'takes'} {abs(w):.4f}." for name, w in self.shares]
        return f"Compared with an average row, of the probability of this class {' '.join(parts)}"


class Shap:
    """KernelSHAP with the model and background rows of an explainer."""

    def __init__(self, explainer: Explainer, *, samples: int, seed: int = 0, features: int = FEATURES) -> None:
        if explainer.background_rows is None:
            raise GraceError("SHAP needs training rows; give train= to Explainer")
        self.model, self.schema = explainer.model, explainer.schema
        self.samples, self.seed, self.features = samples, seed, features
        rows = explainer.background_rows
        keep = np.random.default_rng(seed).choice(len(rows), min(BACKGROUND, len(rows)), replace=False)
        self._kernel = _package().KernelExplainer(self._probabilities, rows[np.sort(keep)])

    def explain(self, row: Floats) -> Attribution:
        """The SHAP values of one encoded row for its predicted class."""
        state = np.random.get_state()  # noqa: NPY002  the package uses NumPy's global generator
        np.random.seed(self.seed)  # noqa: NPY002
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self._kernel.shap_values(row, nsamples=self.samples, silent=True, l1_reg=False)
        finally:
            np.random.set_state(state)  # noqa: NPY002
        code = int(self._probabilities(row[None])[0].argmax())
        weights = np.asarray(found)[:, code]
        order = np.argsort(-np.abs(weights), kind="stable")[: self.features]
        shares = tuple((self.schema.names[j], float(weights[j])) for j in order if weights[j] != 0)
        return Attribution(self.model.classes[code], shares)

    def _probabilities(self, rows: Any) -> Floats:
        tensor = torch.as_tensor(np.asarray(rows, dtype=np.float64), device=self.model.device)
        return softmax(np.asarray(checked_scores(self.model, tensor).cpu().numpy()))


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import shap
    except ImportError as reason:
        raise GraceError(f"SHAP needs the package shap; {pip_install('reproduce')}") from reason
    return shap


Texts = Callable[[int, str], str]
Predict = Callable[[Floats], Floats]


def simulate(subject: Subject, sizes: Sizes, method: str) -> dict[str, Any]:
    """The results of all policies of a method on the first test rows of a run."""
    explainer = subject.explainer
    frame = subject.test.head(sizes.rows_for(len(explainer.schema)))
    rows = explainer.schema.encode(frame)
    probabilities = softmax(explainer._scores(rows))
    known = TableStatistics.of(explainer)
    texts = _texts(subject, sizes, method, frame)

    def predict(rows: Floats) -> Floats:
        return np.asarray(explainer._scores(rows).argmax(axis=1))

    lines = []
    for policy in POLICIES[method]:
        results = []
        for i, row in enumerate(rows):
            label = int(probabilities[i].argmax())
            shown = Shown(row, label, float(probabilities[i, label]), seed=100_003 * subject.run + i)
            belief = believe(method, texts(i, policy), shown, known, policy)
            results.append(_evaluated(explainer, belief, shown, predict))
        lines.append({"policy": policy, **{key: [r[key] for r in results] for key in results[0]}})
    return {"rows": len(rows), "policies": lines}


def _texts(subject: Subject, sizes: Sizes, method: str, frame: pd.DataFrame) -> Texts:
    """A function that returns the text about row i in a style; only GRACE has several."""
    explainer = subject.explainer
    if method == "grace":
        batch = explainer.explain(frame, domain="central")
        return lambda i, style: batch[i].text(style, template="had", language=DEFAULT)
    sentences: list[str] = [""] * len(frame)
    if method == "lime":
        lime = Lime(explainer, samples=sizes.lime_samples, seed=subject.run)
        sentences = [e.text() for e in lime.explain(frame)]
    elif method == "shap":
        shap = Shap(explainer, samples=sizes.shap_samples, seed=subject.run)
        sentences = [shap.explain(row).text() for row in explainer.schema.encode(frame)]
    return lambda i, _: sentences[i]


def _evaluated(explainer: Explainer, belief: Belief, shown: Shown, predict: Predict) -> dict[str, float]:
    """Whether the reader's edit changes the class, its number of features and distance, and how many predictions about
    other edits are right."""
    pair = torch.as_tensor(np.stack([shown.row, belief.edit]))
    out = {
        "flipped": int(predict(belief.edit[None])[0] != shown.label),
        "moved": int((belief.edit != shown.row).sum()),
        "distance": float(explainer._space(explainer.schema_for("minmax")).distance(pair[:1], pair[1:])[0]),
    }
    pool = explainer.background_rows
    assert pool is not None
    for kind, among in (("any", None), ("own", belief.named)):
        edits, flips = other_edits(shown, pool, predict, among)
        right = belief.expects(edits) == flips if len(edits) else np.zeros(0, dtype=bool)
        out |= {f"{kind}_right": int(right.sum()), f"{kind}_total": len(edits)}
    return out


def other_edits(shown: Shown, pool: Floats, predict: Predict, among: tuple[int, ...] | None) -> tuple[Floats, Bools]:
    """Edits (n, d) of the row, and which of them change its class: one half.

    Each copies the values of some features from a training row: of any features, their number drawn log-uniformly, or
    of features in `among`, their number drawn uniformly.
    """
    d = len(shown.row)
    columns = np.arange(d) if among is None else np.array(among, dtype=int)
    if len(columns) == 0:
        return np.zeros((0, d)), np.zeros(0, dtype=bool)
    rng = np.random.default_rng([shown.seed, 0 if among is None else 1])
    drawn = rng.random(CANDIDATES)
    size = np.exp(drawn * np.log(len(columns) + 1)) if among is None else 1 + drawn * len(columns)
    rank = rng.random((CANDIDATES, len(columns))).argsort(axis=1).argsort(axis=1)
    swap = np.zeros((CANDIDATES, d), dtype=bool)
    swap[:, columns] = rank < np.floor(size)[:, None]
    edits = np.where(swap, pool[rng.integers(len(pool), size=CANDIDATES)], shown.row)
    flips = predict(edits) != shown.label
    changing, staying = np.flatnonzero(flips), np.flatnonzero(~flips & (edits != shown.row).any(axis=1))
    count = min(OF_EACH, len(changing), len(staying))
    chosen = np.concatenate([changing[:count], staying[:count]])
    return edits[chosen], np.asarray(flips[chosen])
