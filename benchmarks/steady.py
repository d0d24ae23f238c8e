"""docs/steady.md and docs/steady.csv: whether an answer lasts, for the nearest answers, steady ones and ones with room.

    python benchmarks/steady.py [--quick] [--data diabetes,spam] [--models network,forest,XGBoost] [--page] [--times]

A model is fitted to at most TRAINED training rows, and again to OTHERS samples of as many of them with replacement.
What is measured is at the end of the page. One part is a model of a table; parts that are in the file already are not
run again, `--page` writes the page from it alone, `--times` measures anew what answers to the rows in the file take,
and `--quick` is a small trial that writes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from steady_page import write
from tree_models import Subject, fitted, forest, table, with_categories

import grace
from grace import datasets
from grace.explain.region import decision_goal
from grace.methods.profiles import profiles_of
from grace.problem.decimals import Decimals, digits_of
from grace.problem.problem import Problem
from grace.proofs.regions import Regions, regions_of

TRAINED, OTHERS, ROWS, DRAWS, REPEATS = 2000, 4, 24, 40, 3
NOISE = (0.01, 0.05)  # of a spread
SECONDS = 120  # of steady answers to single rows after which no more rows are asked about
MODELS = ("network", "forest", "XGBoost")
DATA = (*datasets.PAPER, *datasets.CATEGORICAL)


@dataclass(frozen=True)
class Fitted:
    """An explainer, and what further models, fitted to other samples, predict for encoded rows as class codes."""

    explainer: grace.Explainer
    rows: pd.DataFrame
    others: list[Callable[[np.ndarray], np.ndarray]]


def sample(frame: pd.DataFrame, seed: int, most: int) -> pd.DataFrame:
    """So many rows with replacement; with seed 0 without, as many as there are."""
    rng = np.random.default_rng(seed)
    size = min(most, len(frame))
    places = rng.choice(len(frame), size, replace=True) if seed else np.sort(rng.permutation(len(frame))[:size])
    return frame.iloc[places].reset_index(drop=True)


def networks(name: str, few: int, count: int) -> Fitted:
    from grace.training import RECIPES, Recipe, fit

    loaded = datasets.load(name)
    parts = loaded.split(0)
    train = sample(parts.train, 0, few)

    def trained(seed: int) -> grace.Model:
        recipe = RECIPES.get(name, Recipe())
        rows = train if seed == 0 else sample(train, seed, few)
        return fit(rows, schema=loaded.declared, recipe=recipe, validation=parts.validation, seed=seed)

    first, *rest = (trained(seed) for seed in range(count + 1))
    explainer = grace.Explainer(first, train)
    rows = first.impute(parts.test).drop(columns=loaded.target)

    def asked(model: grace.Model) -> Callable[[np.ndarray], np.ndarray]:
        labels = list(explainer.model.classes)
        return lambda cells: np.array([labels.index(c) for c in model.predict(explainer.schema.decode(cells))])

    return Fitted(explainer, rows, [asked(model) for model in rest])


def trees(name: str, kind: str, few: int, count: int) -> Fitted:
    subject = table(name)
    if subject.words and kind != "forest":
        subject = with_categories(subject)
    subject = replace(subject, train=sample(subject.train, 0, few))

    def trained(seed: int) -> Subject:
        rows = subject.train if seed == 0 else sample(subject.train, seed, few)
        if seed:  # every class has to occur
            rows = pd.concat([rows, subject.train.drop_duplicates(subject.target)]).reset_index(drop=True)
        part = replace(subject, train=rows)
        if kind == "forest":
            return forest(part)
        import xgboost

        return fitted(part, xgboost.XGBClassifier(n_estimators=100, enable_categorical=True, random_state=seed))

    first, *rest = (trained(seed) for seed in range(count + 1))
    explainer = first.explainer()

    def asked(model: Any) -> Callable[[np.ndarray], np.ndarray]:
        return lambda cells: np.asarray(model.predict(explainer.model.given(cells))).astype(int)

    return Fitted(explainer, subject.test.drop(columns=subject.target), [asked(s.model) for s in rest])


# -- answers ------------------------------------------------------------------------------------------


def middles(problem: Problem, answers: np.ndarray, regions: Regions) -> np.ndarray:
    """Answers with each changed number in the middle of its interval, as a number that can be said."""
    middle = (regions.low + regions.high) / 2
    every = torch.arange(answers.shape[1]).expand(len(answers), -1)
    none = torch.zeros(len(answers), dtype=torch.int64)
    grid = Decimals.of(digits_of(problem.space, every, none, answers, middle))
    said = np.clip(grid.values(grid.nearest(middle)), regions.low, regions.high)
    return np.where(regions.high > regions.low, said, answers)


def widest(problem: Problem, answers: np.ndarray) -> np.ndarray:
    """For rows that a single number can answer, the middle of the widest span of any number alone; else the answer."""
    out, x = answers.copy(), problem.rows.numpy()
    best = np.zeros(len(x))
    single = (answers != x).sum(axis=1) == 1
    for j in torch.nonzero(problem.space.is_numeric)[:, 0].tolist():
        rows = np.flatnonzero(single & problem.free[:, j].numpy())
        if len(rows) == 0:
            continue
        part = problem.select(torch.from_numpy(rows))
        lines = profiles_of(part, part.rows, torch.full((len(rows),), j))
        low, high = (end.numpy() for end in lines.runs())
        apart = (low > x[rows, None, j]) | (high < x[rows, None, j])
        width = np.where(lines.holds.numpy() & apart, (high - low) / float(problem.space.spread[j]), -1.0)
        at = width.argmax(axis=1)
        place = np.arange(len(rows))
        middle = (low[place, at] + high[place, at]) / 2
        middle = np.floor(middle) if bool(problem.space.is_integer[j]) else middle
        better = (width[place, at] > best[rows]) & (middle >= low[place, at])
        best[rows[better]] = width[place, at][better]
        out[rows[better]] = x[rows[better]]
        out[rows[better], j] = middle[better]
    return out


def answers_of(fit: Fitted, rows: pd.DataFrame) -> tuple[Problem, dict[str, np.ndarray], dict[str, float]]:
    """The answers by each way, for the rows that have one by all, and what they take in ms a row."""
    explainer, seconds = fit.explainer, {}
    batches = {}
    for among in ("nearest", "steady"):
        explainer.explain(rows.head(2), among=among)  # compiled before it is timed
        begun = time.perf_counter()
        batches[among] = explainer.explain(rows, among=among)
        seconds[among] = 1000 * (time.perf_counter() - begun) / len(rows)
    a, b = (batches[k].answers for k in ("nearest", "steady"))
    both = np.flatnonzero(a.success & b.success)
    x = explainer.tensor(a.rows[both])
    settings = replace(explainer.settings, gamma=1.0)
    out, problem = {}, None
    for among, batch in batches.items():
        goal = decision_goal(explainer, batch.answers, slice(None), None).select(torch.from_numpy(both))
        problem = explainer._problem(x, goal, batch.schema, settings)
        contrast = batch.answers.contrast[both]
        regions_of(problem.select(torch.arange(min(2, len(both)))), torch.tensor(contrast[:2]))
        begun = time.perf_counter()
        regions = regions_of(problem, torch.tensor(contrast))
        seconds[f"{among} region"] = 1000 * (time.perf_counter() - begun) / max(1, len(both))
        out[among], out[f"{among}, middle"] = contrast, middles(problem, contrast, regions)
        if among == "nearest":
            out["widest span"] = widest(problem, contrast)
    assert problem is not None
    return problem, out, seconds


def measured(fit: Fitted, problem: Problem, answers: np.ndarray, nearest: np.ndarray) -> dict[str, float]:
    """What becomes of answers with other models and with noise."""
    model, x = fit.explainer.model, problem.rows.numpy()
    classes = model.scores(torch.from_numpy(answers)).argmax(dim=1).numpy()
    numeric, whole = problem.space.is_numeric.numpy(), problem.space.is_integer.numpy()
    changed, spread = answers != x, problem.space.spread.numpy()
    line: dict[str, float] = {}
    line["kept"] = float(np.mean([np.mean(other(answers) == classes) for other in fit.others]))
    for share in NOISE:
        for where, cells in (("changed", changed & numeric), ("all", np.broadcast_to(numeric, changed.shape))):
            rng, same = np.random.default_rng(0), []
            for _ in range(DRAWS):
                noisy = answers + np.where(cells, share * spread * rng.normal(size=answers.shape), 0.0)
                noisy = np.where(whole, noisy.round(), noisy)
                same.append(np.mean(model.scores(torch.from_numpy(noisy)).argmax(dim=1).numpy() == classes))
            line[f"noise {share:.0%} {where}"] = float(np.mean(same))
    length = problem.space.distance(problem.rows, torch.from_numpy(answers)).numpy()
    least = problem.space.distance(problem.rows, torch.from_numpy(nearest)).numpy()
    line["distance"] = float(length.mean())
    line["ratio"] = float(np.exp(np.mean(np.log(np.maximum(length, 1e-9) / np.maximum(least, 1e-9)))))
    line["features"] = float(changed.sum(axis=1).mean())
    return line


def run(kind: str, name: str, *, quick: bool) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    few, count, most = (400, 2, 8) if quick else (TRAINED, OTHERS, ROWS)
    fit = networks(name, few, count) if kind == "network" else trees(name, kind, few, count)
    begun = time.perf_counter()
    fit.explainer.explain(fit.rows.head(2), among="steady")
    each = (time.perf_counter() - begun) / 2
    rows = fit.rows.head(max(5, min(most, int(SECONDS / max(each, 1e-3)))))
    problem, answers, seconds = answers_of(fit, rows)
    single = (answers["nearest"] != problem.rows.numpy()).sum(axis=1) == 1
    lines = []
    for changes, where in (("single", single), ("several", ~single)):
        if not where.any():
            continue
        part = problem.select(torch.from_numpy(np.flatnonzero(where)))
        for way, found in answers.items():
            line = measured(fit, part, found[where], answers["nearest"][where])
            head = {"model": kind, "data": name, "changes": changes, "rows": int(where.sum()), "answers": way}
            took = {"ms": seconds.get(way, np.nan), "region ms": seconds.get(f"{way} region", np.nan)}
            lines.append({**head, **line, **took})
    return lines


def times(kind: str, name: str, most: int) -> dict[str, float]:
    """What answers to so many rows take in ms of one core a row, the least of REPEATS."""
    torch.set_num_threads(1)
    fit = networks(name, TRAINED, 0) if kind == "network" else trees(name, kind, TRAINED, 0)
    rows, out = fit.rows.head(most), {}
    for among in ("nearest", "steady"):
        fit.explainer.explain(rows.head(2), among=among)
        least = np.inf
        for _ in range(REPEATS):
            begun = time.process_time()
            fit.explainer.explain(rows, among=among)
            least = min(least, time.process_time() - begun)
        out[among] = 1000 * least / len(rows)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--times", action="store_true")
    args = parser.parse_args()
    file = args.out / "steady.csv"
    known = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["model", "data"])
    done = set(zip(known["model"], known["data"], strict=True))
    for name in () if args.page else args.data.split(","):
        for kind in args.models.split(","):
            if args.times and (kind, name) in done:
                part = (known["model"] == kind) & (known["data"] == name)
                few = int(known[part & (known["answers"] == "nearest")]["rows"].sum())
                for among, took in times(kind, name, few).items():
                    known.loc[part & (known["answers"] == among), "ms"] = took
                known.round(4).to_csv(file, index=False)
            if (kind, name) in done and not args.quick:
                continue
            begun = time.perf_counter()
            lines = pd.DataFrame(run(kind, name, quick=args.quick))
            print(f"{kind} on {name}: {time.perf_counter() - begun:.0f} s")
            if args.quick:
                print(lines.to_string())
                continue
            known = pd.concat([known, lines], ignore_index=True) if len(known) else lines
            known.round(4).to_csv(file, index=False)
    if not args.quick:
        write(known, args.out)


if __name__ == "__main__":
    main()
