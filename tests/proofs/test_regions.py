"""Regions: boxes around answers in which the decision is the same, against random points, enumeration and the model."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier
from torch import nn

import grace
from grace.explain.region import decision_goal
from grace.problem.problem import Problem
from grace.proofs.boxes import FAILS, HOLDS, checker_of
from grace.proofs.regions import Growth, Regions, regions_of
from subsets import first
from tree_cases import KINDS, case

TASKS = ("flip", "against", "confidence", "threshold", "number")


def network(seed: int, inputs: int, classes: int, whole: bool) -> nn.Sequential:
    """Random layers with twins, negated twins and dead units, of whole-number weights if asked for."""
    generator = torch.Generator().manual_seed(seed)
    parts: list[nn.Module] = []
    for a, b in pairwise([inputs, *(8, 6)[: 1 + seed % 2], classes]):
        layer = nn.Linear(a, b).double()
        with torch.no_grad():
            layer.weight.normal_(0, 1, generator=generator)
            layer.bias.normal_(0, 1, generator=generator)
            if whole:
                layer.weight.mul_(2).round_()
                layer.bias.mul_(2).round_()
            if b > 4:
                layer.weight[1], layer.bias[1] = layer.weight[0], layer.bias[0]
                layer.weight[2], layer.bias[2] = -layer.weight[0], -layer.bias[0]
                layer.weight[3], layer.bias[3] = 0 * layer.weight[0], -1.0
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def network_case(seed: int, *, whole: bool = False) -> tuple[grace.Explainer, pd.DataFrame]:
    """A network on numbers, some whole and two the same, with cut-offs for some seeds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(0, 2, (80, 4)).round(2), columns=list("abcd"))
    frame["b"] = rng.integers(-3, 4, 80)
    frame["d"] = frame["a"]
    if whole:
        frame = frame.round().astype(int)
    classes = 2 + seed % 3
    cut: Any = None if seed % 4 else 0.3 if classes == 2 else {c: 0.2 + 0.1 * c for c in range(classes)}
    layers = network(seed, 4, classes, whole)
    with torch.no_grad():  # no class is much more frequent than others
        shift = layers(torch.tensor(frame.to_numpy(dtype=float))).median(dim=0).values
        layers[-1].bias -= shift.round() if whole else shift
    model = grace.wrap(layers, classes=list(range(classes)), outputs="logits", threshold=cut)
    return grace.Explainer(model, frame, gamma=1.0, domain="minmax"), frame


def question(batch: grace.Explanations) -> tuple[Problem, torch.Tensor]:
    """The problem whose goal is the decision at each answer, and the answers."""
    explainer, a = batch.explainer, batch.answers
    goal = decision_goal(explainer, a, slice(None), batch.target_ranges)
    problem = explainer._problem(explainer.tensor(a.rows), goal, batch.schema, replace(explainer.settings, gamma=1.0))
    return problem, explainer.tensor(a.contrast)


