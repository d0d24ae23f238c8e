"""How many participants a study needs, and what a study of a given size can find."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from grace.errors import GraceError
from grace.schema.features import Floats

ALPHA, POWER = 0.05, 0.8
MOST = 100_000  # participants a group
MOST_EXACT = 1000  # participants a group for which Fisher's test is enumerated
LARGEST = 30.0  # noncentrality from which a test finds its effect for certain
FAR = 9.0  # standard deviations, beyond which a tail is below 1e-18


def t_power(d: float, n: int, m: int, *, alpha: float = ALPHA, two_sided: bool = False) -> float:
    """The probability that a t-test of n and m answers finds an effect of d standard deviations."""
    df, centre = n + m - 2, d / math.sqrt(1 / n + 1 / m)
    if abs(centre) > LARGEST:
        return 1.0 if centre > 0 or two_sided else 0.0
    bar = float(stats.t.isf(alpha / 2 if two_sided else alpha, df))
    if not two_sided:
        return float(stats.nct.sf(bar, df, centre))
    centre = abs(centre)
    # the far tail is at most the normal distribution's beyond the centre; scipy's is NaN where that is tiny
    far = float(stats.nct.cdf(-bar, df, centre)) if centre < FAR else 0.0
    return float(stats.nct.sf(bar, df, centre)) + far


def t_size(d: float, *, alpha: float = ALPHA, power: float = POWER, two_sided: bool = False) -> int:
    """Participants per group with which a t-test finds an effect of d with the given power."""
    check(alpha, power)
    if not d > 0:
        raise GraceError(f"d={d}: give the effect to be found as a positive number of standard deviations, such as 0.5")
    low, high = 2, 4
    if t_power(d, low, low, alpha=alpha, two_sided=two_sided) >= power:
        return low
    while t_power(d, high, high, alpha=alpha, two_sided=two_sided) < power:
        if high == MOST:
            raise GraceError(f"d={d}: more than {MOST} participants a group would be needed; look for a larger effect")
        low, high = high, min(2 * high, MOST)
    while high - low > 1:  # power grows with n
        middle = (low + high) // 2
        enough = t_power(d, middle, middle, alpha=alpha, two_sided=two_sided) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def detectable(n: int, m: int, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest d that a one-tailed t-test of n and m answers finds with the given power."""

    def lack(d: float) -> float:
        return power - t_power(d, n, m, alpha=alpha)

    return float(optimize.brentq(lack, 0.0, LARGEST * math.sqrt(1 / n + 1 / m), xtol=1e-8))


def fisher_power(p: float, q: float, n: int, m: int, *, alpha: float = ALPHA, two_sided: bool = False) -> float:
    """The exact probability that Fisher's test of n and m answers tells shares p and q apart."""
    tails = _tails(n, m, two_sided)
    chance = stats.binom.pmf(np.arange(n + 1), n, p)[:, None] * stats.binom.pmf(np.arange(m + 1), m, q)[None, :]
    # p-values are sums of many terms: what equals alpha but for rounding counts as reached
    return float(chance[tails <= alpha * (1 + 1e-9)].sum())


def _tails(n: int, m: int, two_sided: bool) -> Floats:
    """Fisher's p for every table of i of n and j of m right answers, as an array [i, j]."""
    i, total = np.arange(n + 1)[None, :], np.arange(n + m + 1)[:, None]
    j = total - i
    possible = (j >= 0) & (j <= m)
    log = _choose(n, i) + _choose(m, np.clip(j, 0, m)) - _choose(n + m, total)
    chance = np.where(possible, np.exp(log), 0.0)  # of i, given the total
    if two_sided:
        tails = np.empty_like(chance)
        for row, out in zip(chance, tails, strict=True):
            ordered = np.sort(row)
            sums = np.concatenate([[0.0], np.cumsum(ordered)])
            out[:] = sums[np.searchsorted(ordered, row * (1 + 1e-7), side="right")]
    else:
        tails = np.cumsum(chance[:, ::-1], axis=1)[:, ::-1]
    right = np.arange(n + 1)[:, None]
    return np.asarray(tails[right + np.arange(m + 1)[None, :], right])


