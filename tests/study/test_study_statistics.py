"""Tests, effects and sizes against the paper's figures, published values and slow literal computations."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from grace import GraceError
from grace.study import power, statistics
from grace.study.power import plan

RIGHT, WRONG = 1.0, 0.0
H3 = [RIGHT] * 15 + [WRONG] * 5, [RIGHT] * 3 + [WRONG] * 16
RATINGS = st.lists(st.integers(1, 10).map(float), min_size=2, max_size=12)


# -- literal computations ---------------------------------------------------------------------


def t_tail(t: float, df: float) -> float:
    """P(T > t) by integrating Student's density."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    inside = integrate.quad(lambda x: scale * (1 + x * x / df) ** (-(df + 1) / 2), 0, abs(t), epsabs=1e-13)[0]
    return 0.5 - inside if t > 0 else 0.5 + inside


def nct_below(t: float, df: float, centre: float) -> float:
    """P(T <= t) for T = (Z + centre) / sqrt(V / df), by integrating over V."""

    def at(v: float) -> float:
        return float(stats.norm.cdf(t * math.sqrt(v / df) - centre) * stats.chi2.pdf(v, df))

    return float(integrate.quad(at, 0, np.inf, epsabs=1e-12, limit=200)[0])


def mean_and_variance(x: list[float]) -> tuple[float, float]:
    mean = sum(x) / len(x)
    return mean, sum((v - mean) ** 2 for v in x) / (len(x) - 1)


def fisher_tail(i: int, n: int, j: int, m: int) -> Fraction:
    """P(at least i of the right answers fall to the first group), all arrangements being equally likely."""
    total = i + j
    ways = sum(math.comb(n, k) * math.comb(m, total - k) for k in range(i, min(n, total) + 1) if total - k <= m)
    return Fraction(ways, math.comb(n + m, total))


# -- the paper's table ------------------------------------------------------------------------


def ratings(counts: dict[int, int]) -> list[float]:
    return [float(r) for r, n in counts.items() for _ in range(n)]


@pytest.mark.parametrize(
    ("first", "second", "means", "t", "p", "printed"),
    [
        ({1: 3, 4: 1, 7: 13, 8: 6}, {1: 5, 3: 1, 6: 13, 7: 2}, (6.35, 4.76), 2.3115, 0.0129, 0.0104),
        ({1: 2, 7: 1, 8: 20}, {1: 3, 5: 2, 6: 9, 7: 7}, (7.35, 5.52), 3.0176, 0.0022, 0.0013),
    ],
    ids=["H1", "H2"],
)
def test_paper_ratings(
    first: dict[int, int], second: dict[int, int], means: tuple[float, float], t: float, p: float, printed: float
) -> None:
    """Whole ratings of 23 and 21 people that give the paper's means and, by the pooled test with its 42 degrees of
    freedom, its t; the p it prints is the tail of a normal distribution."""
    a, b = ratings(first), ratings(second)
    assert (len(a), len(b)) == (23, 21)
    assert (round(sum(a) / 23, 2), round(sum(b) / 21, 2)) == means
    student, welch = statistics.t_test(a, b), statistics.t_test(a, b, pooled=False)
    assert student is not None
    assert welch is not None
    assert (round(student.statistic, 4), student.df, round(student.p, 4)) == (t, 42, p)
    assert round(welch.statistic, 4) != t
    assert round(float(stats.norm.sf(student.statistic)), 4) == printed


def test_paper_actions() -> None:
    student, welch = statistics.t_test(*H3), statistics.t_test(*H3, pooled=False)
    exact = statistics.fisher(*H3)
    assert student is not None
    assert welch is not None
    assert exact is not None
    assert (round(student.statistic, 4), student.df, f"{student.p:.2e}") == (4.4875, 37, "3.39e-05")
    assert round(welch.statistic, 4) == 4.5075
    assert exact.p == pytest.approx(float(fisher_tail(15, 20, 3, 19)), rel=1e-12)
    assert exact.statistic == pytest.approx(15 * 16 / (5 * 3))


