"""A tree ensemble on the features of a schema, with what is known of the library that it comes from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from grace.models.machine_code import MachineCode
from grace.models.preprocessing.calibration import Calibration
from grace.models.trees.compiled import Trees, add_up_rows, trees_of
from grace.schema.caching import cached_on_first
from grace.schema.features import Bools, Floats

if TYPE_CHECKING:
    from grace.models.preprocessing.known_ranges import KnownRanges

MAX_EXPONENT = 700.0  # beyond which the exponential is infinite
LINK = {"float32": 2e-6, "float64": 1e-12}  # by how much rounding of what follows the sums may move a margin


@dataclass(frozen=True, repr=False)
class TreeEnsemble:
    """Trees, the link from their sums to what the model predicts (see `nodes.LINKS`), and the precision in which its
    library adds up. Of two classes, the last sum may be calibrated."""

    trees: Trees
    link: str
    precision: str
    calibration: Calibration | None = None
    known: KnownRanges | None = None
    """The numbers for which it is what the model computes; None if it is for all."""

    def __repr__(self) -> str:
        leaves = int((self.trees.feature < 0).sum())
        return f"<TreeEnsemble: {len(self.trees.roots):,} trees with {leaves:,} leaves, {self.link}>"

    @cached_property
    def rounding(self) -> float:
        """A bound on how far the library's own sums are from ours."""
        unit = float(np.finfo(self.precision).eps)
        size = np.maximum(np.abs(self.trees.lowest[self.trees.roots]), np.abs(self.trees.highest[self.trees.roots]))
        total = np.abs(self.trees.base) + size.sum(axis=0)
        return float((unit * (len(self.trees.roots) + 2) * total).max())

    @cached_on_first
    def slack(self, tolerance: float, share: float = 0.5) -> float:
        """By how much scores have to be apart so that rounding cannot decide between them, where the less probable
        class has at least such a share."""
        unit = float(np.finfo(self.precision).eps)
        return tolerance + (4 * self.rounding + 2 * unit) / share + LINK[self.precision]

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The first and the last threshold of each number (d,); infinite the other way where there is none."""
        trees, d = self.trees, len(self.trees.missing)
        first, last = np.full(d, np.inf), np.full(d, -np.inf)
        split = np.flatnonzero((trees.feature >= 0) & (trees.members < 0) & np.isfinite(trees.threshold))
        np.minimum.at(first, trees.feature[split], trees.threshold[split])
        np.maximum.at(last, trees.feature[split], trees.threshold[split])
        return first, last

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all nodes, and of the calibration."""
        digest = hashlib.sha256(f"{self.link} {self.precision}".encode())
        if self.calibration is not None:
            low, high = (side[self.trees.roots, -1].sum() for side in (self.trees.lowest, self.trees.highest))
            digest.update(self.calibrated(self.trees.base[-1] + np.linspace(low, high, 257)).tobytes())
        for part in self.trees[:-2]:  # which features a tree uses, and its thresholds, follow from its nodes
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def beyond(self, rows: Floats) -> Bools:
        """Which encoded rows (n,) have numbers for which it is not known what the model computes."""
        if self.known is None:
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(self.known.beyond(rows).any(axis=1))

    def sums(self, rows: Floats) -> Floats:
        """The sums (n, k) of encoded rows."""
        out = np.empty((len(rows), len(self.trees.base)))
        adding_up()(self.trees, np.ascontiguousarray(rows, dtype=np.float64), 0, len(rows), out)
        return out

    def predicted(self, sums: Floats) -> Floats:
        """What the model predicts for sums (n, k): probabilities (n, classes), or numbers (n, 1)."""
        if self.calibration is not None:
            second = self.calibrated(sums[:, -1])
            return np.stack([1 - second, second], axis=1)
        if self.link in ("identity", "probabilities"):
            return sums
        if self.link == "exp":
            return np.asarray(np.exp(sums))
        if self.link == "logistic":
            second = 1 / (1 + np.exp(np.minimum(-sums, MAX_EXPONENT)))
            return np.asarray(np.concatenate([1 - second, second], axis=1))
        shares = np.exp(sums - sums.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def calibrated(self, sums: Floats) -> Floats:
        """The calibrated probability of the second class for its sums (n,)."""
        assert self.calibration is not None
        by_share = self.link == "logistic" and self.calibration.response == "predict_proba"
        return self.calibration.calibrate(np.asarray(expit(sums)) if by_share else sums)

    def sum_of(self, number: Floats) -> Floats:
        """The sum for which a number is predicted, of a model that predicts numbers; -inf below all that it can."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.link == "exp":
                return np.where(number > 0, np.log(number), -np.inf)
            if self.link == "logistic":
                inside = np.clip(number, 0, 1)
                return np.asarray(np.log(inside) - np.log1p(-inside))
        return number


def smallest_trees() -> Trees:
    """A single leaf; its arrays have the types of those of any ensemble."""
    whole, none = np.zeros(1, dtype=np.int64), np.zeros(1)
    return trees_of(
        whole, whole - 1, none, whole - 1, none > 0, none > 0, whole, whole, np.zeros((1, 1)), none, none * np.nan
    )


@cache
def adding_up() -> MachineCode:
    """The function that adds up what the trees give rows."""
    none = np.zeros((0, 1))
    return MachineCode(add_up_rows, smallest_trees(), none, 0, 0, none, kept=(0,))
