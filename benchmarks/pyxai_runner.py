"""Reasons of PyXAI 2.0.1 for benchmarks/pyxai_peer.py, run by a Python that has it; GRACE is not needed.

    python pyxai_runner.py FOLDER METHOD SECONDS LIMIT

FOLDER has rows.json, and model.json of XGBoost or forest.json, the trees of a forest. One JSON line per row is printed
as soon as it is known: `conditions` (feature, operator, threshold), the number of `literals` and the seconds of work,
those of child processes too. A reason that was not found in SECONDS, which only sufficient reasons can be limited to,
has null `conditions`. No row is begun after LIMIT seconds of work.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any


def worked() -> float:
    """Seconds of work of this process and its children until now."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def boosted(path: Path) -> Any:
    import xgboost
    from pyxai import Learning

    model = xgboost.XGBClassifier()
    model.load_model(path)
    return Learning.ModelIO.import_models(model, instances_type="tabular")[1]


def forest(path: Path, features: int) -> Any:
    """A forest whose trees vote: lists of nodes, (feature, threshold, left, right) or (class,)."""
    from pyxai import Builder

    def node(nodes: list[list[Any]], at: int) -> Any:
        if len(nodes[at]) == 1:  # a plain class but for trees that are one leaf
            return nodes[at][0] if at else Builder.LeafNode(nodes[at][0])
        feature, threshold, left, right = nodes[at]
        return Builder.DecisionNode(
            feature + 1, operator=Builder.GT, threshold=threshold, left=node(nodes, left), right=node(nodes, right)
        )

    trees = [Builder.DecisionTree(features, node(nodes, 0), n_classes=2) for nodes in json.loads(path.read_text())]
    return Builder.RandomForest(trees, n_features=features, n_classes=2, class_names=[0, 1])


def main() -> None:
    folder, method, seconds, most = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    sys.argv = sys.argv[:1]  # the package reads options of its own
    from pyxai import Explaining, Learning, Tools

    Tools.set_verbose(0)
    rows = json.loads((folder / "rows.json").read_text())
    count = len(rows[0])
    is_boosted = (folder / "model.json").exists()
    model = boosted(folder / "model.json") if is_boosted else forest(folder / "forest.json", count)
    model.learner_information.feature_names = [f"f{j}" for j in range(count)]
    explainer = Explaining.initialize(model)
    explainer.visualisation._do_history = False
    explainer.set_features_type({"numerical": Learning.DEFAULT})
    limit = {"time_limit": seconds} if method == "sufficient_reason" else {}
    first = worked()
    for row in rows:
        begun = worked()
        if begun - first > most:
            break
        explainer.set_instance(tuple(row))
        reason = getattr(explainer, method)(**limit)
        line = {"label": int(explainer.target_prediction), "seconds": worked() - begun, "conditions": None}
        if reason is not None:
            named = explainer.to_features(reason, details=True, eliminate_redundant_features=False)
            line["literals"] = len(reason)
            line["conditions"] = [
                (int(part["id"]) - 1, part["operator_sign_considered"].name, float(part["threshold"]))
                for parts in named.values()
                for part in parts
            ]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