# -- tests ------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(RATINGS, RATINGS)
def test_t_by_hand(a: list[float], b: list[float]) -> None:
    (mean_a, var_a), (mean_b, var_b) = mean_and_variance(a), mean_and_variance(b)
    n, m = len(a), len(b)
    student, welch = statistics.t_test(a, b), statistics.t_test(a, b, pooled=False)
    if var_a == var_b == 0:
        assert student is None
        assert welch is None
        return
    assert student is not None
    assert welch is not None
    pooled = ((n - 1) * var_a + (m - 1) * var_b) / (n + m - 2)
    t = (mean_a - mean_b) / math.sqrt(pooled * (1 / n + 1 / m))
    assert student.statistic == pytest.approx(t, abs=1e-9)
    assert student.p == pytest.approx(t_tail(t, n + m - 2), abs=1e-8)
    share_a, share_b = var_a / n, var_b / m
    t = (mean_a - mean_b) / math.sqrt(share_a + share_b)
    df = (share_a + share_b) ** 2 / (share_a**2 / (n - 1) + share_b**2 / (m - 1))
    assert (welch.statistic, welch.df) == (pytest.approx(t, abs=1e-9), pytest.approx(df))
    assert welch.p == pytest.approx(t_tail(t, df), abs=1e-8)


def test_mann_whitney_by_all_arrangements() -> None:
    a, b = [3.1, 7.0, 8.5, 9.9], [1.0, 2.5, 6.0, 7.5, 0.3]

    def u(first: tuple[float, ...], second: list[float]) -> float:
        return sum((x > y) + 0.5 * (x == y) for x in first for y in second)

    seen = u(tuple(a), b)
    pool = a + b
    every = [u(c, [v for v in pool if v not in c]) for c in itertools.combinations(pool, len(a))]
    found = statistics.mann_whitney(a, b)
    assert found is not None
    assert found.statistic == seen
    assert found.p == pytest.approx(np.mean([v >= seen for v in every]))
    assert statistics.superiority(a, b).value == pytest.approx(seen / 20)


def test_mann_whitney_with_ties_by_the_normal_approximation() -> None:
    a, b = [5.0, 6, 6, 7, 9, 9], [2.0, 5, 5, 6, 6]
    n, m = len(a), len(b)
    u = sum((x > y) + 0.5 * (x == y) for x in a for y in b)
    ties = [(a + b).count(v) for v in set(a + b)]
    variance = n * m / 12 * (n + m + 1 - sum(t**3 - t for t in ties) / ((n + m) * (n + m - 1)))
    found = statistics.mann_whitney(a, b)
    assert found is not None
    assert found.p == pytest.approx(float(stats.norm.sf((u - n * m / 2 - 0.5) / math.sqrt(variance))))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fisher_by_counting(n: int, m: int, data: st.DataObject) -> None:
    i, j = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    found = statistics.fisher([1.0] * i + [0.0] * (n - i), [1.0] * j + [0.0] * (m - j))
    assert found is not None
    assert found.p == pytest.approx(float(fisher_tail(i, n, j, m)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
@settings(max_examples=20)  # statsmodels collects garbage at each call
def test_holm_rejects_step_by_step(ps: list[float]) -> None:
    """Adjusted p below alpha just where Holm's steps reject at alpha."""
    adjusted = statistics.holm(ps)
    for alpha in (0.01, 0.05, 0.3):
        order = sorted(range(len(ps)), key=lambda i: ps[i])
        rejected = set()
        for step, i in enumerate(order):
            if (len(ps) - step) * ps[i] >= alpha:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(adjusted) if p < alpha} == rejected


@given(st.lists(st.floats(0, 1), max_size=6))
@settings(max_examples=20)
def test_holm_by_its_definition(ps: list[float]) -> None:
    expected, least = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[i]))
        expected[i] = least
    assert statistics.holm(ps) == pytest.approx(expected, abs=1e-12)


