"""A slow and literal reference of the paper's formulas: one row at a time, in plain loops.

Nothing here is shared with the package. The equations and algorithms are those of Le, Wang and Lee, "GRACE"
(KDD 2020); where the paper can be read in more than one way, the docstring says which reading is copied.
Values are assumed to be finite numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import minimize

Model = Callable[[torch.Tensor], torch.Tensor]
"""Maps one row, a 1-D float64 tensor, to its class scores (logits)."""

MARGIN = 1e-6
"""By how much a class has to beat the others before a row counts as flipped."""

TIE = 1e-12
"""Two weighted entropies closer than this are the same number, computed in a different order."""


# Information --------------------------------------------------------------------------------------


def entropy(symbols: Sequence[Hashable]) -> float:
    """Empirical entropy H(a) = - sum_s p(s) log2 p(s), in bits (Section 4.2)."""
    total = 0.0
    for count in Counter(symbols).values():
        share = count / len(symbols)
        total -= share * math.log2(share)
    return total


def conditional_entropy(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """H(a | b) = sum_t p(b = t) H(a where b = t), in bits (Section 4.2)."""
    total = 0.0
    for symbol, count in Counter(b).items():
        among = [first for first, second in zip(a, b, strict=True) if second == symbol]
        total += count / len(b) * entropy(among)
    return total


def information_gain(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """IG(a | b) = H(a) - H(a | b) (Section 4.2)."""
    return entropy(a) - conditional_entropy(a, b)


def symmetrical_uncertainty(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """SU(a, b) = 2 IG(a | b) / (H(a) + H(b)) (Section 4.2); 0 where either is constant, also with itself."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return 2 * information_gain(a, b) / (entropy(a) + entropy(b))


def mdlp_cuts(values: Sequence[float], labels: Sequence[Hashable]) -> list[float]:
    """Multi-interval discretisation of Fayyad and Irani (1993): the sorted cuts.

    Every midpoint between adjacent distinct values is a candidate. The one with the smallest class entropy
    E = |S1|/|S| Ent(S1) + |S2|/|S| Ent(S2) is taken (ties: the smallest cut), accepted by the MDL criterion
    Ent(S) - E > log2(N - 1)/N + Delta/N with Delta = log2(3^k - 2) - (k Ent(S) - k1 Ent(S1) - k2 Ent(S2)),
    and then both sides are cut in the same way.
    """
    distinct = sorted(set(values))
    best: tuple[float, float, list[int], list[int]] | None = None
    for lower, upper in pairwise(distinct):
        left = [i for i, value in enumerate(values) if value <= lower]
        right = [i for i, value in enumerate(values) if value > lower]
        weighted = len(left) / len(values) * entropy([labels[i] for i in left])
        weighted += len(right) / len(values) * entropy([labels[i] for i in right])
        if best is None or weighted < best[0] - TIE:
            best = weighted, (lower + upper) / 2, left, right
    if best is None:
        return []

    weighted, cut, left, right = best
    n = len(values)
    left_labels = [labels[i] for i in left]
    right_labels = [labels[i] for i in right]
    k, k1, k2 = len(set(labels)), len(set(left_labels)), len(set(right_labels))
    gain = entropy(labels) - weighted
    delta = math.log2(3**k - 2) - (k * entropy(labels) - k1 * entropy(left_labels) - k2 * entropy(right_labels))
    if not gain > math.log2(n - 1) / n + delta / n:
        return []
    below = mdlp_cuts([values[i] for i in left], left_labels)
    above = mdlp_cuts([values[i] for i in right], right_labels)
    return sorted([*below, cut, *above])


def bins(values: Sequence[float], cuts: Sequence[float]) -> list[int]:
    """The bin of each value: the number of cuts that lie below it (a value equal to a cut goes left)."""
    return [sum(1 for cut in cuts if value > cut) for value in values]


def quantile_bins(values: Sequence[float], count: int = 10) -> list[int]:
    """The fall-back for a feature that MDLP leaves in one bin: bins between lower quantiles.

    Cuts are the distinct values of the quantiles 1/count ... (count - 1)/count; a value on a cut goes left.
    """
    shares = [i / count for i in range(1, count)]
    quantiles = np.quantile(np.asarray(values, dtype=float), shares, method="lower")
    return bins(values, sorted({float(cut) for cut in quantiles}))


