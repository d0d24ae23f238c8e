"""The trees of an ensemble as its library holds them: nodes on the columns of the input, and leaves.

Readers of the libraries make `Nodes`; `grace.models.trees.binding` turns them into trees on the features of a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from grace.schema.features import Bools, Floats

Ints = npt.NDArray[np.int64]

LINKS = ("identity", "exp", "logistic", "softmax", "probabilities")
"""How the library turns the sums of its leaves into what it predicts. A number: "identity", "exp", or "logistic".
Classes: "logistic" (one sum, of the second of two classes), "softmax" (a sum per class), or "probabilities" (the sums
are probabilities, as in a forest)."""


@dataclass(frozen=True)
class Nodes:
    """N nodes of T trees with sums of k outputs. A number goes left if it is below the threshold, or not above it if
    the comparison is not `strict`, after it was converted to `dtype`. A category goes left if its code is a member of
    the node's set. A threshold may be infinite, to divide the missing cells from all others. Leaves have column -1, and
    so are their children."""

    roots: Ints  # (T,)
    column: Ints  # (N,) of the input
    threshold: Floats  # (N,)
    members: Ints  # (N,) the place in `sets` of a split by category, -1 for a split of numbers
    missing_left: Bools  # (N,) whether a missing cell goes left
    left: Ints  # (N,)
    right: Ints
    value: Floats  # (N, k) what a leaf adds to each sum
    base: Floats  # (k,) what each sum begins with
    columns: int
    strict: bool
    dtype: str  # "float32" or "float64"
    link: str  # one of LINKS
    precision: str = "float64"  # in which the library adds up leaves
    sets: tuple[frozenset[int], ...] = ()
    codes: Mapping[int, Mapping[Any, int]] = field(default_factory=dict)
    """The library's code of each category of a column, by label; a label that is not there counts as missing. All
    splits of such a column are by category. A column that is split by category and is not here holds the codes
    themselves."""
