"""The compiled search: single changes against all values of a grid, threads, goals, and where nothing is compiled."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import grace
from grace import datasets, training
from grace.methods import compiled, polish
from grace.methods.compiled import readiness
from grace.models.compiled import Layers
from grace.models.relu import relu_network
from subsets import first

NAMES = ["a", "b", "c"]


def network(seed: int, whole: bool, classes: int) -> nn.Sequential:
    """A random network; of whole weights, many units switch at the same place."""
    generator = torch.Generator().manual_seed(seed)
    widths = [3, 6, 4, classes]
    layers: list[nn.Module] = []
    for inputs, units in itertools.pairwise(widths):
        layer = nn.Linear(inputs, units)
        weight = torch.randn(units, inputs, generator=generator) * 1.5
        layer.weight.data = weight.round() if whole else weight
        layer.bias.data = layer.weight.data.mean(dim=1).round() if whole else torch.randn(units, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


def frame(rng: np.random.Generator, n: int) -> pd.DataFrame:
    values = np.round(rng.uniform(-3, 3, (n, 3)), 1)
    values[:2] = [[-3.0] * 3, [3.0] * 3]
    table = pd.DataFrame(values, columns=NAMES)
    table["b"] = table.b.round().astype(int)
    return table


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.booleans(), st.integers(2, 4), st.sampled_from([3, 1]))
def test_the_nearest_single_change(seed: int, whole: bool, classes: int, end: int) -> None:
    """Also of rows outside the ranges, which all end at the same number."""
    rng = np.random.default_rng(seed)
    train = frame(rng, 60)
    model = grace.wrap(network(seed, whole, classes), classes=list("wxyz"[:classes]), outputs="logits")
    explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0, max_features=1, among="nearest")
    rows = train.iloc[2:8].reset_index(drop=True)
    batch = explainer.explain(rows, ranges=dict.fromkeys(NAMES, (-end, end)))
    spread = {f.name: f.spread for f in explainer.schema.features}
    own = model.predict(rows)
    for i in range(len(rows)):
        best, exists = np.inf, False
        for name in NAMES:
            step = 1.0 if name == "b" else 0.01
            values = np.round(np.arange(-end, end + step / 2, step), 2)
            tried = pd.concat([rows.iloc[[i]]] * len(values), ignore_index=True)
            tried[name] = values.astype(rows[name].dtype)
            scores = np.sort(np.log(model.predict_proba(tried).to_numpy()), axis=1)
            flips = (model.predict(tried) != own[i]) & (scores[:, -1] - scores[:, -2] > 2e-6)
            exists |= bool(flips.any())
            coarse = flips & (np.abs(values * 10 - np.round(values * 10)) < 1e-9)
            if coarse.any():
                best = min(best, np.abs(values[coarse] - rows[name].iloc[i]).min() / spread[name])
        if exists:
            assert batch.success[i]
        if np.isfinite(best):
            assert batch.answers.distance[i] <= best + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.booleans(), st.integers(2, 4))
def test_no_value_can_move_a_step_nearer(seed: int, whole: bool, classes: int) -> None:
    train = frame(np.random.default_rng(seed), 60)
    model = grace.wrap(network(seed, whole, classes), classes=list("wxyz"[:classes]), outputs="logits")
    explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0, among="nearest")
    rows = train.iloc[2:10].reset_index(drop=True)
    batch = explainer.explain(rows)
    own, steps = model.predict(rows), {"a": 0.1, "b": 1, "c": 0.1}
    for i, name in zip(*np.nonzero(batch.answers.changed), strict=True):
        name, old, new = NAMES[name], rows[NAMES[name]].iloc[i], batch.contrast[NAMES[name]].iloc[i]
        nearer = round(new - np.sign(new - old) * steps[name], 1)
        if abs(new - old) <= steps[name] or round(new, 1) != new:
            continue
        tried = batch.contrast.iloc[[i]].assign(**{name: nearer})
        scores = np.sort(np.log(model.predict_proba(tried).to_numpy()), axis=1)[0]
        assert model.predict(tried)[0] == own[i] or scores[-1] - scores[-2] < 1e-6


@pytest.fixture(scope="module")
def segment() -> tuple[grace.Explainer, pd.DataFrame]:
    table = datasets.load("segment")
    model = training.fit(table, max_epochs=20)
    parts = table.split(0)
    return grace.Explainer(model, parts.train, max_features=3), model.impute(parts.test).head(60)


def test_threads_do_not_matter(segment: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = segment
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            found.append(explainer.explain(rows).answers.contrast)
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


CALLS = [
    {},
    {"confidence": 0.8},
    {"against": "sky"},
    {"against": "grass", "confidence": 0.9},
    {"prefer": "nearest"},
    {"distance": "l2"},
    {"gamma": 0.2},
    {"increase_only": ["hue_mean"], "frozen": ["region_centroid_row"]},
]


@pytest.mark.parametrize("call", first(6, CALLS), ids=str)
def test_as_good_as_the_search_in_tensor_operations(
    segment: tuple[grace.Explainer, pd.DataFrame], call: dict[str, object]
) -> None:
    explainer, rows = segment
    mine = explainer.explain(rows, among="nearest", **call)
    with (
        mock.patch("grace.methods.search.is_compiled", return_value=False),
        mock.patch.object(polish, "is_compiled", return_value=False),
    ):
        plain = explainer.explain(rows, among="nearest", **call)
    assert mine.success.sum() >= plain.success.sum()
    both = mine.success & plain.success
    few, many = (b.changed.sum(axis=1).to_numpy()[both] for b in (mine, plain))
    near, far = (b.answers.distance[both] for b in (mine, plain))
    if call.get("prefer") == "nearest":
        assert near.mean() <= far.mean() * (1 + 1e-9)
    else:
        assert few.mean() <= many.mean()
        same = few == many
        assert near[same].mean() <= far[same].mean() * 1.02  # beyond one change both are heuristics
        single = same & (few == 1)
        assert (near[single] <= far[single] * (1 + 1e-9)).all()


def test_compiling_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    compiled.ready.cache_clear()
    with (
        mock.patch.object(readiness, "PATIENCE", 0.0),
        mock.patch.object(readiness, "MachineCode", side_effect=_slowly),
        pytest.raises(RuntimeError, match="enough"),
    ):
        compiled.ready("search")
    assert "compiling the search" in caplog.text
    compiled.ready("search")


def _slowly(*_: object, **__: object) -> None:
    import time

    time.sleep(0.3)
    raise RuntimeError("enough")


@pytest.mark.parametrize("goal", [{}, {"against": "w"}, {"confidence": 0.7}])
def test_lines_in_sections_give_the_same_answers(monkeypatch: pytest.MonkeyPatch, goal: dict[str, object]) -> None:
    """Spans of values that reach the goal are joined across sections."""
    rng, found = np.random.default_rng(5), []
    train = frame(rng, 60)
    for room in (0, 2, 3, 7):
        if room:
            monkeypatch.setattr(compiled.workspaces, "section_of", lambda net, room=room: room)
        answers = []
        for seed, whole in itertools.product(range(4), (False, True)):
            model = grace.wrap(network(seed, whole, 3), classes=list("wxy"), outputs="logits")
            explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0)
            answers.append(explainer.explain(train, **goal).contrast)
        found.append(pd.concat(answers))
    assert not found[0].equals(pd.concat([train] * 8))
    for others in found[1:]:
        pd.testing.assert_frame_equal(found[0], others)


def sawtooth(depth: int) -> nn.Sequential:
    """f(x) + x - 1.9, f with 2^depth straight pieces for x between 0 and 1: it maps [0, 0.5] to [0, 1] and [0.5, 1] to
    [1, 0], again and again. Each layer has x, f so far, and how far that is above 0.5."""
    layers: list[nn.Module] = []
    for place in range(depth + 1):
        layer = nn.Linear(3 if place else 2, 3 if place < depth else 1).double()
        tent = [1.0, 0.0] if place == 0 else [0.0, 2.0, -4.0]
        carry = [1.0, 0.0] if place == 0 else [1.0, 0.0, 0.0]
        if place < depth:
            layer.weight.data = torch.tensor([carry, tent, tent], dtype=torch.float64)
            layer.bias.data = torch.tensor([0.0, 0.0, -0.5], dtype=torch.float64)
        else:
            layer.weight.data = torch.tensor([[1.0, *tent[1:]]], dtype=torch.float64)
            layer.bias.data = torch.tensor([-1.9], dtype=torch.float64)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_no_line_is_skipped_however_many_breakpoints_it_has() -> None:
    model = grace.wrap(sawtooth(14), classes=["low", "high"], outputs="logits")
    table = pd.DataFrame({"x": np.linspace(0, 1, 101), "y": np.linspace(1, 0, 101)})
    explainer = grace.Explainer(model, table, domain="minmax", gamma=1.0, max_features=1)
    tips = np.arange(1, 2**14, 2) / 2**14
    nearest = float(tips[tips > 0.9][0])
    assert compiled.workspaces.section_of(relu_layers(model)) < 2**14 * nearest
    e = explainer.explain(table.head(1), among="nearest")[0]
    assert e.success
    assert [c.name for c in e.changes] == ["x"]
    assert abs(e.changes[0].new - nearest) < 1e-8


def relu_layers(model: grace.models.TorchModel) -> Layers:
    network = relu_network(model)
    assert network is not None
    return network.compiled
