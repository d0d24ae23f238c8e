"""Networks that predict a number: trained, explained, saved, and by the command."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import grace
from grace import GraceError, training
from grace.cli import main
from grace.problem.target_range import target_range_of


def homes(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.integers(40, 200, n), "kind": rng.choice(["flat", "house"], n)})
    frame["age"] = rng.uniform(0, 90, n).round(1)
    noise = rng.normal(0, 3000, n)
    frame["price"] = 1500 * frame["area"] + 40_000 * (frame["kind"] == "house") - 400 * frame["age"] + noise
    return frame


FRAME = homes()
MODEL = training.fit(FRAME, "price", seed=0, batch_size=64)


def r2(model: grace.Model, frame: pd.DataFrame, target: str) -> float:
    truth = frame[target].to_numpy(float)
    return 1 - np.square(model.predict(frame) - truth).mean() / truth.var()


def test_numbers_come_in_natural_units() -> None:
    assert MODEL.task == "regression"
    assert MODEL.classes == ()
    fresh = homes(500).iloc[400:]
    assert r2(MODEL, fresh, "price") > 0.97
    with pytest.raises(GraceError, match="no probability"):
        MODEL.predict_proba(fresh)


def test_the_embedded_table() -> None:
    table = grace.datasets.load("california_housing")
    model = training.fit(table, seed=0, max_epochs=25)
    assert r2(model, table.split(0).test, "target") > 0.7


def test_units_of_the_target_do_not_matter() -> None:
    """Standardised, the target is the same in thousands: so is everything that is learnt."""
    small = training.fit(FRAME.assign(price=FRAME["price"] / 1000), "price", seed=0, max_epochs=20)
    large = training.fit(FRAME, "price", seed=0, max_epochs=20)
    np.testing.assert_allclose(small.predict(FRAME) * 1000, large.predict(FRAME), rtol=1e-3)


def test_the_loss_is_the_squared_error() -> None:
    """One step of Adam by hand."""
    few = FRAME[["area", "price"]].head(60)
    found = training.fit(few, "price", seed=3, hidden=(4,), max_epochs=1, validation=few)
    schema = found.schema
    net = training.Network(schema, (4,), 1)
    generator = torch.Generator().manual_seed(3)
    x, y = torch.as_tensor(schema.encode(few)).float(), torch.tensor(few["price"].to_numpy())
    with torch.no_grad():
        net.initialise(*training._scaling(x, schema), generator)
    middle, unit = y.mean(), y.std(correction=0)
    order = torch.randperm(len(x), generator=generator)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.003)
    loss = nn.functional.mse_loss(net(x[order])[:, 0], ((y - middle) / unit).float()[order])
    loss.backward()
    optimiser.step()
    with torch.no_grad():
        assert nn.functional.mse_loss(net(x)[:, 0], ((y - middle) / unit).float()) < loss
        expected = net(x)[:, 0].double() * unit + middle
    np.testing.assert_allclose(found.predict(few), expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize("against", [grace.above(250_000), grace.below(150_000), grace.by("+10 %")])
def test_answers_are_true(against: object) -> None:
    explainer = grace.Explainer(MODEL, FRAME)
    rows = FRAME.head(20)
    batch = explainer.explain(rows, against=against)
    done = batch.success
    assert done.sum() >= 5
    after = MODEL.predict(batch.contrast)[done]
    low, high = against.range(MODEL.predict(rows), explainer.spread())
    assert (after >= low[done]).all()
    assert (after <= high[done]).all()
    assert "the model would have predicted" in batch[int(done.argmax())].text()


def test_saved_and_loaded_it_says_the_same(tmp_path) -> None:
    explainer = grace.Explainer(MODEL, FRAME)
    explainer.save(tmp_path / "m")
    again = grace.load(tmp_path / "m")
    assert again.model.task == "regression"
    np.testing.assert_array_equal(again.model.predict(FRAME), MODEL.predict(FRAME))
    wish = grace.above(250_000)
    one, two = (e.explain(FRAME.head(5), against=wish) for e in (explainer, again))
    pd.testing.assert_frame_equal(one.contrast, two.contrast)


def test_which_targets_are_numbers() -> None:
    few = FRAME.assign(price=FRAME["price"].round(-5))  # so few different values are classes
    assert training.fit(few, "price", max_epochs=1).task == "classification"
    assert training.fit(few, "price", max_epochs=1, task="regression").task == "regression"
    whole = FRAME.assign(price=np.arange(len(FRAME)) % 60)
    assert training.fit(whole, "price", max_epochs=1).task == "regression"
    classes = training.fit(whole, "price", max_epochs=1, task="classification").classes
    assert classes == tuple(range(60))
    with pytest.raises(GraceError, match="'kind' holds no numbers"):
        training.fit(FRAME, "kind", task="regression")
    with pytest.raises(GraceError, match="task='ranking' is unknown"):
        training.fit(FRAME, "kind", task="ranking")
    with pytest.raises(GraceError, match=r"has one row.*task=.regression."):
        training.fit(FRAME.head(30), "price")
    with pytest.raises(GraceError, match="only the value"):
        training.fit(FRAME.assign(price=1.0), "price", task="regression")


def test_an_explainer_may_be_given_the_target_of_a_number() -> None:
    """It has more different values than a category may have."""
    wide = pd.concat([FRAME.assign(price=FRAME["price"] + k) for k in range(4)])
    assert wide["price"].nunique() > 1000
    explainer = grace.Explainer(MODEL, wide, target="price")
    assert explainer.schema.classes == ()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("above 10", grace.above(10)),
        ("below -2.5", grace.below(-2.5)),
        ("within 5 10", grace.within(5, 10)),
        ("by -3", grace.by(-3)),
        ("by +10 %", grace.by("+10 %")),
    ],
)
def test_what_is_typed(said: str, wanted: object) -> None:
    assert target_range_of(said) == wanted


@pytest.mark.parametrize("said", ["more", "above", "above ten", "within 5", "by", "by ten %", ""])
def test_what_cannot_be_understood(said: str) -> None:
    with pytest.raises(GraceError, match=r"should have been|a share such as"):
        target_range_of(said)


def test_the_command(tmp_path) -> None:
    FRAME.to_csv(tmp_path / "homes.csv", index=False)

    def run(*args: object) -> object:
        return CliRunner().invoke(main, [str(a) for a in args])

    model, csv = tmp_path / "model", tmp_path / "homes.csv"
    done = run("train", csv, "--target", "price", "-o", model)
    assert done.exit_code == 0, done.output
    assert float(done.stderr.partition("rows: ")[2].partition(". ")[0]) > 0.9
    said = run("explain", model, csv, "--row", 0, "--against", "by +10 %")
    assert said.exit_code == 0
    assert "the model would have predicted at least" in said.stdout.replace("\n", " ")
    wrong = run("explain", model, csv, "--row", 0, "--against", "house")
    assert wrong.exit_code == 1
    assert "above 10" in wrong.stderr
