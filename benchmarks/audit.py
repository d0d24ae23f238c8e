"""Answers and sentences checked again from outside, as a reader could: nothing here is told how they were made.

    python benchmarks/audit.py [--rows 1500] [--sentences 16] [--data spam,adult] [--workers 2] [--out docs]

On every embedded table, by every method and in three domains, each contrastive row is written to CSV and read again, as
if typed in, and put to the model. It has to have the class that was said (flip), at most K changes (features), no two
of them redundant (gamma), every new value in its range (domain), all other cells bit-equal (untouched), and no part of
its changes may be enough (irreducible); no answer that was found may be missing (lost). `nearest` and `deepfool`
promise no more than the class. Then sentences in every style, form and language are read back by the reader of the
tests, and typed in. Figures go to audit.csv in the folder `--out`; the exit status is 1 if anything is false.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import grace
from grace import datasets
from grace.methods import METHODS
from grace.text import languages
from grace.text import sentence as text

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))

Array = np.ndarray[Any, np.dtype[Any]]

DOMAINS = ("central", "minmax", 0.9)
K, GAMMA = 5, 0.5
CHECKS = ("flip", "features", "gamma", "domain", "untouched", "irreducible", "lost")
AT_ONCE = 200_000  # rows put to a model at a time
STYLES = ("exact", "magnitude", "relative", "auto")
MORE = 0.1  # of itself: how much higher a predicted number should have been


class Judge:
    """A model on a table, asked about rows as frames only."""

    def __init__(self, model: grace.Model, schema: grace.Schema) -> None:
        self.model, self.features = model, schema.features
        self.number = model.task == "regression"

    def codes(self, frame: pd.DataFrame) -> Array:
        """One number per cell: a category by its position."""
        columns = []
        for f in self.features:
            cells = frame[f.name].to_numpy()
            if isinstance(f, grace.Categorical):
                place = {c: float(k) for k, c in enumerate(f.categories)}
                columns.append(np.array([place[c] for c in cells]))
            else:
                columns.append(cells.astype(np.float64))
        return np.column_stack(columns)

    def frame(self, codes: Array) -> pd.DataFrame:
        """The cells that such numbers stand for."""
        cells: dict[str, Array] = {}
        for j, f in enumerate(self.features):
            if isinstance(f, grace.Categorical):
                cells[f.name] = np.array(f.categories, dtype=object)[codes[:, j].astype(np.int64)]
            else:
                cells[f.name] = codes[:, j]
        return pd.DataFrame(cells)

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows as they come out of a text file."""
        said = pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype=str, keep_default_na=False)
        for f in self.features:
            if isinstance(f, grace.Categorical):
                cells = {str(c): c for c in f.categories}
                said[f.name] = said[f.name].map(cells).astype(object)
            else:
                said[f.name] = [float(cell) for cell in said[f.name]]
        return said

    def predict(self, frame: pd.DataFrame) -> Array:
        parts = [self.model.predict(frame.iloc[i : i + AT_ONCE]) for i in range(0, len(frame), AT_ONCE)]
        return np.concatenate(parts)

    def asked(self, before: Array) -> Array | None:
        """The number that each prediction should have reached, where it is one."""
        return before + MORE * np.abs(before) if self.number else None

    def reached(self, before: Array, after: Array) -> Array:
        """Whether a prediction is another one, or a number as high as was asked for."""
        return np.asarray(after >= self.asked(before) if self.number else before != after)


def explainer_of(name: str) -> tuple[grace.Explainer, pd.DataFrame]:
    """The network of a table, and all its rows, shuffled."""
    table = datasets.load(name)
    model = grace.training.fit(table, seed=0)
    explainer = grace.Explainer(model, table.split(0).train)
    rows = model.impute(table.frame).drop(columns=table.target)
    return explainer, rows.sample(frac=1, random_state=0).reset_index(drop=True)


def audit(name: str, most: int, explained: int) -> list[dict[str, Any]]:
    """All lines about one table."""
    torch.set_num_threads(1)
    explainer, rows = explainer_of(name)
    lines = []
    for domain in DOMAINS:
        for method in METHODS:
            if method == "deepfool" and explainer.model.task == "regression":
                continue  # it goes to the nearest class
            begun = time.perf_counter()
            counts = answers(explainer, rows.head(most), method, domain)
            seconds = round(time.perf_counter() - begun, 1)
            lines.append({"data": name, "what": method, "ranges": domain, **counts, "seconds": seconds})
    if explainer.model.task != "regression":
        begun = time.perf_counter()
        counts = sentences(explainer, rows, explained)
        seconds = round(time.perf_counter() - begun, 1)
        lines.append({"data": name, "what": "sentences", "ranges": "central", **counts, "seconds": seconds})
    print(f"{name}: {sum(line['false'] for line in lines)} false", flush=True)
    return lines