def test_holm_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels.stats.multitest", None)
    with pytest.raises(GraceError, match=r"needs statsmodels: pip install .* statsmodels"):
        statistics.holm([0.5])


def test_no_answers_no_test() -> None:
    assert statistics.t_test([5.0], [4.0, 3.0]) is None
    assert statistics.mann_whitney([], [4.0]) is None
    assert statistics.fisher([], [1.0]) is None
    for effect in (statistics.cohen_d, statistics.hedges_g, statistics.risk_difference, statistics.odds_ratio):
        assert effect([], [1.0]).value is None


# -- effects ----------------------------------------------------------------------------------


def test_cohen_d_and_its_interval() -> None:
    a, b = [6.0, 7, 9, 8, 7, 5, 9], [4.0, 6, 5, 7, 3, 5]
    (mean_a, var_a), (mean_b, var_b) = mean_and_variance(a), mean_and_variance(b)
    d = (mean_a - mean_b) / math.sqrt((6 * var_a + 5 * var_b) / 11)
    found, g = statistics.cohen_d(a, b), statistics.hedges_g(a, b)
    assert found.value == pytest.approx(d)
    assert found.low is not None
    assert found.high is not None
    unit = math.sqrt(1 / 7 + 1 / 6)
    assert nct_below(d / unit, 11, found.low / unit) == pytest.approx(0.975, abs=1e-7)
    assert nct_below(d / unit, 11, found.high / unit) == pytest.approx(0.025, abs=1e-7)
    assert g.value == pytest.approx(d * (1 - 3 / (4 * 11 - 1)), rel=1e-3)


def test_risk_difference_as_newcombe_printed_it() -> None:
    a, b = [1.0] * 56 + [0.0] * 14, [1.0] * 48 + [0.0] * 32
    found = statistics.risk_difference(a, b)
    assert found.low is not None
    assert found.high is not None
    assert (round(found.value or 0, 4), round(found.low, 4), round(found.high, 4)) == (0.2, 0.0524, 0.3339)


def test_odds_ratio_is_the_conditional_one() -> None:
    found = statistics.odds_ratio(*H3)
    assert found.value is not None
    weights = {k: math.comb(20, k) * math.comb(19, 18 - k) * found.value**k for k in range(19)}
    assert sum(k * w for k, w in weights.items()) / sum(weights.values()) == pytest.approx(15, abs=1e-6)
    everything = statistics.odds_ratio([1.0] * 4, [0.0] * 4)
    assert everything.high is None
    assert statistics.odds_ratio([1.0], [1.0]).value is None


def test_describe() -> None:
    x = [3.0, 5, 8, 8]
    g = statistics.describe(x)
    mean, variance = mean_and_variance(x)
    assert (g.n, g.mean, g.sd) == (4, mean, pytest.approx(math.sqrt(variance)))
    assert t_tail((g.high - mean) / math.sqrt(variance / 4), 3) == pytest.approx(0.025, abs=1e-8)
    share = statistics.describe([1.0] * 15 + [0.0] * 5, proportions=True)
    z = float(stats.norm.ppf(0.975))
    for end in (share.low, share.high):  # Wilson: the shares that lie z standard errors away
        assert abs(0.75 - end) == pytest.approx(z * math.sqrt(end * (1 - end) / 20))


# -- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "two_sided", "n"),
    [(0.5, False, 51), (0.2, False, 310), (0.8, False, 21), (0.5, True, 64), (0.2, True, 394), (0.8, True, 26)],
)
def test_sizes_everybody_knows(d: float, two_sided: bool, n: int) -> None:
    assert power.t_size(d, two_sided=two_sided) == n
    assert power.t_power(d, n - 1, n - 1, two_sided=two_sided) < 0.8 <= power.t_power(d, n, n, two_sided=two_sided)


