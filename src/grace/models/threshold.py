"""Cut-offs on probabilities: which class is decided where that is not simply the most probable one.

With cut-offs t_c, the class with the largest p_c / t_c is decided; in scores that is a shift by -log t_c. Of two
classes, a cut-off t for the positive one (and 1 - t for the other) says: positive if and only if p >= t, as
scikit-learn's FixedThresholdClassifier has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.schema.features import Floats, Value, plain
from grace.schema.frames import join_first

Threshold = float | Mapping[Any, float]
TIE = 1e-12  # in scores: of two classes that are exactly at the cut-off, the positive one is decided


@dataclass(frozen=True)
class Cutoffs:
    """What is taken off each score before the best one is decided."""

    shifts: tuple[float, ...]
    named: tuple[tuple[Value, float], ...] = ()
    """The cut-off of the positive class, or of every class; empty where the scores are no probabilities."""
    positive: int | None = None
    """Of two classes, the one that is decided if its probability or score is at least `limit`."""
    limit: float = 0.0

    def tensor(self, device: torch.device) -> Tensor:
        """The shifts on a device."""
        return _tensor(self.shifts, device)

    def decided(self, scores: Floats, responses: Floats, least: float) -> Floats:
        """Shifted scores (n, classes). Of two classes, the sign of their difference is decided by the model's own
        responses, p >= t, without rounding; the difference is at least `least`."""
        out: Floats = scores - np.array(self.shifts)
        if self.positive is not None:
            other = out[:, 1 - self.positive]
            lead = out[:, self.positive] - other
            reached = responses[:, self.positive] >= self.limit
            out[:, self.positive] = other + np.where(reached, np.maximum(lead, least), np.minimum(lead, -least))
        return out


def cutoffs_of(threshold: Any, classes: Sequence[Value]) -> Cutoffs:
    """The cut-offs that `threshold=` asks for: a number for the second of two classes, or numbers by class."""
    if not isinstance(threshold, Mapping):
        if len(classes) != 2:
            raise GraceError(
                f"threshold={threshold!r}: a single number is for two classes; "
                f"of {len(classes)}, give one for each: threshold={{{classes[0]!r}: 0.5, ...}}"
            )
        return _positive(1, _share(threshold), classes)
    given = {plain(label): _share(share) for label, share in threshold.items()}
    for label in given:
        if label not in classes:
            raise GraceError(f"threshold: unknown class {label!r}; the classes are {join_first(classes, 20)}")
    if len(classes) == 2 and len(given) == 1:
        ((label, share),) = given.items()
        return _positive(classes.index(label), share, classes)
    for label in classes:
        if label not in given:
            raise GraceError(f"threshold: class {label!r} has none; of {len(classes)} classes, give one for each")
    return Cutoffs(tuple(math.log(given[c]) for c in classes), tuple((c, given[c]) for c in classes))


def typed(given: Sequence[str], labels: Iterable[Any]) -> Threshold | None:
    """What was typed: a probability, or CLASS=probability for each class that has one."""
    if not given:
        return None
    try:
        if len(given) == 1 and "=" not in given[0]:
            return float(given[0])
        known = {str(label): label for label in labels}
        pairs = [part.rpartition("=") for part in given]
        return {known.get(label, label): float(share) for label, _, share in pairs}
    except ValueError:
        raise GraceError(f"--threshold {' '.join(given)}: give a probability such as 0.3, or CLASS=0.3") from None


def cutoff_of_score(limit: float, positive: int) -> Cutoffs:
    """The cut-off of a decision function: of two classes, the positive one if its score is at least `limit`."""
    shifts = [0.0, 0.0]
    shifts[positive] = limit - TIE * positive
    return Cutoffs(tuple(shifts), (), positive, limit)


def lines(named: Sequence[tuple[Value, float]], classes: Sequence[Value]) -> dict[Value, float]:
    """Of two classes, the probability at which each of them starts to be decided; of more there is no such line."""
    if len(classes) != 2 or not named:
        return {}
    shares = dict(named)
    if len(shares) == 1:
        ((positive, share),) = shares.items()
        return {c: share if c == positive else 1 - share for c in classes}
    return {c: shares[c] / sum(shares.values()) for c in classes}


@lru_cache(maxsize=64)
def _tensor(shifts: tuple[float, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):  # so that gradients may pass wherever it is used
        return torch.tensor(shifts, dtype=torch.float64, device=device)


def _positive(place: int, share: float, classes: Sequence[Value]) -> Cutoffs:
    shifts = [math.log1p(-share)] * 2
    shifts[place] = math.log(share) - TIE * place  # at place 0, argmax decides a tie for it anyway
    return Cutoffs(tuple(shifts), ((classes[place], share),), place, share)


def _share(threshold: Any) -> float:
    number = plain(threshold)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1:
        raise GraceError(f"threshold={threshold!r}: it must be a probability between 0 and 1, such as 0.3")
    return float(number)