def w_entropy(order: Sequence[int], su: Sequence[Sequence[float]] | np.ndarray, gamma: float, most: int) -> list[int]:
    """Algorithm 3, W_Entropy: keep a feature if its SU with every kept one is <= gamma; stop at `most`."""
    kept: list[int] = []
    for i in order:
        if len(kept) == most:
            break
        to_add = True
        for j in kept:
            if su[i][j] > gamma:
                to_add = False
        if to_add:
            kept.append(i)
    return kept


# The model at a point -----------------------------------------------------------------------------


def scores_and_gradients(f: Model, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f_c(x) of every class, and the matrix of grad f_c(x), one class a row."""
    point = torch.tensor(np.asarray(x, dtype=np.float64), dtype=torch.float64, requires_grad=True)
    scores = f(point)
    gradients = []
    for score in scores:
        (slope,) = torch.autograd.grad(score, point, retain_graph=True)
        gradients.append(slope.numpy())
    return scores.detach().numpy(), np.array(gradients)


def flipped(scores: np.ndarray, original: int) -> bool:
    """Whether one other class beats the original, and every further class, by the margin."""
    for c in range(len(scores)):
        if c != original and all(scores[c] >= scores[o] + MARGIN for o in range(len(scores)) if o != c):
            return True
    return False


def nearest_class(scores: np.ndarray, gradients: np.ndarray, original: int) -> int:
    """Algorithm 2, line 2: v = argmin over c != C of |f_c - f_C| / ||grad f_c - grad f_C||_2.

    Gradients may come in any units; ties go to the lower class. A class whose gradient equals
    that of C cannot be reached: it is infinitely far.
    """
    best, nearest = math.inf, -1
    for c in range(len(scores)):
        if c == original:
            continue
        norm = math.sqrt(sum(float(d) ** 2 for d in gradients[c] - gradients[original]))
        ratio = abs(float(scores[c] - scores[original])) / norm if norm > 0 else math.inf
        if nearest == -1 or ratio < best:
            best, nearest = ratio, c
    return nearest


# Algorithms 1 and 2 -------------------------------------------------------------------------------


def generate_contrastive_sample_as_printed(
    f: Model,
    x: np.ndarray,
    S: Sequence[int],
    low: np.ndarray,
    high: np.ndarray,
    integer: Sequence[bool] | np.ndarray,
    steps: int = 200,
) -> np.ndarray:
    """Algorithm 2, GenerateContrastiveSample, as printed.

    v is chosen once, at x. The step r_v takes f_v and its gradient at the current point (the printed index
    i - 1 is the point before the step), but f_C and its gradient at x; its norm runs over all features. Only
    S moves, and P acts on S only: clip into [low, high], then round the integers (halves to even).
    """
    x = np.asarray(x, dtype=np.float64)
    start_scores, start_gradients = scores_and_gradients(f, x)
    original = int(np.argmax(start_scores))
    v = nearest_class(start_scores, start_gradients, original)

    row = x.copy()
    i = 0
    while True:
        scores, gradients = scores_and_gradients(f, row)
        if flipped(scores, original) or i >= steps:
            return row
        direction = gradients[v] - start_gradients[original]
        square = sum(float(d) ** 2 for d in direction)
        if square == 0:
            return row
        r = abs(scores[v] - start_scores[original]) / square * direction
        for j in S:
            row[j] = row[j] + r[j]
            row[j] = min(max(row[j], low[j]), high[j])
            if integer[j]:
                row[j] = round(row[j])
        i = i + 1


def grace_as_printed(
    f: Model,
    x: np.ndarray,
    order: Sequence[int],
    su: Sequence[Sequence[float]] | np.ndarray,
    gamma: float,
    K: int,
    low: np.ndarray,
    high: np.ndarray,
    integer: Sequence[bool] | np.ndarray,
    steps: int = 200,
) -> np.ndarray:
    """Algorithm 1, GRACE: S is the first k of U*, for k = 1 ... K, until the class flips; a miss gives x.

    Each k starts again at x. Where U* has fewer than k features, S is all of U*.
    """
    x = np.asarray(x, dtype=np.float64)
    original = int(np.argmax(scores_and_gradients(f, x)[0]))
    kept = w_entropy(order, su, gamma, K)
    for k in range(1, K + 1):
        row = generate_contrastive_sample_as_printed(f, x, kept[:k], low, high, integer, steps)
        if flipped(scores_and_gradients(f, row)[0], original):
            return row
    return x.copy()


# Rankings -----------------------------------------------------------------------------------------


def rank_gradient_as_printed(f: Model, x: np.ndarray) -> list[int]:
    """W_Gradient as printed (Section 4.2): by |grad f_v(x)| in raw units, descending (ties: lower index)."""
    scores, gradients = scores_and_gradients(f, x)
    v = nearest_class(scores, gradients, int(np.argmax(scores)))
    return sorted(range(len(x)), key=lambda j: (-abs(gradients[v][j]), j))


def rank_gradient_gain(f: Model, x: np.ndarray, low: np.ndarray, high: np.ndarray, spread: np.ndarray) -> list[int]:
    """W_Gradient by the first-order gain that a feature can still bring within its range, descending.

    v is line 2 of Algorithm 2 in units of spread. With g = grad(f_v - f_C)(x), the gain of feature j is
    max(g_j (high_j - x_j), g_j (low_j - x_j)), which does not depend on units (ties: lower index).
    """
    scores, gradients = scores_and_gradients(f, x)
    original = int(np.argmax(scores))
    v = nearest_class(scores, gradients * np.asarray(spread), original)
    g = gradients[v] - gradients[original]
    gain = [max(g[j] * (high[j] - x[j]), g[j] * (low[j] - x[j])) for j in range(len(x))]
    return sorted(range(len(x)), key=lambda j: (-gain[j], j))


def nearest_rows(
    background: Sequence[Sequence[float]] | np.ndarray,
    classes: Sequence[int] | np.ndarray,
    x: np.ndarray,
    q: int = 4,
) -> dict[int, list[int]]:
    """Q of W_Local (Section 4.2): for each predicted class, the q rows nearest to x (ties: lower index).

    Distances are Euclidean in the units given. A class with fewer than q rows gives what it has.
    """
    found: dict[int, list[int]] = {}
    for c in sorted({int(label) for label in classes}):
        members = [i for i in range(len(background)) if classes[i] == c]
        members.sort(key=lambda i: (math.dist(background[i], x), i))
        found[c] = members[:q]
    return found


def local_weights(Q: np.ndarray, soft: np.ndarray, ridge: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """g of W_Local (Section 4.2): logistic regression fitted to the model's own probabilities on Q.

    Minimises - sum_i sum_c soft[i, c] log p_c(Q_i) + ridge/2 ||W||^2 with p = softmax(W q + b) and free
    intercepts. Returns W (classes, features) and b (classes).
    """
    Q = np.asarray(Q, dtype=np.float64)
    soft = np.asarray(soft, dtype=np.float64)
    features, classes = Q.shape[1], soft.shape[1]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        W = flat[: classes * features].reshape(classes, features)
        b = flat[classes * features :]
        value = ridge / 2 * float(np.sum(W**2))
        W_slope = ridge * W
        b_slope = np.zeros(classes)
        for q, target in zip(Q, soft, strict=True):
            logits = W @ q + b
            top = logits.max()
            log_p = logits - top - math.log(float(np.sum(np.exp(logits - top))))
            value -= float(target @ log_p)
            error = float(target.sum()) * np.exp(log_p) - target
            W_slope = W_slope + np.outer(error, q)
            b_slope = b_slope + error
        return value, np.concatenate([W_slope.ravel(), b_slope])

    options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 50}
    start = np.zeros(classes * features + classes)
    flat = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return flat[: classes * features].reshape(classes, features), flat[classes * features :]


# Compared methods ---------------------------------------------------------------------------------


def deepfool(f: Model, x: np.ndarray, spread: np.ndarray, steps: int = 50, overshoot: float = 0.02) -> np.ndarray:
    """DeepFool for several classes (Moosavi-Dezfooli, Fawzi and Frossard, 2016, Algorithm 2).

    Moves all features, on z = x / spread and without a domain. The nearest boundary is sought anew at every
    point; the overshoot scales the whole way so far: x_i = x + (1 + overshoot) (r_1 + ... + r_i). Returns
    the last point, flipped or not.
    """
    x = np.asarray(x, dtype=np.float64)
    spread = np.asarray(spread, dtype=np.float64)
    original = int(np.argmax(scores_and_gradients(f, x)[0]))
    total = np.zeros(len(x))
    row = x.copy()
    for _ in range(steps):
        scores, gradients = scores_and_gradients(f, row)
        if flipped(scores, original):
            break
        in_spreads = gradients * spread
        nearest = nearest_class(scores, in_spreads, original)
        w = in_spreads[nearest] - in_spreads[original]
        square = sum(float(d) ** 2 for d in w)
        if square == 0:
            break
        total = total + abs(scores[nearest] - scores[original]) / square * w
        row = x + (1 + overshoot) * total * spread
    return row


# Measures -----------------------------------------------------------------------------------------


def fidelity(before: Sequence[int], after: Sequence[int]) -> float:
    """R_fidelity read as validity: the share of all rows whose class after the change is another one."""
    return sum(1 for old, new in zip(before, after, strict=True) if old != new) / len(before)


def average_features(changed: Sequence[Collection[int]]) -> float:
    """R_avg#Feats over the flipped rows: `changed` has one set of features for each of them; none: nan."""
    if not changed:
        return math.nan
    return sum(len(features) for features in changed) / len(changed)


def average_features_all(changed: Sequence[Collection[int]], flipped: Sequence[bool], K: int) -> float:
    """R_avg#Feats over all rows, with K for each row that did not flip."""
    counts = [len(features) if hit else K for features, hit in zip(changed, flipped, strict=True)]
    return sum(counts) / len(counts)


def info_gain_raw(sets: Sequence[Collection[int]], su: Sequence[Sequence[float]] | np.ndarray) -> float:
    """R_info-gain as printed: 1 - mean over rows of sum_i sum_j SU(i, j) / |S|^2, the diagonal included.

    `sets` has one set of changed features for each flipped row; |S| = 1 has info-gain 1; no rows: nan.
    """
    if not sets:
        return math.nan
    lost = 0.0
    for features in sets:
        if len(features) == 0:
            raise ValueError("a flipped row has at least one changed feature")
        if len(features) >= 2:
            lost += sum(float(su[i][j]) for i in features for j in features) / len(features) ** 2
    return 1 - lost / len(sets)


def info_gain_mdlp(sets: Sequence[Collection[int]], su: Sequence[Sequence[float]] | np.ndarray) -> float:
    """R_info-gain as the text defines it: the mean over rows of 1 - mean SU(i, j) over the pairs i < j of S.

    `sets` has one set of changed features for each flipped row; |S| = 1 has info-gain 1; no rows: nan.
    """
    if not sets:
        return math.nan
    kept = 0.0
    for features in sets:
        if len(features) == 0:
            raise ValueError("a flipped row has at least one changed feature")
        pairs = [float(su[i][j]) for i in features for j in features if i < j]
        kept += 1 - sum(pairs) / len(pairs) if pairs else 1.0
    return kept / len(sets)


def domain_share(
    rows: Sequence[Sequence[float]] | np.ndarray,
    contrasts: Sequence[Sequence[float]] | np.ndarray,
    low: Sequence[float] | np.ndarray,
    high: Sequence[float] | np.ndarray,
    integer: Sequence[bool] | np.ndarray,
) -> float:
    """R_domain: the share of generated rows that lie in dom(X), looking at the changed features only.

    A changed value is in the domain if low <= value <= high and, for an integer feature, it is whole. A
    feature that kept its value does not count against the row. One pair for each generated row; none: nan.
    """
    if len(rows) == 0:
        return math.nan
    inside = 0
    for row, contrast in zip(rows, contrasts, strict=True):
        fits = True
        for j in range(len(row)):
            if contrast[j] == row[j]:
                continue
            if not low[j] <= contrast[j] <= high[j]:
                fits = False
            if integer[j] and contrast[j] != round(contrast[j]):
                fits = False
        inside += 1 if fits else 0
    return inside / len(rows)


def influence(fidelity: float, info_gain: float, domain: float, average_features: float) -> float:
    """R_influence = R_fidelity x R_info-gain x R_domain / R_avg#Feats."""
    return fidelity * info_gain * domain / average_features
