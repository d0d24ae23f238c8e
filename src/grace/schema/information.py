"""Entropy, Fayyad and Irani's MDLP bins, and Symmetrical Uncertainty for all pairs of features at once.

SU(a, b) = 2 IG(a|b) / (H(a) + H(b)),   IG(a|b) = H(a) - H(a|b),   all in bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grace.schema.features import Categorical, Floats
from grace.schema.schema import Schema

Ints = npt.NDArray[np.int64]

QUANTILE_BINS = 10
DENSE_SYMBOLS = 2500  # up to this many symbols in all, one matrix product yields all contingency tables
ROW_BLOCK = 1 << 16
PAIR_BYTES = 1 << 27


def entropy(symbols: npt.ArrayLike) -> float:
    """H(a)."""
    counts = np.unique(np.asarray(symbols), return_counts=True)[1]
    return float(_entropy(counts.astype(np.float64)))


def conditional_entropy(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """H(a|b) = H(a, b) - H(b)."""
    first, second = symbols(a), symbols(b)
    return entropy(first * (second.max() + 1) + second) - entropy(second)


def symmetrical_uncertainty(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """SU(a, b) of two discrete columns; 0 when either is constant."""
    return float(su_matrix(np.stack([symbols(a), symbols(b)], axis=1))[0, 1])


def symbols(column: npt.ArrayLike) -> Ints:
    """The distinct values of a column as integer codes 0, 1, ... in sorted order."""
    return np.unique(np.asarray(column), return_inverse=True)[1].reshape(-1).astype(np.int64)


def mdlp(values: Floats, labels: Ints) -> Floats:
    """The cut points of Fayyad and Irani (1993): recursive minimum-entropy splits, accepted by the MDL criterion."""
    distinct, block = np.unique(values, return_inverse=True)
    classes = int(labels.max()) + 1
    counts = np.bincount(block.reshape(-1) * classes + labels, minlength=len(distinct) * classes)
    total = np.concatenate([np.zeros((1, classes)), np.cumsum(counts.reshape(-1, classes), axis=0)])
    cuts: list[float] = []
    pending = [(0, len(distinct))]
    while pending:
        start, stop = pending.pop()
        if stop - start < 2:
            continue
        both = total[stop] - total[start]
        left = total[start + 1 : stop] - total[start]
        n_left, n = left.sum(axis=1), both.sum()
        # n times the class entropy after the cut; ties go to the first cut
        after = n_left * _entropy(left) + (n - n_left) * _entropy(both - left)
        best = int(np.flatnonzero(after <= after.min() + 1e-9 * n)[0])
        if _accepted(both, left[best]):
            cut = start + 1 + best
            cuts.append(float((distinct[cut - 1] + distinct[cut]) / 2))
            pending += [(start, cut), (cut, stop)]
    return np.sort(np.array(cuts))


def _accepted(both: Floats, left: Floats) -> bool:
    """The MDL criterion: whether the information gain exceeds the cost of describing the cut."""
    right = both - left
    n, n1, n2 = both.sum(), left.sum(), right.sum()
    h, h1, h2 = _entropy(both), _entropy(left), _entropy(right)
    k, k1, k2 = (np.count_nonzero(c) for c in (both, left, right))
    gain = h - (n1 * h1 + n2 * h2) / n
    # log2(3^k - 2), without overflow for many classes
    delta = k * np.log2(3) + np.log1p(-2 * 3.0**-k) / np.log(2) - (k * h - k1 * h1 - k2 * h2)
    return bool(gain > (np.log2(n - 1) + delta) / n)


def quantile_cuts(values: Floats, count: int = QUANTILE_BINS) -> Floats:
    """Cut points of equal-frequency bins."""
    return np.unique(np.quantile(values, np.arange(1, count) / count, method="lower"))


def discretise(rows: Floats, labels: Ints, schema: Schema) -> Ints:
    """Each column as symbols: categories unchanged, numbers in MDLP bins, or in quantile bins if MDLP finds no cut, so
    that redundant features are still recognised."""
    out = np.empty(rows.shape, dtype=np.int64)
    for j, feature in enumerate(schema.features):
        if isinstance(feature, Categorical):
            out[:, j] = symbols(rows[:, j])
        else:
            cuts = mdlp(rows[:, j], labels)
            if len(cuts) == 0:
                cuts = quantile_cuts(rows[:, j])
            out[:, j] = np.searchsorted(cuts, rows[:, j], side="left")
    return out


def raw_symbols(rows: Floats) -> Ints:
    """Each column with every distinct float as a symbol."""
    return np.stack([symbols(rows[:, j]) for j in range(rows.shape[1])], axis=1)


def su_matrix(codes: Ints) -> Floats:
    """SU (d, d) of all pairs of columns of non-negative symbols; a constant column has SU 0 with every other."""
    columns = np.stack([symbols(codes[:, j]) for j in range(codes.shape[1])], axis=1)
    sizes = columns.max(axis=0) + 1
    single = np.array([_entropy(np.bincount(c).astype(np.float64)) for c in columns.T])
    joint = _joint_dense(columns, sizes) if sizes.sum() <= DENSE_SYMBOLS else _joint_sorted(columns, sizes)
    both = single[:, None] + single[None, :]
    gain = both - joint
    varies = single > 0
    su = np.where(varies[:, None] & varies, 2 * gain / np.where(both > 0, both, 1), 0.0)
    su = np.clip((su + su.T) / 2, 0.0, 1.0)
    np.fill_diagonal(su, varies.astype(np.float64))
    return su


def _joint_dense(columns: Ints, sizes: Ints) -> Floats:
    """H(a, b) of all pairs from contingency tables: OᵀO, where O holds the one-hot encoded columns."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    width = int(sizes.sum())
    counts = np.zeros((width, width))
    for begin in range(0, len(columns), ROW_BLOCK):
        block = columns[begin : begin + ROW_BLOCK]
        onehot = np.zeros((len(block), width), dtype=np.float32)
        onehot[np.arange(len(block))[:, None], block + starts] = 1
        counts += onehot.T @ onehot
    terms = counts * np.log2(np.where(counts > 0, counts, 1))
    total = np.add.reduceat(np.add.reduceat(terms, starts, axis=0), starts, axis=1)
    n = len(columns)
    return np.asarray(np.log2(n) - total / n)