def _choose(n: int, k: npt.NDArray[np.int64]) -> Floats:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


def fisher_size(p: float, q: float, *, alpha: float = ALPHA, power: float = POWER, two_sided: bool = False) -> int:
    """Participants per group with which Fisher's test finds that p lies above q. Its power falls a little at some
    sizes where it should grow: this is the first that reaches the power."""
    check(alpha, power)
    for name, share in (("p1", p), ("p2", q)):
        if not 0 <= share <= 1:
            raise GraceError(f"{name}={share}: a share of right answers lies between 0 and 1")
    if not p > q:
        raise GraceError(f"p1={p} does not lie above p2={q}; p1 is the share expected to be larger")

    def enough(n: int) -> bool:
        return fisher_power(p, q, n, n, alpha=alpha, two_sided=two_sided) >= power

    return _first(enough, max(2, _about(p, q, alpha / 2 if two_sided else alpha, power)))


def _first(enough: Callable[[int], bool], guess: int) -> int:
    """The first size that is enough, where the guess is too small or nearly so."""
    start = max(2, int(guess * 0.8))
    for n in range(start, MOST_EXACT + 1):
        if enough(n):
            return n
    raise GraceError(f"more than {MOST_EXACT} participants a group would be needed; look for a larger difference")


def _about(p: float, q: float, alpha: float, power: float) -> int:
    """The size by the normal approximation to arcsine-transformed shares; Fisher's test needs more."""
    h = 2 * math.asin(math.sqrt(p)) - 2 * math.asin(math.sqrt(q))
    return int(2 * ((stats.norm.isf(alpha) + stats.norm.ppf(power)) / h) ** 2)


def check(alpha: float, power: float) -> None:
    """Whether a test can be asked for these."""
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise GraceError(f"{name}={value}: it must lie between 0 and 1")
    if power <= alpha:
        raise GraceError(f"power={power} does not lie above alpha={alpha}; the usual choice is 0.8 and 0.05")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`valid` answers a group give the `power`; to have them, `recruit` participants a group."""

    test: str
    effect: dict[str, float]
    alpha: float
    two_sided: bool
    valid: int
    power: float
    recruit: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        effect = ", ".join(f"{name} = {value:g}" for name, value in self.effect.items())
        tails = "two" if self.two_sided else "one"
        said = (
            f"{self.test}, {tails}-tailed, alpha = {self.alpha:g}, {effect}: {self.valid} valid answers a group "
            f"({2 * self.valid} in all) find it with power {self.power:.3f}."
        )
        return said if self.recruit == self.valid else f"{said} Recruit {self.recruit} a group."


def plan(
    *,
    d: float | None = None,
    p1: float | None = None,
    p2: float | None = None,
    n: int | None = None,
    alpha: float = ALPHA,
    power: float = POWER,
    two_sided: bool = False,
    lost: float = 0.0,
) -> Plan:
    """The size for an effect of d standard deviations, or of shares p1 against p2; with `n`, the power of that size.
    `lost` is the share of answers that will not count."""
    if not 0 <= lost < 1:
        raise GraceError(f"lost={lost}: it must be a share from 0 to below 1, such as 0.2")
    if n is not None and n < 2:
        raise GraceError(f"n={n}: a comparison needs at least two answers a group")
    check(alpha, power)
    if d is not None:
        test, effect = "t-test", {"d": d}
        valid = n or t_size(d, alpha=alpha, power=power, two_sided=two_sided)
        reached = t_power(d, valid, valid, alpha=alpha, two_sided=two_sided)
    elif p1 is not None and p2 is not None:
        test, effect = "Fisher's exact test", {"p1": p1, "p2": p2}
        valid = n or fisher_size(p1, p2, alpha=alpha, power=power, two_sided=two_sided)
        reached = fisher_power(p1, p2, valid, valid, alpha=alpha, two_sided=two_sided)
    else:
        raise GraceError("give d for ratings, or p1 and p2 for right and wrong answers")
    recruit = math.ceil(valid / (1 - lost) - 1e-9)
    return Plan(test=test, effect=effect, alpha=alpha, two_sided=two_sided, valid=valid, power=reached, recruit=recruit)
