"""The paper's measures of a batch of contrastive rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from grace.schema.features import Bools, Floats


@dataclass(frozen=True)
class Metrics:
    """Measures of one batch. Averages over flipped rows are NaN when no row flipped."""

    fidelity: float
    """Share of all rows whose class changed."""
    features: float
    """Changed features per flipped row."""
    features_all: float
    """Changed features per row; a miss counts as `max_features`."""
    info_gain: float
    """1 - mean SU over pairs of changed features, with SU on MDLP bins; 1 for a single feature."""
    info_gain_raw: float
    """The same by the paper's double sum, with SU on raw values; NaN without raw SU."""
    domain: float
    """Share of generated rows whose changed features all lie in the domain."""
    influence: float
    """fidelity x info-gain x domain / features."""
    influence_raw: float
    distance: float
    """Mean distance over flipped rows, in units of the spread: L1 unless the setting `distance` is another norm."""

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def measure(
    changed: Bools,
    success: Bools,
    inside: Bools,
    distance: Floats,
    *,
    su: Floats,
    su_raw: Floats | None = None,
    max_features: int,
) -> Metrics:
    """Measures of n rows from their changed features (n, d), whether each flipped (n,), which cells lie in the domain
    (n, d) and the distances (n,)."""
    sets = changed[success]
    count = sets.sum(axis=1)
    fidelity = float(success.mean())
    features = _mean(count)
    gain = _mean(info_gain(sets, su))
    gain_raw = float("nan") if su_raw is None else _mean(info_gain_raw(sets, su_raw))
    domain = _mean(np.all(inside[success] | ~sets, axis=1))
    return Metrics(
        fidelity=fidelity,
        features=features,
        features_all=float(np.where(success, changed.sum(axis=1), max_features).mean()),
        info_gain=gain,
        info_gain_raw=gain_raw,
        domain=domain,
        influence=_influence(fidelity, gain, domain, features),
        influence_raw=_influence(fidelity, gain_raw, domain, features),
        distance=_mean(distance[success]),
    )


def info_gain(sets: Bools, su: Floats) -> Floats:
    """Per row 1 - mean SU over pairs i < j of its changed features."""
    member, su = _changed(sets, su)
    count = member.sum(axis=1)
    pairs = count * (count - 1)
    total = ((member @ (su - np.diag(np.diag(su)))) * member).sum(axis=1)
    return np.where(pairs > 0, 1 - total / np.where(pairs > 0, pairs, 1), 1.0)


def info_gain_raw(sets: Bools, su: Floats) -> Floats:
    """Per row 1 - the mean of the whole |S| x |S| block of SU, the diagonal included."""
    member, su = _changed(sets, su)
    count = member.sum(axis=1)
    total = ((member @ su) * member).sum(axis=1)
    return np.where(count > 1, 1 - total / np.where(count > 1, count**2, 1), 1.0)


def _changed(sets: Bools, su: Floats) -> tuple[Floats, Floats]:
    """Sets and SU restricted to features that are in any set, as SU of all features may be large."""
    used = np.flatnonzero(sets.any(axis=0))
    return sets[:, used].astype(np.float64), su[np.ix_(used, used)]


def _influence(fidelity: float, gain: float, domain: float, features: float) -> float:
    return 0.0 if fidelity == 0 else fidelity * gain * domain / features


def _mean(values: Floats | Bools) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
