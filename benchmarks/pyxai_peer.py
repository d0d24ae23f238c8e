"""Sufficient reasons beside PyXAI's, on the same trees and rows: docs/pyxai-peers.csv, in docs/reasons.md.

    pip install pyxai==2.0.1     into a virtual environment of its own
    python benchmarks/pyxai_peer.py --python PATH/TO/ITS/python [--data magic] [--rows 10] [--seconds 10] [--limit 25]

PyXAI (Audemard, Bellart, Bouzid and others, CRIL) computes reasons as conditions on features. Both are asked about the
same XGBoost models and forests with two classes and numbers only, with no limit to any feature; words are coded. PyXAI
lets the trees of a forest vote, so that its leaves are made to vote here, too. That the features of each of its reasons
entail the class is proven here again, and that its conditions do is tried on random rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestClassifier
from tree_models import Subject, fitted, table, with_codes, xgboost
from xreason import FAR, asked

import grace
from grace.experiments.process import clean
from grace.explain.decisions.questions import problem_of
from grace.explain.decisions.sufficient import entailing
from grace.models.predictor import tree_ensemble
from grace.proofs.certificate import FOUND, PROVEN
from grace.proofs.sets import set_prover

OUT = Path(__file__).parents[1] / "docs" / "pyxai-peers.csv"
RUNNER = Path(__file__).parent / "pyxai_runner.py"
DATA = ("diabetes", "cancer95", "phoneme", "magic", "german_credit")
TREES = {"XGBoost": 100, "forest": 25}
METHODS = {"XGBoost": ("tree_specific_reason",), "forest": ("majoritary_reason", "sufficient_reason")}
WAIT = 5  # times the seconds of work that a busy machine may take for them
DRAWN = 2000  # random rows on which the conditions of a reason are tried
Condition = tuple[int, str, float]
INSIDE = {
    "GE": lambda x, t: x >= t,
    "GT": lambda x, t: x > t,
    "LE": lambda x, t: x <= t,
    "LT": lambda x, t: x < t,
}


def voting(model: RandomForestClassifier) -> RandomForestClassifier:
    """The forest with leaves that vote for their most frequent class, instead of its share."""
    for tree in model.estimators_:
        values = tree.tree_.value
        values[:] = np.eye(values.shape[2])[values[:, 0].argmax(axis=1)][:, None]
    return model


def model_of(data: str, kind: str, trees: int) -> Subject:
    """A fitted model; the base score of XGBoost is 0.5, which adds 0, so that nothing depends on how it is read."""
    subject = with_codes(table(data))
    if kind == "XGBoost":
        return xgboost(subject, trees, base_score=0.5)
    found = fitted(subject, RandomForestClassifier(trees, random_state=0))
    voting(found.model)
    return found


def nodes_of(model: RandomForestClassifier) -> list[list[list[Any]]]:
    """The trees as the runner reads them."""
    out = []
    for tree in (estimator.tree_ for estimator in model.estimators_):
        votes = tree.value[:, 0].argmax(axis=1)
        parts = zip(tree.feature, tree.threshold, tree.children_left, tree.children_right, votes, strict=True)
        out.append(
            [[int(v)] if left < 0 else [int(f), float(t), int(left), int(right)] for f, t, left, right, v in parts]
        )
    return out


def theirs(python: Path, model: Any, rows: pd.DataFrame, method: str, seconds: float, limit: float) -> pd.DataFrame:
    """Label, literals, conditions and seconds of the rows that are done within a limit."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        values = rows.to_numpy(np.float32).astype(np.float64)  # as the trees compare them
        (folder / "rows.json").write_text(json.dumps(values.tolist()))
        if isinstance(model, RandomForestClassifier):
            (folder / "forest.json").write_text(json.dumps(nodes_of(model)))
        else:
            model.save_model(folder / "model.json")
        command = [str(python), str(RUNNER), str(folder), method, str(seconds), str(limit)]
        with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
            try:
                subprocess.run(
                    command, cwd=folder, stdout=out, stderr=log, env=clean(), timeout=WAIT * limit, check=True
                )
            except subprocess.TimeoutExpired:
                pass
            except subprocess.CalledProcessError as failure:
                raise SystemExit((folder / "log").read_text()) from failure
        lines = [line for line in (folder / "out").read_text().splitlines(keepends=True) if line.endswith("}\n")]
    return pd.DataFrame([json.loads(line) for line in lines], columns=["label", "seconds", "conditions", "literals"])


