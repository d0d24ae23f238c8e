"""What users get wrong is answered in one line that names the culprit; what is merely unusual is explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import grace
from grace import Categorical, GraceError, Numeric, Schema
from grace.methods import METHODS

pytestmark = pytest.mark.quick

RANDOM = np.random.default_rng(0)
COUNT = 120
X = pd.DataFrame(
    {
        "age": RANDOM.integers(18, 80, COUNT),
        "dose": RANDOM.normal(2, 1, COUNT).round(2),
        "ward": RANDOM.choice(["a", "b", "c"], COUNT),
        "score": RANDOM.normal(0, 1, COUNT).round(3),
    },
    index=np.arange(COUNT) * 10 + 100,
)
ROWS = X[:6]


class Score(nn.Module):
    """Linear in the scaled numbers and the category, for three classes."""

    def __init__(self) -> None:
        super().__init__()
        weight = [[1.0, -2.0, 0.0], [1.0, 0.0, -1.0], [-1.0, 2.0, 0.0], [0.5, -1.0, 0.5]]
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x: Tensor) -> Tensor:
        ward = (x[:, 2:3] == 1).to(x.dtype)
        scaled = torch.cat([(x[:, :1] - 48) / 18, x[:, 1:2] - 2, ward, x[:, 3:]], dim=1)
        return scaled @ self.weight


CLASSES = ["low", "mid", "high"]


def wrap(**more: Any) -> grace.Model:
    return grace.wrap(Score(), classes=CLASSES, **more)


Y = wrap(schema=Schema.infer(X)).predict(X)
TRAIN = X.assign(y=Y)
EXPLAINER = grace.Explainer(wrap(), TRAIN, target="y")
SCHEMA = EXPLAINER.schema
UNTRAINED = grace.Explainer(wrap(), schema=SCHEMA, gamma=1)


def test_the_table_is_worth_asking_about() -> None:
    assert set(Y) == set(CLASSES)
    assert EXPLAINER.explain(ROWS).success.all()


# -- rows -----------------------------------------------------------------------------------------


def with_cell(column: str, value: Any, frame: pd.DataFrame = ROWS) -> pd.DataFrame:
    """The rows with another value in the third one, whose label is 120."""
    frame = frame.astype({column: object})
    frame.loc[120, column] = value
    return frame


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "empty frame": (X[:0], "no rows.*empty"),
    "empty list": ([], "no rows.*empty"),
    "missing column": (ROWS.drop(columns="dose"), "'dose' is missing"),
    "missing key": ({"age": 30, "dose": 1.0, "ward": "a"}, "'score' is missing"),
    "duplicate column": (pd.concat([ROWS, ROWS["age"]], axis=1), "'age' occurs twice"),
    "text for a number": (with_cell("dose", "much"), "'dose', row 120: 'much' is not a number.*correct"),
    "text column for a number": (ROWS.assign(dose="much"), "'dose', row 100: 'much' is not a number"),
    "NaN": (with_cell("dose", np.nan), r"'dose', row 120: .*missing.*model\.impute"),
    "None": (with_cell("age", None), r"'age', row 120: .*missing.*model\.impute"),
    "NA": (with_cell("age", pd.NA), r"'age', row 120: .*missing.*model\.impute"),
    "missing category": (with_cell("ward", None), r"'ward', row 120: .*missing.*model\.impute"),
    "inf": (with_cell("score", np.inf), "'score', row 120: .*infinite.*correct"),
    "-inf": (ROWS.assign(score=-np.inf), "'score', row 100: .*infinite"),
    "unseen category": (with_cell("ward", "z"), "'ward', row 120: unknown category 'z'.*'a', 'b', 'c'"),
    "number for a category": (ROWS.assign(ward=1), "'ward', row 100: unknown category 1;"),
    "dict of lists": (ROWS[:1].to_dict("list"), "'(age|ward)'"),
    "a string": ("rows.csv", "rows must be a DataFrame.*not str"),
    "an int": (3, "rows must be a DataFrame.*not int"),
    "None at all": (None, "rows must be a DataFrame.*not NoneType"),
    "an array of other width": (ROWS.to_numpy()[:, :3], r"array.*4.*'age'.*shape \(\d+, 3\); give a DataFrame"),
    "a cube": (np.zeros((2, 2, 4)), "array.*shape"),
    "a list of lists": (ROWS.to_numpy().tolist(), "rows must be a DataFrame.*list"),
    "a list with a string": ([ROWS.iloc[0].to_dict(), "row"], "rows must be a DataFrame.*list"),
}


@pytest.mark.parametrize("ask", [EXPLAINER.explain, EXPLAINER.model.predict, EXPLAINER.model.predict_proba])
@pytest.mark.parametrize("what", BAD_ROWS)
def test_bad_rows(what: str, ask: Callable[[Any], Any]) -> None:
    rows, message = BAD_ROWS[what]
    with one_line(message):
        ask(rows)


def one_line(message: str) -> Any:
    """An error whose message is one line that matches."""
    return pytest.raises(GraceError, match=rf"\A(?=[^\n]*\Z)[^\n]*({message})")


def test_a_missing_cell_can_be_imputed() -> None:
    rows = with_cell("dose", np.nan, with_cell("ward", None))
    filled = EXPLAINER.model.impute(rows)
    assert filled.loc[120, "dose"] == np.quantile(X["dose"], 0.5, method="lower")
    assert filled.loc[120, "ward"] == X["ward"].mode()[0]
    pd.testing.assert_frame_equal(filled.drop(index=120), ROWS.drop(index=120), check_dtype=False)
    assert list(EXPLAINER.explain(filled).index) == list(rows.index)


# -- settings -------------------------------------------------------------------------------------

BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    *[({"max_features": k}, f"max_features={k}: .*whole number of at least 1") for k in (0, -1, 2.5, True, None)],
    ({"max_features": "3"}, "max_features='3'"),
    ({"steps": 0}, "steps=0"),
    ({"neighbours": 0}, "neighbours=0"),
    *[
        ({name: most}, f"{name}={most}: it must be at most")
        for name in ("max_features", "n", "steps", "neighbours", "max_calls")
        for most in (2**63, 2**64)
    ],
    ({"max_features": 10**400}, "max_features=a whole number of very many digits: it must be at most"),
    *[({"memory": m}, "memory=.* is not a size") for m in ("9" * 400 + "TB", 2**70, 10**400)],
    ({"max_calls": -1}, "max_calls=-1: .*0: no limit"),
    ({"prove": "yes"}, "prove='yes': it must be True or False"),
    *[({"gamma": g}, f"gamma={g}: .*between 0 and 1") for g in (-0.1, 1.1, float("nan"), None)],
    ({"method": "magic"}, "method='magic'.*gradient, local, nearest, deepfool"),
    ({"local_model": "forest"}, "local_model='forest'.*logistic, tree"),
    ({"K": 3}, "'K'.*max_features"),
    ({"gama": 0.3}, "'gama'.*gamma"),
    *[({"domain": d}, f"domain={d!r}.*central.*minmax") for d in ("wide", 0, 0.0, -0.5, 1.5, float("nan"), "", [0.9])],
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS, ids=str)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    message = message.replace("[", r"\[")
    with one_line(message):
        EXPLAINER.explain(ROWS, **settings)
    with one_line(message):
        grace.Explainer(wrap(), TRAIN, target="y", **settings)


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63, 1.5, True, "0"])
def test_bad_seeds(seed: Any) -> None:
    with one_line("seed="):
        grace.Explainer(wrap(), TRAIN, target="y", seed=seed)
    with one_line("seed="):
        grace.training.fit(TRAIN, "y", seed=seed)


def test_more_features_than_there_are_is_all_of_them() -> None:
    most, all_of_them = (EXPLAINER.explain(ROWS, max_features=k) for k in (1_000_000, ROWS.shape[1]))
    pd.testing.assert_frame_equal(most.contrast, all_of_them.contrast)
    assert [e.text() for e in most] == [e.text() for e in all_of_them]


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("huge", "against.*'huge'.*'low', 'mid', 'high'"),
        (["low"] * 5 + ["huge"], "against.*'huge'.*'low', 'mid', 'high'"),
        (1, "against.*1.*'low', 'mid', 'high'"),
        (["low", "mid"], "against.*2 classes for 6 rows"),
        ([], "against.*0 classes for 6 rows"),
        (np.array(["low", "mid"]), "against.*2 classes for 6 rows"),
        ([["low"]] * 6, "against.*low"),
    ],
    ids=str,
)
def test_bad_against(against: Any, message: str) -> None:
    with one_line(message):
        EXPLAINER.explain(ROWS, against=against)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pd.Index])
def test_against_may_be_any_kind_of_list(kind: Callable[[list[str]], Any]) -> None:
    wanted = ["low", "mid", "high"] * 2
    one_by_one = [EXPLAINER.explain(ROWS[i : i + 1], against=w) for i, w in enumerate(wanted)]
    together = EXPLAINER.explain(ROWS, against=kind(wanted))
    pd.testing.assert_frame_equal(together.contrast, pd.concat([e.contrast for e in one_by_one]))


def test_settings_may_come_from_numpy() -> None:
    odd = EXPLAINER.explain(ROWS, max_features=np.int64(2), gamma=np.float32(0.5))
    pd.testing.assert_frame_equal(odd.contrast, EXPLAINER.explain(ROWS, max_features=2, gamma=0.5).contrast)
    assert grace.Explanation.from_json(odd[0].to_json()).settings["max_features"] == 2


# -- explainers -----------------------------------------------------------------------------------

INCOMPLETE = Schema(features=(*SCHEMA.features[:3], Numeric(name="score")))
NO_CATEGORIES = Schema(features=(*SCHEMA.features[:2], Categorical(name="ward"), SCHEMA.features[3]))

BAD_EXPLAINERS: dict[str, tuple[Callable[[], Any], str]] = {
    "a module": (lambda: grace.Explainer(Score(), TRAIN, target="y"), "Score.*grace.wrap"),
    "no model": (lambda: grace.Explainer(None, TRAIN, target="y"), "NoneType.*grace.wrap"),
    "no train": (lambda: grace.Explainer(wrap()), "train=.*schema="),
    "an incomplete schema": (lambda: grace.Explainer(wrap(), schema=INCOMPLETE), "'score'.*train="),
    "no categories": (lambda: grace.Explainer(wrap(), schema=NO_CATEGORIES), "'ward'.*train="),
    "another domain": (lambda: grace.Explainer(wrap(), schema=SCHEMA, domain=0.8), "domain=0.8.*train="),
    "empty train": (lambda: grace.Explainer(wrap(), TRAIN[:0], target="y"), "no rows.*empty"),
    "a file name": (lambda: grace.Explainer(wrap(), "train.csv", target="y"), "train.csv does not exist"),
    "an array": (lambda: grace.Explainer(wrap(), X.to_numpy()), "DataFrame.*not ndarray"),
    "unknown target": (lambda: grace.Explainer(wrap(), TRAIN, target="label"), "'label' is not in the data.*'y'"),
    "forgotten target": (lambda: grace.Explainer(wrap(), TRAIN), "120 rows of 5 features"),
    "duplicate column": (
        lambda: grace.Explainer(wrap(), pd.concat([TRAIN, X["age"]], axis=1), target="y"),
        "'age' occurs twice",
    ),
    "missing column": (
        lambda: grace.Explainer(wrap(), TRAIN.drop(columns="dose"), target="y", schema=SCHEMA),
        "'dose' is missing",
    ),
    "inf": (
        lambda: grace.Explainer(wrap(), with_cell("dose", np.inf, X), schema=SCHEMA),
        "'dose', row 120: .*infinite",
    ),
    "all missing": (lambda: grace.Explainer(wrap(), X.assign(dose=np.nan)), "'dose'.*missing.*drop"),
    "text": (
        lambda: grace.Explainer(wrap(), with_cell("dose", "much", X), schema=SCHEMA),
        "'dose', row 120: 'much' is not a number",
    ),
    "unseen category": (
        lambda: grace.Explainer(wrap(), with_cell("ward", "z", X), schema=SCHEMA),
        "'ward', row 120: unknown category 'z'",
    ),
    "unknown label": (
        lambda: grace.Explainer(wrap(), with_cell("y", "huge", TRAIN), target="y"),
        "'y': unknown class 'huge'.*'low', 'mid', 'high'",
    ),
    "unknown device": (lambda: grace.Explainer(wrap(), X, device="tpu9000"), "device='tpu9000'"),
}


@pytest.mark.parametrize("what", BAD_EXPLAINERS)
def test_bad_explainers(what: str) -> None:
    make, message = BAD_EXPLAINERS[what]
    with one_line(message):
        make()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "local"}, "local.*train="),
        ({"method": "nearest"}, "nearest.*train="),
        ({"gamma": 0.5}, "gamma=0.5.*train.*gamma=1"),
        ({"domain": "minmax"}, "domain='minmax'.*training rows"),
    ],
)
def test_what_needs_training_rows_says_so(settings: dict[str, Any], message: str) -> None:
    with one_line(message):
        UNTRAINED.explain(ROWS, **settings)


def test_a_schema_is_enough_for_the_rest() -> None:
    pd.testing.assert_frame_equal(UNTRAINED.explain(ROWS).contrast, EXPLAINER.explain(ROWS, gamma=1).contrast)


def test_training_rows_may_be_dicts() -> None:
    explainer = grace.Explainer(wrap(), TRAIN.to_dict("records"), target="y")
    assert explainer.schema == SCHEMA


def test_a_domain_is_the_same_now_or_later() -> None:
    holes = X.assign(score=X["score"].where(X["score"] > 0))  # what was imputed must not count
    now, later = grace.Explainer(wrap(), holes, domain=0.8).schema, grace.Explainer(wrap(), holes).schema_for(0.8)
    np.testing.assert_array_equal(later.bounds(), now.bounds())


# -- rows of every kind ---------------------------------------------------------------------------

RECORDS = X.to_dict("records")
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "frame": (ROWS, list(ROWS.index)),
    "default index": (ROWS.reset_index(drop=True), list(range(6))),
    "text index": (ROWS.set_index(pd.Index(list("uvwxyz"))), list("uvwxyz")),
    "repeated index": (ROWS.set_index(pd.Index([7] * 6)), [7] * 6),
    "with target": (TRAIN[:6], list(ROWS.index)),
    "other order": (TRAIN[:6][["ward", "y", "score", "age", "dose"]], list(ROWS.index)),
    "objects": (ROWS.astype(object), list(ROWS.index)),
    "nullable": (ROWS.convert_dtypes(), list(ROWS.index)),
    "categorical": (ROWS.astype({"ward": "category"}), list(ROWS.index)),
    "dicts": (RECORDS[:6], list(range(6))),
    "dicts in another order": ([dict(reversed(r.items())) for r in RECORDS[:6]], list(range(6))),
    "tuple of dicts": (tuple(RECORDS[:6]), list(range(6))),
    "dict": (RECORDS[0], [0]),
    "series": (ROWS.iloc[0], [100]),
    "series with target": (TRAIN.loc[100], [100]),
    "nameless series": (pd.Series(RECORDS[0]), [0]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind(kind: str) -> None:
    rows, index = KINDS[kind]
    expected, found = EXPLAINER.explain(ROWS), EXPLAINER.explain(rows)
    assert list(found.index) == index
    assert list(found.contrast.index) == list(found.changed.index) == list(found.to_frame().index) == index
    assert len(found) == len(index)
    for mine, theirs in zip(found, expected, strict=False):
        assert mine.to_dict() == theirs.to_dict()


def test_rows_are_left_alone() -> None:
    rows = TRAIN[:6].copy()
    EXPLAINER.explain(rows, method="local")
    pd.testing.assert_frame_equal(rows, TRAIN[:6])


# -- unusual, but no error ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gradient", "local"])
@pytest.mark.parametrize("domain", ["central", "minmax", 0.5])
@pytest.mark.parametrize(
    ("cells", "notes"),
    [
        ({"age": 130}, ["the value given for age, 130, lies outside"]),
        ({"age": 40.5}, ["the value given for age, 40.5, is not a whole number"]),
        (
            {"dose": -1234.567, "score": 1e6},
            ["the value given for dose, −1234.567, lies", "the value given for score, 1,000,000, lies"],
        ),
    ],
    ids=str,
)
def test_a_row_outside_the_domain_is_explained(
    cells: dict[str, float], notes: list[str], domain: str | float, method: str
) -> None:
    row = {**RECORDS[0], "age": 45, "dose": 2.0, "score": 0.0, **cells}
    explained = EXPLAINER.explain(row, domain=domain, method=method, gamma=1)
    explanation = explained[0]
    outside = [name for name, ok in zip(X.columns, explained.schema.contains(row)[0], strict=True) if not ok]
    assert [n.split()[4].strip(",") for n in explanation.notes] == outside
    assert all("outside the allowed range" in n or "not a whole number" in n for n in explanation.notes)
    for start in notes:
        assert any(n.startswith(start) for n in explanation.notes)

    assert explanation.success
    assert explanation.checks["domain"]
    changed = explained.changed.to_numpy()[0]
    assert list(X.columns[changed]) == [n for n in X.columns if n in {c.name for c in explanation.changes}]
    assert explained.schema.contains(explained.contrast)[0][changed].all()
    before, after = explained.schema.encode(row)[0], explained.schema.encode(explained.contrast)[0]
    assert after[~changed].tobytes() == before[~changed].tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_an_absurd_row_is_answered(method: str) -> None:
    explanation = EXPLAINER.explain({**RECORDS[0], "score": 1e300}, method=method)[0]
    assert [n.split()[4] for n in explanation.notes] == ["score,"]
    assert explanation.success or explanation.reason


def test_a_usual_row_has_no_notes() -> None:
    assert EXPLAINER.explain({"age": 45, "dose": 2.0, "ward": "a", "score": 0.0})[0].notes == ()
