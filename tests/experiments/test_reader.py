"""Simulated readers: what they read off a text, where they then go, and what they expect of other edits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import grace
from benchmark_world import loans
from grace import Categorical, Numeric, Schema
from grace.errors import GraceError
from grace.experiments.reproduction import reading
from grace.experiments.reproduction.plan import Sizes
from grace.experiments.reproduction.reader import POLICIES, Shown, TableStatistics, believe
from grace.experiments.reproduction.simulation import Attribution, Shap, other_edits, simulate
from grace.experiments.reproduction.subject import Subject
from grace.study.lime import Lime
from grace.text.languages import en
from grace.text.precision import Delta, Direction, NewCategory, Ratio, Replacement, Within, difference
from grace.text.sentence import stable_interval
from grace.text.vocabulary import feature_in

HOMES = ("none", "owned", "rented")

World = tuple[grace.Explainer, TableStatistics]


class Sum(nn.Module):
    """Says yes where income plus ten times debts exceeds 100; nothing else matters."""

    def forward(self, rows: Tensor) -> Tensor:
        above = (rows[:, 0] + 10 * rows[:, 1] - 100) / 10
        return torch.stack([-above, above], dim=1)


@pytest.fixture(scope="module")
def world() -> World:
    """Rows with an income of about 80 and 6 debts own their home and are "yes"; "no" rows have 20 and 2, and rent."""
    rng = np.random.default_rng(0)
    yes = rng.random(400) < 0.5
    frame = pd.DataFrame(
        {
            "income": np.where(yes, 80, 20) + rng.normal(0, 8, 400).round(1),
            "debts": np.where(yes, 6, 2) + rng.integers(-2, 3, 400),
            "home": np.where(yes, "owned", "rented"),
        }
    )
    schema = Schema(
        features=(Numeric(name="income"), Numeric(name="debts"), Categorical(name="home", categories=HOMES))
    )
    model = grace.wrap(Sum(), classes=["no", "yes"])
    explainer = grace.Explainer(model, frame, schema=replace(schema, classes=("no", "yes")))
    return explainer, TableStatistics.of(explainer)


SHOWN = Shown(np.array([90.0, 5.0, 1.0]), 1, 0.98)
HAD = "Had {}, the model would have classified the row as no rather than yes."


def edited(world: World, method: str, text: str, policy: str = "") -> list[float]:
    return believe(method, text, SHOWN, world[1], policy).edit.tolist()


def test_what_is_typical(world: World) -> None:
    explainer, known = world
    rows, classes = explainer.background_rows, explainer.background_classes()
    assert rows is not None
    assert classes is not None
    no = rows[classes == 0]
    assert known.typical[0, 0] == np.sort(no[:, 0])[(len(no) - 1) // 2]
    assert known.typical[:, 2].tolist() == [2, 1]  # no rows rent, yes rows own
    assert np.array_equal(known.typical, known.others[::-1])  # of two classes, the others are the other


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("income been 40 lower", [50, 5, 1]),
        ("income been about 40 lower and debts 3 lower", [50, 2, 1]),
        ("income been 40.5 lower, debts 3 higher and home rented instead of owned", [49.5, 8, 2]),
        ("income been 45.25 instead of 90", [45.25, 5, 1]),
        ("income been 45.25 instead of about 90.12 and debts 3 instead of 5", [45.25, 3, 1]),
        ("income been half as high", [45, 5, 1]),
        ("income been about two thirds as high", [60, 5, 1]),
        ("income been slightly lower", [90 * 0.875, 5, 1]),
        ("debts been less than a tenth as high", [90, 0.25, 1]),
        ("home been none instead of owned", [90, 5, 0]),
    ],
)
def test_grace_goes_where_it_is_told(world: World, said: str, row: list[float]) -> None:
    debts = world[1].schema["debts"]
    assert isinstance(debts, Numeric)
    assert debts.integer
    row = [row[0], max(float(np.round(row[1])), debts.bounds[0]), row[2]]
    assert edited(world, "grace", HAD.format(said)) == pytest.approx(row)


def test_grace_with_a_direction_alone_goes_to_what_is_typical_or_usual(world: World) -> None:
    known = world[1]
    usual = known.central["income"]
    assert isinstance(usual, Numeric)
    assert edited(world, "grace", HAD.format("income been lower"))[0] == known.typical[0, 0]
    higher = edited(world, "grace", HAD.format("income been higher"))[0]  # "no" rows earn less: the end of the range
    assert higher == max(90, usual.bounds[1])


def test_no_answer_moves_nothing_and_expects_nothing(world: World) -> None:
    belief = believe("grace", "The model classified the row as yes; no contrast was found.", SHOWN, world[1], "exact")
    assert np.array_equal(belief.edit, SHOWN.row)
    assert not belief.expects(np.array([[0.0, 0, 0]])).any()
    with pytest.raises(GraceError, match="not one that this schema"):
        reading.contrast(HAD.format("the moon been 3 lower"), world[1].schema)


def test_what_grace_expects(world: World) -> None:
    belief = believe("grace", HAD.format("income been 40 lower and debts 3 lower"), SHOWN, world[1], "exact")
    rows = [[50, 2, 1], [50, 5, 1], [30, 3, 1], [10, 5, 1], [90, 5, 2], [130, 5, 1], [49, 2, 0]]
    # whole way; half of it; 1.5 and 2/3; 2 and 0; nothing; backwards; the whole way and more
    assert belief.expects(np.array(rows, dtype=float)).tolist() == [True, False, True, True, False, False, True]
    assert belief.named == (0, 1)


LIME = (
    "The model classified the row as yes. If income is less than or equal to 60, on average, this prediction would be "
    "0.40 less yes. If debts is less than or equal to 3 or greater than 7, on average, this prediction would be 0.20 "
    "less yes. If home is not owned, on average, this prediction would be 0.05 more yes."
)


def test_lime_leaves_the_bins_that_speak_for_the_class(world: World) -> None:
    known = world[1]
    assert edited(world, "lime", LIME, "edge") == [60, 3, 1]
    assert edited(world, "lime", LIME, "typical") == [known.typical[0, 0], known.typical[0, 1], 1]
    low = known.central["income"].bounds[0], known.central["debts"].bounds[0]  # type: ignore[union-attr]
    assert edited(world, "lime", LIME, "far") == [*low, 1]
    other_way = LIME.replace("less yes", "more yes").replace("0.05 more", "0.05 less")
    assert edited(world, "lime", other_way, "edge") == [90, 5, 2]


def test_what_lime_expects(world: World) -> None:
    expects = believe("lime", LIME, SHOWN, world[1], "edge").expects
    rows = [[60, 5, 1], [60.1, 3, 1], [60, 8, 1], [60, 5, 2], [60, 3, 2], [90, 7, 1]]
    # 0.98 less 0.4; 0.2; 0.6; 0.4 and 0.05 more; 0.6 and 0.05 more; nothing
    assert expects(np.array(rows, dtype=float)).tolist() == [False, False, True, False, True, False]
    sure = replace(SHOWN, probability=0.85)
    assert believe("lime", LIME, sure, world[1], "edge").expects(np.array([[60.0, 5, 1]])).tolist() == [True]


def test_shap_takes_away_what_speaks_for_the_class(world: World) -> None:
    text = Attribution("yes", (("income", 0.4), ("home", -0.1), ("debts", 0.2))).text()
    assert reading.shares(text) == (("income", 0.4), ("home", -0.1), ("debts", 0.2))
    known = world[1]
    assert edited(world, "shap", text, "typical") == [known.typical[0, 0], known.typical[0, 1], 1]
    expects = believe("shap", text, SHOWN, known, "typical").expects
    half = (90 + known.typical[0, 0]) / 2
    rows = np.array([[known.typical[0, 0], 5, 1], [known.typical[0, 0], known.typical[0, 1], 1], [half, 5, 1]])
    assert expects(rows).tolist() == [False, True, False]


def test_without_an_explanation(world: World) -> None:
    known = world[1]
    belief = believe("none", "", SHOWN, known, "typical")
    assert belief.edit.tolist() == known.typical[0].tolist()  # of three features, all are drawn
    assert belief.expects(np.stack([known.typical[0], known.typical[1]])).tolist() == [True, False]
    assert believe("none", "", SHOWN, known, "typical").named == belief.named


def test_other_edits_are_balanced_and_only_where_they_may_be(world: World) -> None:
    explainer = world[0]
    pool = explainer.background_rows
    assert pool is not None

    def predict(rows: np.ndarray) -> np.ndarray:
        return (rows[:, 0] + 10 * rows[:, 1] > 100).astype(int)

    for among in (None, (0,), (0, 1)):
        edits, flips = other_edits(SHOWN, pool, predict, among)
        assert len(edits) == 20
        assert flips.sum() == 10
        assert np.array_equal(predict(edits) != SHOWN.label, flips)
        changed = edits != SHOWN.row
        assert changed.any(axis=1).all()
        assert among is None or not np.delete(changed, among, axis=1).any()
        again = other_edits(SHOWN, pool, predict, among)
        assert np.array_equal(again[0], edits)
    assert len(other_edits(SHOWN, pool, predict, ())[0]) == 0
    assert len(other_edits(SHOWN, pool, predict, (2,))[0]) == 0  # nothing there changes the class


@pytest.fixture(scope="module")
def credit() -> Subject:
    return Subject(grace.datasets.load("german_credit"), 0)


@pytest.mark.parametrize("style", ["exact", "magnitude", "relative"])
def test_sentences_are_read_back_as_they_were_meant(credit: Subject, style: str) -> None:
    explainer = credit.explainer
    batch = explainer.explain(credit.test.head(60), method="gradient", max_features=4)
    schema = explainer.schema_for("minmax")
    count = 0
    for e in batch:
        told = reading.contrast(e.text(style, template="had"), schema)
        if not e.success:
            assert told is None
            continue
        assert told is not None
        assert told.after == e.contrast_class
        assert [name for name, _ in told.moves] == [c.name for c in e.changes]
        for (_, said), change in zip(told.moves, e.changes, strict=True):
            feature = feature_in(change.feature, "en", "en")
            ratios = isinstance(feature, Numeric) and en.has_ratios(feature)
            interval = stable_interval(change) if isinstance(feature, Numeric) else None
            meant = difference(feature, change.old, change.new, style, ratios=ratios, interval=interval)
            assert type(said) is type(meant)
            if isinstance(said, Delta) and isinstance(meant, Delta):
                assert (said.size, said.up) == (meant.size, meant.up)
            elif isinstance(said, Ratio) and isinstance(meant, Ratio):
                assert said.ratio == meant.ratio
            elif isinstance(said, Direction) and isinstance(meant, Direction):
                assert said.up == meant.up
            elif isinstance(said, NewCategory) and isinstance(meant, NewCategory):
                assert said.new == meant.new
            elif isinstance(said, Within):
                assert said == meant
            else:
                assert isinstance(said, Replacement)
                assert said == meant
            count += 1
    assert count > 60


def test_exact_sentences_change_the_class_every_time(credit: Subject) -> None:
    found = simulate(credit, Sizes(reader_rows=12), "grace")
    done = credit.explainer.explain(credit.test.head(12)).success
    exact = found["policies"][0]
    assert exact["policy"] == "exact"
    assert exact["flipped"] == done.astype(int).tolist()
    assert all(t <= 20 and r <= t for r, t in zip(exact["any_right"], exact["any_total"], strict=True))


def test_limes_own_sentences_are_read_back() -> None:
    subject = Subject(loans(), 0)
    lime = Lime(subject.explainer, samples=300)
    for e in lime.explain(subject.test.head(6)):
        told = reading.outsides(e.text(), subject.explainer.schema)
        assert [o.name for o in told] == [r.name for r in e.reasons]
        for o, r in zip(told, e.reasons, strict=True):
            assert o.weight == pytest.approx(r.weight, abs=0.006)
            for said, meant in ((o.low, r.low), (o.high, r.high)):
                assert (said is None) == (meant is None)
                assert said is None or said == pytest.approx(meant, rel=1e-5)


def test_every_reader_of_a_table_with_words() -> None:
    subject = Subject(loans(), 0)
    sizes = Sizes(reader_rows=4, lime_samples=200, shap_samples=100)
    for method in ("grace", "lime", "none"):
        found = simulate(subject, sizes, method)
        assert [p["policy"] for p in found["policies"]] == list(POLICIES[method])
        assert all(len(p["flipped"]) == 4 for p in found["policies"])


def test_shap_of_a_sum(world: World) -> None:
    pytest.importorskip("shap", exc_type=ImportError)
    explainer = world[0]
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    told = Shap(explainer, samples=200).explain(SHOWN.row)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002
    weights = dict(told.shares)
    assert told.label == "yes"
    assert weights["income"] > weights["debts"] > 0.02
    assert abs(weights.get("home", 0)) < 1e-9
    assert Shap(explainer, samples=200).explain(SHOWN.row) == told
