"""Random questions about how small networks and tree ensembles decide, with the reference for each row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

import grace
import tree_cases
from decision_reference import AllRows, network_rows, problem_of_call, tree_rows
from grids import explainer_of, grid
from tree_reference import question_of

KEPT = ("against", "confidence")
DROPPED = ("prove", "prefer", "max_features", "gamma")


@dataclass(frozen=True)
class Asked:
    """A batch of explanations; per row the reference of what was asked, and of leaving the class at all. `exact` if
    the proofs can decide everything."""

    explainer: grace.Explainer
    batch: grace.Explanations
    true: list[AllRows | None]
    flip: list[AllRows | None]
    exact: bool


@lru_cache(maxsize=64)
def network_case(seed: int) -> Asked:
    """A network on a grid of whole numbers and categories, with limits, classes asked for, and rows outside of it."""
    rng = np.random.default_rng(seed)
    frame, classes = grid(seed), int(rng.choice([2, 3, 4]))
    explainer = explainer_of(frame, seed, classes=classes, tilt=float(rng.choice([0.5, 1.5, 2.5])))
    rows = frame.iloc[rng.choice(len(frame), 2, replace=False)].reset_index(drop=True)
    call = _limits(rng)
    if rng.random() < 0.25:
        call["against"] = f"c{rng.integers(classes)}"
    if rng.random() < 0.25:
        call["confidence"] = float(rng.choice([0.4, 0.6, 0.8]))
    if rng.random() < 0.3:
        rows.loc[0, "a"] = 9
    if rng.random() < 0.2:
        rows.loc[1, "d"] = -4
    names = explainer.schema.names
    asked, plain = (
        problem_of_call(explainer, rows, c) for c in (call, {k: v for k, v in call.items() if k not in KEPT})
    )
    true, flip = ([network_rows(p, i, names) for i in range(len(rows))] for p in (asked, plain))
    return Asked(explainer, explainer.explain(rows, **call), true, flip, "confidence" not in call or classes == 2)


def _limits(rng: np.random.Generator) -> dict[str, Any]:
    options: dict[str, Any] = {
        "frozen": [str(rng.choice(list("bce")))],
        "increase_only": ["a"],
        "decrease_only": ["d"],
        "ranges": {"b": (-1, 0)},
    }
    return {name: value for name, value in options.items() if rng.random() < 0.2}


@lru_cache(maxsize=64)
def tree_case(seed: int) -> Asked:
    """An ensemble of a kind of trees, and a kind of question, both by the seed."""
    kind = tree_cases.KINDS[seed % len(tree_cases.KINDS)]
    task = tree_cases.TASKS[seed // len(tree_cases.KINDS) % len(tree_cases.TASKS)]
    case = tree_cases.case(np.random.default_rng(seed), kind, task)
    call = {k: v for k, v in case.call.items() if k not in DROPPED}
    plain = {k: v for k, v in call.items() if k not in KEPT or (k == "against" and task == "number")}
    questions = [question_of(case.explainer, case.estimator, case.rows, {**c, "gamma": 1.0}) for c in (call, plain)]
    true, flip = ([tree_rows(q, i, 20_000) for i in range(len(case.rows))] for q in questions)
    return Asked(case.explainer, case.explainer.explain(case.rows, **call), true, flip, "confidence" not in call)


def is_close(true: AllRows) -> bool:
    """Whether some row is decided as was asked for by less than the margin that an answer needs."""
    return bool((true.decided & ~true.reach).any())


def continuous(seed: int) -> tuple[grace.Explainer, pd.DataFrame, dict[str, Any]]:
    """A network on numbers of several kinds and categories; some rows lie outside of the ranges."""
    rng, n = np.random.default_rng(seed), 60
    frame = pd.DataFrame(
        {
            "a": rng.normal(0, 2, n).round(2),
            "b": rng.normal(0, 1, n).round(3),
            "c": rng.choice(list("uvw"), n),
            "d": rng.integers(0, 5, n),
            "e": rng.normal(100, 20, n).round(0),
        }
    )
    explainer = explainer_of(frame, seed, classes=2 + seed % 2, tilt=float(rng.choice([0.5, 1.5, 3])))
    rows = frame.head(3).copy()
    rows.loc[0, "a"] = rng.choice([30.0, 0.5])
    rows.loc[1, "d"] = rng.choice([11, 2])
    rows.loc[1, "e"] = -7.0
    return explainer, rows, {"increase_only": ["a"]} if seed % 3 == 0 else {}
