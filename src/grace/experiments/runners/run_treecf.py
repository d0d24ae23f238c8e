"""treecf (Wlazło 2026): `genetic` or `exact`, on the trees that were read off the model.

Distances are in the task's spreads, whole numbers are whole (`value_policy`), and the ranges of the domain are
constraints, extended to the row's own value where that lies outside. Each change costs more than the largest distance
(`sparsity_weight`), so that the fewest changes are the optimum, as for GRACE. `exact` begins with the genetic search
and has no limit but time.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from protocol import Answer, Ask, Task, main

NODES = 1 << 40  # more than the exact search can visit in its time
SHARE = 0.7  # of the time of a row is for the exact search; the genetic one before it takes up to a quarter of that


class Split(NamedTuple):
    """A node: a leaf has a value, a split a feature and either a threshold, below which values go left, or codes."""

    feature: int | None = None
    threshold: float | None = None
    codes: frozenset[int] | None = None
    missing_left: bool | None = None
    left: int | None = None
    right: int | None = None
    value: float | None = None


def prepare(task: Task, variant: str) -> Ask:
    import treecf
    from treecf.backends.genetic_rust import build_rust_ensemble

    if task.trees is None:
        several = task.wanted is None and len(task.classes) > 2
        raise ValueError("treecf knows two classes only" if several else "treecf needs trees")
    warnings.simplefilter("ignore", treecf.TreecfWarning)  # it says so where a proof is not complete
    ensemble = ensemble_of(task)
    names = ensemble.feature_names
    train = task.inside(task.train)
    compiled = build_rust_ensemble(ensemble)

    def explainer(row: Any) -> Any:
        made = treecf.Explainer(
            ensemble,
            background=train,
            constraints=limits(task, row, names),
            normalizers=np.array([f.get("spread", 1.0) for f in task.features]),
            value_policy={names[j]: "integer" for j in task.numeric if task.features[j]["integer"]},
        )
        made._rust_cache["ensemble"] = compiled  # shared, as by explainers whose constraints alone differ
        return made

    explainers = [explainer(row) for row in task.rows]
    options: dict[str, Any] = {"time_budget_s": task.time_limit}
    if variant == "exact":
        options = {"backend": "exact", "node_budget": NODES, "time_budget_s": SHARE * task.time_limit}

    def ask(i: int) -> Any:
        row = task.rows[i]
        target = treecf.Target.raw(range=interval(task, row))
        found = explainers[i].explain(
            row, target, sparsity_weight=1 + farthest(task, row), seed=task.seed + i, **options
        )
        values = found.x_cf if isinstance(found, treecf.Counterfactual) else None
        return Answer(values, found.proof in ("optimal", "certified")) if variant == "exact" else values

    return ask


def interval(task: Task, row: Any) -> tuple[float, float]:
    """Between which limits the sum of the trees has to be, with room for rounding."""
    assert task.trees is not None
    room = float(task.trees["needed"])
    if task.wanted is None and score(task, row) > 0:
        return -math.inf, -room
    low, high = task.trees["wanted"]
    return float(low) + room, float(high) - room


def limits(task: Task, row: Any, names: Any) -> list[Any]:
    """The domain as constraints, with the row itself inside."""
    from treecf import AllowedCategories, Range

    out: list[Any] = []
    for name, feature, x in zip(names, task.features, row, strict=True):
        if "categories" in feature:
            out.append(AllowedCategories(name, sorted({*feature["open"], int(x)})))
        else:
            out.append(Range(name, min(feature["low"], float(x)), max(feature["high"], float(x))))
    return out


def farthest(task: Task, row: Any) -> float:
    """The largest distance from the row within the constraints."""
    spans = [
        max(abs(feature["low"] - x), abs(feature["high"] - x)) / feature["spread"] if "low" in feature else 1.0
        for feature, x in zip(task.features, row, strict=True)
    ]
    return float(np.sum(spans))


def ensemble_of(task: Task) -> Any:
    """The trees as treecf has them."""
    from treecf.ir import EnsembleIR, Link, Node, SplitOp, Tree
    from treecf.ir.model import CategoricalFeature

    def node(i: int, s: Split) -> Any:
        compare = None if s.threshold is None else SplitOp.LT
        return Node(i, s.feature, s.threshold, compare, s.missing_left, s.left, s.right, s.value, s.codes)

    assert task.trees is not None
    return EnsembleIR(
        trees=tuple(
            Tree(tuple(node(i, s) for i, s in enumerate(nodes_of(task, int(root))))) for root in task.trees["roots"]
        ),
        base_score=float(task.trees["base"]),
        link=Link.SIGMOID if task.wanted is None else Link.IDENTITY,
        n_features=len(task.features),
        feature_names=tuple(f"f{j}" for j in range(len(task.features))),
        meta={},
        categorical={j: CategoricalFeature(task.features[j]["categories"]) for j in task.categorical},
    )


def nodes_of(task: Task, root: int) -> list[Split]:
    """The nodes of a tree, the root first, without splits that send everything to one side."""
    trees = task.trees
    assert trees is not None

    def below(node: int) -> tuple[int, frozenset[int] | None]:
        """The first node from here on that is a leaf or divides something, and the codes that go left."""
        while (j := int(trees["feature"][node])) >= 0:
            begin = int(trees["members"][node])
            if begin >= 0:
                known = trees["goes_left"][begin : begin + task.features[j]["categories"]]
                if known.any() and not known.all():
                    return node, frozenset(np.flatnonzero(known).tolist())
                left = bool(known.all())
            elif np.isfinite(trees["threshold"][node]):
                break
            else:
                left = bool(trees["threshold"][node] > 0)
            node = int(trees["left" if left else "right"][node])
        return node, None

    found = [below(root)]
    out: list[Split] = []
    for node, codes in found:  # grows with the children
        j = int(trees["feature"][node])
        if j < 0:
            out.append(Split(value=float(trees["value"][node])))
            continue
        place = len(found)
        found += [below(int(trees["left"][node])), below(int(trees["right"][node]))]
        threshold = float(trees["threshold"][node]) if codes is None else None
        out.append(Split(j, threshold, codes, bool(trees["missing_left"][node]), place, place + 1))
    return out


def score(task: Task, row: Any) -> float:
    """The sum of the trees for a row without missing cells."""
    trees = task.trees
    assert trees is not None
    total = float(trees["base"])
    for root in trees["roots"]:
        node = int(root)
        while (j := trees["feature"][node]) >= 0:
            begin = trees["members"][node]
            left = row[j] < trees["threshold"][node] if begin < 0 else trees["goes_left"][begin + int(row[j])]
            node = int(trees["left" if left else "right"][node])
        total += float(trees["value"][node])
    return total


if __name__ == "__main__":
    main(prepare)
