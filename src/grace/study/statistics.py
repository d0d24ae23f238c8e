"""One-tailed tests that the first group's values are larger, and effect sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from grace.errors import GraceError, pip_install

CONFIDENCE = 0.95
Numbers = Sequence[float]


@dataclass(frozen=True)
class Test:
    """A test's statistic and one-tailed p-value."""

    name: str
    statistic: float
    p: float
    df: float | None = None


@dataclass(frozen=True)
class Effect:
    """An effect size with its 95 % confidence interval; None for no value or bound."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Group:
    """Descriptive statistics of ratings, or of right (1) and wrong (0) answers."""

    n: int
    mean: float
    sd: float
    low: float
    high: float


# -- tests ------------------------------------------------------------------------------------


def t_test(a: Numbers, b: Numbers, *, pooled: bool = True) -> Test | None:
    """Student's t (pooled variance, as in the paper) or Welch's; None without variance."""
    if min(len(a), len(b)) < 2 or (np.ptp(a) == 0 and np.ptp(b) == 0):
        return None
    (mean_a, sd_a, n), (mean_b, sd_b, m) = ((float(np.mean(x)), float(np.std(x, ddof=1)), len(x)) for x in (a, b))
    # from summary statistics, as ttest_ind warns if the values of a list are all equal
    result = stats.ttest_ind_from_stats(mean_a, sd_a, n, mean_b, sd_b, m, equal_var=pooled, alternative="greater")
    if pooled:
        return Test("Student's t", float(result.statistic), float(result.pvalue), n + m - 2)
    u, v = sd_a**2 / n, sd_b**2 / m
    df = (u + v) ** 2 / (u**2 / (n - 1) + v**2 / (m - 1))
    return Test("Welch's t", float(result.statistic), float(result.pvalue), df)


def mann_whitney(a: Numbers, b: Numbers) -> Test | None:
    """Mann-Whitney U; exact for small samples without ties."""
    if not len(a) or not len(b):
        return None
    result = stats.mannwhitneyu(a, b, alternative="greater")
    return Test("Mann-Whitney U", float(result.statistic), float(result.pvalue))


def fisher(a: Numbers, b: Numbers) -> Test | None:
    """Fisher's exact test of right and wrong answers; the statistic is the sample odds ratio."""
    if not len(a) or not len(b):
        return None
    result = stats.fisher_exact(_contingency_table(a, b), alternative="greater")
    return Test("Fisher's exact", float(result.statistic), float(result.pvalue))


def holm(ps: Sequence[float]) -> list[float]:
    """p-values after Holm's correction (1979)."""
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError as reason:
        raise GraceError(f"Holm's correction needs statsmodels: {pip_install('study')}") from reason
    return list(map(float, multipletests(ps, method="holm")[1]))


# -- effects ----------------------------------------------------------------------------------


def cohen_d(a: Numbers, b: Numbers) -> Effect:
    """Difference of means in pooled standard deviations, with the exact interval by the noncentral t distribution."""
    test = t_test(a, b)
    if test is None:
        return Effect("Cohen's d", None)
    n, m = len(a), len(b)
    scale = math.sqrt(1 / n + 1 / m)
    tail = (1 - CONFIDENCE) / 2
    low = _noncentrality(test.statistic, n + m - 2, 1 - tail)
    high = _noncentrality(test.statistic, n + m - 2, tail)
    return Effect("Cohen's d", test.statistic * scale, low * scale, high * scale)


def hedges_g(a: Numbers, b: Numbers) -> Effect:
    """Cohen's d with the exact small-sample correction."""
    d = cohen_d(a, b)
    if d.value is None or d.low is None or d.high is None:
        return Effect("Hedges' g", None)
    df = len(a) + len(b) - 2
    correction = math.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / math.sqrt(df / 2)
    return Effect("Hedges' g", d.value * correction, d.low * correction, d.high * correction)


def superiority(a: Numbers, b: Numbers) -> Effect:
    """Probability that a value of the first group exceeds one of the second; ties count half."""
    test = mann_whitney(a, b)
    return Effect("probability of superiority", None if test is None else test.statistic / (len(a) * len(b)))


def risk_difference(a: Numbers, b: Numbers) -> Effect:
    """Difference of proportions, with Newcombe's interval (1998, method 10)."""
    if not len(a) or not len(b):
        return Effect("risk difference", None)
    (p, low_a, high_a), (q, low_b, high_b) = _proportion(a), _proportion(b)
    low = p - q - math.hypot(p - low_a, high_b - q)
    high = p - q + math.hypot(high_a - p, q - low_b)
    return Effect("risk difference", p - q, low, high)


def odds_ratio(a: Numbers, b: Numbers) -> Effect:
    """Conditional odds ratio with its exact interval."""
    if not len(a) or not len(b) or sum(a) + sum(b) in (0, len(a) + len(b)):
        return Effect("conditional odds ratio", None)
    result = stats.contingency.odds_ratio(_contingency_table(a, b))
    interval = result.confidence_interval(CONFIDENCE)
    return Effect("conditional odds ratio", _finite(result.statistic), _finite(interval.low), _finite(interval.high))


def describe(values: Numbers, *, proportions: bool = False) -> Group:
    """n, mean, standard deviation, and the mean's interval: by t, for proportions Wilson's."""
    n = len(values)
    if n == 0:
        raise GraceError("there are no answers to describe")
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1)) if n > 1 else 0.0
    if proportions:
        return Group(n, mean, sd, *_proportion(values)[1:])
    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * sd / math.sqrt(n) if n > 1 else 0.0
    return Group(n, mean, sd, mean - margin, mean + margin)


# -- helpers ----------------------------------------------------------------------------------


def _contingency_table(a: Numbers, b: Numbers) -> list[list[int]]:
    return [[int(sum(x)), len(x) - int(sum(x))] for x in (a, b)]


def _proportion(x: Numbers) -> tuple[float, float, float]:
    """The proportion of ones with Wilson's score interval."""
    interval = stats.binomtest(int(sum(x)), len(x)).proportion_ci(CONFIDENCE, method="wilson")
    return float(np.mean(x)), float(interval.low), float(interval.high)


def _noncentrality(t: float, df: float, below: float) -> float:
    """The noncentrality at which P(T <= t) is `below`."""

    def excess(centre: float) -> float:
        return float(stats.nct.cdf(t, df, centre)) - below

    return _root(excess, t)


def _root(excess: Callable[[float], float], start: float) -> float:
    """The root of a decreasing function, by brentq in a bracket that grows around `start`."""
    radius = 2.0
    while excess(start - radius) < 0 or excess(start + radius) > 0:
        radius *= 2
    return float(optimize.brentq(excess, start - radius, start + radius, xtol=1e-10))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
