"""What simulated readers (programs) do with an explanation; no people are involved.

Round trip: the reader edits the row by the text, and the network judges whether its class changes. Forward simulation:
the reader says of other edits of the row whether they change the class; as many do as do not, so that guessing is right
in one half. Edits are drawn alike for all methods ("any"), and among the features that a text names ("own").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from grace.experiments.reproduction.attribution import Shap
from grace.experiments.reproduction.plan import Sizes
from grace.experiments.reproduction.reader import POLICIES, Belief, Known, Shown, believe
from grace.experiments.reproduction.subject import Subject
from grace.explain.explainer import Explainer
from grace.models.base import softmax
from grace.schema.features import Bools, Floats
from grace.schema.words import DEFAULT
from grace.study.lime import Lime

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
