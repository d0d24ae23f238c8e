"""The tables in docs/forecast.md: how well readers of explanations forecast what a model does with other edits.

    python benchmarks/forecast.py                  13 tables, 3 runs of 20 rows: a quarter of an hour on two cores
    python benchmarks/forecast.py --quick          two tables, one run of 5 rows

Results of a table and run are kept in `--work`; a run that was stopped continues where it was. The packages lime and
shap are needed (the extra "reproduce").
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tree_models
from forecast_page import write
from forecast_readers import Forecast, Setting, cards, contrast, nothing, of_cards
from forecast_reasons import reasons, shown_sets
from forecast_rivals import lime, shap

import grace
from grace import datasets
from grace.experiments.task import network_of
from grace.explain.scorecards.additive import Rule
from grace.explain.scorecards.edits import Draw, Edits, Ints, balanced_edits
from grace.methods.curves import decisive

CANDIDATES, EACH = 4000, 100  # edits that are drawn, and edits of both kinds that are used, of each row and set
SEEDS = 1_000_000  # those of edits of the benchmark begin here: none is one of a scorecard's own
PARTS = ("grace", "reasons", "rivals")
TREES = ("adult", "german_credit")
UNITS = (*((name, "network") for name in datasets.PAPER), *((name, "XGBoost") for name in TREES))


def subject(name: str, model: str, run: int, rows: int) -> Setting:
    """The explainer of a model trained on a split, and the first test rows."""
    if model == "network":
        table = datasets.load(name)
        network = network_of(table, run, run)
        parts = table.split(run)
        explainer, frame = grace.Explainer(network, parts.train, among="nearest"), network.impute(parts.test).head(rows)
    else:
        fitted = tree_models.MODELS[model](tree_models.table(name, run))
        explainer, frame = fitted.explainer(), fitted.rows(rows)
    return Setting.of(explainer, explainer.schema.encode(frame), seed=run)


def measure(name: str, model: str, run: int, rows: int, part: str) -> dict[str, Any]:
    """Per row and policy of each reader of a part: the shares of right forecasts on edits to choose a policy by and on
    those that are reported, whether the class changes and which class it is; what scorecards claim, and how many sets
    of one and of two features reasons have."""
    torch.set_num_threads(1)
    setting = subject(name, model, run, rows)
    draw = Draw.of(setting.pool, 2 * CANDIDATES, SEEDS + run)
    parts = [draw.part(0, CANDIDATES), draw.part(CANDIDATES, 2 * CANDIDATES)]
    rule = Rule(setting.own)
    edits = balanced_edits(
        setting.rows, setting.own, parts, (EACH, EACH), lambda x: decisive(setting.explainer.model, x), rule.decide
    )
    used = np.flatnonzero(edits[0].balanced & edits[1].balanced)
    found: dict[str, Any] = {"data": name, "model": model, "run": run, "rows": len(setting.rows), "used": len(used)}
    readers: dict[str, dict[str, Forecast]]
    if part == "grace":
        full, alone = cards(setting, 5), cards(setting, 0)
        readers = {
            "none": nothing(setting),
            "one contrast": contrast(setting),
            "plain sum": of_cards(setting, full, plain=True),
            "scorecard, no pairs": of_cards(setting, alone),
            "scorecard": of_cards(setting, full),
        }
        shown = [full[int(i)] for i in used]
        found["claims"] = [None if card is None else card.figure.claim for card in shown]
        found["pairs"] = [None if card is None else len(card.pairs) for card in shown]
    elif part == "reasons":
        sets = shown_sets(setting)
        readers = {"reasons": reasons(setting, sets)}
        found["complete"] = [sets[int(i)].complete for i in used]
        found["sets"] = [[int((~sets[int(i)].pairs).sum()), int(sets[int(i)].pairs.sum())] for i in used]
    else:
        readers = {"LIME": lime(setting), "SHAP": shap(setting)}
    return {**found, "results": {reader: rated(setting, edits, used, every) for reader, every in readers.items()}}


def rated(setting: Setting, edits: list[Edits], used: Ints, policies: dict[str, Forecast]) -> dict[str, Any]:
    """The shares (rows, 4) of right forecasts of each policy, see `measure`."""
    results = {}
    for policy, forecast in policies.items():
        lines = []
        for i in used:
            line = []
            for part in edits:
                found, true, weight = forecast(int(i), part.rows[i]), part.decided[i], part.weight[i]
                change = (found != setting.own[i]) == (true != setting.own[i])
                line += [float(weight @ change), float(weight @ (found == true))]
            lines.append(line)
        results[policy] = lines
    return results


def kept(work: Path, name: str, model: str, run: int, rows: int, part: str) -> dict[str, Any]:
    """The results of one part, computed if they are not in the folder."""
    file = work / f"{name}-{model}-{run}-{rows}-{part}.json"
    if not file.exists():
        found = measure(name, model, run, rows, part)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(found), encoding="utf-8")
        fresh.rename(file)
        print(f"{name}, {model}, run {run}, {part}: done", flush=True)
    return dict(json.loads(file.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(name for name, _ in UNITS))
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("results/forecast"), help="folder of results that are ready")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--quick", action="store_true", help="two tables, one run of 5 rows")
    args = parser.parse_args()
    if args.quick:
        args.data, args.rows, args.runs = "diabetes,german_credit", 5, 1
    args.work.mkdir(parents=True, exist_ok=True)
    chosen = set(args.data.split(","))
    units = [(n, m, run) for run in range(args.runs) for n, m in UNITS if n in chosen]
    tasks = [(args.work, *unit, args.rows, part) for unit in units for part in PARTS]
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(kept, *zip(*tasks, strict=True)))
    write(results, args.out)


if __name__ == "__main__":
    main()