def test_power_of_t_by_integration_and_by_trying() -> None:
    bar = float(stats.t.isf(0.05, 42))
    literal = 1 - nct_below(bar, 42, 0.7 / math.sqrt(1 / 23 + 1 / 21))
    assert power.t_power(0.7, 23, 21) == pytest.approx(literal, abs=1e-9)
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.7, 1, (20_000, 23)), rng.normal(0, 1, (20_000, 21))
    tried = np.mean(stats.ttest_ind(a, b, axis=1, alternative="greater").pvalue <= 0.05)
    assert power.t_power(0.7, 23, 21) == pytest.approx(tried, abs=0.015)
    assert power.t_power(power.detectable(23, 21), 23, 21) == pytest.approx(0.8, abs=1e-6)
    assert power.t_power(50, 9, 9) == 1
    assert power.t_power(-50, 9, 9) == 0


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize(("n", "m", "p", "q"), [(5, 7, 0.8, 0.2), (9, 6, 0.6, 0.5), (10, 10, 1.0, 0.0)])
def test_power_of_fisher_table_by_table(n: int, m: int, p: float, q: float, two_sided: bool) -> None:
    literal = 0.0
    for i, j in itertools.product(range(n + 1), range(m + 1)):
        kind = "two-sided" if two_sided else "greater"
        if stats.fisher_exact([[i, n - i], [j, m - j]], alternative=kind).pvalue <= 0.05:
            chance = math.comb(n, i) * p**i * (1 - p) ** (n - i) * math.comb(m, j) * q**j * (1 - q) ** (m - j)
            literal += chance
    assert power.fisher_power(p, q, n, m, two_sided=two_sided) == pytest.approx(literal, abs=1e-12)


@pytest.mark.parametrize(("p", "q"), [(0.75, 0.16), (0.9, 0.5), (0.3, 0.02), (1.0, 0.0), (0.6, 0.3)])
def test_size_for_shares_is_the_first_that_does(p: float, q: float) -> None:
    n = power.fisher_size(p, q)
    assert power.fisher_power(p, q, n, n) >= 0.8
    assert all(power.fisher_power(p, q, k, k) < 0.8 for k in range(2, n))


def test_plan_in_words_and_with_losses() -> None:
    assert str(plan(d=0.5, lost=0.2)) == (
        "t-test, one-tailed, alpha = 0.05, d = 0.5: 51 valid answers a group (102 in all) find it with power 0.806. "
        "Recruit 64 a group."
    )
    assert plan(d=0.5, n=20).power == pytest.approx(power.t_power(0.5, 20, 20))
    assert plan(d=0.5, lost=0.5).recruit == 102
    assert plan(p1=0.75, p2=0.16).to_dict()["valid"] == power.fisher_size(0.75, 0.16)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"d": 0}, "d=0"),
        ({"d": 0.001}, "more than 100000"),
        ({"p1": 0.2, "p2": 0.4}, "p1=0.2"),
        ({"p1": 1.2, "p2": 0.4}, "p1=1.2"),
        ({"p1": 0.501, "p2": 0.5}, "more than 1000"),
        ({"d": 0.5, "alpha": 5}, "alpha=5"),
        ({"d": 0.5, "n": 9, "power": 2}, "power=2"),
        ({"d": 0.5, "alpha": 0.9}, "power=0.8"),
        ({"d": 0.5, "lost": 1}, "lost=1"),
        ({"d": 0.5, "n": 1}, "n=1"),
        ({}, "give d"),
    ],
)
def test_impossible_plans(asked: dict[str, float], words: str) -> None:
    with pytest.raises(GraceError, match=words):
        plan(**asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [20, 200, 2000, 20_000])
def test_two_sided_power_is_known_for_groups_of_any_size(n: int) -> None:
    one, two = power.t_power(0.8, n, n), power.t_power(0.8, n, n, two_sided=True)
    assert 0 < two <= one <= 1
    assert power.t_power(-0.8, n, n, two_sided=True) == two


def test_sizes_up_to_the_largest_are_found() -> None:
    size = power.t_size(0.0125)
    assert 100_000 > size > 65_536
    assert power.t_power(0.0125, size, size) >= 0.8 > power.t_power(0.0125, size - 1, size - 1)