def holds(model: Any, inputs: pd.DataFrame, row: np.ndarray, label: int, conditions: Sequence[Condition]) -> bool:
    """Whether random rows that meet the conditions have the class. Values are those of training rows and far beyond
    them; where a condition excludes one, the row's own."""
    rng = np.random.default_rng(0)
    pool = inputs.to_numpy(np.float64)
    drawn = np.stack([rng.choice(pool[:, j], DRAWN) for j in range(pool.shape[1])], axis=1)
    wide = rng.random(drawn.shape) < 0.2
    drawn[wide] *= rng.choice([-FAR, FAR], wide.sum())
    for j, operator, threshold in conditions:
        drawn[:, j] = np.where(INSIDE[operator](drawn[:, j].astype(np.float32), threshold), drawn[:, j], row[j])
    return bool((model.predict(pd.DataFrame(drawn, columns=inputs.columns)) == label).all())


def entailed(explainer: grace.Explainer, row: pd.DataFrame, features: set[int], seconds: float, **how: Any) -> int:
    """Whether some features entail the class of a row, whatever the others are: PROVEN, FOUND or OPEN."""
    problem = entailing(problem_of(explainer.explain(row, **how)))
    prover = set_prover(problem, row.shape[1])
    assert prover is not None
    others = np.array([j not in features for j in range(row.shape[1])])
    return prover.decide(0, others & problem.free[0].numpy(), row.shape[1], seconds)[0]


def compared(python: Path, data: str, kind: str, rows: int, seconds: float, limit: float) -> list[dict[str, Any]]:
    """One line for each method of PyXAI for a kind of model."""
    subject = model_of(data, kind, TREES[kind])
    inputs, asking = subject.inputs.astype(float), subject.rows(rows).astype(float)
    wide = {c: (FAR * min(inputs[c].min(), -1.0), FAR * max(inputs[c].max(), 1.0)) for c in inputs}
    explainer = grace.Explainer(subject.model, inputs)
    assert tree_ensemble(explainer.model) is not None, (data, kind)
    explainer.because(asking.head(1), ranges=wide, seconds=0.01)  # compiles
    ours = asked(explainer, asking, limit, ranges=wide, seconds=seconds)
    fewest = asked(explainer, asking.head(len(ours)), limit, ranges=wide, seconds=seconds, smallest=True)
    labels, out = subject.model.predict(asking), []
    for method in METHODS[kind]:
        found = theirs(python, subject.model, asking.head(len(ours)), method, seconds, limit)
        assert np.array_equal(labels[: len(found)], found["label"]), (data, kind)
        line = {"data": data, "model": kind, "trees": TREES[kind], "features": inputs.shape[1], "method": method}
        sizes, verdicts, held = [], [], []
        for i, answer in enumerate(found.itertuples()):
            if answer.conditions is not None:
                features = {int(j) for j, *_ in answer.conditions}
                sizes.append(len(features))
                verdicts.append(entailed(explainer, asking.iloc[[i]], features, seconds, ranges=wide))
                held.append(holds(subject.model, inputs, asking.iloc[i].to_numpy(), answer.label, answer.conditions))
        line |= {"instances": len(found), "answered": len(sizes), "literals": found["literals"].mean()}
        line |= {"peer_size": np.mean(sizes) if sizes else np.nan, "peer_s": found["seconds"].mean()}
        line |= {"entailed": verdicts.count(PROVEN), "refuted": verdicts.count(FOUND), "held": sum(held)}
        same = len(found) or len(ours)  # where PyXAI has not done one, those that were asked
        line |= ours.head(same)[["size", "s", "minimal"]].mean().to_dict()
        least = fewest.head(same)
        line |= {"smallest_rows": len(least), "smallest_size": least["size"].mean(), "smallest_s": least["s"].mean()}
        out.append(line | {"smallest": least["smallest"].mean()})
        print(out[-1], flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="a Python with pyxai 2.0.1 and XGBoost")
    parser.add_argument("--data", default=",".join(DATA), help="tables, separated by commas")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="of work on a row")
    parser.add_argument("--limit", type=float, default=25.0, help="seconds of work on the rows of a table")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[dict[str, Any]] = []
    for data in given.data.split(","):
        for kind in TREES:
            lines += compared(given.python.absolute(), data, kind, given.rows, given.seconds, given.limit)
    pd.DataFrame(lines).to_csv(given.out, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
