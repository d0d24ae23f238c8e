"""Regressions of numbers on other features, learnt from training rows.

A dependence is an association: the expected value of a number given others, not the effect of changing them. Rules
that are not given are not known to it: an updated feature may break them.

Each is a ridge regression on the parents: numbers as differences from their typical value in spreads, categories
one-hot. Its quality is R² by five-fold cross-validation. Data do not tell which of two features depends on the other.
Greedily, the lowest R² on all others first, features join the given ones, unless the given ones explain them well:
these are the dependent ones. Users who know better name the dependent features, or their parents too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.schema.features import Categorical, Floats, Numeric
from grace.schema.frames import join_first
from grace.schema.schema import Schema

EXPLAINED = 0.5  # the least R² of a feature that follows without being named
PENALTY = 1.0  # of the ridge regression
FOLDS = 5
LEAST_ROWS = 50

Follow = bool | str | Sequence[str] | Mapping[str, Sequence[str]]
"""Whether all features that are explained well follow; or the names of those that do; or the parents of each."""


@dataclass(frozen=True)
class Dependence:
    """A linear regression of a number, in its own units, on the coordinates of its parents, see `coordinates`. `r2` is
    cross-validated."""

    feature: str
    parents: tuple[str, ...]
    r2: float
    weight: Tensor
    constant: float


class Learner:
    """Cross-products of the coordinates of training rows per fold: enough to regress any feature on any others."""

    def __init__(self, schema: Schema, rows: Floats, seed: int = 0) -> None:
        if len(rows) < LEAST_ROWS:
            raise GraceError(f"follow= learns from training rows; {len(rows)} are too few, {LEAST_ROWS} are needed")
        self.schema = schema
        points = coordinates(schema, range(len(schema)), torch.as_tensor(rows)).numpy()
        owner = [j for j, f in enumerate(schema.features) for _ in range(_width(f))]
        self.place = {j: np.flatnonzero(np.array(owner) == j) for j in range(len(schema))}
        points = np.concatenate([points, np.ones((len(points), 1))], axis=1)
        fold = np.random.default_rng(seed).permutation(len(points)) % FOLDS
        self.parts = np.stack([points[fold == k].T @ points[fold == k] for k in range(FOLDS)])
        self.whole = self.parts.sum(axis=0)

    def fit(self, target: int, parents: Sequence[int]) -> Dependence:
        """The regression of a number on its parents."""
        weight = self._solve(self.whole, target, parents)
        feature = self.schema.features[target]
        assert isinstance(feature, Numeric)
        spread = feature.spread or 1.0
        return Dependence(
            feature.name,
            tuple(self.schema.names[j] for j in parents),
            self.r2(target, parents),
            torch.as_tensor(weight[:-1] * spread),
            float(weight[-1]) * spread + (feature.typical or 0.0),
        )

    def r2(self, target: int, parents: Sequence[int]) -> float:
        """R² by cross-validation, pooled over the folds."""
        if len(parents) == 0:
            return 0.0
        here, y = self._columns(parents), self.place[target][0]
        left, total = 0.0, 0.0
        for part in self.parts:
            rest = self.whole - part
            weight = self._solve(rest, target, parents)
            left += part[y, y] - 2 * weight @ part[here, y] + weight @ part[np.ix_(here, here)] @ weight
            mean = rest[y, -1] / rest[-1, -1]
            total += part[y, y] - 2 * mean * part[y, -1] + mean**2 * part[-1, -1]
        return 0.0 if total <= 1e-12 else float(1 - left / total)

    def _columns(self, parents: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.concatenate([*(self.place[j] for j in parents), [self.whole.shape[0] - 1]]).astype(np.int64)

    def _solve(self, products: Floats, target: int, parents: Sequence[int]) -> Floats:
        """Ridge weights, the intercept last and practically without penalty."""
        here = self._columns(parents)
        penalty = np.diag([PENALTY] * (len(here) - 1) + [1e-9])
        return np.linalg.solve(products[np.ix_(here, here)] + penalty, products[here, self.place[target][0]])

    def all(self, able: Sequence[int], every: Sequence[int]) -> list[Dependence]:
        """The regressions of those `able` features that the features which do not follow explain well."""
        given = [j for j in every if j not in able]
        alone = {j: self.r2(j, [i for i in every if i != j]) for j in able}
        follow: list[int] = []
        for j in sorted(able, key=lambda j: (alone[j], j)):
            (follow if self.r2(j, given) >= EXPLAINED else given).append(j)
        found = [self.fit(j, sorted(given)) for j in sorted(follow)]
        return [d for d in found if d.r2 >= EXPLAINED]


def _width(feature: Numeric | Categorical) -> int:
    return 1 if isinstance(feature, Numeric) else len(feature.categories)


def coordinates(schema: Schema, columns: Sequence[int], rows: Tensor) -> Tensor:
    """Numbers as differences from their typical value in spreads, 0 if missing, and categories one-hot."""
    features = [schema.features[j] for j in columns]
    if all(isinstance(f, Numeric) and not f.gaps for f in features):  # all numbers at once
        numbers = rows.new_tensor([(f.typical or 0.0, f.spread or 1.0) for f in features]).reshape(-1, 2)
        return (rows[:, list(columns)] - numbers[:, 0]) / numbers[:, 1]
    parts = []
    for j in columns:
        feature = schema.features[j]
        if isinstance(feature, Categorical):
            parts.append(torch.nn.functional.one_hot(rows[:, j].long(), len(feature.categories)).to(rows.dtype))
            continue
        typical = feature.typical or 0.0
        values = torch.where(rows[:, j] == feature.missing_code, typical, rows[:, j]) if feature.gaps else rows[:, j]
        parts.append(((values - typical) / (feature.spread or 1.0))[:, None])
    return torch.cat(parts, dim=1) if parts else rows.new_zeros(len(rows), 0)


def checked_follow(follow: Any) -> Follow:
    """`follow` as settings store it: a bool, names, or names with their parents."""
    if isinstance(follow, bool):
        return follow
    if isinstance(follow, str):
        return (follow,)
    if isinstance(follow, Mapping) and all(isinstance(v, Sequence) for v in follow.values()):
        return {str(k): (v,) if isinstance(v, str) else tuple(map(str, v)) for k, v in follow.items()}
    if isinstance(follow, Sequence) and all(isinstance(name, str) for name in follow):
        return tuple(follow)
    raise GraceError(f"follow={follow!r}: give True, names of features, or a dict from names to their parents")


def asked_for(follow: Follow) -> bool:
    """Whether any feature is to follow."""
    return follow if isinstance(follow, bool) else len(follow) > 0


def learnt(learner: Learner, schema: Schema, follow: Follow, determined: Collection[str]) -> list[Dependence]:
    """The regressions of the features that follow. Features `determined` by rules are no parents unless they are named
    as such, and frozen features never follow."""
    follow = checked_follow(follow)
    named = [] if isinstance(follow, bool) else list(follow)
    for name in named:
        feature = schema[name]
        if isinstance(feature, Categorical):
            raise GraceError(
                f"follow: feature {name!r} is a category; numbers follow by what is learnt, a category by a rule such "
                f"as '{name} follows ...'"
            )
        if name in determined:
            raise GraceError(f"follow: feature {name!r} is decided by a rule already; leave it out")
    numbers = [j for j, f in enumerate(schema.features) if isinstance(f, Numeric) and not f.fixed]
    able = [j for j in numbers if schema.names[j] not in determined and (not named or schema.names[j] in named)]
    open_ = [j for j, name in enumerate(schema.names) if name not in determined]
    if isinstance(follow, bool):
        return learner.all(able, open_) if follow else []
    order = {name: place for place, name in enumerate(named)}
    out = []
    for j in sorted(able, key=lambda j: order[schema.names[j]]):
        name = schema.names[j]
        if isinstance(follow, Mapping):
            parents = [schema.index(n) for n in follow[name]]
        else:
            parents = [i for i in open_ if i != j and order.get(schema.names[i], -1) < order[name]]
        if not parents or j in parents:
            raise GraceError(
                f"follow: feature {name!r} needs other features as its parents; there are {join_first(parents)}"
            )
        out.append(learner.fit(j, parents))
    return out
