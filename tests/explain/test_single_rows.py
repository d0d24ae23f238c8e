"""A row explained alone takes shorter ways, which lead to the same encoding, limits, checks and answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import grace
from grace.models.relu import relu_network
from grace.problem.space import Space
from grace.schema.columns import encode_column

RNG = np.random.default_rng(5)
N = 200
TRAIN = pd.DataFrame(
    {
        "size": RNG.normal(0, 2, N).round(2),
        "count": RNG.integers(0, 9, N),
        "kind": RNG.choice(["bolt", "nut", "pin"], N, p=[0.6, 0.395, 0.005]),
        "grade": pd.Categorical(RNG.choice(["C", "B", "A"], N), ["C", "B", "A"], ordered=True),
        "flag": RNG.random(N) < 0.5,
        "code": RNG.choice([1, 2, 30], N),
    }
)
TRAIN.loc[0, "kind"] = "pin"
SUM = TRAIN["size"] + TRAIN["count"] + 2 * TRAIN["flag"] - TRAIN["grade"].cat.codes + (TRAIN["kind"] == "nut")


@cache
def explainer() -> grace.Explainer:
    torch.manual_seed(0)
    target = np.where(SUM > 4, "yes", "no")
    features = [grace.Categorical(name="code") if f.name == "code" else f for f in grace.Schema.infer(TRAIN).features]
    schema = grace.Schema.infer(TRAIN, like=grace.Schema(features=tuple(features)))
    network = grace.training.fit(TRAIN.assign(y=target), "y", schema=schema, batch_size=32, max_epochs=25)
    return grace.Explainer(network, TRAIN)


def by_columns(frame: pd.DataFrame) -> np.ndarray:
    """Rows encoded column by column."""
    return np.stack([encode_column(frame[f.name], f) for f in explainer().schema.features], axis=1)


@pytest.mark.parametrize(
    "turned",
    [
        lambda row: row,
        lambda row: row.astype(object),
        lambda row: row.astype({"kind": "category", "code": float, "count": "int8"}),
        lambda row: row.astype({"size": "Float64", "flag": "boolean", "kind": "string"}),
        lambda row: row.assign(size=3, count=4.0, flag=1, code=2.0),
        lambda row: row.assign(size=2.0**60, id="x")[["id", *reversed(row.columns)]],
        lambda row: pd.DataFrame(row.to_dict("records")),
    ],
)
def test_encoding(turned: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    for i in range(6):
        frame = turned(TRAIN.iloc[[i]])
        assert np.array_equal(explainer().schema.encode(frame), by_columns(frame))


@pytest.mark.parametrize("cells", [{"kind": "screw"}, {"kind": None}, {"size": np.nan}, {"size": "wide"}, {"code": 3}])
def test_errors_are_those_of_larger_frames(cells: dict[str, Any]) -> None:
    frame = TRAIN.astype(object).iloc[[7]].assign(**cells)
    messages = []
    for rows in (frame, pd.concat([frame] * 9)):
        with pytest.raises(grace.GraceError) as raised:
            explainer().explain(rows)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@settings(max_examples=60, deadline=None)
@given(
    row=st.integers(0, N - 1),
    other=st.integers(0, N - 1),
    rising=st.sets(st.sampled_from(["size", "count", "grade"])),
    fixed=st.sets(st.sampled_from(["size", "kind", "flag"])),
)
def test_limits_and_domain_by_definition(row: int, other: int, rising: set[str], fixed: set[str]) -> None:
    schema = explainer().schema.constrain(increase_only=sorted(rising - fixed), frozen=sorted(fixed))
    rows = torch.as_tensor(schema.encode(TRAIN.iloc[[row, other]]))
    space = Space(schema)
    low, high, free = space.limits(rows)
    asked = explainer()._problem(rows, None, explainer().schema, explainer().settings)
    asked = replace(asked, space=space, low=low, high=high, free=free)
    inside = asked.inside(rows.flip(0))
    for i in range(2):
        for j, f in enumerate(schema.features):
            x, new = float(rows[i, j]), float(rows[1 - i, j])
            if isinstance(f, grace.Categorical):
                values = [
                    k for k, c in enumerate(f.categories) if c in f.selectable and (k >= x or not f.increase_only)
                ]
                assert bool(free[i, j]) == (not f.fixed and any(k != x for k in values))
                allowed = new in values
            else:
                bottom = max(f.bounds[0], np.ceil(x) if f.integer else x) if f.increase_only else f.bounds[0]
                assert (float(low[i, j]), float(high[i, j])) == (bottom, f.bounds[1])
                assert bool(free[i, j]) == (not f.fixed and bottom <= f.bounds[1] and {bottom, f.bounds[1]} != {x})
                allowed = bottom <= new <= f.bounds[1] and (not f.integer or new == round(new))
            assert bool(inside[i, j]) == ((allowed and bool(free[i, j])) or new == x)


def test_answers_alone_and_together() -> None:
    together = explainer().explain(TRAIN.head(40))
    for i in range(40):
        alone = explainer().explain(TRAIN.iloc[[i]]).answers
        assert np.array_equal(alone.contrast[0], together.answers.contrast[i])
        assert alone.distance[0] == pytest.approx(together.answers.distance[i], rel=1e-14)
        assert {k: v[0] for k, v in alone.checks.items()} == {k: v[i] for k, v in together.answers.checks.items()}


def numbers(width: int, seed: int) -> grace.Explainer:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(3, width), nn.LeakyReLU(0.1), nn.Linear(width, 2)).double()
    frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(60, 3)).round(2), columns=["a", "b", "c"])
    return grace.Explainer(grace.wrap(network, classes=["no", "yes"]), frame)


def test_networks_take_turns_in_threads() -> None:
    several = [numbers(width, seed) for seed, width in enumerate((4, 16, 9))]
    frames = [e.schema.decode(e.background_rows) for e in several]
    known = [e.explain(f).answers.contrast for e, f in zip(several, frames, strict=True)]

    def same(turn: int) -> bool:
        k, i = turn % 3, turn // 3 % 60
        return np.array_equal(several[k].explain(frames[k].iloc[[i]]).answers.contrast[0], known[k][i])

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(same, range(180)))


def set_data(module: nn.Sequential) -> None:
    module[0].weight.data = module[0].weight.data * -1.5


def write_array(module: nn.Sequential) -> None:
    module[2].bias.detach().numpy()[:] += [2.0, -2.0]


def in_place(module: nn.Sequential) -> None:
    with torch.no_grad():
        module[0].weight.mul_(0.2)


def without_relu(module: nn.Sequential) -> None:
    module[1] = nn.Identity()


def leakier(module: nn.Sequential) -> None:
    module[1].negative_slope = 0.9


@pytest.mark.parametrize("change", [set_data, write_array, in_place, without_relu, leakier])
def test_changed_weights_are_noticed(change: Callable[[nn.Sequential], None]) -> None:
    asked = numbers(8, 3)
    module, frame = asked.model.module, asked.schema.decode(asked.background_rows)
    before = asked.explain(frame).answers
    read = relu_network(asked.model)
    asked.explain(frame.iloc[[0]])
    assert relu_network(asked.model) is read
    change(module)
    after = asked.explain(frame.iloc[:1]).answers, asked.explain(frame).answers
    fresh = grace.Explainer(grace.wrap(module, classes=["no", "yes"]), frame)
    fresh.schemas.update(asked.schemas)
    assert not np.array_equal(after[1].before, before.before)
    assert np.array_equal(after[1].before, fresh.explain(frame).answers.before)
    assert np.array_equal(after[1].contrast, fresh.explain(frame).answers.contrast)
    assert np.array_equal(after[0].contrast[0], after[1].contrast[0])


def test_frame_of_a_group_that_changes() -> None:
    kind = RNG.integers(0, 3, N)
    frame = pd.DataFrame({"x": TRAIN["size"], **{f"k_{c}": (kind == j).astype(int) for j, c in enumerate("abc")}})
    model = grace.training.fit(frame.assign(y=np.where(frame["x"] / 9 + kind > 1, "p", "q")), "y", max_epochs=25)
    asked = grace.Explainer(model, frame, schema=model.schema.group("k", ["k_a", "k_b", "k_c"]))
    batch = asked.explain(frame.head(20), only=["k"])
    table = batch.to_frame()
    assert batch.changed["k"].any()
    assert set(table["new.k"].dropna()) <= {"a", "b", "c"}
    assert [e.changes[0].new for e in batch if e.success] == table["new.k"].dropna().tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, object])
def test_rows_of_an_array_are_answered_like_those_of_a_frame(dtype: type) -> None:
    train = TRAIN[["size", "count"]].round(0)
    network = grace.training.fit(train.assign(y=np.where(SUM > 4, "yes", "no")), "y", batch_size=32, max_epochs=5)
    own = grace.Explainer(network, train)
    rows = train.head(5).to_numpy().astype(dtype)
    expected = own.explain(train.head(5))
    found = own.explain(rows)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())
    assert own.explain(rows[2])[0].text() == expected[2].text()
    with pytest.raises(grace.GraceError, match=r"'count', row 1: the (cell is missing|value is infinite)"):
        own.explain(np.array([[1.0, 2.0], [1.0, np.inf]]))


def test_settings_of_a_call_are_checked_each_time() -> None:
    row = TRAIN.head(1)
    explainer().explain(row, polish=True)
    with pytest.raises(grace.GraceError, match="polish=1: it must be True or False"):
        explainer().explain(row, polish=1)
