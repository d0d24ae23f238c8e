"""How fast one row is explained alone: the compiled search beside what is around it.

    python benchmarks/single_row.py                      spam, diabetes, german_credit and adult, half a minute
    python benchmarks/single_row.py --data diabetes --rows 20

Medians over rows, each the fastest of a few times when warm: the compiled search itself, from the encoded row to
verified values, and from a frame of one row to the result. `rows with walks` need more than one change, or have no
answer, so that the paper's walks are tried, too; medians are of the other rows.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

import grace
from grace.explain.solve import answer
from grace.methods.compiled import own_workspace, problem_arrays
from grace.methods.compiled.search import search_rows
from grace.models.base import checked_scores
from grace.models.relu import relu_network
from grace.problem.answers import Answers
from grace.problem.contrast import goal_of
from grace.problem.settings import settings_of

TABLES = ("spam", "diabetes", "german_credit", "adult")


def median_ms(work: Callable[[Any], object], items: Sequence[Any], repeat: int) -> float:
    """The median over items of the fastest of several times, in milliseconds."""
    fastest = []
    for item in items:
        times = []
        for _ in range(repeat):
            begun = time.perf_counter()
            work(item)
            times.append(time.perf_counter() - begun)
        fastest.append(min(times))
    return float(np.median(fastest)) * 1e3


def verified(explainer: grace.Explainer, x: Tensor, *, against: Any = None, **asked: Any) -> Answers:
    """Encoded rows answered, from these to verified values."""
    settings = settings_of(explainer.settings, asked)
    scores = checked_scores(explainer.model, x, decisive=True)
    goal = goal_of(explainer._view, x, against, settings, scores)
    return answer(explainer._problem(x, goal, explainer.schema, settings), settings, scores=scores)


def measure(name: str, rows: int, repeat: int) -> dict[str, float]:
    """The times of single rows of a table."""
    table = grace.datasets.load(name)
    parts = table.split(0)
    model = grace.training.fit(table, seed=0)
    explainer = grace.Explainer(model, parts.train, among="nearest")
    test = model.impute(parts.test)[table.schema.names]
    frames = [test.iloc[[i]] for i in range(min(rows, len(test)))]
    plain = [frame for frame in frames if explainer.explain(frame).answers.changed.sum() == 1]
    encoded = [explainer.tensor(explainer.schema.encode(frame)) for frame in plain]
    settings, model = explainer.settings, explainer.model
    net = relu_network(model).compiled

    def problem(x: Any) -> Any:
        return explainer._problem(x, None, explainer.schema, settings)

    arrays = [(problem_arrays(problem(x), net), x.numpy().copy()) for x in encoded]
    work, most = (
        own_workspace(net, arrays[0][0][2], len(explainer.schema), settings.max_features),
        settings.max_features,
    )
    return {
        "core": median_ms(lambda a: search_rows(*a[0], 0, 1, most, False, model.tolerance, a[1], work), arrays, repeat),
        "verified": median_ms(lambda x: verified(explainer, x), encoded, repeat),
        "explain": median_ms(explainer.explain, plain, repeat),
        "walks": len(frames) - len(plain),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=TABLES, choices=TABLES)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=5, help="the fastest of so many times counts")
    args = parser.parse_args()
    print(f"milliseconds per row, load {os.getloadavg()[0]:.1f}")
    print(f"{'':14}{'core':>8}{'verified':>10}{'explain':>9}{'verified / core':>17}{'rows with walks':>17}")
    for name in args.data:
        t = measure(name, args.rows, args.repeat)
        ratio = t["verified"] / t["core"]
        print(
            f"{name:14}{t['core']:8.3f}{t['verified']:10.3f}{t['explain']:9.3f}{ratio:17.1f}{t['walks']:17.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
