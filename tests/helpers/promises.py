"""What every answer of a method has to satisfy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

import grace
from grace.methods import METHODS
from reading import read


def check(
    explainer: grace.Explainer, rows: pd.DataFrame, batch: grace.Explanations, method: str, polished: bool
) -> None:
    """What a batch must be like, judged by the model's own `predict` on the frames a user sees."""
    model, promises, settings = explainer.model, METHODS[method].promises, batch.settings
    before, after = model.predict(rows), model.predict(batch.contrast)
    assert (batch.original_class == before).all()
    assert (after[batch.success] != before[batch.success]).all()
    assert (batch.contrast_class[batch.success] == after[batch.success]).all()
    changed = batch.changed.to_numpy()
    assert not changed[~batch.success].any()
    assert changed[batch.success].any(axis=1).all()
    original, contrast = batch.schema.encode(rows), batch.schema.encode(batch.contrast)
    assert (original[~changed] == contrast[~changed]).all()
    assert (original[changed] != contrast[changed]).all()
    if "features" in promises:
        assert changed.sum(axis=1).max() <= settings["max_features"]
    if "gamma" in promises:
        for row in changed:
            for i, j in combinations(np.flatnonzero(row), 2):
                assert explainer.su[i, j] <= settings["gamma"] + 1e-12
    if "domain" in promises:
        assert batch.schema.contains(contrast)[changed].all()
    for e in batch:
        assert grace.Explanation.from_json(e.to_json()) == e
        if e.success:
            row, label = read(e.text(), e, batch.schema)
            assert row == e.contrast
            assert model.predict([row])[0] == label == e.contrast_class
        if e.success and polished and promises:
            few = [kept for size in range(1, len(e.changes)) for kept in combinations(e.changes, size)]
            parts = [{**e.row, **{c.name: c.new for c in kept}} for kept in few]
            assert not any(flips(model, part, e.original_class) for part in parts)
            # without a margin, as at a tie, the model itself may still decide otherwise: then it is not said
            assert e.checks["irreducible"] == all(model.predict([part])[0] == e.original_class for part in parts)


def flips(model: grace.Model, row: dict, original: object) -> bool:
    """Whether a class other than the original leads all classes, by the tolerance that decides flips."""
    scores = np.log(model.predict_proba([row]).iloc[0])
    best = scores.drop(original).idxmax()
    return scores[best] - scores.drop(best).max() >= model.tolerance + 1e-9
