"""The search on trees beside NICE, DiCE and treecf, for benchmarks/trees.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from single_row import verified
from tree_models import MODELS, table
from trees_measure import Limits, Line, counts, explained, mean, one_by_one, single_rows

import grace
from grace.errors import GraceError
from grace.experiments import Answers, Task, task_of
from grace.experiments.evaluate import Judge
from grace.experiments.peers import PEERS

METHODS = ("nice-sparsity", "dice-random", "treecf-genetic", "treecf-exact")
ENVIRONMENTS = Path(".venv-peers")


def peer_cell(limits: Limits, data: str, model: str) -> list[Line]:
    """The search and the peers on the same rows of one model. No peer knows γ: the search is asked without it here."""
    subject = MODELS[model](table(data))
    task = task_of(
        f"{data}, {model}",
        subject.model,
        subject.inputs if subject.number else subject.train,
        subject.test.drop(columns=subject.target) if subject.number else subject.test,
        target=None if subject.number else subject.target,
        most=limits.peer_rows,
        gamma=1.0,
        time_limit=limits.peer,
        **subject.against(),
    )
    judge = Judge(task, [])
    head = {"data": data, "model": model}
    answers, own, core = searched(task, limits)
    lines = [{**head, "method": "search", **figures(judge, answers, answers, own, core)}]
    for name in METHODS:
        why = cannot_be_asked(name, task)
        if why:
            lines.append({**head, "method": name, "failed": why})
            continue
        try:
            theirs = PEERS[name].ask(task, ENVIRONMENTS, total=limits.peer_cell)
            lines.append({**head, "method": name, **figures(judge, theirs, answers, own, core), "note": theirs.note})
        except GraceError as reason:
            lines.append({**head, "method": name, "failed": str(reason).split(": ")[-1]})
    return lines


def cannot_be_asked(name: str, task: Task) -> str:
    """Why a peer knows no such models, or nothing."""
    if name.startswith("nice") and task.wanted is not None:
        return "NICE knows classes only"
    if name.startswith("treecf") and task.wanted is None and len(task.model.classes) > 2:
        return "treecf knows two classes only"
    return ""


def searched(task: Task, limits: Limits) -> tuple[Answers, np.ndarray, np.ndarray]:
    """The answers of the search with their times, how many features they change, and the times from encoded rows."""
    explainer = grace.Explainer(task.model, task.train_frame, schema=task.schema, domain=task.domain)
    asked: dict[str, Any] = {"gamma": task.gamma, "among": "nearest"}
    if task.wanted is not None:
        asked["against"] = grace.above(task.wanted[0])
    frame = task.frame
    explainer.explain(frame.head(1), **asked)  # fills caches
    alone = one_by_one(lambda row: explainer.explain(row, **asked), single_rows(frame), limits.stage)
    encoded = [explainer.tensor(explainer.schema.encode(row)) for row in single_rows(frame)]
    core = one_by_one(lambda row: verified(explainer, row, **asked), encoded, limits.stage)
    batch, seconds = explained(explainer, frame, **asked)
    rows = np.where(batch.success[:, None], batch.answers.contrast, np.nan)
    return Answers(rows, np.resize(alone, len(frame)), seconds), counts(batch), core


def figures(judge: Judge, answers: Answers, search: Answers, own: np.ndarray, core: np.ndarray) -> Line:
    """The measures of a method, and the search beside it: row by row where the method has an answer in the domain, one
    of more than K features only where the search has one too, which may not change as many. `core` are the seconds of
    the search from encoded rows."""
    verdict = judge.verdict(answers)
    tried = len(verdict.valid)
    fair = verdict.valid & (verdict.in_domain == 1)
    fair &= (verdict.features <= judge.task.max_features) | np.isfinite(own[:tried])
    ours = np.where(np.isfinite(own[:tried]), own[:tried], np.inf)
    seconds = answers.seconds[np.isfinite(answers.seconds)] if answers.seconds is not None else np.zeros(0)
    line = {
        "rows": tried,
        "fair_rows": int(fair.sum()),
        **{name: value for name, value in verdict.figures().items() if name in SHOWN},
        "median_ms": float(np.median(seconds) * 1e3) if len(seconds) else float("nan"),
        "mean_ms": float(seconds.mean() * 1e3) if len(seconds) else float("nan"),
        "search_fewer": mean((ours < verdict.features)[fair].astype(float)),
        "search_more": mean((ours > verdict.features)[fair].astype(float)),
    }
    if search.seconds is not None and len(seconds) and verdict.valid.any():  # else it was stopped, or gave up
        line["times"] = float(np.median(seconds) / np.median(search.seconds))
        line["times_encoded"] = float(np.median(seconds) / np.median(core))
    if answers.proven is not None:
        sure = answers.proven[:tried] & fair
        line |= {
            "proven": float(answers.proven[:tried].mean()),
            "optimal_rows": int(sure.sum()),
            "optimal_equal": int((ours == verdict.features)[sure].sum()),
        }
    return {**line, "failed": ""}


SHOWN = ("valid", "within_k", "in_domain", "features", "distance")
