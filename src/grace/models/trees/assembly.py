"""Nodes put together: single trees grown from their leaves, and several ensembles as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from grace.models.trees.nodes import Nodes
from grace.schema.features import Floats


@dataclass
class Growing:
    """Nodes of trees that are read one by one, children before their parents."""

    outputs: int
    roots: list[int] = field(default_factory=list)
    splits: list[tuple[int, float, int, bool, int, int]] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    sets: list[frozenset[int]] = field(default_factory=list)

    def leaf(self, value: Any) -> int:
        """The node of a leaf that adds `value` to the sums."""
        return self._node((-1, 0.0, -1, False, -1, -1), np.broadcast_to(np.asarray(value, np.float64), self.outputs))

    def split(self, column: int, threshold: float, missing_left: bool, left: int, right: int) -> int:
        """The node of a split of numbers."""
        return self._node((column, threshold, -1, missing_left, left, right), np.zeros(self.outputs))

    def split_set(self, column: int, members: frozenset[int], missing_left: bool, left: int, right: int) -> int:
        """The node of a split by category."""
        self.sets.append(members)
        split = (column, 0.0, len(self.sets) - 1, missing_left, left, right)
        return self._node(split, np.zeros(self.outputs))

    def nodes(self, base: Floats, columns: int, **settings: Any) -> Nodes:
        """What was grown, with the other fields of `Nodes`."""
        column, threshold, members, missing_left, left, right = zip(*self.splits, strict=True)
        return Nodes(
            roots=np.array(self.roots, dtype=np.int64),
            column=np.array(column, dtype=np.int64),
            threshold=np.array(threshold, dtype=np.float64),
            members=np.array(members, dtype=np.int64),
            missing_left=np.array(missing_left, dtype=bool),
            left=np.array(left, dtype=np.int64),
            right=np.array(right, dtype=np.int64),
            value=np.array(self.values, dtype=np.float64).reshape(-1, self.outputs),
            base=base,
            columns=columns,
            sets=tuple(self.sets),
            **settings,
        )

    def _node(self, split: tuple[int, float, int, bool, int, int], value: Floats) -> int:
        self.splits.append(split)
        self.values.append(value)
        return len(self.splits) - 1


def scaled(nodes: Nodes, by: float) -> Nodes:
    """The sums times a number."""
    return replace(nodes, value=nodes.value * by, base=nodes.base * by)


def on_columns(nodes: Nodes, columns: Sequence[int], width: int) -> Nodes:
    """Nodes on a selection of the columns of a wider input."""
    chosen = np.asarray(columns, dtype=np.int64)
    column = np.where(nodes.column < 0, -1, chosen[nodes.column])
    codes = {int(chosen[c]): codes for c, codes in nodes.codes.items()}
    return replace(nodes, column=column, columns=width, codes=codes)


def together(many: Sequence[Nodes]) -> Nodes | None:
    """The trees of several ensembles as those of one, whose sums are the sums of theirs; None if they compare numbers,
    encode categories or end in different ways."""
    first = many[0]
    if any(_kind(other) != _kind(first) for other in many[1:]):
        return None
    start = np.cumsum([0, *(len(n.column) for n in many)])
    sets = np.cumsum([0, *(len(n.sets) for n in many)])
    pairs = list(zip(many, start[:-1], strict=True))
    return replace(
        first,
        roots=np.concatenate([n.roots + at for n, at in pairs]),
        column=np.concatenate([n.column for n in many]),
        threshold=np.concatenate([n.threshold for n in many]),
        members=np.concatenate(
            [np.where(n.members < 0, -1, n.members + at) for n, at in zip(many, sets[:-1], strict=True)]
        ),
        missing_left=np.concatenate([n.missing_left for n in many]),
        left=np.concatenate([np.where(n.left < 0, -1, n.left + at) for n, at in pairs]),
        right=np.concatenate([np.where(n.right < 0, -1, n.right + at) for n, at in pairs]),
        value=np.concatenate([n.value for n in many]),
        base=np.sum([n.base for n in many], axis=0),
        sets=tuple(s for n in many for s in n.sets),
    )


def _kind(nodes: Nodes) -> tuple[Any, ...]:
    codes = {column: dict(codes) for column, codes in nodes.codes.items()}
    return nodes.columns, nodes.strict, nodes.dtype, nodes.link, nodes.precision, nodes.value.shape[1], codes
