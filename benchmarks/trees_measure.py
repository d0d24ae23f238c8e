"""What benchmarks/trees.py measures: answers, proofs and times of a model, beside the same model as a black box."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from tree_models import MODELS, RULES, Subject, pipeline, table, xgboost

import grace
from grace.experiments.runners.protocol import TooLong, limit
from grace.models.predictor import tree_ensemble
from grace.models.trees.compiled import Trees
from grace.proofs.certificate import EXCEPT_TIES, PROVEN

Line = dict[str, Any]
GROWTH_DATA = "magic"
GROWTH: dict[str, tuple[int, ...]] = {
    "trees": (25, 50, 100, 200, 400, 800),
    "depth": (2, 3, 4, 6, 8, 10, 12),
    "rows": (1, 10, 100, 1_000, 10_000),
}
BESIDE = ("rows", "fidelity", "features", "distance", "alone_ms", "batch_ms")
USUAL = {"trees": 100, "depth": 6, "rows": 100}


@dataclass(frozen=True)
class Limits:
    """How much is measured: rows, those of them for the black box, seconds of a proof, seconds of a stage
    (rows alone; proofs; the black box), after which it ends with the rows done; rows for the peers, seconds of a row
    of a peer, and seconds of all its rows after which it is not restarted."""

    rows: int
    few_rows: int
    budget: float
    stage: float
    peer_rows: int
    peer: float
    peer_cell: float


def explained(explainer: grace.Explainer, frame: pd.DataFrame, **asked: Any) -> tuple[grace.Explanations, float]:
    """The answers, and the seconds that they took."""
    begun = time.perf_counter()
    found = explainer.explain(frame, **asked)
    return found, time.perf_counter() - begun


def single_rows(frame: pd.DataFrame) -> list[pd.DataFrame]:
    return [frame.iloc[[i]] for i in range(len(frame))]


def one_by_one(ask: Callable[[Any], Any], rows: Sequence[Any], seconds: float) -> np.ndarray:
    """The seconds of each row asked alone, of as many as are answered in some seconds."""
    took: list[float] = []
    with suppress(TooLong), limit(seconds):
        for row in rows:
            start = time.perf_counter()
            ask(row)
            took.append(time.perf_counter() - start)
    return np.array(took)


def counts(batch: grace.Explanations) -> np.ndarray:
    """How many features each answer changes, NaN where there is none."""
    changed = batch.answers.changed.sum(axis=1).astype(float)
    return np.where(batch.success, changed, np.nan)


def mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def answered(explainer: grace.Explainer, frame: pd.DataFrame, seconds: float, asked: Line) -> tuple[Line, np.ndarray]:
    """The answers to rows one by one and in a batch: as many as are answered in some seconds. Also the seconds of each
    row."""
    alone = one_by_one(lambda row: explainer.explain(row, **asked), single_rows(frame), seconds)
    line: Line = {"rows": len(alone)}
    if not len(alone):
        return line, alone
    line |= {"alone_ms": float(np.median(alone) * 1e3), "alone_p90_ms": float(np.quantile(alone, 0.9) * 1e3)}
    with suppress(TooLong), limit(2 * seconds):
        batch, whole = explained(explainer, frame.head(len(alone)), **asked)
        line |= {
            "fidelity": float(batch.success.mean()),
            "features": mean(counts(batch)),
            "distance": mean(np.where(batch.success, batch.answers.distance, np.nan)),
            "batch_ms": whole / len(alone) * 1e3,
        }
    return line, alone


def proven(explainer: grace.Explainer, frame: pd.DataFrame, limits: Limits, asked: Line) -> Line:
    """Proofs: that no fewer features do (of a miss: that none do), and how near an answer with them could be."""
    explained(explainer, frame.head(1), prove=True, budget=limits.budget, **asked)  # fills caches
    parts, begun, step = [], time.perf_counter(), 2 * torch.get_num_threads()
    for start in range(0, len(frame), step):
        some = frame.iloc[start : start + step]
        parts.append(explained(explainer, some, prove=True, budget=limits.budget, **asked))
        if time.perf_counter() - begun > limits.stage:
            break
    answers = [batch.answers for batch, _ in parts]
    success, proof = (np.concatenate([getattr(a, name) for a in answers]) for name in ("success", "proof"))
    decided = np.isin(proof, (PROVEN, EXCEPT_TIES))
    certified = np.where(decided, np.concatenate([counts(batch) for batch, _ in parts]), np.nan)
    plain, _ = explained(explainer, frame.head(len(proof)), **asked)
    own, there = counts(plain), np.isfinite(certified)
    distance, nearest = (np.concatenate([getattr(a, name) for a in answers]) for name in ("distance", "nearest"))
    gap = 1 - nearest[success] / distance[success]
    return {
        "asked": len(proof),
        "decided": float(decided.mean()),
        "except_ties": int((proof == EXCEPT_TIES).sum()),
        "impossible": int((decided & ~success).sum()),
        "certified_minimum": mean(certified),
        "search_there": mean(np.where(there, own, np.nan)),
        "search_worse": int((~(own <= certified))[there].sum()),
        "gap_median": float(np.median(gap)) if len(gap) else float("nan"),
        "gap_mean": mean(gap),
        "proof_ms": sum(seconds for _, seconds in parts) / len(proof) * 1e3,
    }


def as_black_box(explainer: grace.Explainer) -> grace.Explainer:
    """The same model without what was read off it."""
    other = copy.copy(explainer)
    other.use(explainer.model.without_layers())
    return other


def size(trees: Trees) -> Line:
    return {"trees": len(trees.roots), "leaves": int((trees.feature < 0).sum()), "features_all": len(trees.missing)}


def measure(data: str, model: str, limits: Limits) -> Line:
    """One model of one table."""
    begun = time.perf_counter()
    subject = MODELS[model](table(data))
    fit = time.perf_counter() - begun
    begun = time.perf_counter()
    explainer, asked = subject.explainer(), subject.asked()
    line: Line = {"fit_s": fit, "read_s": time.perf_counter() - begun}
    ensemble = tree_ensemble(explainer.model)
    if ensemble is None:
        return {**line, "failed": "its trees were not read"}
    frame = subject.rows(limits.rows)
    explainer.explain(frame.head(1), **asked)  # fills caches
    own, alone = answered(explainer, frame, limits.stage, asked)
    line |= {**size(ensemble.trees), **own, **proven(explainer, frame.head(own["rows"]), limits, asked)}
    box, theirs = answered(as_black_box(explainer), frame.head(limits.few_rows), limits.stage, asked)
    line |= {f"box_{name}": box.get(name, np.nan) for name in BESIDE}
    both = min(len(alone), len(theirs))
    here, _ = explained(explainer, frame.head(max(both, 1)), **asked)
    line |= {"features_there": mean(counts(here)), "distance_there": mean(here.answers.distance[here.success])}
    times = float(np.median(theirs[:both]) / np.median(alone[:both])) if both else np.nan
    return {**line, "times": times, "failed": ""}


def measure_pipeline(data: str, limits: Limits) -> list[Line]:
    """A pipeline in original columns, and its trees on the columns that they get."""
    lines = []
    for what, subject in zip(("pipeline", "bare trees"), pipeline(data), strict=True):
        explainer = subject.explainer()
        ensemble = tree_ensemble(explainer.model)
        if ensemble is None:
            lines.append({"what": what, "failed": "its trees were not read"})
            continue
        frame = subject.rows(limits.rows)
        asked = subject.asked()
        explainer.explain(frame.head(1), **asked)
        own, _ = answered(explainer, frame, limits.stage, asked)
        line = {"what": what, **size(ensemble.trees), **own, **proven(explainer, frame, limits, asked)}
        lines.append({**line, "failed": ""})
    return lines


def measure_rules(data: str, model: str, limits: Limits) -> Line:
    """A model asked under linear rules, beside the same question without them, and to the same model as a black box."""
    subject = MODELS[model](table(data))
    explainer, frame = subject.explainer(), subject.rows(limits.rows)
    if tree_ensemble(explainer.model) is None:
        return {"failed": "its trees were not read"}
    ruled = {**subject.asked(), "rules": RULES[data]}
    for asked in (ruled, subject.asked()):
        explainer.explain(frame.head(1), **asked)  # fills caches
    own, alone = answered(explainer, frame, limits.stage, ruled)
    plain, _ = answered(explainer, frame.head(own["rows"]), limits.stage, subject.asked())
    box, theirs = answered(as_black_box(explainer), frame.head(limits.few_rows), limits.stage, ruled)
    both = min(len(alone), len(theirs))
    here, _ = explained(explainer, frame.head(max(both, 1)), **ruled)
    line = {"rules": len(RULES[data]), **own, **{f"plain_{name}": plain[name] for name in BESIDE}}
    line |= {f"box_{name}": box.get(name, np.nan) for name in BESIDE}
    line |= {"fidelity_there": float(here.success.mean()), "features_there": mean(counts(here))}
    times = float(np.median(theirs[:both]) / np.median(alone[:both])) if both else np.nan
    return {**line, "times": times, "failed": ""}


def measure_growth(what: str, value: int, limits: Limits) -> Line:
    """XGBoost of so many trees of a depth, asked about so many rows in one batch."""
    sizes = {**USUAL, what: value}
    subject = grown(sizes["trees"], sizes["depth"])
    explainer = subject.explainer()
    ensemble = tree_ensemble(explainer.model)
    assert ensemble is not None
    rows = subject.rows(len(subject.test))
    frame = rows.iloc[np.arange(sizes["rows"]) % len(rows)].reset_index(drop=True)
    asked = subject.asked()
    explainer.explain(frame.head(1), **asked)
    took = [explained(explainer, frame, **asked)[1] for _ in range(3 if sizes["rows"] <= USUAL["rows"] else 1)]
    alone = one_by_one(lambda row: explainer.explain(row, **asked), single_rows(frame.head(25)), limits.stage)
    own = {"rows": sizes["rows"], "seconds": float(np.median(took)), "alone_ms": float(np.median(alone) * 1e3)}
    return {**size(ensemble.trees), "depth": sizes["depth"], **own, "failed": ""}


def grown(trees: int, depth: int) -> Subject:
    return xgboost(table(GROWTH_DATA), trees, max_depth=depth)


def model_cell(limits: Limits, data: str, model: str) -> list[Line]:
    return [{"data": data, "model": model, **measure(data, model, limits)}]


def pipeline_cell(limits: Limits, data: str) -> list[Line]:
    return [{"data": data, **line} for line in measure_pipeline(data, limits)]


def rules_cell(limits: Limits, data: str, model: str) -> list[Line]:
    return [{"data": data, "model": model, **measure_rules(data, model, limits)}]


def growth_cell(limits: Limits, what: str, value: int) -> list[Line]:
    return [{"grows": what, "value": value, **measure_growth(what, value, limits)}]


def growth_cells() -> list[tuple[str, int]]:
    return [(what, value) for what, values in GROWTH.items() for value in values]
