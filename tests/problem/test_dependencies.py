"""What follows by what was learnt: the regression against a literal one, and answers in which features move along."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import grace
from grace.problem.requirements.combined import consequences_of, requirements
from grace.problem.requirements.consequences import LEAST
from grace.problem.requirements.dependence import FOLDS, PENALTY
from grace.schema.formatting import decimal
from grace.text.sentence import number

CLASSES = ["no", "yes"]


def table(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """`weight` depends on `height` and `kind`, `steps` on `weight`; `noise` on nothing."""
    rng = np.random.default_rng(seed)
    height, kind = rng.normal(170, 10, n).round(1), rng.choice(["x", "y", "z"], n)
    lift = pd.Series(kind).map({"x": 0.0, "y": 8.0, "z": -6.0}).to_numpy()
    weight = (0.9 * height - 80 + lift + rng.normal(0, 3, n)).round(1)
    steps = np.round(9000 - 60 * weight + rng.normal(0, 200, n))
    return pd.DataFrame(
        {"height": height, "kind": kind, "weight": weight, "steps": steps, "noise": rng.normal(0, 1, n)}
    )


def by_weight(frame: pd.DataFrame) -> np.ndarray:
    points = 0.4 * (frame["weight"] - 73) - 0.002 * (frame["steps"] - 4600) + 0.5 * frame["noise"]
    return 1 / (1 + np.exp(-points.to_numpy(dtype=float)))


@pytest.fixture(scope="module")
def explainer() -> grace.Explainer:
    return grace.Explainer(grace.wrap(by_weight, classes=CLASSES), table(), gamma=1.0, max_features=3)


def coordinates(explainer: grace.Explainer, names: list[str], rows: np.ndarray) -> np.ndarray:
    """Numbers in spreads from the typical value, categories one by one."""
    parts = []
    for name in names:
        feature, column = explainer.schema[name], rows[:, explainer.schema.index(name)]
        if isinstance(feature, grace.Categorical):
            parts += [(column == code).astype(float) for code in range(len(feature.categories))]
        else:
            parts.append((column - feature.typical) / feature.spread)
    return np.stack(parts, axis=1)


def test_the_regression_and_its_r2_are_the_literal_ones(explainer) -> None:
    rows = explainer.background_rows
    parents = ["height", "kind", "noise"]
    (known,) = explainer.dependence({"weight": parents})
    x, feature = coordinates(explainer, parents, rows), explainer.schema["weight"]
    y = (rows[:, explainer.schema.index("weight")] - feature.typical) / feature.spread
    whole = Ridge(PENALTY).fit(x, y)
    np.testing.assert_allclose(known.weight.numpy(), whole.coef_ * feature.spread, rtol=1e-6, atol=1e-9)
    fold = np.random.default_rng(0).permutation(len(rows)) % FOLDS
    left = total = 0.0
    for k in range(FOLDS):
        fit = Ridge(PENALTY).fit(x[fold != k], y[fold != k])
        left += ((y[fold == k] - fit.predict(x[fold == k])) ** 2).sum()
        total += ((y[fold == k] - y[fold != k].mean()) ** 2).sum()
    assert known.r2 == pytest.approx(1 - left / total, abs=1e-6)
    assert known.r2 > 0.8


def test_only_what_is_explained_well_follows_by_itself(explainer) -> None:
    found = {d.feature: d for d in explainer.dependence()}
    assert found
    assert "noise" not in found
    assert all(d.r2 >= 0.5 for d in found.values())
    assert not set(found) & {p for d in found.values() for p in d.parents}
    rng = np.random.default_rng(1)
    mixed = table().apply(lambda column: rng.permutation(column.to_numpy()))
    alone = grace.Explainer(grace.wrap(by_weight, classes=CLASSES), mixed)
    assert alone.dependence() == []
    assert not alone.explain(mixed.head(10), follow=True).followed.any().any()


def expected(explainer: grace.Explainer, name: str, rows: pd.DataFrame, follow) -> np.ndarray:
    (known,) = [d for d in explainer.dependence(follow) if d.feature == name]
    x = coordinates(explainer, list(known.parents), explainer.schema.encode(rows))
    return x @ known.weight.numpy() + known.constant


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), follow=st.sampled_from([("weight",), ("weight", "steps"), True]))
def test_dependents_are_what_is_expected_plus_what_the_row_has_beyond_it(seed: int, follow) -> None:
    explainer = EXPLAINER
    rows = table(12, seed)
    batch = explainer.explain(rows, follow=follow)
    after, moved = batch.contrast, batch.changed.to_numpy() | batch.followed.to_numpy()
    assert (after.to_numpy()[~moved] == rows.to_numpy()[~moved]).all()
    assert not (batch.changed & batch.followed).any().any()
    assert (batch.changed.sum(axis=1) <= 3).all()
    for known in explainer.dependence(follow):
        name, feature = known.feature, explainer.schema[known.feature]
        shift = expected(explainer, name, after, follow) - expected(explainer, name, rows, follow)
        unit = 10.0**-feature.digits
        goes = (
            (np.abs(shift) >= max(LEAST * feature.spread, unit / 2)) & ~batch.changed[name].to_numpy() & batch.success
        )
        low, high = feature.bounds
        should = np.clip(np.round((rows[name] + shift) / unit) * unit, low, high)
        np.testing.assert_allclose(after[name][goes], should[goes], atol=1e-6)
        stays = ~goes & ~batch.changed[name].to_numpy()
        assert (after[name][stays].to_numpy() == rows[name][stays].to_numpy()).all()
    assert (explainer.model.predict(after) == batch.contrast_class)[batch.success].all()
    one = explainer.explain(rows.iloc[[5]], follow=follow)
    pd.testing.assert_frame_equal(one.contrast, after.iloc[[5]])


EXPLAINER = grace.Explainer(grace.wrap(by_weight, classes=CLASSES), table(), gamma=1.0, max_features=3)


def test_what_is_frozen_does_not_follow_and_what_is_changed_does_not_either(explainer) -> None:
    rows = table(40, 7)
    still = explainer.explain(rows, follow=["weight"], frozen=["weight"])
    assert not still.followed.any().any()
    only = explainer.explain(rows, follow=["weight", "steps"], frozen=["noise", "height", "kind", "steps"])
    assert only.changed["weight"][only.success].all()  # an intervention on what could follow is as any other
    assert not only.followed["weight"].any()
    chain = explainer.explain(rows, follow={"weight": "height", "steps": ["weight"]}, frozen=["weight", "steps"])
    assert not chain.followed.any().any()
    limits = {"ranges": {"steps": (3000, 6000)}, "frozen": ["noise", "kind"], "costs": {"weight": 100, "steps": 100}}
    chain = explainer.explain(rows, follow={"weight": "height", "steps": ["weight"]}, **limits)
    assert (chain.followed["steps"] & chain.followed["weight"]).any()  # one follows the other
    moved = chain.followed["steps"]
    assert chain.contrast["steps"][moved].between(3000, 6000).all()


def test_what_moves_along_is_said_apart_everywhere(explainer) -> None:
    batch = explainer.explain(table(40, 3), follow=["weight"], frozen=["steps", "noise"], costs={"weight": 100})
    e = next(e for e in batch if e.follow_on and e.success)
    assert [c.name for c in e.follow_on] == ["weight"]
    assert "weight" not in e.predicate
    assert "weight" not in {c.name for c in e.changes}
    assert e.contrast["weight"] == e.follow_on[0].new
    said = e.text()
    assert f"(weight then being {grace.text.sentence.number(grace.text.sentence.decimal(e.follow_on[0].new))})" in said
    assert said.startswith("Had ")
    assert "(and with it weight " in e.text(template="because")
    assert "wäre dann" in e.text(language="de")
    assert "und damit" in e.text(language="de", template="because")
    again = grace.Explanation.from_json(e.to_json())
    assert again == e
    assert again.text() == said
    old, new = (number(decimal(v)) for v in (e.follow_on[0].old, e.follow_on[0].new))
    drawn = " ".join(re.sub(r"<[^>]*>", " ", e.to_svg()).split())
    assert f"Weight would then be {new} rather than {old}." in drawn
    assert '<span class="grace-soft">would then be</span></th>' in e.to_html()
    assert f"The {len(e.row) - len(e.changes) - 1} features that stay" in e.to_html()
    frame = batch.to_frame()
    assert (frame["features"] == batch.changed.sum(axis=1)).all()
    assert batch.metrics().features == pytest.approx(batch.changed.sum(axis=1)[batch.success].mean())
    e.backdrop()  # the model's answers along a change are those to the rows it leads to


def test_curves_behind_a_change_show_what_follows(explainer) -> None:
    rows = table(40, 3)
    batch = explainer.explain(rows, follow=["weight"], frozen=["steps", "noise", "kind"], costs={"weight": 100})
    i = next(i for i, e in enumerate(batch) if e.success and e.follow_on)
    curve = batch[i].backdrop().curves["height"]
    at = int(np.argmin(np.abs(np.array(curve.values) - batch.contrast["height"].iloc[i])))
    moved = rows.iloc[[i]].assign(height=curve.values[at])
    shift = expected(explainer, "weight", moved, ["weight"]) - expected(explainer, "weight", rows.iloc[[i]], ["weight"])
    there = moved.assign(weight=(moved["weight"] + shift).round(1))
    new = str(batch[i].contrast_class)
    assert curve.contrast[at] == pytest.approx(float(explainer.model.predict_proba(there)[new].iloc[0]), abs=1e-6)


def test_it_is_kept_with_the_explainer(tmp_path) -> None:
    data = grace.datasets.load("cancer92")
    parts = data.split(0)
    model = grace.training.fit(data, seed=0, max_epochs=5)
    explainer = grace.Explainer(model, parts.train, follow=True)
    rows = model.impute(parts.test).head(4)
    batch = explainer.explain(rows)
    assert batch.followed.any().any()
    explainer.save(str(tmp_path / "model"))
    again = grace.load(tmp_path / "model")
    assert again.settings == explainer.settings
    pd.testing.assert_frame_equal(again.explain(rows).contrast, batch.contrast)
    explainer.save(str(tmp_path / "bare"), background=False)
    with pytest.raises(grace.GraceError, match="training rows"):
        grace.load(tmp_path / "bare").explain(rows)


@pytest.mark.parametrize(
    ("follow", "match"),
    [
        ("nobody", "no feature 'nobody'"),
        ("kind", "'kind' is a category"),
        ({"weight": ["steps"], "steps": ["weight"]}, "in a circle"),
        ({"weight": ["weight"]}, "needs other features"),
        (3, "give True, names"),
    ],
)
def test_what_cannot_follow_is_an_error_that_names_it(explainer, follow, match: str) -> None:
    with pytest.raises(grace.GraceError, match=match):
        explainer.explain(table(3), follow=follow)


def test_what_does_not_go_together_is_said(explainer) -> None:
    with pytest.raises(grace.GraceError, match="follow= needs method='search'"):
        explainer.explain(table(3), follow=True, method="gradient")
    with pytest.raises(grace.GraceError, match="decided by a rule"):
        explainer.explain(table(3), follow="steps", rules=["steps = 2 * weight"])


def test_a_miss_says_that_nothing_need_follow(explainer) -> None:
    """`weight` would bring `steps` the wrong way."""

    def held(frame: pd.DataFrame) -> np.ndarray:
        return 1 / (1 + np.exp(-((frame["weight"] - 73) + 0.05 * (frame["steps"] - 4600) - 5).to_numpy(dtype=float)))

    frame = table()
    other = grace.Explainer(grace.wrap(held, classes=CLASSES), frame, gamma=1.0)
    rows = frame[(frame["weight"] < 76) & frame["steps"].between(4300, 4600)].head(5)
    limits = {"frozen": ["height", "kind", "noise"], "ranges": {"steps": (2000, 4600)}, "increase_only": ["weight"]}
    batch = other.explain(rows, follow={"steps": ["weight"]}, max_features=1, **limits)
    assert not batch.success.any()
    assert all({"limit": "follow"} in e.miss["ways"] for e in batch)
    assert "if no other feature moves along" in batch[0].reason
    assert "wenn sich kein anderes Merkmal mitändert" in batch[0].text(language="de")


def test_a_change_to_what_would_follow_stands(explainer) -> None:
    real = consequences_of(explainer._view, explainer.schema, replace(explainer.settings, follow=("weight",)))
    row = explainer.schema.encode(table(1))[0]
    height, weight = (explainer.schema.index(name) for name in ("height", "weight"))
    moved = row.copy()
    moved[height] += 15
    assert real.retraced(moved[None], row)[0, weight] > row[weight] + 5
    moved[weight] = row[weight] + 1
    np.testing.assert_array_equal(real.retraced(moved[None], row)[0], moved)


def test_candidates_are_scored_by_the_row_they_come_from(explainer) -> None:
    asked = replace(explainer.settings, follow=("weight",))
    rows = explainer.tensor(explainer.schema.encode(table(6)))
    required = requirements(explainer._view, explainer.schema, (), asked)
    problem = required.problem(explainer._problem(rows, None, explainer.schema, asked))
    moved = rows[:, None] + torch.tensor([[0.0], [9.0], [-12.0]]) * torch.eye(5)[explainer.schema.index("height")]
    together = problem.scores(moved)
    for i in range(len(rows)):
        real = required.consequences.retraced(moved[i].numpy(), rows[i].numpy())
        np.testing.assert_array_equal(together[i, :, :2], explainer._scores(real))
        np.testing.assert_array_equal(problem.select(torch.tensor([i])).scores(moved[[i], 1])[0], together[i, 1])
    assert not torch.equal(together[:, 1, :2], explainer.model.scores(moved[:, 1]))  # the weight has followed
