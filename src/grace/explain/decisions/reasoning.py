"""Computes reasons: enumerates minimal sets by proofs where a model can be read, else by trying values of a grid."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from grace.explain.batching import QueryCount
from grace.explain.decisions.profile import CANNOT, FLIPS, FeatureProfile, Profile
from grace.explain.decisions.profiling import profile_batch
from grace.explain.decisions.questions import on_cpu, problem_of, settings_of_call
from grace.explain.decisions.reasons import Reason, Reasons
from grace.explain.decisions.row_results import RowResults
from grace.explain.explanation import Explanation
from grace.explain.explanations import Explanations
from grace.explain.solve import answer
from grace.methods import ALL, METHODS, Method
from grace.methods.compiled.threads import over_tasks
from grace.methods.polish import polish
from grace.problem.goal import Between, ClassGoal
from grace.problem.problem import Problem, positions
from grace.proofs.minimal_sets import Alone, MinimalSets, minimal_sets
from grace.proofs.sets import SetProver, is_provable, set_prover
from grace.schema.features import Floats

TRIED = 60  # sets whose values are looked for, of which the best are shown
PAIRED = 12  # features of a black box of which pairs are tried,
LEVELS = 5  # and values of each


def reasons_of_batch(batch: Explanations, max_features: int, seconds: float, shown: int) -> RowResults[Reasons]:
    """The reasons of all rows of a batch, each within some seconds of work; the best are shown with values."""
    problem = problem_of(batch)
    asked = np.flatnonzero(~batch.answers.trivial).tolist()
    plain = problem.origin is None and isinstance(problem.goal, ClassGoal | Between)
    profiles = profile_batch(batch)
    if plain and is_provable(problem.model):
        alone = {i: _known_alone(problem, i, profiles[i], batch.schema.names) for i in asked}
        found = _proven_sets(problem, alone, max_features, seconds)
    else:
        found = {i: _tried_sets(problem, i, profiles[i], batch.schema.names, max_features) for i in asked}
    values = _values(batch, problem, found, shown)
    names, conflict = batch.schema.names, batch.explainer._view.conflict(batch.call["gamma"]).cpu().numpy()
    free = problem.free.cpu().numpy()
    out = []
    for i, profile in enumerate(profiles):
        sets = found.get(i, MinimalSets(complete_to=0))
        known = values.get(i, {})
        ordered = [*known, *(s for s in sets.sets if s not in known)]
        open_sets = [set(s) for s in sets.undecided]
        out.append(
            Reasons(
                about=profile.about,
                sets=tuple(
                    Reason(
                        features=tuple(names[j] for j in s),
                        minimal=sets.complete_to >= len(s) - 1 and not any(o < set(s) for o in open_sets),
                        redundant=bool(conflict[np.ix_(s, s)][np.triu_indices(len(s), 1)].any()),
                        explanation=known.get(s),
                    )
                    for s in ordered
                ),
                max_features=max_features,
                complete_to=sets.complete_to,
                free=tuple(names[j] for j in np.flatnonzero(free[i])),
            )
        )
    return RowResults(out, batch.index.tolist())


def _known_alone(problem: Problem, i: int, profile: Profile, names: list[str]) -> Alone:
    """What a profile knows of single features: a row that flips, or None where that is proven impossible."""
    out: dict[int, Floats | None] = {}
    for known in profile.with_verdict(FLIPS, CANNOT):
        j = names.index(known.name)
        out[j] = _flipped(problem, i, j, profile, known) if known.flips else None
    return out


def _flipped(problem: Problem, i: int, j: int, profile: Profile, known: FeatureProfile) -> Floats:
    """The row with the nearest value of a feature that flips it, or its first category."""
    row = problem.rows[i].numpy().copy()
    ends = [end for span in known.spans for end in span]
    row[j] = min(ends, key=lambda v: abs(v - row[j])) if ends else _code(profile, known.name, known.categories[0])
    return row


def _proven_sets(
    problem: Problem, alone: dict[int, Alone], max_features: int, seconds: float
) -> dict[int, MinimalSets]:
    """By proofs, one row after another on several threads."""
    own = threading.local()
    free, out = problem.free.numpy(), {}

    def run(i: int, stop: threading.Event) -> None:
        if not hasattr(own, "prover"):
            own.prover = set_prover(problem, max_features)
        prover: SetProver = own.prover
        out[i] = minimal_sets(prover, i, free[i], max_features, seconds, alone[i])

    over_tasks(list(alone), run)
    return out


def _tried_sets(problem: Problem, i: int, profile: Profile, names: list[str], max_features: int) -> MinimalSets:
    """The features and pairs of features that flip a row at values of a grid. Nothing is proven."""
    found = MinimalSets()
    row, part = problem.rows[i], problem.select(torch.tensor([i]))
    values: dict[int, Floats] = {}
    for known in sorted((f for f in profile.features if f.verdict != "fixed"), key=lambda f: -f.most_points):
        j = names.index(known.name)
        codes = np.array([_code(profile, known.name, v) for v in known.values])
        best = np.argsort(-np.array(known.points), kind="stable")
        if known.flips:
            found.sets[(j,)] = _flipped(problem, i, j, profile, known)
        elif len(values) < PAIRED:
            spread = np.linspace(0, len(codes) - 1, LEVELS).round().astype(int)
            values[j] = np.unique(np.concatenate([codes[best[:2]], codes[spread]]))
    for a, b in combinations(sorted(values), 2) if max_features > 1 else ():
        first, second = np.meshgrid(values[a], values[b], indexing="ij")
        tried = row.repeat(1, first.size, 1)
        tried[0, :, a], tried[0, :, b] = torch.from_numpy(first.ravel()), torch.from_numpy(second.ravel())
        margin = part.margin(tried)[0]
        best_at = int(margin.argmax())
        if margin[best_at] >= problem.model.tolerance and bool(part.inside(tried[:, best_at]).all()):
            found.sets[(a, b)] = tried[0, best_at].numpy()
    return found


def _code(profile: Profile, name: str, value: object) -> float:
    """The code of a value of a feature."""
    feature = profile.about.feature(name)
    categories = getattr(feature, "categories", None)
    return float(value) if categories is None else float(categories.index(value))  # type: ignore[arg-type]


def _values(
    batch: Explanations, problem: Problem, found: dict[int, MinimalSets], shown: int
) -> dict[int, dict[tuple[int, ...], Explanation]]:
    """For each row, the explanations of its best sets: the fewest features, then the nearest values."""
    picked = [
        (i, s, row) for i, sets in found.items() for s, row in _nearest_first(problem, i, sets)[: max(TRIED, shown)]
    ]
    if not picked:
        return {}
    owner = torch.tensor([i for i, *_ in picked])
    part = problem.select(owner)
    free = torch.zeros_like(part.free)
    for n, (_, s, _) in enumerate(picked):
        free[n, list(s)] = True
    witness = torch.from_numpy(np.stack([row for *_, row in picked])).to(part.rows)
    part = replace(part, free=free & part.free, max_features=max(len(s) for _, s, _ in picked))

    def solve(asked: Problem) -> Tensor:
        rows = METHODS["search"].solve(asked)
        left = positions((rows == asked.rows).all(dim=1))
        if len(left) and len(asked) == len(witness):
            rows = rows.index_copy(0, left, polish(asked.select(left), witness[left]))
        return rows

    settings = replace(settings_of_call(batch), max_features=part.max_features)
    answers = answer(part, settings, method=Method(solve, ALL, polishes_itself=True))
    call = {**batch.call, **vars(settings), "robust": batch.call["robust"]}
    if batch.against_each is not None:
        call["against"] = [batch.against_each[i] for i, *_ in picked]
    nothing = QueryCount(0, 0, np.zeros(len(picked), dtype=bool)) if batch.spent is not None else None
    every = Explanations(
        on_cpu(batch.explainer),
        answers,
        batch.schema,
        pd.RangeIndex(len(picked)),
        call,
        nothing,
        None,
        batch.consequences,
    )
    out: dict[int, dict[tuple[int, ...], Explanation]] = {}
    order = sorted(range(len(picked)), key=lambda n: (len(picked[n][1]), answers.distance[n], picked[n][1]))
    for n in order:
        i, s, _ = picked[n]
        kept = out.setdefault(i, {})
        if answers.success[n] and len(kept) < shown:
            kept[s] = every[n]
    return out


def _nearest_first(problem: Problem, i: int, sets: MinimalSets) -> list[tuple[tuple[int, ...], Floats]]:
    """Sets with their rows: the fewest features, then those whose rows are nearest."""
    if not sets.sets:
        return []
    rows = torch.from_numpy(np.stack(list(sets.sets.values()))).to(problem.rows)
    far = problem.space.distance(problem.rows[i].expand_as(rows), rows).tolist()
    known = list(sets.sets.items())
    order = sorted(range(len(rows)), key=lambda n: (len(known[n][0]), far[n]))
    return [known[n] for n in order]
