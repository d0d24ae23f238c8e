"""The second opinion itself: networks worked out by hand, and every row of small grids."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import torch
from torch import nn

import grace
from grace import Categorical, Numeric
from grace.models import Network
from milp_checker import Question, Verdict, decide
from milp_network import Number, Table, Weights, weights_of
from milp_question import Aim, Cell, cells_of, distance, log_odds
from subsets import first

HAT = Weights(  # class 1 leads by 0.4 - |x - 3| - 0.2 between 2.6 and 3.4, and by -0.2 elsewhere; y does nothing
    (Number(np.array([1.0, 1, 1])), Number(np.zeros(3))),
    np.array([-2.6, -3.0, -3.4]),
    ((np.array([[0.0, 0, 0], [1, -2, 1]]), np.array([0.2, 0.0])),),
)
LINEAR = Weights((Number(np.array([0.0, 1.0])), Number(np.array([0.0, 2.0]))), np.array([0.0, -4.0]), ())
THREE = Weights(tuple(Number(np.eye(3)[j]) for j in range(3)), np.zeros(3), ())


def ask(weights: Weights, cells: list[Cell], aim: Aim, most: int, **limits: object) -> Verdict:
    return decide(weights, Question(cells, aim, most, **limits))


@pytest.mark.parametrize(
    ("cell", "answer"),
    [
        (Cell(2.5, 0, 9), "yes"),
        (Cell(2.5, 0, 9, whole=True), "yes"),  # to 3, which is less than one away
        (Cell(2.0, 0, 9, whole=True), "yes"),
        (Cell(2.5, 3.25, 9), "no"),
        (Cell(2.5, 4, 9, whole=True), "no"),
        (Cell(2.5, -5, 2.7), "no"),
        (Cell(2.5, 0, 9, free=False), "no"),
        (Cell(5.0, 0, 2.9), "yes"),  # from outside the range
        (Cell(5.0, 0, 2.75), "no"),
    ],
)
def test_a_hat(cell: Cell, answer: str) -> None:
    found = ask(HAT, [cell, Cell(0.0, -1, 1)], Aim.of(2, 0), 2)
    assert found.answer == answer
    if answer == "yes":
        assert 2.8 < found.row[0] < 3.2
        assert cell.allows(found.row[0])


def test_changes_are_counted_and_pairs_excluded() -> None:
    cells = [Cell(0.0, 0, 3), Cell(0.0, 0, 1.75)]  # 3 or 3.5 of the 4 needed
    assert ask(LINEAR, cells, Aim.of(2, 0), 1).answer == "no"
    assert ask(LINEAR, cells, Aim.of(2, 0), 2).answer == "yes"
    assert ask(LINEAR, cells, Aim.of(2, 0), 2, conflict=[(0, 1)]).answer == "no"


@pytest.mark.parametrize(("norm", "least"), [("l1", 2.0), ("l2", 4 / np.sqrt(5)), ("linf", 4 / 3)])
def test_the_nearest_point_of_a_half_plane(norm: str, least: float) -> None:
    """x + 2 y = 4 is nearest to the origin at (0, 2), (4/5, 8/5) and (4/3, 4/3)."""
    cells = [Cell(0.0, -9, 9), Cell(0.0, -9, 9)]
    assert ask(LINEAR, cells, Aim.of(2, 0), 2, within=(norm, 0.9999 * least)).answer == "no"
    found = ask(LINEAR, cells, Aim.of(2, 0), 2, within=(norm, 1.0001 * least))
    assert found.answer == "yes"
    assert distance(cells, found.row, norm) <= 1.0001 * least


def test_the_row_s_own_class_with_a_confidence() -> None:
    """Of two classes, 90 % is a lead of log 9 = 2.197."""
    cells, own = [Cell(5.0, 0, 6.19), Cell(0.0, 0, 0)], Aim.of(2, 1, against=1, confidence=0.9)
    assert ask(LINEAR, cells, own, 2).answer == "no"
    assert ask(LINEAR, [Cell(5.0, 0, 6.2), cells[1]], own, 2).answer == "yes"
    assert ask(LINEAR, cells, Aim.of(2, 1, against=1), 2).answer == "yes"  # as it is


def test_confidence_among_three_classes_is_exact() -> None:
    """With the others at 0, a score of log(2 p / (1 - p)) is a probability of p."""
    enough = np.log(2 * 0.8 / 0.2)
    aim = Aim.of(3, 1, confidence=0.8)

    def cells(high: float) -> list[Cell]:
        return [Cell(0.0, 0, high), Cell(0.5, 0, 0.5), Cell(0.0, 0, 0)]

    assert ask(THREE, cells(enough - 1e-3), aim, 2).answer == "no"
    found = ask(THREE, cells(enough + 1e-3), aim, 2)
    assert found.answer == "yes"
    assert log_odds(found.row[None], 0)[0] >= np.log(4)


def test_a_margin_within_the_band_is_unclear() -> None:
    assert ask(LINEAR, [Cell(0.0, 0, 4.0), Cell(0.0, 0, 0)], Aim.of(2, 0), 1).answer == "unclear"


def network(seed: int, classes: int = 3) -> tuple[nn.Module, list[Numeric | Categorical]]:
    """grace's own network on whole numbers and categories."""
    features = [
        Numeric(name="a", observed=(0.0, 3.0), integer=True, spread=1.2, typical=1.0),
        Categorical(name="b", categories=("u", "v", "w"), typical="u"),
        Numeric(name="c", observed=(-2.0, 1.0), integer=True, spread=0.7, typical=0.0),
        Categorical(name="d", categories=("lo", "mid", "hi"), ordered=True, spread=0.8, typical="mid"),
    ]
    generator = torch.Generator().manual_seed(seed)
    module = Network(grace.Schema(features=tuple(features)), (7, 5), classes)
    with torch.no_grad():
        module.initialise(torch.tensor([1.5, -0.5]), torch.tensor([1.2, 0.7]), generator)
        for layer in module.layers:
            layer.weight.mul_(1.4)
            layer.bias.normal_(0, 0.5, generator=generator)
        module.layers[-1].bias[0] += 2.0
    return module.double().eval(), features


