"""Bounds on what changes bring in a tree ensemble, against every combination of cells."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import grace
from grace.methods.compiled.lines import Columns, Table
from grace.methods.trees.bounds import bound, remember
from grace.methods.trees.regions import FIXED, LIMIT, LIMITS, MARK, MOVED, OPEN, SIDE, SPENT, Region, region
from grace.methods.trees.rules import no_rules
from grace.methods.trees.slots import make_slots
from grace.models.predictor import tree_ensemble
from grace.models.trees.compiled import Trees, add_up_rows, trees_of

SEEDS = st.integers(0, 1 << 20)
NUMBERS, CODES = 4, 3  # features: numbers, the second of them whole, and one category with so many codes
FEATURES = NUMBERS + 1


def random_trees(rng: np.random.Generator, count: int, depth: int, classes: int) -> Trees:
    """Trees that split at random on numbers and a category; a part of them adds to one sum alone."""
    nodes: list[tuple[int, float, int, int, int, np.ndarray]] = []
    bits: list[bool] = []

    def grow(left: int, only: int) -> int:
        at = len(nodes)
        nodes.append((-1, 0.0, -1, -1, -1, np.zeros(classes)))
        if left == 0 or rng.random() < 0.15:
            value = rng.normal(size=classes).round(2)
            nodes[at] = (-1, 0.0, -1, -1, -1, value if only < 0 else np.where(np.arange(classes) == only, value, 0.0))
            return at
        f, members = int(rng.integers(FEATURES)), -1
        if f == NUMBERS:
            members = len(bits)
            bits.extend((rng.permutation(CODES) < rng.integers(1, CODES)).tolist())
        cut = float(rng.integers(-6, 7)) + (0.5 if f == 1 else 0.0)
        nodes[at] = (f, cut, members, grow(left - 1, only), grow(left - 1, only), np.zeros(classes))
        return at

    roots = [grow(depth, int(rng.integers(-1, classes))) for _ in range(count)]
    feature, cut, members, left, right, value = (np.array(part) for part in zip(*nodes, strict=True))
    none = np.zeros(len(nodes), dtype=bool)
    goes_left, base = np.array([*bits, False]), rng.normal(size=classes)
    missing = np.full(FEATURES, np.nan)
    return trees_of(np.array(roots), feature, cut, members, goes_left, none, left, right, value, base, missing)


def random_question(rng: np.random.Generator, trees: Trees, norm: float) -> tuple[Columns, Table, Region]:
    """A row with limits, and a region with its slots; all features are open."""
    row = np.append(rng.integers(-5, 6, NUMBERS) + np.array([0.25, 0.0, 0.0, 0.5]), rng.integers(CODES))
    low, high = row - rng.integers(0, 5, FEATURES), row + rng.integers(0, 5, FEATURES)
    low[2] = high[2] - 1.0 if rng.random() < 0.3 else low[2]  # a row may lie outside its limits
    low[NUMBERS], high[NUMBERS] = 0, CODES - 1
    category = np.arange(FEATURES) == NUMBERS
    begins = np.array([0] * FEATURES + [CODES])
    weight = rng.choice([0.5, 1.0, 2.0], FEATURES)
    whole, spread, digits = np.arange(FEATURES) == 1, np.full(FEATURES, 2.0), np.full(FEATURES, 2)
    columns = Columns(spread, weight, digits, whole, ~category, begins, np.arange(float(CODES)), norm)
    free = np.ones((1, FEATURES), dtype=bool)
    table = Table(row[None], low[None], high[None], free, np.zeros((FEATURES, FEATURES), dtype=bool), no_rules(1))
    r = region(trees, FEATURES, 3)
    r.least[:], r.most[:] = low, high
    make_slots(trees, columns, table, 0, free[0], r)
    r.counts[LIMITS] += 1
    r.status[:] = OPEN
    return columns, table, r


def cells_of(trees: Trees, f: int, low: float, high: float) -> list[float]:
    """A value of each cell of a feature between two limits: both ends, and thresholds."""
    if f == NUMBERS:
        return [float(code) for code in range(CODES)]
    begin, end = trees.cuts.begins[f : f + 2]
    inside = [c for c in trees.cuts.threshold[begin:end] if low < c <= high]
    values = np.array([low, high, *inside, *np.nextafter(inside, -np.inf)]) if low <= high else np.zeros(0)
    if f == 1:
        values = np.concatenate([np.ceil(values), np.floor(values)])
    return sorted({float(v) for v in values if low <= v <= high})


def slot_of(r: Region, f: int, value: float) -> int:
    """The slot in which a value of a feature lies, -1 if there is none."""
    found = [b for b in range(r.slots[f], r.slots[f + 1]) if r.slot_low[b] <= value <= r.slot_high[b]]
    assert len(found) <= 1
    return found[0] if found else -1


def cost_of(columns: Columns, f: int, old: float, new: float) -> float:
    cost = columns.weight[f] * (abs(new - old) / columns.spread[f] if columns.magnitude[f] else 1.0)
    return cost**2 if columns.norm == 2 else cost


def sums_of(trees: Trees, rows: list[np.ndarray]) -> np.ndarray:
    out = np.empty((len(rows), len(trees.base)))
    add_up_rows(trees, np.array(rows), 0, len(rows), out)
    return out


@given(SEEDS, st.sampled_from([1.0, 2.0, np.inf]))
@settings(max_examples=40, derandomize=True)
def test_slots_hold_all_values_that_a_threshold_separates_from_the_row(seed: int, norm: float) -> None:
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, 12, 4, 1)
    columns, table, r = random_question(rng, trees, norm)
    row = table.rows[0]
    for f in range(NUMBERS):
        begin, end = trees.cuts.begins[f : f + 2]
        cuts = trees.cuts.threshold[begin:end]
        assert (np.diff(cuts) > 0).all()
        assert sum(r.slot_high[b] < row[f] for b in range(r.slots[f], r.slots[f + 1])) <= SIDE
        assert sum(r.slot_low[b] > row[f] for b in range(r.slots[f], r.slots[f + 1])) <= SIDE
        for value in cells_of(trees, f, table.low[0, f], table.high[0, f]):
            apart = bool(((cuts > min(row[f], value)) & (cuts <= max(row[f], value))).any())
            slot = slot_of(r, f, value)
            assert slot >= 0 or not apart
            if slot >= 0:
                assert (r.slot_low[slot] > row[f]) == (value > row[f]) != (r.slot_high[slot] < row[f])
                assert r.slot_cost[slot] <= cost_of(columns, f, row[f], value)
                assert r.slot_feature[slot] == f


@pytest.mark.parametrize("more", [1, 2, 3])
@given(SEEDS, st.sampled_from([1.0, 2.0, np.inf]), st.booleans())
@settings(max_examples=60, derandomize=True)
def test_no_cells_bring_more_than_the_gains_of_their_slots(more: int, seed: int, norm: float, limited: bool) -> None:
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, int(rng.choice([1, 2, 8])), 4, 3)
    columns, table, r = random_question(rng, trees, norm)
    row = table.rows[0]
    functional = np.array([1.0, 0.0, -rng.choice([0.5, 1.0])])
    spent = float(rng.uniform(0, 1))
    r.costs[LIMIT] = spent + rng.uniform(0.5, 3) if limited else np.inf
    moved = [int(rng.integers(FEATURES))]
    ends = np.sort(rng.choice(cells_of(trees, moved[0], -7.0, 7.0), 2))
    remember(trees, functional, row, more, 0, r)
    r.status[:] = np.where(rng.random(FEATURES) < 0.9, OPEN, FIXED)
    r.status[moved] = MOVED
    r.low[moved], r.high[moved] = (ends[0], ends[0] if moved[0] == NUMBERS else ends[1])
    r.counts[MARK] += 1
    for j in moved:
        r.touched[trees.uses.trees[trees.uses.tree_begins[j] : trees.uses.tree_begins[j + 1]]] = r.counts[MARK]
    r.costs[SPENT] = spent
    cells = cells_of(trees, moved[0], r.low[moved[0]], r.high[moved[0]])
    inside = [v for v in cells if r.low[moved[0]] <= v <= r.high[moved[0]]]
    for q in (-1, 0):  # all trees are followed, or some are remembered
        high, low = bound(trees, functional, row, more, True, q, r)
        alone = sums_of(trees, [replaced(row, {moved[0]: v}) for v in inside]) @ functional
        assert alone.max() <= high + 1e-9
        assert alone.min() >= low - 1e-9
        opened = [f for f in range(FEATURES) if r.status[f] == OPEN]
        for size in range(1, more + 1):
            for features in combinations(opened, size):
                rows, limits = [], []
                choices = [cells_of(trees, f, table.low[0, f], table.high[0, f]) for f in features]
                for values in product(*(part[:6] for part in choices)):
                    slots = [slot_of(r, f, v) for f, v in zip(features, values, strict=True)]
                    changes = [cost_of(columns, f, row[f], v) for f, v in zip(features, values, strict=True)]
                    total = max([spent, *changes]) if norm == np.inf else spent + sum(changes)
                    if min(slots) < 0 or any(v == row[f] for f, v in zip(features, values, strict=True)):
                        continue
                    if total < r.costs[LIMIT]:
                        rows.append(replaced(row, {**dict(zip(features, values, strict=True)), moved[0]: inside[0]}))
                        rows.append(replaced(rows[-1], {moved[0]: inside[-1]}))
                        limits += [high + sum(r.gain[slot] for slot in slots)] * 2
                if rows:
                    assert (sums_of(trees, rows) @ functional <= np.array(limits) + 1e-9).all()


def replaced(row: np.ndarray, values: dict[int, float]) -> np.ndarray:
    out = row.copy()
    out[list(values)] = list(values.values())
    return out


@given(SEEDS)
@settings(max_examples=25, derandomize=True)
def test_one_open_feature_that_is_all_that_moves_is_bounded_exactly(seed: int) -> None:
    """Where each slot is a single cell and nothing else moves, its gain is what its values bring, if that is not
    less than nothing in any tree."""
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, 1, 3, 1)
    _, table, r = random_question(rng, trees, 1.0)
    row, functional = table.rows[0], np.ones(1)
    high, low = bound(trees, functional, row, 1, False, -1, r)
    (own,) = sums_of(trees, [row])[:, 0]
    assert high == low == pytest.approx(own)
    for slot in range(r.slots[NUMBERS]):
        changed = replaced(row, {int(r.slot_feature[slot]): r.slot_low[slot]})
        assert r.gain[slot] == pytest.approx(max(0.0, sums_of(trees, [changed])[0, 0] - own), abs=1e-12)


@given(SEEDS)
@settings(max_examples=25, derandomize=True)
def test_remembered_trees_give_the_same_bounds(seed: int) -> None:
    """Trees that no moved feature touches are not followed again."""
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, 10, 3, 2)
    _, table, r = random_question(rng, trees, 1.0)
    row, functional = table.rows[0], np.array([1.0, -1.0])
    remember(trees, functional, row, 1, 0, r)
    for _ in range(8):
        moved = rng.choice(NUMBERS, size=rng.integers(0, 3), replace=False)
        r.status[:] = np.where(rng.random(FEATURES) < 0.7, OPEN, FIXED)
        r.status[moved] = MOVED
        r.low[:], r.high[:] = np.sort(rng.uniform(-7, 7, size=(FEATURES, 2)), axis=1).T
        r.counts[MARK] += 1
        for j in moved:
            r.touched[trees.uses.trees[trees.uses.tree_begins[j] : trees.uses.tree_begins[j + 1]]] = r.counts[MARK]
        opened = r.status[r.slot_feature[: r.slots[-1]]] == OPEN
        for more in (0, 1):
            expected = bound(trees, functional, row, more, True, -1, r)
            gain = np.where(opened, r.gain[: r.slots[-1]], 0)
            assert bound(trees, functional, row, more, True, 0, r) == expected
            assert np.array_equal(np.where(opened, r.gain[: r.slots[-1]], 0), gain)


def test_uses_are_the_features_on_which_each_tree_splits() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 7)).round(2), columns=list("abcdefg"))
    sums = frame["a"] + 0.5 * frame["b"] - frame["c"] * frame["d"] + 0.3 * rng.normal(size=120)
    model = RandomForestClassifier(9, max_depth=3, random_state=0).fit(frame, sums > 0)
    ensemble = tree_ensemble(grace.Explainer(model, frame).model)
    assert ensemble is not None
    uses = ensemble.trees.uses
    expected = {(t, int(f)) for t, tree in enumerate(model.estimators_) for f in tree.tree_.feature if f >= 0}
    by_tree = {(t, int(f)) for t in range(9) for f in uses.features[uses.begins[t] : uses.begins[t + 1]]}
    by_feature = {(int(t), f) for f in range(7) for t in uses.trees[uses.tree_begins[f] : uses.tree_begins[f + 1]]}
    assert by_tree == by_feature == expected
