"""CFNOW (Mazzine et al. 2023): `greedy` or `random`. It has no ranges: the domain cannot be asked for.

Numbers are given in original units and categories one-hot, as its documentation does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from protocol import Ask, Task, main


def prepare(task: Task, variant: str) -> Ask:
    import nltk
    import pandas as pd

    nltk.download = lambda *_, **__: False  # it would fetch a dictionary that tables do not need
    from cfnow import find_tabular

    names = [f"n{j}" for j in task.numeric]
    kinds = dict.fromkeys(names, "num")
    for j in task.categorical:
        kinds |= {f"c{j}_{code}": "cat" for code in range(task.features[j]["categories"])}

    def spread_out(row: Any) -> Any:
        """Numbers, then each category as a block of 0 and 1."""
        parts = [row[task.numeric]]
        parts += [np.eye(task.features[j]["categories"])[int(row[j])] for j in task.categorical]
        return np.concatenate(parts)

    def fold(rows: Any) -> Any:
        values = np.asarray(rows, dtype=np.float64).reshape(-1, len(kinds))
        out = np.empty((len(values), len(task.features)))
        out[:, task.numeric] = values[:, : len(names)]
        start = len(names)
        for j in task.categorical:
            size = task.features[j]["categories"]
            out[:, j] = values[:, start : start + size].argmax(axis=1)
            start += size
        return out

    def ask(i: int) -> Any:
        found = find_tabular(
            factual=pd.Series(spread_out(task.rows[i]), index=list(kinds)),
            model_predict_proba=lambda rows: task.proba(fold(rows)),
            feat_types=kinds,
            cf_strategy=variant,
            has_ohe=bool(task.categorical),
            limit_seconds=max(1, int(0.7 * task.time_limit)),  # of fine-tuning, so that it ends in time
        )
        return fold(found.cfs[0])[0] if len(found.cfs) else None

    return ask


if __name__ == "__main__":
    main(prepare)
