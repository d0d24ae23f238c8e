"""Splits that cut a number several times, as those by a bin in the middle do, replaced by splits that cut it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from grace.models.trees.nodes import Ints, Nodes
from grace.schema.features import Bools, Floats

GROWTH = 8  # times the nodes that there were, and 10,000 more, are not exceeded


@dataclass(frozen=True)
class Cuts:
    """Which values of a number go left in a node: those below the first edge, from there to the next one, and so on."""

    edges: Floats  # (m,)
    left: Bools  # (m + 1,)
    missing_left: bool

    @property
    def turns(self) -> Ints:
        """The edges at which the side changes."""
        return np.flatnonzero(self.left[1:] != self.left[:-1])


def with_single_cuts(nodes: Nodes, several: Mapping[int, Cuts]) -> tuple[Nodes, Floats] | None:
    """Nodes some of which are replaced by a chain of splits, with copies of what is below them; and where each node of
    a chain cuts the number, NaN of others. None if there would be too many nodes."""
    edited, most = _Edited(nodes), GROWTH * len(nodes.column) + 10_000
    rank = _ranks(nodes)
    for node in sorted(several, key=lambda at: -rank[at]):  # copies are of what has been replaced already
        edited.replace(node, several[node])
        if len(edited.source) > most:
            return None
    return edited.nodes(), np.array(edited.cut)


class _Edited:
    """Nodes that are added to: each has the column and the leaf of the one that it comes from."""

    def __init__(self, nodes: Nodes) -> None:
        self.before, count = nodes, len(nodes.column)
        self.source = list(range(count))
        self.left, self.right = nodes.left.tolist(), nodes.right.tolist()
        self.missing_left = nodes.missing_left.tolist()
        self.cut = [np.nan] * count

    def add(self, source: int, left: int, right: int, missing_left: bool, cut: float) -> int:
        self.source.append(source)
        for values, value in zip(
            (self.left, self.right, self.missing_left, self.cut), (left, right, missing_left, cut), strict=True
        ):
            values.append(value)
        return len(self.source) - 1

    def copy(self, node: int) -> int:
        """A copy of a node with all below it."""
        if self.left[node] < 0:
            return self.add(self.source[node], -1, -1, self.missing_left[node], self.cut[node])
        left, right = self.copy(self.left[node]), self.copy(self.right[node])
        return self.add(self.source[node], left, right, self.missing_left[node], self.cut[node])

    def replace(self, node: int, cuts: Cuts) -> None:
        """The node is the first of a chain, each of which cuts off what lies below the next turn."""
        turns, children = cuts.turns, (self.right[node], self.left[node])
        goes_left = [bool(cuts.left[0]), *(bool(cuts.left[turn + 1]) for turn in turns)]
        sides = [children[side] if place < 2 else self.copy(children[side]) for place, side in enumerate(goes_left)]
        rest = sides[-1]
        for place in range(len(turns) - 1, -1, -1):
            cut, missing_left = float(cuts.edges[turns[place]]), goes_left[place] == cuts.missing_left
            if place > 0:
                rest = self.add(self.source[node], sides[place], rest, missing_left, cut)
        self.left[node], self.right[node] = sides[0], rest
        self.missing_left[node], self.cut[node] = missing_left, cut

    def nodes(self) -> Nodes:
        old, source = self.before, np.array(self.source)
        return replace(
            old,
            column=old.column[source],
            threshold=old.threshold[source],
            members=old.members[source],
            missing_left=np.array(self.missing_left, dtype=bool),
            left=np.array(self.left, dtype=np.int64),
            right=np.array(self.right, dtype=np.int64),
            value=old.value[source],
        )


def _ranks(nodes: Nodes) -> Ints:
    """How far each node is from its root."""
    rank, level, depth = np.zeros(len(nodes.column), dtype=np.int64), nodes.roots, 0
    while len(level):
        rank[level] = depth
        inner = level[nodes.column[level] >= 0]
        level, depth = np.concatenate([nodes.left[inner], nodes.right[inner]]), depth + 1
    return rank
