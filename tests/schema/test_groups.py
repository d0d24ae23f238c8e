"""Groups of 0/1 columns as one category: in tables, behind every kind of model, and in answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

import grace

COLUMNS = ["home_own", "home_rent", "home_free"]


def table(n: int = 240, kind: str = "int64") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    home = rng.integers(0, 3, n)
    frame = pd.DataFrame({"age": rng.integers(18, 80, n)})
    for place, column in enumerate(COLUMNS):
        frame[column] = (home == place).astype(kind)
    frame["income"] = rng.normal(30, 8, n).round(1)
    frame["risk"] = np.where(
        frame.income + 12 * (home == 0) - 9 * (home == 2) + rng.normal(0, 2, n) > 31, "good", "bad"
    )
    return frame


def grouped(frame: pd.DataFrame) -> grace.Schema:
    return grace.Schema.infer(frame, "risk").group("home", COLUMNS)


def models(frame: pd.DataFrame) -> dict[str, object]:
    x, y = frame.drop(columns="risk"), frame["risk"]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    with torch.no_grad():
        net[0].weight *= torch.tensor([0.02, 1, 1, 1, 0.05])
    return {
        "layers": LogisticRegression(max_iter=2000).fit(x, y),
        "trees": RandomForestClassifier(15, random_state=0).fit(x, y),
        "module": grace.wrap(net, classes=["bad", "good"], outputs="logits"),
    }


@pytest.mark.parametrize("kind", ["int64", "bool", "float64"])
@pytest.mark.parametrize("name", ["layers", "trees", "module"])
def test_a_group_changes_as_a_whole_and_counts_once(name: str, kind: str) -> None:
    frame = table(kind=kind)
    explainer = grace.Explainer(models(frame)[name], frame, schema=grouped(frame), gamma=1.0)
    rows = frame.drop(columns="risk").head(40)
    batch = explainer.explain(rows)
    after = batch.contrast
    assert list(after.columns) == list(rows.columns)
    assert (after.dtypes == rows.dtypes).all()
    assert (after[COLUMNS].sum(axis=1) == 1).all()
    assert batch.success.any()
    assert batch.changed["home"].any()
    several = (after[COLUMNS] != rows[COLUMNS]).any(axis=1)
    assert (batch.changed["home"] == several).all()
    assert (explainer.model.predict(after) == batch.contrast_class)[batch.success].all()
    e = next(e for e in batch if any(c.name == "home" for c in e.changes))
    change = next(c for c in e.changes if c.name == "home")
    assert {change.old, change.new} <= {"own", "rent", "free"}
    assert f"home been {change.new}" in e.text() or f"home {change.new}" in e.text()
    one = explainer.explain(rows.iloc[[9]])
    pd.testing.assert_frame_equal(one.contrast, after.iloc[[9]])


@pytest.mark.parametrize("name", ["layers", "module"])
def test_a_model_of_the_columns_is_read_as_it_is(name: str) -> None:
    """Scores, slopes and first layers are those of the model on the columns."""
    frame = table()
    flat = grace.Explainer(models(frame)[name], frame, target="risk")
    explainer = grace.Explainer(models(frame)[name], frame, schema=grouped(frame))
    columns = frame.drop(columns="risk").head(30)
    there, here = (e.tensor(e.schema.encode(columns)) for e in (flat, explainer))
    torch.testing.assert_close(explainer.model.scores(here), flat.model.scores(there))
    _, slopes = explainer.model.slopes(here, lambda s: s)
    _, expected = flat.model.slopes(there, lambda s: s)
    torch.testing.assert_close(slopes, expected[:, :, [0, 4, 1, 2, 3]])  # numbers, then the group
    batch = explainer.explain(columns, prove=True, budget=5.0, gamma=1.0)
    assert {e.proof["verdict"] for e in batch} <= {"minimal", "impossible", "open"}
    assert any(e.proof["verdict"] == "minimal" for e in batch)


def test_groups_are_saved_and_loaded(tmp_path) -> None:
    frame = table()
    model = grace.training.fit(frame, "risk", seed=0, max_epochs=5)
    explainer = grace.Explainer(model, frame, schema=grouped(frame))
    rows = frame.drop(columns="risk").head(10)
    explainer.save(str(tmp_path / "model"))
    again = grace.load(tmp_path / "model")
    assert again.schema["home"] == explainer.schema["home"]
    pd.testing.assert_frame_equal(again.explain(rows).contrast, explainer.explain(rows).contrast)
    learnt = grace.training.fit(frame, "risk", schema=grouped(frame), seed=0, max_epochs=5)  # trained with the group
    batch = grace.Explainer(learnt, frame).explain(rows)
    assert (batch.contrast[COLUMNS].sum(axis=1) == 1).all()


def test_rows_that_are_no_group_are_an_error_that_names_them() -> None:
    frame = table()
    schema = grouped(frame)
    wrong = frame.drop(columns="risk").head(3).copy()
    wrong.loc[wrong.index[1], COLUMNS] = [1, 1, 0]
    with pytest.raises(grace.GraceError, match=r"group 'home', row 1: exactly one.*not 0 are 'home_own', 'home_rent'"):
        schema.encode(wrong)
    wrong.loc[wrong.index[1], COLUMNS] = [0, 0, 0]
    with pytest.raises(grace.GraceError, match="not 0 are none"):
        schema.encode(wrong)
    with pytest.raises(grace.GraceError, match="at least two columns"):
        grace.Schema.infer(frame, "risk").group("home", COLUMNS[:1])
    with pytest.raises(grace.GraceError, match="no feature 'attic'"):
        grace.Schema.infer(frame, "risk").group("home", ["home_own", "attic"])


def test_groups_take_part_in_rules_and_limits() -> None:
    frame = table()
    schema = grouped(frame).with_rules("if home == free then age <= 40")
    explainer = grace.Explainer(models(frame)["layers"], frame, schema=schema, gamma=1.0)
    rows = frame.drop(columns="risk").head(40)
    batch = explainer.explain(rows)
    moved = batch.changed["home"] | batch.changed["age"]
    assert ((batch.contrast.home_free == 0) | (batch.contrast.age <= 40))[moved].all()
    assert not explainer.explain(rows, frozen=["home"]).changed["home"].any()


def test_the_page_shows_groups_and_what_moves_along() -> None:
    from fastapi.testclient import TestClient

    from grace.web.pages import create_app
    from grace.web.service import Served

    frame = table()
    frame["double"] = 2 * frame["income"]
    model = grace.training.fit(frame, "risk", seed=0, max_epochs=5)
    schema = grace.Schema.infer(frame, "risk").group("home", COLUMNS).with_rules("double = 2 * income")
    explainer = grace.Explainer(model, frame, schema=schema)
    client = TestClient(create_app([Served("model", explainer)]))
    page = client.get("/")
    assert page.status_code == 200
    row = frame.drop(columns="risk").head(1).to_dict("records")[0]
    assert isinstance(row["age"], int)
    said = client.post("/api/explain", json={"row": row}).json()
    assert said["follow_on"] == [] or said["follow_on"][0]["feature"] == "double"