def test_weights_are_those_of_the_modules() -> None:
    rng = np.random.default_rng(0)
    for seed in range(4):
        module, features = network(seed)
        rows = np.column_stack([rng.normal(0, 9, 20) if j in (0, 2) else rng.integers(0, 3, 20) for j in range(4)])
        scores = module(torch.as_tensor(rows)).detach().numpy()
        weights = weights_of(module, features, 3)
        assert any(isinstance(part, Table) for part in weights.inputs)
        np.testing.assert_allclose([weights.scores(r) for r in rows], scores, atol=1e-12)
        plain = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.ReLU(), nn.Linear(6, 1, bias=False)).double().eval()
        logit = plain(torch.as_tensor(rows)).detach().numpy()
        found = [weights_of(plain, features, 2).scores(r) for r in rows]
        np.testing.assert_allclose(found, np.hstack([0 * logit, logit]), atol=1e-12)


def test_modules_that_are_no_plain_networks_are_refused() -> None:
    class Own(nn.Sequential):
        pass

    for module in (Own(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), nn.Tanh()), nn.Linear(2, 2)):
        with pytest.raises(TypeError):
            weights_of(module, [], 2)


@pytest.mark.parametrize("seed", first(6, range(12)))
def test_every_row_of_a_grid(seed: int) -> None:
    """Fewest changes, and the nearest answer in each norm, as trying out all rows finds them."""
    rng = np.random.default_rng(seed)
    module, features = network(seed)
    weights = weights_of(module, features, 3)
    row = np.array([rng.integers(0, 5) + rng.choice([0, 0.5]), rng.integers(0, 3), rng.integers(-3, 2), 1.0])
    limits = [{}, {"frozen": ["b"]}, {"increase_only": ["a", "d"]}, {"ranges": {"c": (-1.5, 7), "b": ["v"]}}][seed % 4]
    cells = cells_of(features, row, limits)
    steps = [np.arange(-4.0, 9), np.arange(3.0), np.arange(-4.0, 9), np.arange(3.0)]
    values = [[c.value, *(v for v in s if v != c.value and c.allows(v))] for c, s in zip(cells, steps, strict=True)]
    tried = np.array(list(product(*values)))

    def scores(rows: np.ndarray) -> np.ndarray:
        return module(torch.as_tensor(rows)).detach().numpy()

    original = int(scores(row[None]).argmax())
    conflict = [(0, 2)] if seed % 3 == 0 else []
    changed = tried != row
    lawful = ~np.array([any(r[i] and r[j] for i, j in conflict) for r in changed])
    cases = product((None, 0, original), (0.0, 0.4, 0.9))
    for aim in [Aim.of(3, original, against, confidence) for against, confidence in cases]:
        margin = aim.margin(scores(tried))
        for most, only in ((1, None), (2, None), (4, None), *((4, s) for s in combinations(range(4), 2))):
            these = lawful & (changed.sum(axis=1) <= most)
            part = cells
            if only is not None:
                these &= ~changed[:, [j for j in range(4) if j not in only]].any(axis=1)
                part = [c if j in only else Cell(c.value, codes=(), free=False) for j, c in enumerate(cells)]
            for norm, far in ((None, np.inf), *((n, f) for n in ("l1", "l2", "linf") for f in (1.1, 2.3) if only)):
                near = these if norm is None else these & [distance(cells, r, norm) <= far for r in tried]
                best = margin[near].max()
                within = None if norm is None else (norm, far)
                found = decide(weights, Question(part, aim, most, conflict, within), scores)
                assert found.answer in {"unclear", "yes" if best > 0 else "no"}, (aim, most, only, within, best)
                assert found.answer != "unclear" or abs(best) < 2e-3, (aim, most, only, within, best)
        if seed:  # all questions about one row, few of the others
            break