def _joint_sorted(columns: Ints, sizes: Ints) -> Floats:
    """H(a, b) of all pairs from run lengths of the sorted pairs of symbols; for many symbols."""
    n, d = columns.shape
    first, second = np.triu_indices(d)
    out = np.zeros((d, d))
    step = max(1, PAIR_BYTES // (8 * n))
    transposed = np.ascontiguousarray(columns.T)
    for begin in range(0, len(first), step):
        i, j = first[begin : begin + step], second[begin : begin + step]
        pairs = np.sort(transposed[i] * sizes[j][:, None] + transposed[j], axis=1)
        ends = np.ones(pairs.shape, dtype=bool)
        ends[:, :-1] = pairs[:, 1:] != pairs[:, :-1]
        row, last = np.nonzero(ends)
        runs = np.diff(np.concatenate([[-1], row * n + last])).astype(np.float64)
        terms = np.bincount(row, weights=runs * np.log2(runs), minlength=len(i))
        out[i, j] = out[j, i] = np.log2(n) - terms / n
    return out


def _entropy(counts: Floats) -> Floats:
    """Entropy in bits of counts along the last axis."""
    n = counts.sum(axis=-1)
    terms = (counts * np.log2(np.where(counts > 0, counts, 1))).sum(axis=-1)
    return np.asarray(np.log2(np.where(n > 0, n, 1)) - terms / np.where(n > 0, n, 1))
