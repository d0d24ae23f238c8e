"""What simulated readers (programs) do with an explanation; no people are involved.

Round trip: the reader edits the row by the text, and the network judges whether its class changes. Forward simulation:
the reader says of other edits of the row whether they change the class; as many do as do not, so that guessing is right
in one half. Edits are drawn alike for all methods ("any"), and among the features that a text names ("own").
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
from grace.experiments.reproduction.reader import POLICIES, Belief, Known, Shown, believe
from grace.experiments.reproduction.subject import Subject
from grace.explain.explainer import Explainer
from grace.models.base import checked_scores, softmax
from grace.schema.features import Bools, Floats, Value
from grace.schema.words import DEFAULT
from grace.study.lime import FEATURES, Lime

BACKGROUND = 50  # training rows that stand for "a feature not known"


@dataclass(frozen=True)
class Attribution:
    """What each of the weightiest features adds to the probability of the class."""

    label: Value
    shares: tuple[tuple[str, float], ...]

    def text(self) -> str:
        """One sentence per feature, the weightiest first."""
        said = [f"“{name}” {'adds' if w >= 0 else 'takes'} {abs(w):.4f}." for name, w in self.shares]
        return f"Compared with an average row, of the probability of this class {' '.join(said)}"


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
        """Why one encoded row gets its class."""
        state = np.random.get_state()  # noqa: NPY002  the package draws from NumPy's global numbers
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


CANDIDATES, OF_EACH = 400, 10
Texts = Callable[[int, str], str]
Predict = Callable[[Floats], Floats]


def simulate(subject: Subject, sizes: Sizes, method: str) -> dict[str, Any]:
    """All policies of a method on the first test rows of a run."""
    explainer = subject.explainer
    frame = subject.test.head(sizes.rows_for(len(explainer.schema)))
    rows = explainer.schema.encode(frame)
    chances = softmax(explainer._scores(rows))
    known = Known.of(explainer)
    texts = _texts(subject, sizes, method, frame)

    def predict(rows: Floats) -> Floats:
        return np.asarray(explainer._scores(rows).argmax(axis=1))

    lines = []
    for policy in POLICIES[method]:
        told = []
        for i, row in enumerate(rows):
            label = int(chances[i].argmax())
            shown = Shown(row, label, float(chances[i, label]), draw=_seed(subject.run, i))
            belief = believe(method, texts(i, policy), shown, known, policy)
            told.append(_judged(explainer, belief, shown, predict))
        lines.append({"policy": policy, **{key: [t[key] for t in told] for key in told[0]}})
    return {"rows": len(rows), "policies": lines}


def _texts(subject: Subject, sizes: Sizes, method: str, frame: pd.DataFrame) -> Texts:
    """What the method says of each row; only GRACE says it in several styles."""
    explainer = subject.explainer
    if method == "grace":
        batch = explainer.explain(frame, domain="central")
        return lambda i, style: batch[i].text(style, template="had", language=DEFAULT)
    said: list[str] = [""] * len(frame)
    if method == "lime":
        lime = Lime(explainer, samples=sizes.lime_samples, seed=subject.run)
        said = [e.text() for e in lime.explain(frame)]
    elif method == "shap":
        shap = Shap(explainer, samples=sizes.shap_samples, seed=subject.run)
        said = [shap.explain(row).text() for row in explainer.schema.encode(frame)]
    return lambda i, _: said[i]


def _judged(explainer: Explainer, belief: Belief, shown: Shown, predict: Predict) -> dict[str, float]:
    """Whether the reader's edit changes the class, how many features it moves and how far in spreads, and how many of
    the other edits the reader gets right."""
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
    """Edits of the row, and which of them change its class: as many do as do not.

    Each puts the values of one training row in place of some of the row's, in any features (from one to all of them,
    small numbers as often as large ones) or in some of those that are named.
    """
    d = len(shown.row)
    names = np.arange(d) if among is None else np.array(among, dtype=int)
    if len(names) == 0:
        return np.zeros((0, d)), np.zeros(0, dtype=bool)
    rng = np.random.default_rng([shown.draw, 0 if among is None else 1])
    drawn = rng.random(CANDIDATES)
    size = np.exp(drawn * np.log(len(names) + 1)) if among is None else 1 + drawn * len(names)
    place = rng.random((CANDIDATES, len(names))).argsort(axis=1).argsort(axis=1)
    swap = np.zeros((CANDIDATES, d), dtype=bool)
    swap[:, names] = place < np.floor(size)[:, None]
    edits = np.where(swap, pool[rng.integers(len(pool), size=CANDIDATES)], shown.row)
    flips = predict(edits) != shown.label
    count = min(OF_EACH, int(flips.sum()), int((~flips & (edits != shown.row).any(axis=1)).sum()))
    stay = np.flatnonzero(~flips & (edits != shown.row).any(axis=1))[:count]
    keep = np.concatenate([np.flatnonzero(flips)[:count], stay])
    return edits[keep], np.asarray(flips[keep])


def _seed(run: int, i: int) -> int:
    return 100_003 * run + i
