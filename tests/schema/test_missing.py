"""Missing cells that the model does not take: an error, or filled in as in training and said so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression

import grace
from grace import GraceError, training
from grace.cli import main
from grace.text import sentence

N = 200
RNG = np.random.default_rng(4)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N),
        "dose": RNG.normal(3, 1, N).round(2),
        "ward": RNG.choice(["north", "south"], N),
        "diet": RNG.choice(["rich", "poor"], N),
    }
)
FRAME["class"] = np.where(FRAME["age"] / 20 + FRAME["dose"] + (FRAME["ward"] == "north") > 5.7, "ill", "well")
TRAIN = FRAME.assign(diet=FRAME["diet"].where(RNG.random(N) < 0.9))  # training knows missing diets
MODEL = training.fit(TRAIN, "class", seed=0)
EXPLAINER = grace.Explainer(MODEL, TRAIN)
HOLES = FRAME.drop(columns="class").head(4).astype({"age": float}).copy()
HOLES.loc[0, "age"] = np.nan
HOLES.loc[1, ["ward", "diet"]] = None


def test_by_default_it_is_an_error_that_names_the_cell() -> None:
    with pytest.raises(GraceError, match=r"'age', row 0: the cell is missing.*missing=\"fill\""):
        EXPLAINER.explain(HOLES)
    with pytest.raises(GraceError, match="missing='guess' is unknown"):
        EXPLAINER.explain(HOLES, missing="guess")


def test_filled_rows_are_those_of_impute() -> None:
    batch = EXPLAINER.explain(HOLES, missing="fill")
    filled = MODEL.impute(HOLES)
    expected = EXPLAINER.explain(filled)
    np.testing.assert_array_equal(batch.answers.rows, expected.answers.rows)
    np.testing.assert_array_equal(batch.answers.contrast, expected.answers.contrast)
    assert batch.answers.rows[0, 0] == MODEL.schema["age"].typical
    assert (batch.filled == HOLES.isna()).all(axis=None)
    assert not expected.filled.any(axis=None)


def test_it_is_said_which_cells_were_filled_in() -> None:
    batch = EXPLAINER.explain(HOLES, missing="fill")
    median = MODEL.schema["age"].typical
    assert f"no value was given for age, and {median:g} was filled in" in batch[0].notes
    ward = f"no value was given for ward, and {MODEL.schema['ward'].typical} was filled in"
    assert list(batch[1].notes) == [ward, "no value was given for diet, which the model knows as a category of its own"]
    assert not batch[2].notes
    assert "wurde eingesetzt" in sentence.notes(batch[1], "de")[0]
    again = grace.Explanation.from_json(batch[1].to_json())
    assert again == batch[1]
    assert ward in batch[1].to_html()


def test_it_may_be_a_setting_of_the_explainer() -> None:
    lenient = grace.Explainer(MODEL, TRAIN, missing="fill")
    assert lenient.explain(HOLES).filled.to_numpy().sum() == 3
    with pytest.raises(GraceError, match="missing"):
        lenient.explain(HOLES, missing="error")


def test_a_black_box_that_takes_none() -> None:
    numbers = FRAME[["age", "dose"]]
    model = LogisticRegression().fit(numbers, FRAME["class"])
    explainer = grace.Explainer(lambda_of(model), numbers)
    rows = HOLES[["age", "dose"]]
    batch = explainer.explain(rows, missing="fill")
    assert batch.filled.to_numpy().sum() == 1
    assert batch[0].row["age"] == np.quantile(numbers["age"], 0.5, method="lower")


def lambda_of(model: LogisticRegression) -> grace.Model:
    def chances(frame: pd.DataFrame) -> np.ndarray:
        return model.predict_proba(frame)

    return grace.wrap(chances, classes=list(model.classes_))


def test_a_model_that_takes_missing_cells_keeps_them() -> None:
    def label(frame: pd.DataFrame) -> np.ndarray:
        return np.where(frame["age"].isna() | (frame["age"] > 50), "ill", "well")

    holes = FRAME[["age", "dose"]].astype(float)
    holes.loc[::5, "age"] = np.nan
    explainer = grace.Explainer(grace.wrap(label, classes=["ill", "well"]), holes)
    batch = explainer.explain(holes.head(6), missing="fill")
    assert not batch.filled.any(axis=None)
    assert batch.original_class[0] == "ill"


def test_the_command_says_it(tmp_path) -> None:
    EXPLAINER.save(tmp_path / "model")
    HOLES.to_csv(tmp_path / "holes.csv", index=False)
    args = ["explain", str(tmp_path / "model"), str(tmp_path / "holes.csv"), "--row", "0"]
    assert "--impute" in CliRunner().invoke(main, args).stderr
    said = CliRunner().invoke(main, [*args, "--impute"])
    assert said.exit_code == 0
    assert "Note: no value was given for age, and 49 was filled in" in said.stdout
