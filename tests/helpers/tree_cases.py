"""Random questions about small tree ensembles, drawn by a seed: tables, models, rows and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import grace

Rng = np.random.Generator
SIZE = 90
ROWS = 3


@dataclass(frozen=True)
class Case:
    """A question put to an explainer, and the model itself."""

    explainer: grace.Explainer
    estimator: Any
    rows: pd.DataFrame
    call: dict[str, Any]


# -- tables -----------------------------------------------------------------------------------------


def column(rng: Rng, kind: str, frame: pd.DataFrame) -> Any:
    if kind == "whole":
        return rng.integers(0, rng.choice([2, 4, 12]), SIZE)
    if kind == "category":
        return pd.Categorical(rng.choice(list("uvwx")[: rng.integers(2, 5)], SIZE))
    if kind == "ordered":
        return pd.Categorical(rng.choice(["low", "mid", "high"], SIZE), ["low", "mid", "high"], ordered=True)
    if kind == "twin" and "a" in frame and pd.api.types.is_float_dtype(frame["a"]):
        return frame["a"].to_numpy()
    if kind == "constant":
        return np.full(SIZE, 1.5)
    if kind == "single":
        return rng.normal(0, 1, SIZE).astype(np.float32)
    values = rng.normal(rng.choice([0, 100]), rng.choice([1e-3, 1, 1e3]), SIZE)
    if kind == "gaps":
        return np.where(rng.random(SIZE) < 0.2, np.nan, values)
    return values.round(int(rng.integers(0, 4))) if kind == "rounded" else values


def table(rng: Rng, kinds: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(index=range(SIZE))
    for place, kind in enumerate(kinds):
        frame["abcdefgh"[place]] = column(rng, kind, frame)
    return frame


def learnt_from(rng: Rng, frame: pd.DataFrame) -> np.ndarray:
    """A number that depends on all columns."""
    parts = np.zeros(SIZE)
    for name in frame:
        cells = frame[name]
        numbers = cells.cat.codes.to_numpy(float) if hasattr(cells, "cat") else np.nan_to_num(cells.to_numpy(float))
        size = numbers.std() or 1.0
        parts += rng.normal() * (numbers - numbers.mean()) / size
        if rng.random() < 0.5:
            parts += rng.normal() * ((numbers - numbers.mean()) / size) ** 2
    return parts + 0.3 * rng.normal(size=SIZE)


# -- models -----------------------------------------------------------------------------------------

NUMBERS = ("plain", "rounded", "whole", "single", "twin", "constant")
MIXED = ("plain", "rounded", "whole", "gaps", "category", "ordered", "twin")


def estimator(rng: Rng, kind: str, classes: int) -> Any:
    depth, count, seed = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(1 << 16))
    grown = {"max_depth": depth, "random_state": seed}
    if kind == "tree":
        return DecisionTreeClassifier(**grown) if classes else DecisionTreeRegressor(**grown)
    if kind == "forest":
        full = {**grown, "max_depth": None, "max_leaf_nodes": int(rng.integers(2, 7)), "n_estimators": count}
        which = RandomForestClassifier if rng.random() < 0.7 else ExtraTreesClassifier
        return which(**full) if classes else RandomForestRegressor(**full)
    if kind == "stages":
        more = {**grown, "n_estimators": count, "learning_rate": float(rng.choice([0.1, 0.5, 1.0]))}
        return GradientBoostingClassifier(**more) if classes else GradientBoostingRegressor(**more)
    if kind == "histograms":
        more = {**grown, "max_iter": count, "min_samples_leaf": 5, "max_bins": 16, "early_stopping": False}
        more |= {"learning_rate": float(rng.choice([0.1, 1.0])), "categorical_features": "from_dtype"}
        if classes:
            return HistGradientBoostingClassifier(**more)
        return HistGradientBoostingRegressor(loss=str(rng.choice(["squared_error", "poisson"])), **more)
    if kind == "xgboost":
        import xgboost

        more = {**grown, "n_estimators": count, "learning_rate": float(rng.choice([0.3, 1.0])), "n_jobs": 1}
        more |= {"max_bin": 12, "enable_categorical": True, "tree_method": "hist"}
        return xgboost.XGBClassifier(**more) if classes else xgboost.XGBRegressor(**more)
    import lightgbm

    more = {**grown, "n_estimators": count, "num_leaves": 5, "max_bin": 12, "min_child_samples": 4, "n_jobs": 1}
    more |= {"verbose": -1, "min_data_per_group": 3, "learning_rate": float(rng.choice([0.1, 0.6]))}
    return lightgbm.LGBMClassifier(**more) if classes else lightgbm.LGBMRegressor(**more)


def members(model: Any) -> list[Any]:
    """The single trees of scikit-learn, whose arrays may be written to."""
    if hasattr(model, "tree_"):
        return [model.tree_]
    return [tree.tree_ for tree in np.ravel(model.estimators_)] if hasattr(model, "estimators_") else []


def edited(rng: Rng, model: Any, frame: pd.DataFrame) -> None:
    """Trees that nobody would grow: thresholds that are equal, neighbours or values of rows, in any order; leaves that
    are sure of their class, and ones that are huge or tiny."""
    trees = members(model)
    limits = np.concatenate([t.threshold[t.children_left >= 0] for t in trees])
    move, votes, size = rng.random() < 0.4, rng.random() < 0.4, float(rng.choice([1, 1, 1, 1e8, 1e-8]))
    for tree in trees:
        inner, leaf = tree.children_left >= 0, tree.children_left < 0
        for node in np.flatnonzero(inner) if move else ():
            values = frame.iloc[:, int(tree.feature[node])].to_numpy(dtype=float)
            other = [*limits[[rng.integers(len(limits))]], rng.choice(values), tree.threshold[node]]
            at = np.float32(rng.choice(other))
            tree.threshold[node] = [at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))][
                rng.integers(3)
            ]
        if tree.value.shape[2] > 1 and votes:
            tree.value[leaf, 0] = np.eye(tree.value.shape[2])[tree.value[leaf, 0].argmax(axis=1)]
        if isinstance(model, GradientBoostingClassifier | GradientBoostingRegressor) and rng.random() < 0.5:
            tree.value[leaf] *= size


def odd_rows(rng: Rng, model: Any, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with numbers at thresholds or beside them, outside of all ranges, and fractions of whole numbers."""
    rows, trees = rows.copy(), members(model)
    for name in rows:
        place = rows.columns.get_loc(name)
        if not pd.api.types.is_numeric_dtype(rows[name]) or rng.random() < 0.6:
            continue
        rows[name] = cells = rows[name].astype(np.float64)
        at = np.concatenate([np.zeros(0), *(t.threshold[t.feature == place] for t in trees)])
        where = [*rng.choice(at, min(len(at), 1)), cells.max() + 3 * (cells.std() or 1.0), cells.min() - 7.0]
        value = float(rng.choice(where))
        rows.loc[int(rng.integers(len(rows))), name] = [
            value,
            np.nextafter(value, np.inf),
            np.nextafter(value, -np.inf),
        ][rng.integers(3)]
    return rows


