"""One-tailed tests of "the first group does better", and how large the difference is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from grace.errors import GraceError, pip_install

LEVEL = 0.95
Numbers = Sequence[float]


@dataclass(frozen=True)
class Test:
    """A test's statistic and its one-tailed p."""

    name: str
    statistic: float
    p: float
    df: float | None = None


@dataclass(frozen=True)
class Effect:
    """An effect size, with its 95 % interval where there is one; None stands for no bound."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Group:
    """What describes a group of ratings, or of answers that are right (1) or wrong (0)."""

    n: int
    mean: float
    sd: float
    low: float
    high: float


# -- tests ------------------------------------------------------------------------------------


def t_test(a: Numbers, b: Numbers, *, pooled: bool = True) -> Test | None:
    """Student's t (pooled variance, as in the paper) or Welch's; None where no variance is left to compare with."""
    if min(len(a), len(b)) < 2 or (np.ptp(a) == 0 and np.ptp(b) == 0):
        return None
    (mean_a, sd_a, n), (mean_b, sd_b, m) = ((float(np.mean(x)), float(np.std(x, ddof=1)), len(x)) for x in (a, b))
    # from means and deviations: scipy doubts lists in which all answers are alike, where there is nothing to doubt
    found = stats.ttest_ind_from_stats(mean_a, sd_a, n, mean_b, sd_b, m, equal_var=pooled, alternative="greater")
    if pooled:
        return Test("Student's t", float(found.statistic), float(found.pvalue), n + m - 2)
    u, v = sd_a**2 / n, sd_b**2 / m
    df = (u + v) ** 2 / (u**2 / (n - 1) + v**2 / (m - 1))
    return Test("Welch's t", float(found.statistic), float(found.pvalue), df)


def mann_whitney(a: Numbers, b: Numbers) -> Test | None:
    """By ranks, which asks less of ratings than t; exact for few answers without ties."""
    if not len(a) or not len(b):
        return None
    found = stats.mannwhitneyu(a, b, alternative="greater")
    return Test("Mann-Whitney U", float(found.statistic), float(found.pvalue))


def fisher(a: Numbers, b: Numbers) -> Test | None:
    """Exact, on the table of right and wrong answers; the statistic is the odds ratio of the sample."""
    if not len(a) or not len(b):
        return None
    found = stats.fisher_exact(_table(a, b), alternative="greater")
    return Test("Fisher's exact", float(found.statistic), float(found.pvalue))


def holm(ps: Sequence[float]) -> list[float]:
    """p-values adjusted for their number (Holm 1979)."""
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError as reason:
        raise GraceError(f"Holm's correction needs statsmodels: {pip_install('study')}") from reason
    return list(map(float, multipletests(ps, method="holm")[1]))


# -- effects ----------------------------------------------------------------------------------


def cohen_d(a: Numbers, b: Numbers) -> Effect:
    """The difference of means in pooled standard deviations, with the exact interval by noncentral t."""
    test = t_test(a, b)
    if test is None:
        return Effect("Cohen's d", None)
    n, m = len(a), len(b)
    unit = math.sqrt(1 / n + 1 / m)
    tail = (1 - LEVEL) / 2
    low = _noncentrality(test.statistic, n + m - 2, 1 - tail)
    high = _noncentrality(test.statistic, n + m - 2, tail)
    return Effect("Cohen's d", test.statistic * unit, low * unit, high * unit)


def hedges_g(a: Numbers, b: Numbers) -> Effect:
    """Cohen's d without its bias in small samples (the exact factor, by gamma functions)."""
    d = cohen_d(a, b)
    if d.value is None or d.low is None or d.high is None:
        return Effect("Hedges' g", None)
    df = len(a) + len(b) - 2
    factor = math.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / math.sqrt(df / 2)
    return Effect("Hedges' g", d.value * factor, d.low * factor, d.high * factor)


def superiority(a: Numbers, b: Numbers) -> Effect:
    """How often an answer of the first group beats one of the second, ties counted half."""
    test = mann_whitney(a, b)
    return Effect("probability of superiority", None if test is None else test.statistic / (len(a) * len(b)))


def risk_difference(a: Numbers, b: Numbers) -> Effect:
    """The difference of shares, with Newcombe's interval (1998, his method 10)."""
    if not len(a) or not len(b):
        return Effect("risk difference", None)
    (p, low_a, high_a), (q, low_b, high_b) = _share(a), _share(b)
    low = p - q - math.hypot(p - low_a, high_b - q)
    high = p - q + math.hypot(high_a - p, q - low_b)
    return Effect("risk difference", p - q, low, high)


def odds_ratio(a: Numbers, b: Numbers) -> Effect:
    """The conditional odds ratio with its exact interval."""
    if not len(a) or not len(b) or sum(a) + sum(b) in (0, len(a) + len(b)):
        return Effect("conditional odds ratio", None)
    found = stats.contingency.odds_ratio(_table(a, b))
    span = found.confidence_interval(LEVEL)
    return Effect("conditional odds ratio", _finite(found.statistic), _finite(span.low), _finite(span.high))


def describe(values: Numbers, *, shares: bool = False) -> Group:
    """n, mean, standard deviation and the interval of the mean: by t, or for shares Wilson's."""
    n = len(values)
    if n == 0:
        raise GraceError("there are no answers to describe")
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1)) if n > 1 else 0.0
    if shares:
        return Group(n, mean, sd, *_share(values)[1:])
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * sd / math.sqrt(n) if n > 1 else 0.0
    return Group(n, mean, sd, mean - half, mean + half)


# -- parts ------------------------------------------------------------------------------------


def _table(a: Numbers, b: Numbers) -> list[list[int]]:
    return [[int(sum(x)), len(x) - int(sum(x))] for x in (a, b)]


def _share(x: Numbers) -> tuple[float, float, float]:
    """The share of ones with Wilson's score interval."""
    span = stats.binomtest(int(sum(x)), len(x)).proportion_ci(LEVEL, method="wilson")
    return float(np.mean(x)), float(span.low), float(span.high)


def _noncentrality(t: float, df: float, below: float) -> float:
    """The noncentrality under which a t this small or smaller has probability `below`."""

    def gap(centre: float) -> float:
        return float(stats.nct.cdf(t, df, centre)) - below

    return _root(gap, t)


def _root(gap: Callable[[float], float], start: float) -> float:
    """Where a decreasing function crosses 0, looked for around `start`."""
    reach = 2.0
    while gap(start - reach) < 0 or gap(start + reach) > 0:
        reach *= 2
    return float(optimize.brentq(gap, start - reach, start + reach, xtol=1e-10))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