def answers(explainer: grace.Explainer, rows: pd.DataFrame, method: str, domain: str | float) -> dict[str, Any]:
    """Every answer of a method in a domain, checked; how many there are, and how many fail each check."""
    judge = Judge(explainer.model, explainer.schema_for(domain))
    before = judge.predict(judge.typed(rows))
    asked = judge.asked(before)
    against = None if asked is None else [grace.above(float(least)) for least in asked]
    batch = explainer.explain(rows, method=method, domain=domain, max_features=K, gamma=GAMMA, against=against)
    done = np.flatnonzero(batch.success)
    old, new = judge.codes(rows), judge.codes(judge.typed(batch.contrast))
    said = batch.changed.to_numpy()
    after = judge.predict(judge.typed(batch.contrast))
    flips = judge.reached(before, after)
    if not judge.number:
        flips &= after == batch.contrast_class
    changed = old != new
    redundant = explainer.su > GAMMA + 1e-12
    np.fill_diagonal(redundant, False)
    fails = {
        "flip": ~flips,
        "features": changed.sum(axis=1) > K,
        "gamma": (changed @ redundant.astype(np.float64) * changed).sum(axis=1) > 0,
        "domain": (changed & ~in_domain(judge, new)).any(axis=1),
        "untouched": (changed != said).any(axis=1),
        "irreducible": reducible(judge, old, new, changed, before, batch.answers.checks["irreducible"]),
    }
    fails = {check: fail & batch.success for check, fail in fails.items()}
    kept = METHODS[method].promises
    for check in ("features", "gamma", "domain"):
        if check not in kept:
            fails[check][:] = False
    found = np.all([batch.answers.checks[check] for check in ("flip", "features", "gamma")], axis=0)
    fails["lost"] = found & ~batch.success & ~batch.answers.trivial & bool(kept)
    wrong = np.any(list(fails.values()), axis=0)
    counts = {check: int(fail.sum()) for check, fail in fails.items()}
    return {"rows": len(rows), "checked": len(done), "false": int(wrong.sum()), **counts}


def in_domain(judge: Judge, codes: Array) -> Array:
    """Whether each cell could have been chosen."""
    out = np.ones(codes.shape, dtype=bool)
    for j, f in enumerate(judge.features):
        if isinstance(f, grace.Categorical):
            out[:, j] = np.isin(codes[:, j], [k for k, c in enumerate(f.categories) if c in f.selectable])
        else:
            low, high = f.bounds
            out[:, j] = (codes[:, j] >= low) & (codes[:, j] <= high)
            if f.integer:
                out[:, j] &= codes[:, j] == codes[:, j].round()
    return out


def reducible(judge: Judge, old: Array, new: Array, changed: Array, before: Array, claimed: Array) -> Array:
    """Whether some of the changes of a row are enough, where it is claimed that none are."""
    out = np.zeros(len(old), dtype=bool)
    count = changed.sum(axis=1)
    for size in range(2, int(count[claimed].max(initial=1)) + 1):
        these = np.flatnonzero(claimed & (count == size))
        if len(these) == 0:
            continue
        places = np.nonzero(changed[these])[1].reshape(-1, size)
        for mask in range(1, 2**size - 1):
            part = old[these].copy()
            for k in range(size):
                if mask >> k & 1:
                    row = np.arange(len(these))
                    part[row, places[:, k]] = new[these, places[:, k]]
            out[these] |= judge.reached(before[these], judge.predict(judge.frame(part)))
    return out


def sentences(explainer: grace.Explainer, rows: pd.DataFrame, most: int) -> dict[str, Any]:
    """Every sentence about some answers, those with most changes first, read back; and with what goes with a proof."""
    from truth import true

    batch = explainer.explain(rows.head(10 * most), prove=True, budget=0.2)
    order = np.argsort(-batch.changed.to_numpy().sum(axis=1), kind="stable")
    chosen = order[batch.success[order]]
    chosen = chosen[: most // 2].tolist() + chosen[most // 2 :: max(1, len(chosen) // max(1, most))].tolist()
    checked = false = 0
    for i in chosen[:most]:
        e, done = batch[i], set()
        for code in languages.names():
            for style in STYLES:
                said = [e.text(style, language=code, seed=seed, hedge=True) for seed in range(1, 4)]
                for form, place in templates(e, code):
                    said.append(f"{text.main_clause(e, form, place, style, code)}.")
                for sentence in said:
                    if (style, sentence) in done:
                        continue
                    done.add((style, sentence))
                    checked += 1
                    try:
                        true(sentence, e, batch.schema, explainer.model, style, code, sole=True)
                    except AssertionError:
                        false += 1
                        print(f"not so: {sentence}", flush=True)
    return {"rows": len(chosen[:most]), "checked": checked, "false": false}


def templates(e: grace.Explanation, code: str) -> list[tuple[str, int]]:
    """The templates that fit an explanation."""
    forms = [form for form in languages.FORMS if form != "typical" or text.comparable(e)]
    return [(form, place) for form in forms for place in range(len(languages.load(code).TEMPLATES[form]))]


def show(results: pd.DataFrame) -> str:
    """Counts by what was checked, over all tables and domains."""
    counts = [c for c in ("rows", "checked", "false", *CHECKS) if c in results]
    totals = results.groupby("what", sort=False)[counts].sum().astype(int)
    found = results[results.what != "sentences"]
    totals.loc["all answers"] = found[counts].sum().astype(int)
    return totals.to_string()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1500, help="most rows of each table")
    parser.add_argument("--sentences", type=int, default=16, help="explanations of each table that are read back")
    parser.add_argument("--data", default=",".join(datasets.names()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    names = sorted(args.data.split(","), key=lambda n: -datasets.load(n).frame.size)  # the long ones first
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(audit, names, [args.rows] * len(names), [args.sentences] * len(names)))
    results = pd.DataFrame([line for part in parts for line in part])
    args.out.mkdir(parents=True, exist_ok=True)
    results.to_csv(args.out / "audit.csv", index=False)
    print(show(results))
    sys.exit(int(results["false"].sum() > 0))


if __name__ == "__main__":
    main()