KINDS = ("tree", "forest", "stages", "histograms", "xgboost", "lightgbm")


# -- questions --------------------------------------------------------------------------------------


def limits(rng: Rng, frame: pd.DataFrame) -> dict[str, Any]:
    """Settings, and limits on what may change."""
    call: dict[str, Any] = {
        "max_features": int(rng.choice([1, 2, 2, 3, 9])),
        "gamma": float(rng.choice([0.0, 0.05, 0.3, 1, 1, 1])),
        "distance": str(rng.choice(["l1", "l2", "linf"])),
        "domain": ["central", "minmax", 0.9][rng.integers(3)],
    }
    if rng.random() < 0.3:
        call["prefer"] = "nearest"
    directed = [c for c in frame if not isinstance(frame[c].dtype, pd.CategoricalDtype) or frame[c].cat.ordered]
    for limit, columns in (("frozen", list(frame)), ("increase_only", directed), ("decrease_only", directed)):
        if columns and rng.random() < 0.2:
            call[limit] = [str(rng.choice(columns))]
    if set(call.get("increase_only", ())) & set(call.get("decrease_only", ())):
        del call["increase_only"]
    numbers = [c for c in frame if pd.api.types.is_float_dtype(frame[c])]
    if numbers and rng.random() < 0.25:
        name = str(rng.choice(numbers))
        ends = sorted(rng.choice([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 2, replace=False))
        low, high = (float(frame[name].quantile(q)) for q in ends)
        if low < high:
            call["ranges"] = {name: (None if rng.random() < 0.2 else low, None if rng.random() < 0.2 else high)}
    if rng.random() < 0.25:
        call["costs"] = {str(rng.choice(list(frame))): float(rng.choice([0.3, 4.0]))}
    return call


def case(rng: Rng, kind: str, task: str) -> Case:
    """A model of a kind, and a question: "flip", "against", "confidence", "threshold" or "number"."""
    plain = kind in ("tree", "forest", "stages")
    frame = table(rng, [str(k) for k in rng.choice(NUMBERS if plain else MIXED, rng.integers(1, 5))])
    if kind == "lightgbm":
        frame = frame.astype({c: np.float64 for c in frame if frame[c].dtype == np.float32})
    sums = learnt_from(rng, frame)
    classes = 0 if task == "number" else int(rng.choice([2, 2, 3, 4]))
    target: Any = sums
    if classes:
        cuts = np.quantile(sums, np.sort(rng.choice([0.2, 0.35, 0.5, 0.65, 0.8], classes - 1, replace=False)))
        target = np.digitize(sums, cuts)
    elif kind == "histograms" or rng.random() < 0.3:
        target = np.abs(sums) + 0.1
    model = estimator(rng, kind, classes).fit(frame, target)
    if plain and rng.random() < 0.6:
        edited(rng, model, frame)
    rows = frame.iloc[np.sort(rng.choice(SIZE, ROWS, replace=False))].reset_index(drop=True)
    if rng.random() < 0.4:
        rows = odd_rows(rng, model, rows)
    call = limits(rng, frame)
    given = model
    if task == "threshold":
        shares = np.asarray(model.predict_proba(frame), dtype=float)
        cut = float(rng.choice([0.01, 0.3, 0.5, 0.7, 0.99, *rng.choice(shares[:, 1], 2)]))
        cut = min(max(cut, 0.01), 0.99)
        given = grace.wrap(
            model, threshold=cut if classes == 2 else {c: float(rng.choice([0.1, 0.3, 0.5])) for c in range(classes)}
        )
    explainer = grace.Explainer(given, frame)
    if task in ("against", "confidence") and rng.random() < 0.7:
        call["against"] = int(rng.integers(classes))
    if task == "confidence":
        call["confidence"] = float(rng.choice([0.35, 0.6, 0.8, 0.9]))
    if task == "threshold" and rng.random() < 0.3:
        call["confidence"] = float(rng.choice([0.4, 0.7]))
    if task == "number":
        own = np.asarray(model.predict(frame), dtype=float)
        low, high = np.quantile(own, np.sort(rng.choice([0.05, 0.3, 0.5, 0.7, 0.95], 2, replace=False)))
        low, high = float(low), float(max(high, low + 1e-3))
        call["against"] = [
            grace.above(high),
            grace.below(low),
            grace.within(low, high),
            grace.by(float(own.std()) or 1.0),
        ][rng.integers(4)]
    elif call.get("prefer") != "nearest":  # a proof prefers the fewest changes
        call["prove"] = True
    return Case(explainer, model, rows, call)


TASKS = ("flip", "against", "confidence", "threshold", "number")


def large_case(rng: Rng) -> Case:
    """A larger ensemble with up to twelve classes, asked for few changes."""
    width, classes = int(rng.integers(2, 7)), int(rng.choice([2, 3, 5, 12]))
    frame = pd.DataFrame(rng.normal(size=(300, width)).round(int(rng.integers(1, 4))), columns=list("abcdef")[:width])
    if rng.random() < 0.5:
        frame["a"] = rng.integers(0, 9, len(frame))
    if width > 2 and rng.random() < 0.4:
        frame["b"] = frame["c"]
    sums = frame.to_numpy() @ rng.normal(size=width) + 0.3 * rng.normal(size=len(frame))
    target = np.digitize(sums, np.quantile(sums, np.arange(1, classes) / classes))
    count, seed = int(rng.integers(5, 25)), int(rng.integers(1 << 16))
    few = max(2, 2 * count // classes)
    model: Any = [
        RandomForestClassifier(count, max_leaf_nodes=int(rng.integers(3, 12)), random_state=seed),
        ExtraTreesClassifier(count, max_leaf_nodes=6, random_state=seed),
        GradientBoostingClassifier(n_estimators=few, max_depth=2, random_state=seed),
        HistGradientBoostingClassifier(max_iter=few, max_leaf_nodes=5, max_bins=16, early_stopping=False),
    ][rng.integers(4)]
    model.fit(frame, target)
    if members(model) and rng.random() < 0.5:
        edited(rng, model, frame)
    rows = odd_rows(rng, model, frame.iloc[rng.choice(len(frame), 2)].reset_index(drop=True))
    call: dict[str, Any] = {"max_features": 2, "gamma": float(rng.choice([0.1, 1])), "domain": "minmax", "budget": 10.0}
    call |= {"distance": str(rng.choice(["l1", "l2", "linf"]))}
    call |= {"prefer": "nearest"} if rng.random() < 0.25 else {"prove": True}
    if rng.random() < 0.3:
        call["against"] = int(rng.integers(classes))
    if rng.random() < 0.3:
        call["confidence"] = float(rng.choice([0.3, 0.5, 0.9]))
    if rng.random() < 0.1:
        call["frozen"] = list(frame)
    given = model
    if classes == 2 and rng.random() < 0.5:
        given = grace.wrap(model, threshold=float(rng.choice([0.01, 0.25, 0.5, 0.75, 0.99])))
    elif rng.random() < 0.15:
        given = grace.wrap(model, threshold={c: float(rng.choice([0.1, 0.3, 0.6])) for c in range(classes)})
    return Case(grace.Explainer(given, frame), model, rows, call)


def stumps(frame: pd.DataFrame, classes: int, splits: list[tuple[str, float, int, int]]) -> RandomForestClassifier:
    """A forest whose trees each vote for one class below a threshold of a column and for another from there on."""
    target = np.arange(len(frame)) * classes // len(frame)
    model = RandomForestClassifier(len(splits), max_leaf_nodes=2, bootstrap=False, random_state=0).fit(frame, target)
    for tree, (name, at, below, above) in zip(members(model), splits, strict=True):
        tree.feature[0], tree.threshold[0] = frame.columns.get_loc(name), at
        for child, vote in ((tree.children_left[0], below), (tree.children_right[0], above)):
            tree.value[child, 0] = np.eye(classes)[vote]
    return model
