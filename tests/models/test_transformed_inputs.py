"""Linear models and perceptrons that get logarithms, powers, quantiles or bins of numbers: answers and proofs in the
numbers that people see."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

import grace
from grace.models.preprocessing.formulas import (
    NAMED,
    Affine,
    Bins,
    BoxCox,
    Clip,
    Composition,
    Formula,
    Named,
    Quantiles,
    YeoJohnson,
)
from grace.models.torch import TorchModel
from grace.problem.transformed import transformed_inputs
from grace.proofs.certificate import PROVEN

N = 150
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(
    {
        "income": RNG.lognormal(3, 0.7, N).round(1),
        "age": RNG.integers(18, 80, N),
        "debt": (RNG.lognormal(1, 1, N) * (RNG.random(N) < 0.8)).round(2),
        "job": RNG.choice(["clerk", "smith", "nurse"], N),
    }
)
VALUE = np.log(FRAME["income"]) - FRAME["age"] / 50 - np.log1p(FRAME["debt"]) / 2 + (FRAME["job"] == "smith")
VALUE = VALUE + RNG.normal(0, 0.3, N)
GOOD = np.where(VALUE.median() < VALUE, "yes", "no")
THREE = np.array(["low", "mid", "high"])[np.digitize(VALUE, VALUE.quantile([0.3, 0.7]))]
NUMBERS = ["income", "age", "debt"]
MLP = MLPClassifier((6, 4), max_iter=2000, random_state=0, solver="lbfgs", alpha=1)
LOG = FunctionTransformer(np.log1p)

FRONTS: dict[str, Any] = {
    "logarithm": lambda: make_pipeline(LOG, StandardScaler()),
    "power": lambda: PowerTransformer(),
    "raw power": lambda: PowerTransformer(standardize=False),
    "quantiles": lambda: QuantileTransformer(n_quantiles=12),
    "normal quantiles": lambda: QuantileTransformer(n_quantiles=12, output_distribution="normal"),
    "clipped": lambda: MinMaxScaler((-1, 2), clip=True),
    "scaled, then a root": lambda: make_pipeline(MinMaxScaler(clip=True), FunctionTransformer(np.sqrt)),
    "bins": lambda: KBinsDiscretizer(5, quantile_method="averaged_inverted_cdf"),
    "numbered bins": lambda: KBinsDiscretizer(4, encode="ordinal", strategy="uniform"),
    "falling": lambda: make_pipeline(LOG, FunctionTransformer(np.negative), StandardScaler()),
}
LAST: dict[str, Any] = {"linear": LogisticRegression(), "perceptron": MLP}


def front(numbers: Any, columns: list[str] | None = None) -> ColumnTransformer:
    others = [c for c in NUMBERS if c not in (columns or NUMBERS)]
    return ColumnTransformer(
        [
            ("t", numbers, columns or NUMBERS),
            ("n", StandardScaler(), others),
            ("l", OneHotEncoder(handle_unknown="ignore"), ["job"]),
        ]
    )


def fitted(last: Any, before: Any, frame: pd.DataFrame = FRAME, target: Any = GOOD) -> Any:
    with warnings.catch_warnings(action="ignore"):  # of bins without a number
        return make_pipeline(before, last).fit(frame, target)


def explainer_of(model: Any, frame: pd.DataFrame = FRAME, **how: Any) -> grace.Explainer:
    return grace.Explainer(model, frame, gamma=1.0, domain="minmax", **how)


# -- formulas ------------------------------------------------------------------------------------------------

FORMULAS: dict[str, tuple[Formula, float, float]] = {
    **{name: (Named(name), 0.1 if "log" in name or name == "sqrt" else -5.0, 6.0) for name in NAMED},
    "affine": (Affine(-2.5, 1.0), -10, 10),
    **{f"box-cox {p}": (BoxCox(p), 0.05, 50.0) for p in (-1.5, 0.0, 0.3, 2.0)},
    **{f"yeo-johnson {p}": (YeoJohnson(p), -20.0, 20.0) for p in (-0.5, 0.0, 0.7, 1.0, 2.0, 2.5)},
    "clip": (Clip(-1.0, 2.0), -1.0, 2.0),
    "quantiles": (Quantiles((0.0, 1.0, 5.0, 6.0), (0.0, 0.3, 0.6, 1.0), False), 0.0, 6.0),
    "normal quantiles": (Quantiles((0.0, 1.0, 5.0, 6.0), (0.0, 0.3, 0.6, 1.0), True), 0.01, 5.99),
    "several": (Composition((Affine(2.0, 3.0), Named("log"), Affine(-1.0, 0.5))), -1.0, 9.0),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", FORMULAS)
def test_inverses(name: str) -> None:
    formula, low, high = FORMULAS[name]
    numbers = torch.linspace(low, high, 200, dtype=torch.float64)
    values = formula(numbers)
    torch.testing.assert_close(formula.inverse(values), numbers, rtol=1e-8, atol=1e-8)
    slopes = values.diff()
    assert (slopes > 0).all() or (slopes < 0).all()


@pytest.mark.quick
@pytest.mark.parametrize("name", [n for n in FORMULAS if "quantile" not in n])
def test_gradients_are_those_of_small_differences(name: str) -> None:
    formula, low, high = FORMULAS[name]
    numbers = torch.linspace(low + 0.011, high - 0.013, 40, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(formula(numbers).sum(), numbers)
    step = 1e-6
    with torch.no_grad():
        differences = (formula(numbers + step) - formula(numbers - step)) / (2 * step)
    torch.testing.assert_close(slopes, differences, rtol=1e-5, atol=1e-6)


@pytest.mark.quick
@given(
    edges=st.lists(st.integers(-20, 20), min_size=1, max_size=6, unique=True),
    own=st.integers(-25, 25),
    code=st.integers(0, 6),
)
def test_the_nearest_number_of_a_bin(edges: list[int], own: int, code: int) -> None:
    bins = Bins(tuple(float(e) for e in sorted(edges)))
    code = min(code, len(edges))
    found = bins.nearest(torch.tensor([float(code)]), torch.tensor([float(own)], dtype=torch.float64))
    assert int(bins(found)) == code
    if int(bins(torch.tensor([float(own)], dtype=torch.float64))) == code:
        assert float(found) == own
    else:  # no number between it and the row lies in the bin
        between = torch.linspace(float(found), own, 50, dtype=torch.float64)
        assert (bins(between[between != found]) != code).all()


# -- layers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("numbers", FRONTS)
def test_layers_say_what_the_pipeline_says(numbers: str, last: str) -> None:
    if "bins" in numbers and last == "linear":
        before = front(FRONTS[numbers](), ["income", "debt"])  # of bins alone, a linear model is read as trees
    else:
        before = front(FRONTS[numbers]())
    target = THREE if numbers in ("logarithm", "bins") else GOOD
    model = fitted(LAST[last], before, target=target)
    explainer = explainer_of(model)
    assert transformed_inputs(explainer.model) is not None
    np.testing.assert_allclose(explainer.model.predict_proba(FRAME), model.predict_proba(FRAME), atol=1e-9)
    low, high = explainer.schema.bounds()
    rng = np.random.default_rng(5)
    rows = low + rng.random((200, 4)) * (high - low)
    rows[:, 1], rows[:, 3] = rows[:, 1].round(), rng.integers(0, 3, 200)
    scores = explainer.model.scores(torch.as_tensor(rows)).softmax(dim=1).numpy()
    np.testing.assert_allclose(scores, model.predict_proba(explainer.schema.decode(rows)), atol=1e-9)
    batch = explainer.explain(FRAME.head(20), prove=True)
    hits = batch.success
    assert hits.any()
    assert (model.predict(batch.contrast)[hits] == batch.contrast_class[hits]).all()
    assert (batch.contrast["age"] == batch.contrast["age"].round()).all()
    assert batch.calls is None  # no rows were put to a black box
    alone = explainer.explain(FRAME.iloc[[3]], prove=True)
    pd.testing.assert_frame_equal(alone.contrast, batch.contrast.iloc[[3]])
    assert alone.answers.proof[0] == batch.answers.proof[3]


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("method", ["gradient", "local", "nearest", "deepfool"])
def test_other_methods(method: str, last: str) -> None:
    model = fitted(LAST[last], front(FRONTS["power"]()))
    batch = explainer_of(model).explain(FRAME.head(10), method=method)
    assert batch.success.any()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_what_is_asked_beside_a_flip() -> None:
    model = fitted(MLP, front(FRONTS["logarithm"]()), target=THREE)
    explainer = explainer_of(model)
    rows = FRAME.head(15)
    other = fitted(LogisticRegression(), front(FRONTS["logarithm"]()), target=THREE)
    was = model.predict(rows)
    for asked in (
        {"against": "high"},
        {"confidence": 0.8, "prove": True},
        {"prefer": "nearest"},
        {"among": "steady"},
        {"n": 3},
        {"robust": [other]},
        {"plausible": 0.1},
        {"rules": ["debt <= income"]},
        {"frozen": ["income"], "decrease_only": ["debt"], "prove": True},
    ):
        batch = explainer.explain(rows, **asked)  # type: ignore[arg-type]
        hits = batch.success
        assert hits.any(), asked
        now = model.predict(batch.contrast)
        assert (now[hits] == batch.contrast_class[hits]).all()
        if "against" in asked:
            assert (now[hits] == "high").all()
        if "confidence" in asked:
            assert (model.predict_proba(batch.contrast)[hits].max(axis=1) >= 0.8).all()
        if "robust" in asked:
            assert (other.predict(batch.contrast)[hits] == now[hits]).all()
        if "frozen" in asked:
            assert (batch.contrast["income"] == rows["income"]).all()
            assert (batch.contrast["debt"] <= rows["debt"]).all()
        assert (now[hits & (was != "high")] != was[hits & (was != "high")]).all()


def test_numbers() -> None:
    model = fitted(Ridge(), front(FRONTS["logarithm"]()), target=VALUE)
    explainer = explainer_of(model)
    assert transformed_inputs(explainer.model) is not None
    batch = explainer.explain(FRAME.head(20), against=grace.by(0.8), prove=True)
    hits = batch.success
    assert hits.any()
    assert (model.predict(batch.contrast)[hits] >= model.predict(FRAME.head(20))[hits] + 0.8 - 1e-9).all()
    assert (batch.answers.proof[hits] == PROVEN).all()


# -- missing numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("numbers", ["logarithm", "quantiles", "bins", "numbered bins"])
def test_missing_numbers_are_filled_in(numbers: str, last: str) -> None:
    frame = FRAME.assign(
        income=FRAME["income"].where(np.arange(N) % 4 > 0), age=FRAME["age"].where(np.arange(N) % 7 > 0)
    )
    filled = make_pipeline(SimpleImputer(strategy="median"), FRONTS[numbers]())
    before = ColumnTransformer(
        [
            ("t", filled, ["income", "debt"]),
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            ("l", OneHotEncoder(handle_unknown="ignore"), ["job"]),
        ]
    )
    model = fitted(LAST[last], before, frame)
    explainer = explainer_of(model, frame)
    assert transformed_inputs(explainer.model) is not None
    np.testing.assert_allclose(explainer.model.predict_proba(frame), model.predict_proba(frame), atol=1e-9)
    rows = frame.head(30)
    batch = explainer.explain(rows, prove=True)
    hits = batch.success
    assert hits.any()
    assert (model.predict(batch.contrast)[hits] == batch.contrast_class[hits]).all()
    assert (batch.contrast.isna() == rows.isna()).all(axis=None)
    assert (batch.answers.proof == PROVEN).any()
    whole = rows[rows.notna().all(axis=1)].head(5)
    alone, among = explainer.explain(whole).contrast, explainer.explain(rows).contrast.loc[whole.index]
    pd.testing.assert_frame_equal(alone, among, check_dtype=False)


# -- proofs -----------------------------------------------------------------------------------------------------------


def fewest_changes(model: Any, row: pd.DataFrame, values: dict[str, list[Any]]) -> int | None:
    """The least number of changed columns with which the class changes, by trying everything."""
    every = pd.DataFrame(list(itertools.product(*values.values())), columns=list(values))
    flips = model.predict(every) != model.predict(row)[0]
    return min(((every != row.iloc[0]).sum(axis=1))[flips], default=None)


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("numbers", FRONTS)
def test_proofs_agree_with_trying_everything(numbers: str, last: str) -> None:
    rng = np.random.default_rng(sum(map(ord, numbers + last)))
    small = pd.DataFrame(
        {name: rng.integers(0, most, 80) for name, most in (("a", 9), ("b", 6), ("c", 4))}
        | {"k": rng.choice(list("xy"), 80)}
    )
    value = np.log1p(small["a"]) - (small["k"] == "x") * np.sqrt(small["b"]) + small["c"] / 3
    target = value + rng.normal(0, 0.4, 80) > value.median() + 0.6
    before = ColumnTransformer(
        [("t", FRONTS[numbers](), ["a", "b"]), ("n", StandardScaler(), ["c"]), ("l", OneHotEncoder(), ["k"])]
    )
    model = fitted(LAST[last], before, small, target)
    explainer = explainer_of(model, small)
    assert isinstance(explainer.model, TorchModel)
    assert transformed_inputs(explainer.model) is not None
    rows = small.head(25)
    batch = explainer.explain(rows, prove=True, max_features=4)
    values = {name: sorted(small[name].unique()) for name in small}
    decided = 0
    for i, done in enumerate(batch.success):
        fewest = fewest_changes(model, rows.iloc[[i]], values)
        if batch.answers.proof[i] == PROVEN:
            decided += 1
            assert done == (fewest is not None)
            assert not done or batch.changed.iloc[i].sum() == fewest
        else:  # never worse than what there is
            assert not done or batch.changed.iloc[i].sum() >= fewest
        if done and batch.answers.nearest[i] > 0:
            assert batch.answers.nearest[i] <= batch.answers.distance[i] + 1e-9
    assert decided >= 20


@pytest.mark.parametrize("numbers", ["logarithm", "power", "bins", "numbered bins"])
def test_of_single_changes_the_nearest_is_taken(numbers: str) -> None:
    """In distances of the numbers, not of what the network gets of them."""
    small = FRAME[["income", "age"]]
    target = np.log1p(small["income"]) - small["age"] / 40 > 1.8
    columns = ColumnTransformer([("t", FRONTS[numbers](), ["income"]), ("n", StandardScaler(), ["age"])])
    model = fitted(MLP, columns, small, target)
    explainer = explainer_of(model, small)
    assert isinstance(explainer.model, TorchModel)
    assert transformed_inputs(explainer.model) is not None
    batch = explainer.explain(small.head(50), among="nearest")
    spread = {f.name: f.spread for f in explainer.schema.features}
    several = 0
    for i in range(50):
        row, near = small.iloc[[i]], {}
        for name in small:
            values = np.linspace(small[name].min(), small[name].max(), 1000)
            values = np.unique(values.round()) if name == "age" else values
            tried = pd.concat([row] * len(values), ignore_index=True).assign(**{name: values})
            flips = model.predict(tried) != model.predict(row)[0]
            apart = np.abs(values - row[name].iloc[0])[flips]
            if len(apart):
                near[name] = apart.min() / spread[name]
        several += len(near) > 1
        if near:
            assert batch.changed.iloc[i].sum() == 1
            assert batch.answers.distance[i] <= min(near.values()) + 0.01
    assert several > 10


@pytest.mark.parametrize("width", [40, 900])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("last", LAST)
def test_whole_numbers_are_those_that_there_are(last: str, missing: bool, width: int) -> None:
    """Of whole numbers behind a logarithm, the nearest single change is found, beyond the observed range too; as it is
    where there are too many of them to try each."""
    rng = np.random.default_rng(width + missing)
    small = pd.DataFrame({"a": rng.integers(0, width, 120), "b": rng.integers(0, 5, 120), "c": rng.normal(size=120)})
    value = np.log1p(small["a"]) + small["b"] / 3 + small["c"] / 9
    target = value + rng.normal(0, 0.2, 120) > value.median()
    numbers: list[Any] = [FunctionTransformer(np.log1p), StandardScaler()]
    if missing:
        small.loc[rng.random(120) < 0.1, "a"] = np.nan
        numbers.insert(0, SimpleImputer())
    before = ColumnTransformer([("t", make_pipeline(*numbers), ["a", "b"]), ("n", StandardScaler(), ["c"])])
    model = fitted(LAST[last], before, small, target)
    explainer = explainer_of(model, small)
    assert isinstance(explainer.model, TorchModel)
    assert transformed_inputs(explainer.model) is not None
    rows = small.assign(b=small["b"] + np.arange(120) % 2 * 5).head(60)  # half of them beyond the range of training
    batch = explainer.explain(rows, among="nearest")
    spread = {f.name: f.spread for f in explainer.schema.features}
    compared = 0
    for i in range(len(rows)):
        own, near = model.predict(rows.iloc[[i]])[0], []
        for name, most in (("a", int(small["a"].max())), ("b", 4)):
            if pd.isna(rows[name].iloc[i]):
                continue
            tried = pd.concat([rows.iloc[[i]]] * (most + 1), ignore_index=True).assign(**{name: range(most + 1)})
            apart = (tried[name] - rows[name].iloc[i]).abs()[model.predict(tried) != own]
            near += (apart / spread[name]).tolist()
        if near:
            compared += 1
            assert batch.changed.iloc[i].sum() == 1
            assert batch.answers.distance[i] <= min(near) + 1e-9
    assert compared > 20
    hits = batch.success
    assert (model.predict(batch.contrast)[hits] == batch.contrast_class[hits]).all()


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("numbers", ["logarithm", "power", "normal quantiles", "numbered bins"])
def test_no_row_is_nearer_than_is_proven(numbers: str, norm: str) -> None:
    """Rows on a fine grid over all features that an answer changes: none of another class is nearer than the bound."""
    model = fitted(MLP, front(FRONTS[numbers]()), target=THREE)
    explainer = explainer_of(model, distance=norm)
    rows = FRAME.head(25)
    batch = explainer.explain(rows, prove=True)
    low, high = (dict(zip(explainer.schema.names, ends, strict=True)) for ends in explainer.schema.bounds())
    spread = {f.name: f.spread for f in explainer.schema.features}
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    compared = 0
    for i in np.flatnonzero(batch.success):
        changed = list(batch.changed.columns[batch.changed.iloc[i]])
        if "job" in changed or batch.answers.nearest[i] <= 0:
            continue
        steps = 400 if len(changed) == 1 else 60 if len(changed) == 2 else 14
        axes = [np.linspace(low[c], high[c], steps) for c in changed]
        axes = [np.unique(a.round()) if c == "age" else a for a, c in zip(axes, changed, strict=True)]
        grid = np.array(list(itertools.product(*axes)))
        tried = pd.concat([rows.iloc[[i]]] * len(grid), ignore_index=True)
        for k, c in enumerate(changed):
            tried[c] = grid[:, k].astype(tried[c].dtype)
        flips = model.predict(tried) != model.predict(rows.iloc[[i]])[0]
        apart = np.stack([(tried[c] - rows[c].iloc[i]) / spread[c] for c in changed], axis=1)
        nearest = np.linalg.norm(apart[flips], ord=order, axis=1).min(initial=np.inf)
        assert batch.answers.nearest[i] <= nearest + 1e-9
        compared += 1
    assert compared >= 10


def two_columns(numbers: Any, weights: tuple[float, float], offset: float) -> Any:
    """A linear model of a function of `a`, and `b`, with weights that are given."""
    a, b = RNG.uniform(0, 20, 200), RNG.uniform(0, 10, 200)
    before = ColumnTransformer([("a", numbers, ["a"]), ("b", "passthrough", ["b"])])
    frame = pd.DataFrame({"a": a.clip(0, 10) if isinstance(numbers, MinMaxScaler) else a, "b": b})
    model = make_pipeline(before, LogisticRegression()).fit(frame, np.where(a + b > 12, "yes", "no"))
    model[-1].coef_[:], model[-1].intercept_[:] = weights, offset
    return model


def least_change(model: Any, row: pd.DataFrame, spread: dict[str, float], order: float) -> float:
    """The distance of the nearest row of a fine grid that has another class."""
    grid = np.stack(np.meshgrid(np.linspace(0, 20, 801), np.linspace(0, 10, 801)), axis=-1).reshape(-1, 2)
    flips = model.predict(pd.DataFrame(grid, columns=["a", "b"])) != model.predict(row)[0]
    return float(np.linalg.norm((grid - row.to_numpy())[flips] / [spread["a"], spread["b"]], ord=order, axis=1).min())


@pytest.mark.quick
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("kind", ["plateau", "bin"])
def test_a_change_that_a_function_does_not_see_may_be_any_other(kind: str, norm: str) -> None:
    """The nearest training row changes `a` within a bin, or where the function is constant, and `b`."""
    if kind == "plateau":
        model = two_columns(MinMaxScaler(clip=True), (-10.0, 1.0), 2.0)
        row, other = pd.DataFrame({"a": [20.0], "b": [0.0]}), pd.DataFrame({"a": [19.5], "b": [9.0]})
    else:
        bins = KBinsDiscretizer(4, encode="ordinal", strategy="uniform", subsample=None)
        model = two_columns(bins, (8.0, 1.0), -7.0)
        row, other = pd.DataFrame({"a": [4.0], "b": [0.0]}), pd.DataFrame({"a": [4.5], "b": [9.0]})
    table = pd.DataFrame({"a": RNG.uniform(0, 20, 200), "b": RNG.uniform(0, 10, 200)})
    explainer = grace.Explainer(model, pd.concat([table[model.predict(table) == "no"], other], ignore_index=True))
    assert transformed_inputs(explainer.model) is not None
    asked: dict[str, Any] = {"method": "nearest", "prefer": "nearest", "polish": False, "prove": True}
    batch = explainer.explain(row, distance=norm, domain="minmax", ranges={"a": (0, 20), "b": (0, 10)}, **asked)
    assert batch.changed.to_numpy().all()
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    least = least_change(model, row, {f.name: f.spread or 1.0 for f in explainer.schema.features}, order)
    assert 0 < batch.answers.nearest[0] <= least * (1 + 1e-9)


@pytest.mark.quick
@pytest.mark.parametrize("cost", [0.05, 0.5])
@pytest.mark.parametrize("least", [5.0, 7.0])
def test_bounds_of_rows_outside_their_ranges(least: float, cost: float) -> None:
    """log(a) + b has to reach a number; `a` is far below its range, and the way to it is part of every price."""
    frame = pd.DataFrame({"a": RNG.uniform(0.001, 100, 300), "b": RNG.uniform(0, 10, 300)})
    before = ColumnTransformer([("a", FunctionTransformer(np.log), ["a"]), ("b", "passthrough", ["b"])])
    model = make_pipeline(before, LogisticRegression()).fit(frame, np.where(frame["b"] > 5, "yes", "no"))
    model[-1].coef_[:], model[-1].intercept_[:] = (1.0, 1.0), -least
    explainer = grace.Explainer(model, frame, gamma=1.0, domain="minmax")
    row = pd.DataFrame({"a": [0.001], "b": [0.0]})
    batch = explainer.explain(row, ranges={"a": (10, 100)}, costs={"b": cost}, prove=True, among="nearest")
    spread = {f.name: f.spread or 1.0 for f in explainer.schema.features}
    values = np.stack(np.meshgrid(np.linspace(10, 100, 901), np.linspace(0, 10, 901)), axis=-1).reshape(-1, 2)
    changed = batch.changed.to_numpy()[0]
    values = np.where(changed, values, row.to_numpy())
    flips = model.predict(pd.DataFrame(values, columns=["a", "b"])) == "yes"
    apart = np.abs(values - row.to_numpy()) / [spread["a"], spread["b"]] * [1.0, cost]
    assert 0 < batch.answers.nearest[0] <= apart[flips].sum(axis=1).min() * (1 + 1e-9)


# -- numbers of which nothing is known --------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("last", [LogisticRegression(C=100), HistGradientBoostingClassifier(max_iter=20)])
@pytest.mark.parametrize("bins", [False, True])
def test_nothing_is_proven_where_a_function_has_no_value(bins: bool, last: Any) -> None:
    """Of negative numbers there is no root, and the pipeline fills in what is of another class."""
    rng = np.random.default_rng(1)
    a = rng.uniform(0, 2.5, 3000) + 12 * (rng.random(3000) < 0.5)
    frame = pd.DataFrame({"a": a, "b": rng.uniform(0, 1, 3000)})
    target = np.where(a < 2, "low", np.where(a > 13, "high", "mid"))
    stages = [FunctionTransformer(np.sqrt), SimpleImputer(strategy="constant", fill_value=float(np.sqrt(13.0)))]
    stages += [KBinsDiscretizer(6, encode="onehot-dense", quantile_method="averaged_inverted_cdf")] if bins else []
    before = ColumnTransformer([("a", make_pipeline(*stages), ["a"]), ("b", "passthrough", ["b"])])
    with np.errstate(all="ignore"):
        model = make_pipeline(before, last).fit(frame, target)
        explainer = grace.Explainer(model, frame, gamma=1.0, domain="minmax")
        row = pd.DataFrame({"a": [0.5], "b": [0.5]})
        assert explainer.explain(row, prove=True).answers.proof[0] == PROVEN
        limits: dict[str, Any] = {"frozen": ["b"], "decrease_only": ["a"], "ranges": {"a": (-4, 2)}}
        with pytest.raises(grace.GraceError, match=r"'a': the range -4 to 2 goes beyond .* known, from 0; narrow it"):
            explainer.explain(row, prove=True, **limits)
        below = explainer.explain(row, **limits)
        assert below.success[0]
        assert below.contrast["a"][0] < 0
        assert model.predict(below.contrast)[0] == below.contrast_class[0]
        with pytest.raises(grace.GraceError, match=r"'a', row 0: -3 lies beyond .* leave the row out"):
            explainer.explain(pd.DataFrame({"a": [-3.0], "b": [0.5]}), prove=True)
        outside = explainer.explain(pd.DataFrame({"a": [-3.0], "b": [0.5]}))
        assert outside.original_class[0] == model.predict(pd.DataFrame({"a": [-3.0], "b": [0.5]}))[0]
        assert explainer.explain(row, prove=True).answers.proof[0] == PROVEN  # of other rows, as before


@pytest.mark.quick
def test_rows_that_the_pipeline_does_not_take_are_an_error_of_its_own() -> None:
    model = fitted(LogisticRegression(), front(FRONTS["logarithm"]()))
    explainer = explainer_of(model)
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(grace.GraceError, match="the Pipeline failed on 1 rows of 4 features: Input X contains NaN"),
    ):
        explainer.explain(FRAME.iloc[[0]].assign(income=-3.0))


@pytest.mark.quick
def test_missing_cells_do_not_widen_a_range() -> None:
    frame = pd.DataFrame({"a": RNG.uniform(10, 20, 200), "b": RNG.uniform(0, 1, 200)})
    frame["a"] = frame["a"].where(np.arange(200) % 7 > 0)
    model = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(frame, frame["b"] > 0.5)
    explainer = grace.Explainer(model, frame)
    for domain in ("minmax", "central", 0.9):
        low, high = explainer.schema_for(domain)["a"].bounds  # type: ignore[arg-type]
        assert 10 <= low < high <= 20


# -- limits of a call, heavy tails, and what cannot be evaluated -----------------------------------------------------


@pytest.mark.parametrize("call", [{"domain": "minmax"}, {"ranges": {"k": ["p", "q", "rare"]}}])
def test_categories_that_only_a_call_allows(call: dict[str, Any]) -> None:
    """The default domain leaves out a rare category; with it, one change does."""
    rng = np.random.default_rng(0)
    k = np.where(np.arange(400) < 4, "rare", rng.choice(["p", "q"], 400))
    frame = pd.DataFrame({"a": rng.lognormal(1, 0.5, 400).round(1), "k": k})
    target = np.where(np.log1p(frame["a"]) + 5 * (frame["k"] == "rare") > 1.6, "yes", "no")
    before = ColumnTransformer([("a", LOG, ["a"]), ("k", OneHotEncoder(), ["k"])])
    model = fitted(LogisticRegression(C=100), before, frame, target)
    explainer = grace.Explainer(model, frame, gamma=1.0)
    assert transformed_inputs(explainer.model) is not None
    row = pd.DataFrame({"a": [3.6], "k": ["p"]})
    assert list(model.predict(pd.concat([row, row.assign(k="rare")]))) == ["no", "yes"]
    usual = explainer.explain(row, prove=True, frozen=["a"])
    assert not usual.success.any()
    batch = explainer.explain(row, prove=True, frozen=["a"], **call)
    assert batch.contrast["k"].tolist() == ["rare"]
    both = explainer.explain(row, prove=True, among="nearest", **call)
    assert both.answers.nearest[0] <= both.answers.distance[0]


HEAVY: dict[str, Any] = {
    "one over": lambda: make_pipeline(
        FunctionTransformer(np.log), FunctionTransformer(np.negative), FunctionTransformer(np.exp)
    ),
    "box-cox": lambda: PowerTransformer("box-cox"),
}


@pytest.mark.parametrize("numbers", HEAVY)
@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_next_to_a_pole(numbers: str, seed: int) -> None:
    """Spreads are larger than the smallest number is: no answer is nearer than is proven, and none was missed."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": (rng.pareto(1.2, 200) + 0.3).round(2), "b": (rng.pareto(2, 200) + 0.2).round(2)})
    target = 1 / frame["a"] + frame["b"] + rng.normal(0, 0.1, 200) > 1.6
    before = ColumnTransformer([("a", HEAVY[numbers](), ["a"]), ("b", HEAVY["box-cox"](), ["b"])])
    model = fitted(LogisticRegression(C=30), before, frame, target)
    explainer = explainer_of(model, frame)
    assert transformed_inputs(explainer.model) is not None
    rows = frame.head(30)
    batch = explainer.explain(rows, prove=True, among="nearest")
    spread = {f.name: f.spread for f in explainer.schema.features}
    for i in np.flatnonzero(batch.success & (batch.changed.sum(axis=1) == 1)):
        row, near = rows.iloc[[i]], {}
        for name in frame:
            values = np.unique(np.geomspace(frame[name].min(), frame[name].max(), 4000))
            tried = pd.concat([row] * len(values), ignore_index=True).assign(**{name: values})
            flips = model.predict(tried) != model.predict(row)[0]
            near[name] = np.abs(values - row[name].iloc[0])[flips].min(initial=np.inf) / spread[name]
        (changed,) = batch.changed.columns[batch.changed.iloc[i]]
        assert batch.answers.nearest[i] <= near[changed] + 1e-9
        assert batch.answers.distance[i] <= min(near.values()) * 1.02 + 0.01


