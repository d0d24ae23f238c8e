"""NICE (Brughmans, Leyman and Martens 2021): `sparsity`, `proximity` or `plausibility`.

Training rows are clipped to the domain, as NICE copies values from them. `plausibility` requires an autoencoder: an
MLPRegressor trained on the same rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from protocol import Ask, Task, main


def prepare(task: Task, variant: str) -> Ask:
    from nice import NICE

    if task.wanted is not None:
        raise ValueError("NICE knows classes, not numbers")
    train = task.inside(task.train)
    explainer = NICE(
        predict_fn=task.proba,
        X_train=train,
        cat_feat=task.categorical,
        num_feat=task.numeric,
        y_train=task.labels,
        optimization=variant,
        justified_cf=True,
        distance_metric="HEOM",
        num_normalization="minmax",
        auto_encoder=autoencoder(task, train) if variant == "plausibility" else None,
    )

    def ask(i: int) -> Any:
        return explainer.explain(task.rows[[i]].copy(), target_class="other")[0]

    return ask


def autoencoder(task: Task, train: Any) -> Any:
    """A function that returns the reconstruction error of rows, on standardised numbers and one-hot categories."""
    from sklearn.neural_network import MLPRegressor

    centre, scale = train[:, task.numeric].mean(axis=0), train[:, task.numeric].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def encode(rows: Any) -> Any:
        parts = [(rows[:, task.numeric] - centre) / scale]
        parts += [np.eye(task.features[j]["categories"])[rows[:, j].astype(int)] for j in task.categorical]
        return np.concatenate(parts, axis=1)

    inputs = encode(train)
    width = inputs.shape[1]
    sizes = (width, max(1, width // 2), width)
    net = MLPRegressor(hidden_layer_sizes=sizes, random_state=task.seed, early_stopping=True)
    net.fit(inputs, inputs)

    def error(rows: Any) -> Any:
        inputs = encode(rows)
        rebuilt = net.predict(inputs).reshape(inputs.shape)
        return np.sqrt(((rebuilt - inputs) ** 2).mean(axis=1))

    return error


if __name__ == "__main__":
    main(prepare)
