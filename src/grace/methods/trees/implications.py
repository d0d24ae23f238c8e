"""Implications (`if a > 3 then k == 'x'`) within the search of trees: a tree of its own for each rule.

Conditions compare single features with values, so that whether a row breaks such a rule is a tree: its leaves add -1 to
one more sum where the rule is broken, and 0 elsewhere. That this sum is 0 is one more functional of every goal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from grace.methods.trees.margins import Aims
from grace.models.trees.assembly import Growing
from grace.models.trees.compiled import Trees, trees_of
from grace.models.trees.ensemble import TreeEnsemble
from grace.models.trees.step_functions import on_features
from grace.schema.caching import cached_on_first
from grace.schema.features import Bools, Categorical, Floats
from grace.schema.rules import Condition, IfThen
from grace.schema.rules.keeping import condition_codes
from grace.schema.schema import Schema

KEPT = -0.5  # the least sum where no rule is broken


@dataclass(frozen=True)
class FeatureTest:
    """A condition on an encoded feature: the codes for which it holds; or for a number, whether it does below the first
    edge, and from each edge on."""

    feature: int
    codes: frozenset[int] | None
    size: int  # the number of categories
    edges: tuple[float, ...]
    holds: tuple[bool, ...]


Implication = tuple[tuple[FeatureTest, ...], tuple[FeatureTest, ...]]
"""Tests, and those that hold wherever all of them do."""


def implication(schema: Schema, rule: IfThen) -> Implication:
    when, then = (tuple(feature_test(schema, c) for c in part) for part in (rule.when, rule.then))
    return when, then


def feature_test(schema: Schema, condition: Condition) -> FeatureTest:
    """A condition as a test."""
    j, feature, sign = schema.index(condition.feature), schema[condition.feature], condition.sign
    values = np.unique(condition_codes(feature, condition))
    if isinstance(feature, Categorical):
        chosen = np.isin(np.arange(len(feature.categories)), values) != (sign == "!=")
        return FeatureTest(j, frozenset(np.flatnonzero(chosen).tolist()), len(chosen), (), ())
    edges = np.unique([values, np.nextafter(values, np.inf)])
    starts = np.concatenate([[np.nextafter(edges[0], -np.inf)], edges])
    holds = _compared(sign, starts, values)
    turns = np.flatnonzero(holds[1:] != holds[:-1])
    return FeatureTest(j, None, 0, tuple(edges[turns].tolist()), (bool(holds[0]), *holds[turns + 1].tolist()))


def _compared(sign: str, x: Floats, values: Floats) -> Bools:
    """Which numbers satisfy a comparison."""
    if sign in ("<", "<="):
        return x < values[0] if sign == "<" else x <= values[0]
    if sign in (">", ">="):
        return x > values[0] if sign == ">" else x >= values[0]
    return np.isin(x, values) != (sign == "!=")


@cached_on_first
def with_implications(ensemble: TreeEnsemble, rules: tuple[Implication, ...]) -> TreeEnsemble:
    """The ensemble with one more sum: minus the number of rules that a row breaks."""
    missing, growing = ensemble.trees.missing, Growing(1)
    growing.roots += [_tree(growing, when, then) for when, then in rules]
    nodes = growing.nodes(np.zeros(1), len(missing), strict=True, dtype="float64", link="identity")
    sizes = [0] * len(missing)
    for test in (test for rule in rules for part in rule for test in part):
        sizes[test.feature] = test.size
    trees = side_by_side(ensemble.trees, on_features(nodes, sizes, missing))
    return TreeEnsemble(trees, ensemble.link, ensemble.precision, ensemble.calibration, ensemble.known)


def _tree(growing: Growing, when: Sequence[FeatureTest], then: Sequence[FeatureTest]) -> int:
    """The root of a tree that is -1 where all tests of `when` hold, and not all of `then`."""
    if when:
        return _branch(growing, when[0], lambda: _tree(growing, when[1:], then), lambda: growing.leaf(0.0))
    if then:
        return _branch(growing, then[0], lambda: _tree(growing, (), then[1:]), lambda: growing.leaf(-1.0))
    return growing.leaf(0.0)


def _branch(growing: Growing, test: FeatureTest, yes: Callable[[], int], no: Callable[[], int]) -> int:
    if test.codes is not None:
        return growing.split_set(test.feature, test.codes, False, yes(), no())
    node = yes() if test.holds[0] else no()
    for edge, holds in zip(test.edges, test.holds[1:], strict=True):
        node = growing.split(test.feature, edge, False, node, yes() if holds else no())
    return node


def side_by_side(first: Trees, second: Trees) -> Trees:
    """The trees of two ensembles on the same features, whose sums stand side by side."""
    at, sets, k = len(first.feature), len(first.goes_left), len(first.base)
    value = np.zeros((at + len(second.feature), k + len(second.base)))
    value[:at, :k], value[at:, k:] = first.value, second.value
    return trees_of(
        np.concatenate([first.roots, second.roots + at]),
        np.concatenate([first.feature, second.feature]),
        np.concatenate([first.threshold, second.threshold]),
        np.concatenate([first.members, np.where(second.members < 0, -1, second.members + sets)]),
        np.concatenate([first.goes_left, second.goes_left]),
        np.concatenate([first.missing_left, second.missing_left]),
        np.concatenate([first.left, np.where(second.left < 0, -1, second.left + at)]),
        np.concatenate([first.right, np.where(second.right < 0, -1, second.right + at)]),
        value,
        np.concatenate([first.base, second.base]),
        first.missing,
    )


def with_kept_rules(aims: Aims) -> Aims:
    """The aims with one more functional in each group: the last sum, of one more than there were, is 0."""
    kinds, count, k = aims.functional.shape
    groups = np.arange(len(aims.groups) - 1)
    more = aims.groups[1:] + groups  # where it stands in each group
    old = np.setdiff1d(np.arange(count + len(groups)), more)
    functional = np.zeros((kinds, count + len(groups), k + 1))
    functional[:, old, :k] = aims.functional
    functional[:, more, k] = 1.0

    def wider(part: Floats, value: float) -> Floats:
        out = np.full((len(part), count + len(groups)), value)
        out[:, old] = part
        return out

    return aims._replace(
        functional=functional,
        constant=wider(aims.constant, 0.0),
        needed=wider(aims.needed, KEPT),
        excluded=wider(aims.excluded, KEPT),
        groups=np.concatenate([aims.groups[:1], more + 1]),
        weight=np.append(aims.weight, 0.0),
        shift=np.append(aims.shift, 0.0),
    )
