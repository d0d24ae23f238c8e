"""CFNOW (Mazzine et al. 2023): `greedy` or `random`. It has no option for ranges, so the domain is ignored.

Numbers are in original units and categories one-hot, as in its documentation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from protocol import Ask, Task, main


def prepare(task: Task, variant: str) -> Ask:
    import nltk
    import pandas as pd

    nltk.download = lambda *_, **__: False  # avoids a download that tables do not need
    from cfnow import find_tabular

    names = [f"n{j}" for j in task.numeric]
    kinds = dict.fromkeys(names, "num")
    for j in task.categorical:
        kinds |= {f"c{j}_{code}": "cat" for code in range(task.features[j]["categories"])}

    def one_hot(row: Any) -> Any:
        """Numbers, then one-hot categories."""
        parts = [row[task.numeric]]
        parts += [np.eye(task.features[j]["categories"])[int(row[j])] for j in task.categorical]
        return np.concatenate(parts)

    def decode(rows: Any) -> Any:
        """The inverse of `one_hot` for several rows."""
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
            factual=pd.Series(one_hot(task.rows[i]), index=list(kinds)),
            model_predict_proba=lambda rows: task.proba(decode(rows)),
            feat_types=kinds,
            cf_strategy=variant,
            has_ohe=bool(task.categorical),
            limit_seconds=max(1, int(0.7 * task.time_limit)),  # for fine-tuning, within the limit of the row
        )
        return decode(found.cfs[0])[0] if len(found.cfs) else None

    return ask


if __name__ == "__main__":
    main(prepare)
