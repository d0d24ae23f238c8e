"""Ordered categories that may go one way only: answers keep to it, proofs take it into account, brute force agrees."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

import grace
from grace import GraceError, training

GRADES = ["E", "D", "C", "B", "A"]
N = 300


def frame(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    grade = rng.integers(0, 5, N)
    out = pd.DataFrame(
        {
            "grade": pd.Categorical.from_codes(grade, GRADES, ordered=True),
            "years": rng.integers(0, 4, N),
            "visits": rng.integers(0, 4, N),
            "town": rng.choice(["east", "west", "north"], N),
        }
    )
    # the middle grade counts against the row, so that the way up and the way down both matter
    score = np.array([1.5, 0.5, -2.0, 0.5, 2.0])[grade] + out["years"] - 0.7 * out["visits"] + (out["town"] == "west")
    return out.assign(label=np.where(score + rng.normal(0, 0.1, N) > 0.8, "yes", "no"))


def network(seed: int) -> tuple[grace.Explainer, pd.DataFrame]:
    data = frame(seed)
    model = training.fit(data, "label", seed=seed, hidden=(12,), batch_size=64, max_epochs=60)
    return grace.Explainer(model, data, gamma=1.0, domain="minmax"), data.drop(columns="label")


def function(hard: bool) -> tuple[grace.Explainer, pd.DataFrame]:
    data = frame(7).drop(columns="label")

    def answers(rows: pd.DataFrame) -> np.ndarray:
        worth = np.array([1.5, 0.5, -2.0, 0.5, 2.0])[rows["grade"].cat.codes] + rows["years"] - 0.7 * rows["visits"]
        return np.where(worth > 0.83, "yes", "no") if hard else 1 / (1 + np.exp(0.83 - worth))

    return grace.Explainer(grace.wrap(answers, classes=["no", "yes"]), data, gamma=1.0, domain="minmax"), data


WORLDS = {"network 0": network(0), "network 1": network(1), "chances": function(False), "labels": function(True)}
WAYS = {"up": {"increase_only": ["grade"]}, "down": {"decrease_only": ["grade"]}}


def fewest(explainer: grace.Explainer, row: np.ndarray, way: str) -> int:
    """How many features have to change, by trying everything; 9 if nothing helps."""
    schema = explainer.schema
    grades = [g for g in range(5) if (g >= row[0] if way == "up" else g <= row[0])]
    low, high = schema.bounds()
    numbers = [range(int(low[j]), int(high[j]) + 1) for j in (1, 2)]
    every = np.array(list(product(grades, *numbers, schema.selectable_codes(3))), dtype=float)
    scores = explainer._scores(np.concatenate([row[None], every]))
    flips = scores[1:].argmax(axis=1) != scores[0].argmax()
    return int((every != row).sum(axis=1)[flips].min(initial=9))


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("world", WORLDS)
def test_answers_go_one_way_only(world: str, way: str, method: str) -> None:
    explainer, rows = WORLDS[world]
    batch = explainer.explain(rows.head(80), method=method, **WAYS[way])
    before, after = (f["grade"].cat.codes.to_numpy() for f in (rows.head(80), batch.contrast))
    done = batch.success
    assert done.any()
    assert ((after >= before) if way == "up" else (after <= before)).all()
    assert (after != before).any(), "no answer uses the grade: the check would be empty"
    free = explainer.explain(rows.head(80), method=method).contrast["grade"].cat.codes.to_numpy()
    assert ((free < before) if way == "up" else (free > before)).any(), "the limit has to matter"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("world", WORLDS)
def test_no_answer_with_fewer_changes_exists(world: str, way: str) -> None:
    explainer, rows = WORLDS[world]
    batch = explainer.explain(rows.head(60), **WAYS[way])
    found = np.where(batch.success, batch.changed.sum(axis=1), 9)
    encoded = explainer.schema.encode(rows.head(60))
    assert found.tolist() == [fewest(explainer, row, way) for row in encoded]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("world", ["network 0", "network 1"])
def test_proofs_know_the_way(world: str, way: str) -> None:
    explainer, rows = WORLDS[world]
    encoded = explainer.schema.encode(rows.head(40))
    limits = {**WAYS[way], "frozen": ["years"]}
    batch = explainer.explain(rows.head(40), prove=True, budget=5.0, max_features=2, **limits)
    verdicts = {e.proof["verdict"] for e in batch}
    assert verdicts <= {"minimal", "impossible"}
    schema = explainer.schema
    for i, e in enumerate(batch):
        grades = [g for g in range(5) if (g >= encoded[i, 0] if way == "up" else g <= encoded[i, 0])]
        assert e.proof["box"]["grade"] == [GRADES[g] for g in grades]
        visits = range(int(schema.bounds()[0][2]), int(schema.bounds()[1][2]) + 1)
        every = np.array(list(product(grades, [encoded[i, 1]], visits, schema.selectable_codes(3))), dtype=float)
        flips = explainer._scores(every).argmax(axis=1) != explainer._scores(encoded[[i]]).argmax()
        counts = (every != encoded[i]).sum(axis=1)[flips]
        counts = counts[counts <= 2]
        assert e.success == bool(len(counts))
        assert not e.success or len(e.changes) == counts.min()


def test_a_missing_grade_has_no_direction() -> None:
    data = frame(3)
    data.loc[::6, "grade"] = np.nan
    model = training.fit(data, "label", hidden=(12,), batch_size=64, max_epochs=30)
    explainer = grace.Explainer(model, data, gamma=1.0, domain="minmax")
    holes = data[data["grade"].isna()].drop(columns="label")
    for limits in WAYS.values():
        batch = explainer.explain(holes, missing="fill", **limits)
        assert not batch.changed["grade"].any()
    assert explainer.explain(holes, missing="fill").changed["grade"].any()


def test_the_schema_may_say_so(tmp_path) -> None:
    explainer, rows = WORLDS["network 0"]
    schema = explainer.schema.constrain(increase_only=["grade"])
    assert schema["grade"].increase_only
    assert grace.Schema.from_json(schema.to_json()) == schema
    strict = grace.Explainer(explainer.model, frame(0), schema=schema, gamma=1.0, domain="minmax")
    once = strict.explain(rows.head(30)).answers.contrast
    np.testing.assert_array_equal(once, explainer.explain(rows.head(30), increase_only=["grade"]).answers.contrast)
    with pytest.raises(GraceError, match="'grade' is increase_only and decrease_only"):
        schema.constrain(decrease_only=["grade"])


def test_other_categories_have_no_direction() -> None:
    explainer, rows = WORLDS["network 0"]
    with pytest.raises(GraceError, match=r"'town' is a category without an order.*declare it ordered"):
        explainer.explain(rows.head(2), increase_only=["town"])
