"""Sufficient reasons beside XReason's, on its own trees and instances: docs/decisions-peers.csv, in docs/reasons.md.

    python benchmarks/xreason.py PATH/TO/xreason [--data zoo,vowel] [--instances 10] [--seconds 10] [--limit 15]

XReason (Ignatiev, Izza, Stuckey, Marques-Silva, AAAI 2022; github.com/alexeyignatiev/xreason) publishes boosted trees
as text dumps of XGBoost, the tables, and logs with the size and the seconds of one minimal reason of each instance. The
trees are put into a model of XGBoost of the same shape, and asked about with no limit to any feature. Its seconds are
those of its logs, ours the work of one core.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xgboost

import grace
from grace.models.predictor import tree_ensemble

OUT = Path(__file__).parents[1] / "docs" / "decisions-peers.csv"
LEAF = re.compile(r"\s*(\d+):leaf=(\S+)")
SPLIT = re.compile(r"\s*(\d+):\[f(\d+)<(\S+)\] yes=(\d+),no=(\d+),missing=(\d+)")
ROOT = 2147483647  # the parent of a root
FAR = 1000  # times the range of a feature, beyond which no threshold lies
Tree = dict[int, tuple[Any, ...]]


def dumped_trees(path: Path) -> list[Tree]:
    """The trees of a text dump: by number, leaves (value,) and splits (feature, threshold, left, right, missing)."""
    out: list[Tree] = []
    for line in path.read_text().splitlines():
        if line.startswith("booster["):
            out.append({})
        elif leaf := LEAF.match(line):
            out[-1][int(leaf[1])] = (float(leaf[2]),)
        elif split := SPLIT.match(line):
            out[-1][int(split[1])] = (int(split[2]), float(split[3]), *(int(split[k]) for k in (4, 5, 6)))
    return out


def as_json(tree: Tree, number: int, features: int) -> dict[str, Any]:
    """A tree as XGBoost writes it into a model's JSON."""
    place, n = {key: at for at, key in enumerate(sorted(tree))}, len(tree)
    left, right, parent = [-1] * n, [-1] * n, [ROOT] * n
    at, split, default = [0.0] * n, [0] * n, [0] * n
    for key, node in tree.items():
        here = place[key]
        if len(node) == 1:
            at[here] = node[0]
            continue
        split[here], at[here], yes, no, missing = node
        left[here], right[here], default[here] = place[yes], place[no], int(missing == yes)
        parent[place[yes]] = parent[place[no]] = here
    return {
        "base_weights": [0.0] * n,
        **{name: [] for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes")},
        "default_left": default,
        "id": number,
        "left_children": left,
        "loss_changes": [0.0] * n,
        "parents": parent,
        "right_children": right,
        "split_conditions": at,
        "split_indices": split,
        "split_type": [0] * n,
        "sum_hessian": [1.0] * n,
        "tree_param": {"num_deleted": "0", "num_feature": str(features), "num_nodes": str(n), "size_leaf_vector": "1"},
    }


def published_model(folder: Path, name: str) -> tuple[pd.DataFrame, xgboost.XGBClassifier]:
    """The table without its target, and the published trees in a model with as many trees of our own making."""
    frame = pd.read_csv(folder / "bench" / name / f"{name}.csv").astype(float)
    inputs = frame.iloc[:, :-1].set_axis([f"f{j}" for j in range(frame.shape[1] - 1)], axis=1)
    target = pd.factorize(frame.iloc[:, -1], sort=True)[0]
    trees = dumped_trees(next((folder / "models" / name).glob("*.mod.txt")))
    classes = target.max() + 1
    rounds = len(trees) // (classes if classes > 2 else 1)
    model = xgboost.XGBClassifier(n_estimators=rounds, max_depth=1, base_score=0.5, n_jobs=1).fit(inputs, target)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.json"
        model.save_model(path)
        written = json.loads(path.read_text())
        written["learner"]["gradient_booster"]["model"]["trees"] = [
            as_json(tree, number, inputs.shape[1]) for number, tree in enumerate(trees)
        ]
        path.write_text(json.dumps(written))
        model.load_model(path)
    return inputs, model


def logged(path: Path) -> list[dict[str, str]]:
    """The instances of a log: i, the values; s, the size of the reason; t, its seconds."""
    out: list[dict[str, str]] = []
    current: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if line[:2] in ("i:", "s:", "t:"):
            current[line[0]] = line[2:].strip()
        if line.startswith("t:"):
            out.append(current)
            current = {}
    return out


def asked(explainer: grace.Explainer, rows: pd.DataFrame, limit: float, **how: Any) -> pd.DataFrame:
    """Size, seconds of work, and whether it is minimal and the smallest, of as many rows as are begun within
    some seconds of work."""
    begun, lines = time.process_time(), []
    for i in range(len(rows)):
        worked = time.process_time()
        found = explainer.because(rows.iloc[[i]], **how)[0]
        lines.append((len(found.features), time.process_time() - worked, found.minimal, found.smallest))
        if time.process_time() - begun > limit:
            break
    return pd.DataFrame(lines, columns=["size", "s", "minimal", "smallest"])


def compared(folder: Path, name: str, instances: int, seconds: float, limit: float) -> dict[str, Any]:
    """One line of the table."""
    inputs, model = published_model(folder, name)
    theirs = {kind: logged(folder / "logs" / kind / f"{name}.log")[:instances] for kind in ("smt", "mx")}
    rows = pd.DataFrame([[float(v) for v in a["i"].split(",")] for a in theirs["mx"]], columns=inputs.columns)
    wide = {c: (FAR * min(inputs[c].min(), -1.0), FAR * max(inputs[c].max(), 1.0)) for c in inputs}
    explainer = grace.Explainer(model, inputs)
    assert tree_ensemble(explainer.model) is not None, name
    explainer.because(rows.head(1), ranges=wide, seconds=0.01)  # compiles
    ours = asked(explainer, rows, limit, ranges=wide, seconds=seconds)
    fewest = asked(explainer, rows.head(len(ours)), limit, ranges=wide, seconds=seconds, smallest=True)
    line = {"data": name, "features": inputs.shape[1], "instances": len(ours)}
    for kind, known in theirs.items():
        for part, key in (("size", "s"), ("s", "t")):
            line[f"{kind}_{part}"] = np.mean([float(a[key]) for a in known[: len(ours)]])
    line |= ours[["size", "s", "minimal"]].mean().to_dict()
    return line | {
        "smallest_rows": len(fewest),
        "smallest_size": fewest["size"].mean(),
        "smallest": fewest["smallest"].mean(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--data", default=",".join(pd.read_csv(OUT)["data"]), help="tables, separated by commas")
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="of work on an instance")
    parser.add_argument("--limit", type=float, default=15.0, help="seconds of work on the instances of a table")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = []
    for name in given.data.split(","):
        lines.append(compared(given.repository / "aaai22", name, given.instances, given.seconds, given.limit))
        print(lines[-1], flush=True)
    pd.DataFrame(lines).to_csv(OUT, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
