"""Readers of LIME and SHAP with all features and all classes, by several policies, for benchmarks/forecast.py.

All of them add up effects for every class and forecast the class with the largest sum, so that they are given what a
scorecard is given. Effects are also multiplied by factors, as they are averages, which understate single rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from forecast_readers import Forecast, Setting

from grace.schema.features import Floats

FACTORS = (0.5, 1, 1.5, 2, 3, 4, 6, 8, 16)
LIME_SAMPLES = 5000  # the default of the package
BACKGROUND, OTHERS = 50, 60  # training rows that stand for unknown features; training rows in dependence plots
BINS = 8  # of a feature's values in a dependence plot
Effects = Callable[[int, Floats], Floats]
"""The effects (m, classes) of edits (m, d) of row i."""


def policies(name: str, base: Floats, effects: Effects, factors: tuple[float, ...] = FACTORS) -> dict[str, Forecast]:
    """One policy per factor: the largest of base (n, classes) + factor × effects. Effects are kept by the address of
    the edits, which have to stay in place."""

    memory: dict[tuple[int, int], Floats] = {}

    def once(i: int, edits: Floats) -> Floats:
        key = i, edits.ctypes.data
        if key not in memory:
            memory[key] = effects(i, edits)
        return memory[key]

    def forecast(factor: float) -> Forecast:
        return lambda i, edits: np.asarray((base[i] + factor * once(i, edits)).argmax(axis=1))

    return {name if factor == 1 else f"{name}, × {factor:g}": forecast(factor) for factor in factors}


# -- LIME ------------------------------------------------------------------------------------------


def lime(setting: Setting) -> dict[str, Forecast]:
    """The local model of LIME, with quartile bins as by default or with plain numbers: as it stands, or its effects
    from the row's own probabilities on."""
    out: dict[str, Forecast] = {}
    for name, discretize in (("bins", True), ("linear", False)):
        weights, intercept, inputs = _local_models(setting, discretize)

        def effects(i: int, edits: Floats, weights: Floats = weights, inputs: Effects = inputs) -> Floats:
            return np.asarray((inputs(i, edits) - inputs(i, setting.rows[i : i + 1])) @ weights[i])

        own = np.stack(
            [inputs(i, row[None])[0] @ w for i, (row, w) in enumerate(zip(setting.rows, weights, strict=True))]
        )
        out |= policies(f"{name}, local model as it stands", intercept + own, effects, (1,))
        out |= policies(f"{name}, from the row's probabilities", setting.probabilities, effects)
    return out


def _local_models(setting: Setting, discretize: bool) -> tuple[Floats, Floats, Effects]:
    """Weights (n, d, classes) and intercepts (n, classes) of LIME's local models, and their inputs (m, d) for edits."""
    from lime.lime_tabular import LimeTabularExplainer

    random = np.random.RandomState(setting.seed)
    explainer = LimeTabularExplainer(
        np.array(setting.pool),
        categorical_features=np.flatnonzero(setting.categorical).tolist(),
        discretize_continuous=discretize,
        random_state=random,
    )
    classes = setting.probabilities.shape[1]
    weights = np.zeros((len(setting.rows), setting.rows.shape[1], classes))
    intercept = np.zeros((len(setting.rows), classes))
    for i, row in enumerate(setting.rows):
        random.seed(setting.seed)
        found = explainer.explain_instance(
            row, setting.predict_proba, labels=range(classes), num_features=len(row), num_samples=LIME_SAMPLES
        )
        for c in range(classes):
            intercept[i, c] = found.intercept[c]
            for j, weight in found.local_exp[c]:
                weights[i, j, c] = weight

    def inputs(i: int, edits: Floats) -> Floats:
        equal = edits == setting.rows[i]
        if discretize:
            bins = explainer.discretizer.discretize
            equal = bins(edits) == bins(setting.rows[i : i + 1])
        scaled = (edits - explainer.scaler.mean_) / explainer.scaler.scale_
        return np.asarray(equal if discretize else np.where(setting.categorical, equal, scaled), dtype=np.float64)

    return weights, intercept, inputs


# -- SHAP ------------------------------------------------------------------------------------------


def shap(setting: Setting) -> dict[str, Forecast]:
    """KernelSHAP. Against training rows, a changed feature loses its value, or a share of it by how far it goes to the
    typical value of the other classes, or gets the value that the new number has in the dependence plot of the feature;
    against the typical row of the other classes, it loses the share of the way there."""
    rng = np.random.default_rng(setting.seed)
    pool = setting.pool
    draw = rng.permutation(len(pool))
    background, others = pool[draw[:BACKGROUND]], pool[draw[-OTHERS:]]
    values = _values(setting, background, setting.rows)
    plot = _values(setting, background, others)
    typical = setting.known.others[setting.own]
    there = np.concatenate(
        [_values(setting, typical[i : i + 1], setting.rows[i : i + 1]) for i in range(len(setting.rows))]
    )

    def share(i: int, edits: Floats) -> Floats:
        """How far edits go to the typical value, in [-1, 1]."""
        row, end = setting.rows[i], typical[i]
        way = np.where(end != row, end - row, np.inf)
        return np.where(setting.categorical, (edits == end) & (edits != row), np.clip((edits - row) / way, -1, 1))

    def dependence(i: int, edits: Floats) -> Floats:
        """The mean SHAP values of the bins of the new values, minus the row's own, over the features that change."""
        out = np.zeros((len(edits), values.shape[2]))
        for j in range(edits.shape[1]):
            changed = edits[:, j] != setting.rows[i, j]
            new = _binned(others[:, j], plot[:, j], edits[:, j], bool(setting.categorical[j]))
            out += np.where(changed[:, None], new - values[i, j], 0.0)
        return out

    p = setting.probabilities
    return {
        **policies("changed features lose their values", p, lambda i, e: -((e != setting.rows[i]) * 1.0) @ values[i]),
        **policies("values lost by the share of the way to the typical", p, lambda i, e: -share(i, e) @ values[i]),
        **policies("against the typical row of the others", p, lambda i, e: -share(i, e) @ there[i]),
        **policies("dependence plots", p, dependence),
    }


def _values(setting: Setting, background: Floats, rows: Floats) -> Floats:
    """SHAP values (n, d, classes) of the probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap as package

        kernel = package.KernelExplainer(setting.predict_proba, background)
        state = np.random.get_state()  # noqa: NPY002  the package uses NumPy's global generator
        np.random.seed(setting.seed)  # noqa: NPY002
        try:
            found = kernel.shap_values(rows, nsamples=2 * rows.shape[1] + 256, silent=True, l1_reg=False)
        finally:
            np.random.set_state(state)  # noqa: NPY002
    return np.asarray(found).reshape(len(rows), rows.shape[1], -1)


def _binned(known: Floats, heights: Floats, at: Floats, categorical: bool) -> Floats:
    """The mean heights (k, classes) of known values (k,) in the bin of each value (m,): categories, or quantiles."""
    if categorical:
        bins, places = known.astype(int), at.astype(int)
        count = int(max(bins.max(), places.max())) + 1
    else:
        edges = np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1])
        bins, places, count = np.searchsorted(edges, known), np.searchsorted(edges, at), BINS
    total = np.zeros((count, heights.shape[1]))
    np.add.at(total, bins, heights)
    number = np.bincount(bins, minlength=count)[:, None]
    means = np.where(number > 0, total / np.maximum(number, 1), heights.mean(axis=0))
    return np.asarray(means[places])