def points_in(problem: Problem, found: Regions, i: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of a box, corners among them."""
    low, high = found.low[i], found.high[i]
    share = rng.random((count, len(low)))
    share[::3] = share[::3].round()
    points = np.where(share == 1, high, low + share * (high - low))
    points = np.where(problem.space.is_integer.numpy() & (low < high), points.round(), points)
    for j, known in found.categories.items():
        points[:, j] = rng.choice(np.flatnonzero(known[i]), count)
    return points


def check_points(batch: grace.Explanations, found: Regions, problem: Problem, count: int) -> int:
    """That the model decides the same at random points of every box; how many there were."""
    rng, tried = np.random.default_rng(0), 0
    for i in np.flatnonzero(found.known):
        points = points_in(problem, found, i, count, rng)
        assert ((points != batch.answers.rows[i]) <= batch.answers.changed[i]).all(), "all else stays as it is"
        frame = batch.schema.decode(points, narrow=batch.explainer.model.black_box)
        said = np.asarray(batch.explainer.model.predict(frame))
        if batch.target_ranges is None:
            assert (said == batch.contrast_class[i]).all()
        else:
            ends = batch.target_ranges[i]
            assert (said >= (-np.inf if ends["low"] is None else ends["low"])).all()
            assert (said <= (np.inf if ends["high"] is None else ends["high"])).all()
        tried += count
    return tried


def check_maximal(problem: Problem, contrast: torch.Tensor, found: Regions) -> int:
    """That no side of a complete box could go one step further: there is a point there at which the model decides
    otherwise, or not by the margin that an answer has. How many sides were tried."""
    known = np.flatnonzero(found.known & found.complete)
    if len(known) == 0 or not found.proven:
        return 0
    part = problem.select(torch.from_numpy(known))
    growth = Growth(part, contrast[known], 5.0)
    sides = growth.sides
    row, column = sides.row, sides.column
    end = np.where(sides.up, found.high[known[row], column], found.low[known[row], column])
    steps = np.array([0.0 if end[s] == sides.value[s] else np.inf for s in range(len(end))])
    for s in np.flatnonzero(np.isinf(steps)):
        at_end = end[s] == sides.end[s]
        steps[s] = sides.steps[s] if at_end else sides.steps_before(np.array([s]), end[[s]])[0] + 1
    some = np.flatnonzero(steps < sides.steps)
    value = sides.value_at(some, steps[some] + 1)
    low, high = found.low[known[row[some]]], found.high[known[row[some]]]
    place = np.arange(len(some))
    up = sides.up[some]
    low[place[~up], column[some][~up]], high[place[up], column[some][up]] = value[~up], value[up]
    checked = growth.checker.check(row[some], low, high, np.full(len(some), 5.0))
    assert (checked.status != HOLDS).all()
    fails = np.flatnonzero(checked.status == FAILS)
    owners = part.select(torch.from_numpy(row[some][fails]))
    point = torch.from_numpy(checked.point[fails])
    assert ((point.numpy() >= low[fails]) & (point.numpy() <= high[fails])).all()
    margin = owners.goal.margin(owners.scores(point))
    assert (margin < problem.model.tolerance + 1e-9).all()
    return len(fails)


@pytest.mark.parametrize("seed", first(6, range(40)))
def test_boxes_of_networks_hold_and_go_no_further(seed: int) -> None:
    explainer, frame = network_case(seed)
    batch = explainer.explain(frame.head(25), max_features=3)
    problem, contrast = question(batch)
    found = regions_of(problem, contrast)
    assert found.proven
    assert (found.known == batch.success).all()
    assert (found.low <= batch.answers.contrast).all()
    assert (found.high >= batch.answers.contrast).all()
    assert check_points(batch, found, problem, 1000) >= 5000
    assert found.complete.sum() > len(batch) / 2
    assert check_maximal(problem, contrast, found) > 10


@pytest.mark.parametrize("seed", first(4, range(20)))
def test_boxes_of_whole_numbers_are_those_of_enumeration(seed: int) -> None:
    """All rows of a small grid are looked at: each box is free of others, and each of its sides meets one a step on."""
    explainer, frame = network_case(seed, whole=True)
    batch = explainer.explain(frame.head(15), max_features=2)
    problem, contrast = question(batch)
    found = regions_of(problem, contrast)
    for i in np.flatnonzero(found.known & found.complete):
        columns = np.flatnonzero(batch.answers.changed[i])
        limits = [(int(problem.low[i, j]), int(problem.high[i, j])) for j in columns]
        cells = np.array(list(product(*(range(a, b + 1) for a, b in limits))), dtype=float)
        rows = np.repeat(batch.answers.rows[[i]], len(cells), axis=0)
        rows[:, columns] = cells
        each = problem.select(torch.full((len(rows),), int(i)))
        holds = (each.margin(torch.from_numpy(rows)) >= problem.model.tolerance).numpy()
        low, high = found.low[i, columns], found.high[i, columns]
        inside = (cells >= low) & (cells <= high)
        assert holds[inside.all(axis=1)].all()
        for place, (bottom, top) in enumerate(limits):
            others = np.delete(inside, place, axis=1).all(axis=1)
            for edge, end in ((low[place] - 1, bottom), (high[place] + 1, top)):
                beyond = others & (cells[:, place] == edge)
                assert not beyond.any() or not holds[beyond].all(), (i, place, edge, end)


@pytest.mark.parametrize(("kind", "task"), first(8, list(product(KINDS, TASKS))))
def test_boxes_of_trees_hold_and_go_no_further(kind: str, task: str) -> None:
    tried = grown = 0
    for seed in range(8):
        asked = case(np.random.default_rng(seed), kind, task)
        batch = asked.explainer.explain(asked.rows, **asked.call)
        problem, contrast = question(batch)
        found = regions_of(problem, contrast)
        assert found.proven
        tried += check_points(batch, found, problem, 400)
        grown += check_maximal(problem, contrast, found)
    assert tried > 1000
    assert grown > 0


def test_a_row_has_the_same_box_alone_as_in_a_batch() -> None:
    explainer, frame = network_case(3)
    batch = explainer.explain(frame.head(20), max_features=3)
    problem, contrast = question(batch)
    found = regions_of(problem, contrast)
    for i in range(20):
        alone = regions_of(problem.select(torch.tensor([i])), contrast[[i]])
        assert (alone.low[0] == found.low[i]).all()
        assert (alone.high[0] == found.high[i]).all()
        assert alone.complete[0] == found.complete[i]


@pytest.mark.parametrize("seed", range(2))
def test_categories_of_networks_are_added_where_all_combinations_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"n": rng.normal(size=300).round(2)})
    frame["c"] = pd.Categorical(rng.choice(list("uvwxyz"), 300))
    frame["k"] = pd.Categorical(rng.choice(list("pqrs"), 300))
    sums = frame["n"] + 2 * np.isin(frame["c"], list("uvw")) + 2 * np.isin(frame["k"], ["p", "q"])
    frame["y"] = np.where(sums > 2.5, "yes", "no")
    model = grace.training.fit(frame, target="y", hidden=(8,), max_epochs=40, seed=seed)
    explainer = grace.Explainer(model, frame, target="y", gamma=1.0)
    batch = explainer.explain(frame.drop(columns="y").head(80), frozen=["n"])
    problem, contrast = question(batch)
    found = regions_of(problem, contrast)
    tried = check_points(batch, found, problem, 40)
    assert tried > 500
    wide = 0
    for i in np.flatnonzero(found.known & found.complete):
        sets = {j: np.flatnonzero(found.categories[j][i]) for j in (1, 2)}
        for j in (1, 2):
            own, new = int(batch.answers.rows[i, j]), int(batch.answers.contrast[i, j])
            assert own not in sets[j] or own == new
            assert new in sets[j]
            if own == new:
                continue
            wide += len(sets[j]) > 1
            for code in problem.space.choices[j].tolist():
                rows = np.repeat(batch.answers.contrast[[i]], len(sets[3 - j]), axis=0)
                rows[:, j], rows[:, 3 - j] = code, sets[3 - j]
                each = problem.select(torch.full((len(rows),), int(i)))
                holds = bool(each.reached(torch.from_numpy(rows)).all())
                assert (code in sets[j]) == holds or code == own
    assert wide > 5


def test_boxes_of_predicted_numbers() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 4)).round(2), columns=list("abcd"))
    frame["y"] = 3 * frame["a"] - 2 * frame["b"] * frame["c"] + frame["d"]
    model = grace.training.fit(frame, target="y", task="regression", hidden=(12,), max_epochs=40)
    explainer = grace.Explainer(model, frame, target="y", gamma=1.0)
    for against in (grace.above(4.0), grace.within(-1.0, 1.0), grace.by(-2.0)):
        batch = explainer.explain(frame.drop(columns="y").head(30), against=against)
        problem, contrast = question(batch)
        found = regions_of(problem, contrast)
        assert check_points(batch, found, problem, 500) > 5000
        assert check_maximal(problem, contrast, found) > 5


def test_a_black_box_is_asked_at_points_and_nothing_is_proven() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)).round(2), columns=list("abc"))

    def shares(rows: pd.DataFrame) -> np.ndarray:
        second = 1 / (1 + np.exp(-(rows["a"] + np.sin(3 * rows["b"]) - rows["c"])))
        return np.stack([1 - second, second], axis=1)

    model = grace.wrap(shares, classes=["no", "yes"])
    batch = grace.Explainer(model, frame).explain(frame.head(12))
    wide = 0
    for e in batch:
        region = e.region
        assert region is not None
        assert not region.proven
        assert 1 <= region.points <= 64
        assert e.contrast in region
        wide += region.has_room
        for name, ends in region.intervals.items():
            for end in ends:
                assert model.predict([{**e.contrast, name: end}])[0] == e.contrast_class
    assert wide > 6


def test_little_work_makes_smaller_boxes_and_says_so() -> None:
    explainer, frame = network_case(5)
    batch = explainer.explain(frame.head(25), max_features=3)
    problem, contrast = question(batch)
    whole, none = regions_of(problem, contrast), regions_of(problem, contrast, seconds=0.0)
    assert (none.low == batch.answers.contrast).all()
    moved = (whole.low < whole.high).any(axis=1)
    assert moved.any()
    assert not none.complete[moved].any()
    little = regions_of(problem, contrast, seconds=1e-6)
    assert (little.complete <= whole.complete).all()
    assert not little.complete.all()
    assert check_points(batch, little, problem, 300) > 1000


def test_a_box_needs_an_answer_within_its_limits() -> None:
    explainer, frame = network_case(1)
    batch = explainer.explain(frame.head(10), frozen=list("abcd"))
    problem, contrast = question(batch)
    assert not regions_of(problem, contrast).known.any()
    far = explainer.explain(frame.head(10), method="deepfool")
    problem, contrast = question(far)
    found = regions_of(problem, contrast)
    assert (~found.known | problem.inside(contrast).all(dim=1).numpy()).all()


def test_a_box_is_checked_only_by_what_can_prove_it() -> None:
    explainer, frame = network_case(2)
    batch = explainer.explain(frame.head(5))
    problem, contrast = question(batch)
    assert checker_of(problem, contrast, contrast, contrast).proves
    torch.manual_seed(0)
    smooth = grace.wrap(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double(), classes=[0, 1])
    batch = grace.Explainer(smooth, frame).explain(frame.head(5))
    problem, contrast = question(batch)
    assert not checker_of(problem, contrast, contrast, contrast).proves


def test_boxes_in_which_few_features_move_after_other_rows_and_searches() -> None:
    """Most trees are stumps of other features: what was remembered of an earlier row or box must not count."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 6)).round(2), columns=list("abcdef"))
    label = (frame.a + frame.b - frame.c * frame.d + 0.5 * frame.e > 0).astype(int)
    for depth in (1, 2):
        model = GradientBoostingClassifier(n_estimators=40, max_depth=depth, random_state=0).fit(frame, label)
        explainer = grace.Explainer(model, frame)
        for rows in (frame.iloc[[i]] for i in range(12)):
            batch = explainer.explain(rows)
            problem, contrast = question(batch)
            check_points(batch, regions_of(problem, contrast), problem, 50)
        batch = explainer.explain(frame.head(40))
        problem, contrast = question(batch)
        found = regions_of(problem, contrast)
        assert found.proven
        check_points(batch, found, problem, 100)
        again = explainer.explain(frame.head(40))
        assert np.array_equal(again.answers.contrast, batch.answers.contrast)
