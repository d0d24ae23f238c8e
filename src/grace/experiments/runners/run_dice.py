"""DiCE (Mothilal, Sharma and Tan 2020): `random`, `genetic` or `gradient`, one counterfactual per row.

Numbers are in original units, integers as int64, categories are text, and the ranges of the domain are the
`permitted_range`. The sparsity search covers all features (`posthoc_sparsity_param` 1; the default covers small changes
only). It moves in steps of the last decimal: numbers have the decimals of the data, at most down to a hundredth of the
spread.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from protocol import Ask, Task, main

OUTCOME = "outcome"


class Predictor:
    """The model with the interface of a scikit-learn estimator, for DiCE's frames."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.classes_ = np.arange(len(task.classes))

    def predict_proba(self, frame: Any) -> Any:
        return self.task.proba(decode(frame))

    def predict(self, frame: Any) -> Any:
        if self.task.wanted is not None:
            return self.task.numbers(decode(frame))
        return self.predict_proba(frame).argmax(axis=1)


def decode(frame: Any) -> Any:
    """Encoded rows of a frame: categories are the text of their codes."""
    return frame[[c for c in frame.columns if c != OUTCOME]].to_numpy().astype(np.float64)


def encode(task: Task, rows: Any) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {}
    for j, feature in enumerate(task.features):
        if "categories" in feature:
            columns[name(j)] = [code(v) for v in rows[:, j]]
        else:
            integer = feature["integer"] and bool((rows[:, j] == np.round(rows[:, j])).all())
            columns[name(j)] = rows[:, j].astype(np.int64 if integer else np.float64)
    return pd.DataFrame(columns)


def name(j: int) -> str:
    return f"f{j:04d}"  # of equal length: DiCE matches columns by prefix


def code(value: float) -> str:
    return f"{int(value):03d}"  # sorts as text in the order of codes


def decimals(feature: dict[str, Any]) -> int:
    fine = max(0, math.ceil(-math.log10(feature["spread"] / 100)))
    return 0 if feature["integer"] else max(1, min(feature["decimals"], fine))


def prepare(task: Task, variant: str) -> Ask:
    import dice_ml

    frame = encode(task, task.train)
    frame[OUTCOME] = outcome = Predictor(task).predict(frame)
    ranges: dict[str, list[Any]] = {}
    for j, feature in enumerate(task.features):
        low_high = [feature.get("low"), feature.get("high")]
        ranges[name(j)] = [code(c) for c in feature["open"]] if "open" in feature else low_high
    data = dice_ml.Data(
        dataframe=frame,
        continuous_features=[name(j) for j in task.numeric],
        outcome_name=OUTCOME,
        continuous_features_precision={name(j): decimals(task.features[j]) for j in task.numeric},
    )
    if variant == "gradient":
        return gradient(task, dice_ml, data, frame, ranges)
    kind = "classifier" if task.wanted is None else "regressor"
    model = dice_ml.Model(model=Predictor(task), backend="sklearn", model_type=kind)
    explainer = dice_ml.Dice(data, model, method=variant)

    def ask(i: int) -> Any:
        found = explainer.generate_counterfactuals(
            encode(task, task.rows[[i]]),
            total_CFs=1,
            **target(task, i, outcome),
            permitted_range=ranges,
            posthoc_sparsity_param=1.0,
            posthoc_sparsity_algorithm="linear",
        )
        return first(found)

    return ask


def target(task: Task, i: int, outcome: Any) -> dict[str, Any]:
    """The desired class or range; an unbounded end of the range is replaced by a value far beyond all predictions."""
    if task.wanted is not None:
        low, high = task.wanted
        far = 10 * float(np.ptp(outcome))
        return {
            "desired_range": [
                outcome.min() - far if low is None else low,
                outcome.max() + far if high is None else high,
            ]
        }
    return {"desired_class": "opposite" if len(task.classes) == 2 else task.runner_up(task.rows[i])}


def first(found: Any) -> Any:
    """The first counterfactual, after DiCE's sparsity search if it ran."""
    example = found.cf_examples_list[0]
    frame = example.final_cfs_df if example.final_cfs_df_sparse is None else example.final_cfs_df_sparse
    return None if frame is None or len(frame) == 0 else decode(frame)[0]


def gradient(task: Task, dice_ml: Any, data: Any, frame: Any, ranges: dict[str, list[Any]]) -> Ask:
    """The gradient method, which requires a module from one-hot and min-max coordinates to one probability."""
    import torch
    from unit import Unit

    if len(task.classes) != 2:
        raise ValueError("DiCE's gradient method on torch knows two classes only")
    torch.set_num_threads(1)
    codes = {j: sorted({int(v) for v in frame[name(j)]}) for j in task.categorical}
    low = np.array([float(data.data_df[name(j)].min()) for j in task.numeric])
    high = np.array([float(data.data_df[name(j)].max()) for j in task.numeric])
    inner = Unit(task, low, high, codes)

    class Probability(torch.nn.Module):
        def forward(self, unit: torch.Tensor) -> torch.Tensor:
            logits = inner(unit)
            out = torch.sigmoid(logits[:, 1] - logits[:, 0]).float()
            return out[:, None] if unit.dim() > 1 else out

    model = dice_ml.Model(model=Probability(), backend="PYT", func="ohe-min-max")
    explainer = dice_ml.Dice(data, model, method="gradient")
    numbers = {name(j): ranges[name(j)] for j in task.numeric}

    def ask(i: int) -> Any:
        found = explainer.generate_counterfactuals(
            encode(task, task.rows[[i]]),
            total_CFs=1,
            desired_class="opposite",
            permitted_range=numbers,
            posthoc_sparsity_param=1.0,
        )
        return first(found)

    return ask


if __name__ == "__main__":
    main(prepare)
