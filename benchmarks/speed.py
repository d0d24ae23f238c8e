"""How fast: ratios measured in one run on one machine, warm, the median of several repeats.

    python benchmarks/speed.py

The floor is what no method can beat: bare forward and backward passes of the same network on the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

import grace
from grace.information import discretise, su_matrix, symbols


def median_time(work: Callable[[], object], repeats: int = 7) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    table = grace.datasets.load("spam")
    parts = table.split(0)
    model = grace.training.fit(table)
    explainer = grace.Explainer(model, parts.train)
    rows = torch.as_tensor(explainer.schema.encode(parts.test))

    def passes() -> None:
        model.slopes(rows, lambda scores: scores[:, 1:] - scores[:, :1])

    floor = median_time(passes)
    print(f"{torch.get_num_threads()} threads; spam, {len(rows)} test rows")
    print(f"floor: one forward and backward pass, {floor * 1e3:.2f} ms")
    print(f"{'':24}{'ms per row':>12}{'times the floor':>18}")
    for method in ("search", "gradient", "local", "nearest", "deepfool"):
        for domain in ("minmax", "central"):
            spent = median_time(lambda m=method, d=domain: explainer.explain(parts.test, method=m, domain=d), 3)
            print(f"{method:12}{domain:12}{spent / len(rows) * 1e3:12.3f}{spent / floor:18.0f}")
    one = parts.test.head(1)
    spent = median_time(lambda: explainer.explain(one, method="gradient"))
    print(f"{'one row, gradient':24}{spent * 1e3:12.3f}")

    start = time.perf_counter()
    whole = grace.Explainer(model, parts.train)
    whole.explain(parts.test, method="gradient", domain="minmax")
    print(f"new explainer (SU included) and all {len(rows)} rows by gradient: {time.perf_counter() - start:.2f} s")

    digits = grace.datasets.load("mfeat")
    values, labels = digits.schema.encode(digits.frame), symbols(digits.frame["class"])
    spent = median_time(lambda: su_matrix(discretise(values, labels, digits.schema)), 3)
    print(f"SU of all pairs, mfeat ({values.shape[1]} features x {len(values)} rows): {spent:.2f} s")


if __name__ == "__main__":
    main()