def test_transformers_that_cannot_be_evaluated_far_out_are_not_read() -> None:
    frame = pd.DataFrame({"a": np.random.default_rng(0).uniform(0, 1, 100) / 1000})
    target = frame["a"] > frame["a"].median()
    model = make_pipeline(PowerTransformer(), FunctionTransformer(np.exp), LogisticRegression()).fit(frame, target)
    batch = grace.Explainer(model, frame).explain(frame.head(5))
    assert batch.success.all()


def test_at_a_tie_the_class_of_a_row_is_the_one_that_the_pipeline_says() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 10, 120), "b": rng.integers(0, 9, 120).astype(float)})
    before = ColumnTransformer([("a", FunctionTransformer(np.sqrt), ["a"]), ("b", StandardScaler(), ["b"])])
    model = make_pipeline(before, LogisticRegression()).fit(frame, (frame["a"] + frame["b"]) % 3)
    scaler = model[0].transformers_[1][1]
    model[-1].coef_[:] = [[1, 0], [1, 2], [1, -2]]
    model[-1].intercept_[:] = [0, -2 * (3 - scaler.mean_[0]) / scaler.scale_[0], -9]
    rows = pd.DataFrame({"a": np.arange(10), "b": 3.0})  # 0 and 1 tie, but for rounding
    explainer = grace.Explainer(model, frame, gamma=1.0)
    assert transformed_inputs(explainer.model) is not None
    batch = explainer.explain(rows)
    assert batch.original_class.tolist() == model.predict(rows).tolist()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_codes_of_categories_are_no_numbers() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": rng.choice([10, 20, 40], 200), "a": rng.lognormal(0, 1, 200).round(2)})
    target = np.where(frame["k"] + 10 * np.log(frame["a"]) + rng.normal(0, 5, 200) > 22, "yes", "no")
    model = make_pipeline(PowerTransformer("box-cox"), LogisticRegression()).fit(frame, target)
    frame["k"] = pd.Categorical(frame["k"], categories=[10, 20, 40], ordered=True)
    batch = grace.Explainer(model, frame, gamma=1.0).explain(frame.head(10), prove=True)
    assert batch.success.all()
    assert (batch.answers.proof == PROVEN).any()
