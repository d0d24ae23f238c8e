"""Training: determinism, imputing, scaling, early stopping, recipes, and errors that name the culprit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from grace import Explainer, GraceError, datasets, training
from grace.schema.features import MISSING


def table(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Two numbers and a category that decide, with some noise, between three labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(50, 10, n).round(1),
            "count": rng.integers(0, 40, n),
            "colour": rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2]),
        }
    )
    score = frame["size"] / 10 + frame["count"] / 10 + 2 * (frame["colour"] == "red") + rng.normal(0, 0.3, n)
    return frame.assign(label=np.select([score < 7, score < 9], ["low", "middle"], "high"))


def fit(frame: pd.DataFrame, target: str | None = "label", **changes):
    return training.fit(frame, target, **{"hidden": (12,), "learning_rate": 0.02, "max_epochs": 30, **changes})


def weights(model) -> dict[str, torch.Tensor]:
    return model.module.state_dict()


# -- determinism and quality --------------------------------------------------------------------------


def test_the_seed_determines_the_weights():
    models = []
    for seed, elsewhere in ((1, 10), (1, 11), (2, 10)):
        torch.manual_seed(elsewhere)  # what others draw does not matter
        models.append(weights(fit(table(), seed=seed, max_epochs=5)))
    one, again, other = models
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["layers.0.weight"], other["layers.0.weight"])


def test_the_papers_network_on_cancer95_is_right_about_unseen_patients():
    t = datasets.load("cancer95")
    model = training.fit(t, seed=4)
    test = t.split(4).test
    accuracy = (model.predict(model.impute(test)) == test[t.target]).mean()
    assert model.module.hidden == training.RECIPES["cancer95"].hidden
    assert accuracy > 0.9


@pytest.mark.parametrize(
    ("names", "kind"), [(("low", "middle", "high"), str), ((3, 1, 2), int), ((0.5, 1.5, 2.5), float)]
)
def test_labels_come_back_as_they_were(names, kind):
    frame = table()
    frame["label"] = frame["label"].map(dict(zip(("low", "middle", "high"), names, strict=True)))
    model = fit(frame)
    assert model.classes == tuple(sorted(names))
    assert {type(c) for c in model.classes} == {kind}
    assert (model.predict(frame) == frame["label"]).mean() > 0.75
    assert list(model.predict_proba(frame).columns) == sorted(names)


def test_truth_values_are_labels_too():
    frame = table()
    model = fit(frame.assign(label=frame["label"] == "low"))
    assert model.classes == (False, True)


# -- imputing -----------------------------------------------------------------------------------------


def test_the_median_is_that_of_the_training_part_alone():
    train, held = table(200), table(40, seed=1)
    train.loc[::9, "size"] = np.nan
    held["size"] += 1000
    model = fit(train, validation=held, max_epochs=2)
    median = float(np.quantile(train["size"].dropna(), 0.5, method="lower"))
    rows = held.head(3).copy()
    rows.loc[rows.index[1], "size"] = np.nan
    filled = model.impute(rows)
    assert filled["size"].tolist() == [rows["size"].iloc[0], median, rows["size"].iloc[2]]
    pd.testing.assert_frame_equal(filled.drop(columns="size"), rows.drop(columns="size"), check_dtype=False)
    np.testing.assert_array_equal(model.predict(filled), model.predict(rows.fillna({"size": median})))


def test_a_set_aside_tenth_does_not_enter_the_median():
    frame = table()
    frame["size"] = np.arange(len(frame)) ** 2.0  # so that every part has its own median
    train, _ = training._hold_out(frame, "label", 5)
    model = fit(frame, seed=5, max_epochs=1)
    assert len(train) == 216
    assert model.schema["size"].typical == np.quantile(train["size"], 0.5, method="lower")
    assert model.schema["size"].typical != np.quantile(frame["size"], 0.5, method="lower")


@pytest.fixture(scope="module")
def with_missing():
    """Training data in which a missing colour says "yes": the category "missing" is worth choosing."""
    frame = table(300)
    gone = frame.index % 4 == 0
    frame["label"] = np.where(gone | (frame["size"] > 65), "yes", "no")
    frame.loc[gone, "colour"] = None
    return frame, fit(frame)


def test_missing_is_a_category_where_training_had_missing_cells(with_missing):
    frame, model = with_missing
    feature = model.schema["colour"]
    assert feature.categories == ("blue", "green", "red", MISSING)
    assert feature.selectable == ("blue", "green", "red")
    filled = model.impute(frame)
    assert (filled["colour"] == MISSING).tolist() == frame["colour"].isna().tolist()
    assert (model.predict(filled) == frame["label"]).mean() > 0.9  # without the missing cells: 0.7


@pytest.mark.parametrize("method", ["gradient", "local"])
def test_missing_may_occur_in_a_row_but_no_change_chooses_it(with_missing, method):
    frame, model = with_missing
    rows = model.impute(frame).head(40).drop(columns="label")
    batch = Explainer(model, frame).explain(rows, method=method)
    changed = batch.changed["colour"]
    assert changed[batch.success & (rows["colour"] == MISSING)].any()
    assert not (batch.contrast["colour"][changed] == MISSING).any()
    assert batch.success[(rows["colour"] != MISSING).to_numpy()].any()


def test_a_missing_category_that_training_never_missed_becomes_the_commonest():
    frame = table()
    model = fit(frame, max_epochs=1)
    assert MISSING not in model.schema["colour"].categories
    assert model.impute({"size": 50, "count": 3, "colour": None})["colour"].tolist() == ["red"]


@pytest.mark.parametrize("seed", range(2))
def test_a_category_that_only_the_validation_part_has_is_no_obstacle(seed):
    frame = table()
    frame.loc[frame.index[:24], "colour"] = [f"rare {i}" for i in range(24)]
    model = fit(frame, seed=seed, max_epochs=1)
    assert len(model.predict(frame)) == len(frame)


# -- what the network sees ----------------------------------------------------------------------------


def test_scaling_is_part_of_the_model():
    frame = table()
    larger = frame.assign(size=frame["size"] * 1024, count=frame["count"] * 1024)
    np.testing.assert_allclose(
        fit(larger).predict_proba(larger).to_numpy(), fit(frame).predict_proba(frame).to_numpy(), atol=1e-5
    )


def test_a_constant_column_is_harmless_and_never_changed():
    frame = table().assign(constant=7)
    model = fit(frame)
    assert (model.predict(frame) == frame["label"]).mean() > 0.75
    batch = Explainer(model, frame).explain(frame.head(30))
    assert batch.success.any()
    assert not batch.changed["constant"].any()


# -- early stopping and recipes -----------------------------------------------------------------------


def test_early_stopping_goes_back_to_the_best_weights():
    frame = table(300)
    train, held = frame.head(200), frame.tail(100)
    seen: list[tuple[int, int, float]] = []
    model = fit(
        train,
        validation=held,
        learning_rate=0.1,
        patience=4,
        max_epochs=200,
        progress=lambda epoch, most, loss: seen.append((epoch, most, loss)),
    )
    epochs, most, losses = zip(*seen, strict=True)
    best = int(np.argmin(losses))
    assert epochs == tuple(range(1, best + 1 + 4 + 1))
    assert set(most) == {200}
    assert losses[-1] > losses[best]
    likelihood = model.predict_proba(held).to_numpy()[np.arange(100), [model.classes.index(c) for c in held["label"]]]
    assert -np.log(likelihood).mean() == pytest.approx(losses[best], rel=1e-4)


def test_parts_of_a_recipe_can_be_changed():
    epochs: list[int] = []
    recipe = training.Recipe((9, 9), max_epochs=50)
    model = training.fit(
        table(), "label", recipe=recipe, hidden=(7, 5), max_epochs=2, progress=lambda epoch, *_: epochs.append(epoch)
    )
    shapes = [tuple(v.shape) for k, v in weights(model).items() if k.startswith("layers") and k.endswith("weight")]
    assert shapes == [(7, 2 + 2), (5, 7), (3, 5)]  # two numbers and a category in two dimensions
    assert epochs == [1, 2]
    assert recipe.hidden == (9, 9)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": (-3,)},
        {"hidden": (0,)},
        {"batch_size": 0},
        {"learning_rate": -1.0},
        {"patience": 0},
        {"max_epochs": 0},
        {"epochs": 3},
    ],
    ids=str,
)
def test_a_recipe_that_cannot_be_followed_is_refused(change):
    with pytest.raises(GraceError, match=next(iter(change))):
        training.fit(table(60), "label", **{"max_epochs": 1, **change})


# -- errors -------------------------------------------------------------------------------------------


def altered(**columns) -> pd.DataFrame:
    return table(30).assign(**columns)


LABELS = table(30)["label"]


@pytest.mark.parametrize(
    ("frame", "target", "culprit"),
    [
        (table(30), None, "target="),
        (table(30), "lable", "'lable'"),
        (table(30).head(0), "label", "empty"),
        (altered(label="low"), "label", "only the class 'low'"),
        (altered(label=["once", *["low", "high"] * 14, "low"]), "label", "class 'once'"),
        (altered(label=[7, *[1, 2] * 14, 2]), "label", "class 7 "),
        (altered(label=LABELS.where(LABELS.index != 3)), "label", "row 3:"),
        (altered(label=LABELS.where(LABELS.index != 3)).sample(frac=1, random_state=0), "label", "row 3:"),
        (altered(size=np.nan), "label", "'size'"),
        (altered(size=[*["5"] * 29, "five"]).sample(frac=1, random_state=0), "size", "class 'five'"),
        (table(30)[["label"]], "label", "no feature columns"),
        (altered(size=np.inf), "label", "'size'"),
    ],
)
def test_an_error_is_one_line_that_names_the_culprit(frame, target, culprit):
    with pytest.raises(GraceError) as error:
        fit(frame, target)
    message = str(error.value)
    assert culprit in message
    assert "\n" not in message


def test_an_unused_category_of_the_label_is_no_class():
    frame = table()
    frame["label"] = pd.Categorical(frame["label"], categories=["low", "middle", "high", "extreme"])
    assert set(fit(frame, max_epochs=1).classes) == {"low", "middle", "high"}


@pytest.mark.parametrize(
    ("held", "culprit"),
    [
        (altered(label="unheard-of"), "'unheard-of'"),
        (table(30).drop(columns="label"), "'label'"),
        (table(30).drop(columns="count"), "'count'"),
        (table(30).head(0), "empty"),
    ],
)
def test_validation_data_that_do_not_fit_are_refused(held, culprit):
    with pytest.raises(GraceError, match=culprit):
        fit(table(60), validation=held)


def test_training_that_diverges_says_so():
    with pytest.raises(GraceError, match="learning_rate"):
        fit(table(60), learning_rate=1e30)
