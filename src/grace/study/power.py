"""Statistical power and sample sizes of the studies' tests."""

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
MAX_SIZE = 100_000  # per group
MAX_FISHER_SIZE = 1000  # per group; all tables are enumerated
MAX_NONCENTRALITY = 30.0  # beyond it, the power is 1
NEGLIGIBLE_TAIL = 9.0  # noncentrality beyond which the other tail is below 1e-18


def t_power(d: float, n: int, m: int, *, alpha: float = ALPHA, two_sided: bool = False) -> float:
    """Power of a t-test with n and m answers for an effect of d standard deviations."""
    df, noncentrality = n + m - 2, d / math.sqrt(1 / n + 1 / m)
    if abs(noncentrality) > MAX_NONCENTRALITY:
        return 1.0 if noncentrality > 0 or two_sided else 0.0
    critical = float(stats.t.isf(alpha / 2 if two_sided else alpha, df))
    if not two_sided:
        return float(stats.nct.sf(critical, df, noncentrality))
    noncentrality = abs(noncentrality)
    # scipy's noncentral t is NaN where the lower tail is tiny
    lower_tail = float(stats.nct.cdf(-critical, df, noncentrality)) if noncentrality < NEGLIGIBLE_TAIL else 0.0
    return float(stats.nct.sf(critical, df, noncentrality)) + lower_tail


def t_size(d: float, *, alpha: float = ALPHA, power: float = POWER, two_sided: bool = False) -> int:
    """Group size with which a t-test has the given power for an effect of d."""
    check_levels(alpha, power)
    if not d > 0:
        raise GraceError(f"d={d}: give the effect to be found as a positive number of standard deviations, such as 0.5")

    def sufficient(n: int) -> bool:
        return t_power(d, n, n, alpha=alpha, two_sided=two_sided) >= power

    low, high = 2, 4
    if sufficient(low):
        return low
    while not sufficient(high):
        if high == MAX_SIZE:
            message = f"d={d}: more than {MAX_SIZE} participants a group would be needed; look for a larger effect"
            raise GraceError(message)
        low, high = high, min(2 * high, MAX_SIZE)
    while high - low > 1:  # bisection
        middle = (low + high) // 2
        low, high = (low, middle) if sufficient(middle) else (middle, high)
    return high


