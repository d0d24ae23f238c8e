"""Scorecards: what they are worth on models whose effects are known, and what they promise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from torch import nn

import grace
from grace.explain.scorecards.edits import Draw, balanced_edits
from grace.explain.scorecards.points import CALLS, FEW, NO_ROWS, POOR, Effort, Scorecards, scorecards, wilson
from grace.explain.scorecards.scorecard import Scorecard
from grace.methods.curves import decisive
from kinds import GOOD, HOLES, MIXED
from problems import Formula

RNG = np.random.default_rng(2)
FRAME = pd.DataFrame(RNG.normal(size=(400, 4)).round(2), columns=list("abcd"))
SMALL = Effort(edits=900, most=(80, 40, 120), paired=4, grid=12)


def network(*layers: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(*layers).double()


@cache
def explainer_of(kind: str) -> grace.Explainer:
    if kind == "linear":
        return grace.Explainer(grace.wrap(network(nn.Linear(4, 3)), classes=["x", "y", "z"], outputs="logits"), FRAME)
    if kind == "network":
        layers = network(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
        for layer in layers:
            if isinstance(layer, nn.Linear):
                layer.weight.data *= 2
        return grace.Explainer(grace.wrap(layers, classes=["x", "y", "z"], outputs="logits"), FRAME)
    if kind == "stumps":  # an additive model
        target = np.where(FRAME["a"] + np.abs(FRAME["b"]) - FRAME["c"] > 0.6, "yes", "no")
        return grace.Explainer(GradientBoostingClassifier(max_depth=1, n_estimators=40).fit(FRAME, target), FRAME)
    if kind == "product":  # a black box in which pairs matter
        formula = Formula(lambda x: torch.stack([0 * x[:, 0], 2 * x[:, 0] * x[:, 1] + x[:, 2] - 0.3], dim=1))
        return grace.Explainer(grace.wrap(formula, classes=["no", "yes"], outputs="logits"), FRAME)
    if kind == "parity":  # a black box of which nothing adds up
        formula = Formula(lambda x: torch.stack([0 * x[:, 0], 4 * torch.sin(9 * x.sum(dim=1))], dim=1))
        return grace.Explainer(grace.wrap(formula, classes=["no", "yes"], outputs="logits"), FRAME)
    if kind == "constant":
        formula = Formula(lambda x: torch.stack([0 * x[:, 0], -1 + 0 * x[:, 0]], dim=1))
        return grace.Explainer(grace.wrap(formula, classes=["no", "yes"], outputs="logits"), FRAME)
    if kind == "forest":
        target = np.where(FRAME["a"] * FRAME["b"] + FRAME["c"] > 0.2, "yes", "no")
        return grace.Explainer(RandomForestClassifier(20, max_depth=5, random_state=0).fit(FRAME, target), FRAME)
    frame = HOLES if kind == "gaps" else MIXED
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0, categorical_features="from_dtype")
    return grace.Explainer(model.fit(frame, GOOD), frame)


def asked(kind: str, rows: slice = slice(0, 8), **settings: object) -> tuple[np.ndarray, np.ndarray, Scorecards]:
    """Rows, their classes, and their scorecards."""
    explainer = explainer_of(kind)
    assert explainer.background_rows is not None
    x = explainer.background_rows[rows]
    order = np.argsort(-decisive(explainer.model, x), axis=1)
    how = {"effort": SMALL, **settings}
    return x, order[:, 0], scorecards(explainer, explainer.schema, x, order[:, 0], order[:, 1], **how)


def fresh(kind: str, card: Scorecard, seed: int = 77, each: int = 300) -> float:
    """The share of right forecasts on other edits."""
    explainer = explainer_of(kind)
    assert explainer.background_rows is not None
    (edits,) = balanced_edits(
        card.row[None],
        np.array([card.original]),
        [Draw.of(explainer.background_rows, 4000, seed)],
        [each],
        lambda rows: decisive(explainer.model, rows),
        lambda scores: scores.argmax(axis=-1),
    )
    found = card.forecast(edits.rows[0])
    return float(edits.mean(((found != card.original) == (edits.decided[0] != card.original))[None])[0])


KINDS = ["linear", "network", "stumps", "product", "forest", "mixed", "gaps"]


@pytest.mark.parametrize("kind", ["linear", "stumps"])
def test_an_additive_model_is_forecast_without_a_mistake(kind: str) -> None:
    _, _, cards = asked(kind)
    assert sum(card is not None for card in cards) >= 6
    for card in cards:
        if card is not None:
            assert (card.scale, card.factor, card.growth, card.pairs) == ("scores", 1.0, 0.0, ())
            assert card.figure.right == card.figure.alone == 1
            assert fresh(kind, card) == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_own_values_are_worth_nothing(kind: str) -> None:
    x, own, cards = asked(kind)
    assert any(card is not None for card in cards)
    for row, label, card in zip(x, own, cards, strict=True):
        if card is None:
            continue
        np.testing.assert_array_equal(card.total(row[None]), [0])
        np.testing.assert_array_equal(card.forecast(row[None]), [label])
        for j in range(len(row)):
            known = card.categories[j]
            assert card.points(j, row[j] if known is None else known[int(row[j])]) == 0


@pytest.mark.parametrize("kind", ["linear", "network", "stumps", "forest", "mixed", "gaps"])
def test_a_single_change_is_forecast_exactly(kind: str) -> None:
    explainer = explainer_of(kind)
    pool = explainer.background_rows
    assert pool is not None
    for card in asked(kind)[2]:
        if card is None:
            continue
        assert card.exact
        for j in range(len(card.row)):
            edits = np.repeat(card.row[None], 40, axis=0)
            edits[:, j] = pool[40:80, j]
            true = decisive(explainer.model, edits).argmax(axis=1)
            np.testing.assert_array_equal(card.forecast(edits), true)
            if len(card.start) == 2:  # from 100 points on, of two classes
                np.testing.assert_array_equal(card.total(edits) > 100, true != card.original)


@pytest.mark.parametrize("kind", ["network", "product", "forest", "gaps"])
def test_a_row_alone_has_the_scorecard_that_it_has_in_a_batch(kind: str) -> None:
    cards = asked(kind)[2]
    for i, card in enumerate(cards):
        (alone,) = asked(kind, slice(i, i + 1))[2]
        if card is None or alone is None:
            assert card is alone
            continue
        assert [(p.a, p.b) for p in alone.pairs] == [(p.a, p.b) for p in card.pairs]
        assert (alone.factor, alone.growth, alone.scale) == (card.factor, card.growth, card.scale)
        assert alone.figure == card.figure
        for a, b in zip((*alone.values, *alone.effects), (*card.values, *card.effects), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_the_pair_that_matters_is_found_and_improves_the_forecast() -> None:
    cards = [card for card in asked("product", slice(0, 24))[2] if card is not None]
    assert np.mean([any({p.a, p.b} == {0, 1} for p in card.pairs) for card in cards]) > 0.8
    better = [fresh("product", card) - fresh("product", replace(card, pairs=())) for card in cards]
    assert np.mean(better) > 0.05
    card = next(card for card in cards if any({p.a, p.b} == {0, 1} for p in card.pairs))
    a, b, _, _ = card.row
    new_a, new_b = (next(p for p in card.pairs if {p.a, p.b} == {0, 1}).values_a[k] for k in (0, -1))
    exactly = 2 * ((new_a - a) * (new_b - b))
    way = decisive(explainer_of("product").model, card.row[None])[0]
    lead = abs(way[1] - way[0])
    expected = 100 * exactly / lead * (1 if card.contrast == 1 else -1)
    assert card.together("a", new_a, "b", new_b) == pytest.approx(expected, rel=0.02)
    assert card.together("b", new_b, "a", new_a) == card.together("a", new_a, "b", new_b)
    assert card.together("c", 1.0, "d", 1.0) == 0


def test_claims_are_reached_on_fresh_edits() -> None:
    for kind in ("product", "network", "forest"):
        cards = [card for card in asked(kind, slice(0, 40))[2] if card is not None]
        claims = np.array([card.figure.claim for card in cards])
        reached = np.array([fresh(kind, card) for card in cards])
        assert len(cards) >= 20
        assert reached.mean() >= claims.mean()
        assert np.abs(reached - claims).mean() < 0.06
        high = claims >= 0.9
        if high.any():
            assert reached[high].mean() >= 0.9


def test_rows_of_which_nothing_adds_up_get_no_scorecard() -> None:
    cards = asked("parity", slice(0, 20))[2]
    assert cards.reasons.count(POOR) >= 18
    assert all((card is None) == bool(reason) for card, reason in zip(cards, cards.reasons, strict=True))


def test_rows_that_no_edit_changes_get_no_scorecard() -> None:
    cards = asked("constant")[2]
    assert set(cards.reasons) == {FEW}
    assert list(cards) == [None] * len(cards)


def test_without_training_rows_there_is_no_scorecard() -> None:
    known = explainer_of("linear")
    bare = grace.Explainer(known.model, schema=known.schema, gamma=1)
    assert known.background_rows is not None
    x = known.background_rows[:2]
    zero = np.zeros(2, dtype=np.int64)
    assert scorecards(bare, bare.schema, x, zero, zero + 1).reasons == (NO_ROWS, NO_ROWS)


def test_a_black_box_is_asked_no_more_than_allowed() -> None:
    model = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(FRAME, FRAME["a"] > FRAME["b"])
    explainer = grace.Explainer(grace.wrap(lambda frame: model.predict_proba(frame), classes=[False, True]), FRAME)
    explainer.background_classes()
    assert explainer.background_rows is not None
    x = explainer.background_rows[:4]
    own = decisive(explainer.model, x).argmax(axis=1)
    most = SMALL.calls(explainer.schema.features)
    before = explainer.model.rows_queried
    found = scorecards(explainer, explainer.schema, x, own, 1 - own, effort=SMALL, max_calls=2 * most + 5)
    assert found.reasons[2:] == (CALLS, CALLS)
    assert CALLS not in found.reasons[:2]
    assert 0 < explainer.model.rows_queried - before <= 2 * most
    assert not any(card.exact for card in found if card is not None)


def test_a_regression_forecasts_the_side_of_its_range() -> None:
    formula = Formula(lambda x: (3 * x[:, 0] - x[:, 1] + 5)[:, None])
    explainer = grace.Explainer(grace.wrap(formula, task="regression"), FRAME)
    assert explainer.background_rows is not None
    x = explainer.background_rows[:10]
    number = decisive(explainer.model, x)[:, 0]
    low = np.full(10, 7.0)
    own = (number >= low).astype(np.int64)
    found = scorecards(explainer, explainer.schema, x, own, 1 - own, target=(low, np.full(10, np.inf)), effort=SMALL)
    assert sum(card is not None for card in found) >= 8
    for card, predicted in zip(found, number, strict=True):
        if card is None:
            continue
        assert card.scale == "number"
        assert card.figure.right > 0.97
        assert card.points("a", float(card.row[0]) + (7 - predicted) / 3) == pytest.approx(100, abs=3)
        assert Scorecard.from_dict(card.to_dict()).target == card.target


def test_wilson_is_below_the_share_and_nears_it() -> None:
    assert wilson(0.9, 100) == pytest.approx((0.905 - np.sqrt(0.0009 + 0.000025)) / 1.01)
    assert wilson(0.9, 100) < wilson(0.9, 10_000) < 0.9
    assert wilson(1.0, 50) < 1


@pytest.mark.parametrize("kind", ["network", "forest", "mixed", "gaps"])
def test_a_thinned_scorecard_says_nearly_the_same(kind: str) -> None:
    explainer = explainer_of(kind)
    pool = explainer.background_rows
    assert pool is not None
    edits = Draw.of(pool, 200, 5)
    fewer = 0
    for card in asked(kind)[2]:
        if card is None:
            continue
        thin = card.thinned(1.0)
        fewer += sum(map(len, card.values)) - sum(map(len, thin.values))
        rows = edits.applied(card.row[None])[0]
        for j in range(len(card.row)):
            alone = np.repeat(card.row[None], len(rows), axis=0)
            alone[:, j] = rows[:, j]
            assert np.abs(thin.total(alone) - card.total(alone)).max() <= 2.0
        assert thin.total(card.row[None])[0] == 0
        assert not thin.exact
    assert fewer > 0