def detectable(n: int, m: int, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest d that a one-tailed t-test of n and m answers detects with the given power."""

    def shortfall(d: float) -> float:
        return power - t_power(d, n, m, alpha=alpha)

    return float(optimize.brentq(shortfall, 0.0, MAX_NONCENTRALITY * math.sqrt(1 / n + 1 / m), xtol=1e-8))


def fisher_power(p: float, q: float, n: int, m: int, *, alpha: float = ALPHA, two_sided: bool = False) -> float:
    """Exact power of Fisher's test with n and m answers for success probabilities p and q."""
    p_values = _fisher_p_values(n, m, two_sided)
    probability = stats.binom.pmf(np.arange(n + 1), n, p)[:, None] * stats.binom.pmf(np.arange(m + 1), m, q)[None, :]
    # tolerance for the rounding of the summed p-values
    return float(probability[p_values <= alpha * (1 + 1e-9)].sum())


def _fisher_p_values(n: int, m: int, two_sided: bool) -> Floats:
    """Fisher's p-value of every table with i of n and j of m successes, shape (n + 1, m + 1)."""
    i, total = np.arange(n + 1)[None, :], np.arange(n + m + 1)[:, None]
    j = total - i
    possible = (j >= 0) & (j <= m)
    log = _log_binomial(n, i) + _log_binomial(m, np.clip(j, 0, m)) - _log_binomial(n + m, total)
    probability = np.where(possible, np.exp(log), 0.0)  # hypergeometric, of i given the total
    if two_sided:
        p_values = np.empty_like(probability)
        for row, out in zip(probability, p_values, strict=True):
            ordered = np.sort(row)
            sums = np.concatenate([[0.0], np.cumsum(ordered)])
            out[:] = sums[np.searchsorted(ordered, row * (1 + 1e-7), side="right")]
    else:
        p_values = np.cumsum(probability[:, ::-1], axis=1)[:, ::-1]
    successes = np.arange(n + 1)[:, None]
    return np.asarray(p_values[successes + np.arange(m + 1)[None, :], successes])


def _log_binomial(n: int, k: npt.NDArray[np.int64]) -> Floats:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


def fisher_size(p: float, q: float, *, alpha: float = ALPHA, power: float = POWER, two_sided: bool = False) -> int:
    """Group size with which Fisher's test has the given power for p > q. Its power is not monotone in the size; this is
    the smallest size that reaches it."""
    check_levels(alpha, power)
    for name, share in (("p1", p), ("p2", q)):
        if not 0 <= share <= 1:
            raise GraceError(f"{name}={share}: a share of right answers lies between 0 and 1")
    if not p > q:
        raise GraceError(f"p1={p} does not lie above p2={q}; p1 is the share expected to be larger")

    def sufficient(n: int) -> bool:
        return fisher_power(p, q, n, n, alpha=alpha, two_sided=two_sided) >= power

    return _first_sufficient(sufficient, max(2, _approximate_size(p, q, alpha / 2 if two_sided else alpha, power)))


def _first_sufficient(sufficient: Callable[[int], bool], guess: int) -> int:
    """The first sufficient size from 80 % of the guess on."""
    start = max(2, int(guess * 0.8))
    for n in range(start, MAX_FISHER_SIZE + 1):
        if sufficient(n):
            return n
    raise GraceError(f"more than {MAX_FISHER_SIZE} participants a group would be needed; look for a larger difference")


def _approximate_size(p: float, q: float, alpha: float, power: float) -> int:
    """Group size by the normal approximation to arcsine-transformed proportions, a lower estimate."""
    h = 2 * math.asin(math.sqrt(p)) - 2 * math.asin(math.sqrt(q))
    return int(2 * ((stats.norm.isf(alpha) + stats.norm.ppf(power)) / h) ** 2)


def check_levels(alpha: float, power: float) -> None:
    """Raise an error unless 0 < alpha < power < 1."""
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise GraceError(f"{name}={value}: it must lie between 0 and 1")
    if power <= alpha:
        raise GraceError(f"power={power} does not lie above alpha={alpha}; the usual choice is 0.8 and 0.05")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`valid` answers per group have the `power`; to obtain them, `recruit` participants per group."""

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
        text = (
            f"{self.test}, {tails}-tailed, alpha = {self.alpha:g}, {effect}: {self.valid} valid answers a group "
            f"({2 * self.valid} in all) find it with power {self.power:.3f}."
        )
        return text if self.recruit == self.valid else f"{text} Recruit {self.recruit} a group."


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
    """The sample size for an effect of d standard deviations, or for proportions p1 and p2; with `n`, the power of that
    size. `lost` is the expected share of excluded answers."""
    if not 0 <= lost < 1:
        raise GraceError(f"lost={lost}: it must be a share from 0 to below 1, such as 0.2")
    if n is not None and n < 2:
        raise GraceError(f"n={n}: a comparison needs at least two answers a group")
    check_levels(alpha, power)
    if d is not None:
        test, effect = "t-test", {"d": d}
        valid = n or t_size(d, alpha=alpha, power=power, two_sided=two_sided)
        achieved = t_power(d, valid, valid, alpha=alpha, two_sided=two_sided)
    elif p1 is not None and p2 is not None:
        test, effect = "Fisher's exact test", {"p1": p1, "p2": p2}
        valid = n or fisher_size(p1, p2, alpha=alpha, power=power, two_sided=two_sided)
        achieved = fisher_power(p1, p2, valid, valid, alpha=alpha, two_sided=two_sided)
    else:
        raise GraceError("give d for ratings, or p1 and p2 for right and wrong answers")
    recruit = math.ceil(valid / (1 - lost) - 1e-9)
    return Plan(
        test=test, effect=effect, alpha=alpha, two_sided=two_sided, valid=valid, power=achieved, recruit=recruit
    )
