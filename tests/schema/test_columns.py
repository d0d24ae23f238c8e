"""Columns of every type: what reaches the model, what comes back, and how a change is measured and said."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import grace
from grace.methods import METHODS
from grace.schema.columns import date_text, decode_column, dtype_of, encode_column, feature_of
from grace.schema.low_precision import shortest
from reading import read
from subsets import first

N = 120
GRADES = ["low", "mid", "high", "top"]
RNG = np.random.default_rng(7)
FRAME = pd.DataFrame(
    {
        "whole": RNG.integers(0, 40, N),
        "nullable": pd.array(RNG.integers(0, 9, N), dtype="Int64"),
        "real": pd.array(np.round(RNG.normal(0, 2, N), 2), dtype="Float64"),
        "flag": RNG.random(N) < 0.5,
        "maybe": pd.array(RNG.random(N) < 0.5, dtype="boolean"),
        "kind": pd.Categorical(RNG.choice(["bolt", "nut"], N), ["bolt", "nut"]),
        "grade": pd.Categorical(
            RNG.choice(["low", "mid", "high", "top"], N), ["low", "mid", "high", "top"], ordered=True
        ),
        "code": pd.array(RNG.choice(["007", "010"], N), dtype="string"),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 600, N), unit="D"),
        "small": RNG.integers(0, 200, N).astype("uint8"),
        "bin": pd.cut(RNG.normal(0, 1, N), [-9, -0.5, 0.5, 9]),
        "born": [datetime.date(1980, 1, 1) + datetime.timedelta(days=int(d)) for d in RNG.integers(0, 9000, N)],
        "stay": pd.to_timedelta(RNG.integers(0, 500, N), unit="h"),
        "when": pd.Timestamp("2021-05-01", tz="UTC") + pd.to_timedelta(RNG.integers(0, 5000, N), unit="min"),
        "single": RNG.normal(0, 2, N).astype("float32"),
        "half": np.round(RNG.normal(0, 2, N), 1).astype("float16"),
        "narrow": pd.array(np.round(RNG.normal(0, 2, N), 2), dtype="Float32"),
    }
)


@pytest.mark.parametrize("name", FRAME.columns)
def test_cells_come_back_as_they_were(name: str) -> None:
    column = FRAME[name]
    feature = grace.Schema.infer(FRAME).features[list(FRAME).index(name)]
    back = pd.Series(decode_column(encode_column(column, feature), feature), name=name)
    pd.testing.assert_series_equal(back, column.reset_index(drop=True), check_exact=True)
    again = grace.Schema.from_json(grace.Schema.infer(FRAME).to_json())[name]
    assert again == feature


def test_the_model_gets_the_types_of_training() -> None:
    seen = []

    def model(frame: pd.DataFrame) -> np.ndarray:
        seen.append(frame.dtypes)
        return np.where(frame["flag"] & (frame["grade"] >= "high"), "yes", "no")

    explainer = grace.Explainer(grace.wrap(model, classes=["no", "yes"]), FRAME, gamma=1.0)
    for method in METHODS:
        batch = explainer.explain(FRAME.head(5), method=method)
        assert (batch.contrast.dtypes == FRAME.dtypes).all()
    assert all((dtypes == FRAME.dtypes).all() for dtypes in seen)


def test_ordered_categories_are_measured_by_rank() -> None:
    def model(frame: pd.DataFrame) -> np.ndarray:
        return np.where(frame["grade"] >= "high", 0.9, 0.2)

    explainer = grace.Explainer(grace.wrap(model, classes=["no", "yes"]), FRAME)
    spread = np.std(FRAME["grade"].cat.codes)
    for method in ("search", "gradient", "local"):
        rows = FRAME.head(20)[FRAME.head(20)["grade"].isin(["low", "top"])]
        for e in explainer.explain(rows, method=method):
            old, new = (["low", "mid", "high", "top"].index(v) for v in (e.changes[0].old, e.changes[0].new))
            if method == "search":
                assert (old, new) in ((0, 2), (3, 1))
            assert e.distance == pytest.approx(abs(new - old) / spread)


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
def test_dates_are_said_as_days_and_shown_as_dates(method: str) -> None:
    border = pd.Timestamp("2020-09-01")

    def model(frame: pd.DataFrame) -> np.ndarray:
        return np.where(frame["day"] >= border, 0.8, 0.1)

    explainer = grace.Explainer(grace.wrap(model, classes=["early", "late"]), FRAME[["day", "whole"]], domain="minmax")
    row = {"day": pd.Timestamp("2020-08-29"), "whole": 3}
    e = explainer.explain(row, method=method)[0]
    assert e.text() == "Had day been 3 days later, the model would have classified the row as late rather than early."
    assert "um 3 Tage später" in e.text(language="de")
    assert str(e.changes[0]) == "day: 2020-08-29 → 2020-09-01"
    assert explainer.explain(row, method=method).contrast["day"].iloc[0] == border
    assert explainer.explain({"day": "2020-08-29", "whole": 3}, method=method)[0] == e
    assert "2020-09-01" in e.to_svg()
    beyond = explainer.explain({"day": "1999-12-31", "whole": 3})[0]
    assert "1999-12-31" in beyond.notes[0]


def test_a_time_of_day_is_said_as_such() -> None:
    frame = pd.DataFrame({"at": pd.date_range("2020-01-01", periods=200, freq="h"), "x": np.arange(200.0)})

    def late(rows: pd.DataFrame) -> np.ndarray:
        return np.where(rows["at"] >= pd.Timestamp("2020-01-03 07:30"), 0.8, 0.1)

    batch = grace.Explainer(grace.wrap(late, classes=["no", "yes"]), frame, domain="minmax", gamma=1.0).explain(
        {"at": pd.Timestamp("2020-01-01 01:10"), "x": 3.0}, frozen=["x"]
    )
    new = date_text(batch[0].changes[0].new)
    assert batch[0].text().startswith(f"Had at been {new} instead of 2020-")
    assert late(batch.contrast.assign(at=pd.Timestamp(new)))[0] == 0.8  # what is said is what does it
    assert f"because at was 2020-01-01 01:10 instead of {new}" in batch[0].text(template="because")
    assert f"„at“ {new} und nicht 2020-01-01 01:10 gewesen" in batch[0].text(language="de")
    assert f"2020-01-01 01:10 und nicht {new}" in batch[0].text(language="de", template="because")


def test_lengths_of_time_and_decimal_numbers_are_numbers() -> None:
    frame = pd.DataFrame({"stay": pd.to_timedelta(np.arange(100) % 50, unit="D"), "x": np.arange(100.0)})
    frame["fee"] = [Decimal(i) / 4 for i in range(100)]

    def long(rows: pd.DataFrame) -> np.ndarray:
        return np.where((rows["stay"] >= pd.Timedelta(days=20)) & (rows["fee"] >= 10), 0.8, 0.1)

    explainer = grace.Explainer(grace.wrap(long, classes=["no", "yes"]), frame, domain="minmax", gamma=1.0)
    e = explainer.explain({"stay": "17 days", "x": 1.0, "fee": Decimal("9.5")})[0]
    assert e.text().startswith("Had stay been 3 days longer and fee 0.5 higher, ")
    assert explainer.explain({"stay": 17, "x": 1.0, "fee": 9.5})[0] == e
    with pytest.raises(grace.GraceError, match="'stay', row 0: 'long' is not a length of time"):
        explainer.explain({"stay": "long", "x": 1.0, "fee": 9.5})


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_files_with_days_and_lengths_of_time_are_explained(tmp_path: Path, kind: str) -> None:
    days = FRAME["whole"].to_numpy() * 7
    frame = pd.DataFrame({"stay": pd.to_timedelta(days, unit="D"), "born": FRAME["born"]})
    frame["class"] = np.where(frame["stay"] > pd.Timedelta(days=140), "long", "short")
    network = grace.training.fit(frame, "class", max_epochs=40)
    explainer = grace.Explainer(network, frame, target="class", domain="minmax", gamma=1.0)
    explainer.save(str(tmp_path / "model"))
    rows, path = frame.drop(columns="class").head(10), tmp_path / f"rows.{kind}"
    if kind == "csv":
        rows.to_csv(path, index=False)
    else:
        rows.to_parquet(path)
    for name, frozen in (("stay", "born"), ("born", "stay")):
        batch = explainer.explain(rows, frozen=[frozen])
        assert batch.success.any() or name == "born"
        job = grace.scale.run(tmp_path / "model", path, tmp_path / name, workers=1, frozen=[frozen])
        assert (job.explained, job.set_aside) == (batch.success.sum(), 0)
        found = pd.concat([pd.read_parquet(f) for f in sorted((tmp_path / name).rglob("part*.parquet"))])
        assert found[f"new.{name}"].dropna().tolist() == batch.contrast[name][batch.success].tolist()


def test_small_whole_numbers_come_back_wider_where_they_have_to() -> None:
    feature = grace.Schema.infer(FRAME[["small"]]).features[0]
    assert decode_column(np.array([3.0, 255.0]), feature).dtype == np.uint8
    for cells, dtype in (([3.0, 256.0], "int64"), ([-1.0, 2.0], "int64"), ([0.5, 2.0], "float64")):
        wider = decode_column(np.array(cells), feature)
        assert wider.dtype == dtype
        assert wider.tolist() == cells


# -- numbers of half and single precision -----------------------------------------------------------


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.booleans())
def test_numbers_of_less_precision_are_read_as_they_are_printed(numbers: list[float], half: bool) -> None:
    kind = np.float16 if half else np.float32
    with np.errstate(over="ignore"):
        cells = np.array(numbers, dtype=np.float32).astype(kind)
    found = shortest(cells)
    for cell, value in zip(cells, found, strict=True):
        assert np.array_equal(kind(value), cell)
        if not np.isfinite(cell) or cell == np.round(cell):
            assert value == cell
        elif abs(cell) >= np.finfo(kind).tiny and abs(np.frexp(cell)[0]) != 0.5:  # a power of two: rarely longer
            assert value == float(str(cell))


def test_many_numbers_of_less_precision_are_read_like_few() -> None:
    cells = np.random.default_rng(0).normal(0, 100, (7, 10_000)).astype(np.float32)
    found = shortest(cells)
    assert (found.astype(np.float32) == cells).all()
    some = np.random.default_rng(1).choice(cells.size, 500, replace=False)
    assert found.reshape(-1)[some].tolist() == [float(str(c)) for c in cells.reshape(-1)[some]]


def decimals(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """A table of decimals, as a float64 holds them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(0, 1, n).round(2), "b": rng.uniform(0, 50, n).round(1)})
    return frame.assign(c=rng.normal(0, 0.01, n).round(4), n=rng.integers(0, 30, n).astype(float))


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float[pyarrow]"])
def test_a_table_of_single_precision_is_that_of_its_decimals(dtype: str) -> None:
    frame = decimals()
    single = frame.astype("float32").astype(dtype)
    schema, expected = grace.Schema.infer(single), grace.Schema.infer(frame)
    assert [replace(f, dtype="") for f in schema.features] == list(expected.features)
    assert [f.digits for f in schema.features] == [2, 1, 4, 0]
    rows = frame.to_numpy()
    wide = frame.astype("float32").astype("float64")  # what pandas makes of a row of several types
    for given_ in (single, wide, frame, single.to_dict("records"), wide.iloc[0]):
        found = schema.encode(given_)
        assert (found == rows[: len(found)]).all()
    pd.testing.assert_frame_equal(schema.decode(rows), single, check_exact=True)
    assert (expected.encode(single) == wide.to_numpy()).all()  # a model of float64 is asked about the very cells
    other = np.array([0.1, 1 / 3])  # more digits than the column says
    assert decode_column(other, schema["a"]).tolist() == other.tolist()
    assert decode_column(other, schema["a"], narrow=True).tolist() == np.float32(other).tolist()


def picky(frame: pd.DataFrame) -> np.ndarray:
    """Knows the cells of training alone, to the last bit, in one column, and borders that are such cells in another."""
    assert (frame.dtypes == "float32").all()
    known = np.unique(decimals()["a"].to_numpy(dtype=np.float32)[:20])
    edges = decimals()["b"].to_numpy(dtype=np.float32)[:9].astype(np.float64)
    points = np.isin(frame["a"], known) + (frame["b"].to_numpy(dtype=np.float64)[:, None] >= np.sort(edges)).sum(axis=1)
    return np.where(points + 20 * frame["c"].to_numpy(dtype=np.float64) > 4, 0.9, 0.2)


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_black_box_of_single_precision_sees_the_very_cells_and_what_is_said(method: str, declared: bool) -> None:
    train, rows = decimals().astype("float32"), decimals(40, 1).astype("float32")
    rows["a"] = train["a"].head(40)
    schema = grace.Schema(features=tuple(grace.Numeric(name=c) for c in train)) if declared else None
    model = grace.wrap(picky, classes=["no", "yes"], schema=schema)
    explainer = grace.Explainer(model, train, gamma=1.0, polish=method != "gradient")
    batch = explainer.explain(rows, method=method)
    assert batch.success.any()
    assert (batch.original_class == np.where(picky(rows) > 0.5, "yes", "no")).all()
    done = batch.success
    assert (np.where(picky(batch.contrast) > 0.5, "yes", "no") == batch.contrast_class)[done].all()
    for e in batch:
        if e.success and method == "search":
            assert not any(ugly in e.text(template="because") for ugly in ("0000", "9999"))
            typed = pd.DataFrame([read(e.text(), e, batch.schema)[0]], dtype="float32")
            assert (picky(typed)[0] > 0.5) == (e.contrast_class == "yes")
            assert model.predict(read(e.text(), e, batch.schema)[0])[0] == e.contrast_class
    one = explainer.explain(rows.iloc[[7]], method=method)
    pd.testing.assert_frame_equal(one.contrast, batch.contrast.iloc[[7]])


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_network_of_single_precision_is_asked_about_what_is_said(method: str, declared: bool) -> None:
    """To the last bit, with slopes so steep that it may count."""
    train, rows = decimals().astype("float32"), decimals(40, 1).astype("float32")
    border = torch.tensor([1e5, 2e4, 1e6, 1e4], dtype=torch.float64)
    net = torch.nn.Linear(4, 1).double()
    with torch.no_grad():
        net.weight.copy_(border[None])
        net.bias.fill_(-6.1e5)
    schema = grace.Schema(features=tuple(grace.Numeric(name=c) for c in train)) if declared else None
    model = grace.wrap(net, classes=["no", "yes"], outputs="logits", schema=schema)
    explainer = grace.Explainer(model, train, gamma=1.0)
    batch = explainer.explain(rows, method=method)
    done = batch.success
    assert done.sum() > 10
    assert (model.predict(batch.contrast) == batch.contrast_class)[done].all()
    assert (model.schema.encode(batch.contrast) == batch.answers.contrast).all()
    for e in batch:
        if e.success and method in ("search", "gradient", "local"):
            typed = read(e.text(), e, batch.schema)[0]
            assert typed == e.contrast
            score = sum(w * typed[n] for w, n in zip(border.tolist(), train, strict=True)) - 6.1e5
            assert (score > 0) == (e.contrast_class == "yes")


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_files_of_single_precision_get_the_values_that_are_said(tmp_path: Path, kind: str) -> None:
    frame = decimals().astype("float32")
    frame["class"] = np.where(frame["a"] + frame["n"] / 15 > 1, "much", "little")
    explainer = grace.Explainer(grace.training.fit(frame, "class", max_epochs=40), frame, target="class", gamma=1.0)
    explainer.save(str(tmp_path / "model"))
    rows, path = frame.drop(columns="class").head(20), tmp_path / f"rows.{kind}"
    rows.to_csv(path, index=False) if kind == "csv" else rows.to_parquet(path)
    batch = explainer.explain(rows)
    job = grace.scale.run(tmp_path / "model", path, tmp_path / "out", workers=1)
    assert (job.explained, job.set_aside) == (batch.success.sum(), 0)
    found = pd.concat([pd.read_parquet(f) for f in sorted((tmp_path / "out").rglob("part*.parquet"))])
    changed = batch.changed.any()
    assert changed.any()
    for name in changed.index[changed]:
        new = [c.new for e in batch for c in e.changes if c.name == name]
        assert found[f"new.{name}"].dropna().tolist() == new


@pytest.mark.parametrize(
    "cells",
    [[(i % 2, 3) for i in range(50)], [[i] for i in range(50)], pd.period_range("2020-01", periods=50, freq="M")],
)
def test_categories_that_a_model_would_get_as_text_are_refused(cells: object) -> None:
    frame = pd.DataFrame({"cell": cells, "x": np.arange(50.0)})
    with pytest.raises(grace.GraceError, match=r"'cell' holds cells such as .*astype"):
        grace.Explainer(grace.wrap(lambda f: np.where(f["x"] > 3, 0.9, 0.1), classes=["no", "yes"]), frame)


def test_dates_as_text() -> None:
    assert date_text(0.0) == "1970-01-01"
    assert date_text(18262.5) == "2020-01-01 12:00"
    assert date_text(18262.001) == "2020-01-01 00:01:26.400"
    assert date_text(18262 + 1 / 86400) == "2020-01-01 00:00:01"
    with pytest.raises(grace.GraceError, match="'day', row 0: 'soon' is not a date"):
        grace.Schema.infer(FRAME[["day"]]).encode({"day": "soon"})


def test_types_that_suggest_a_feature() -> None:
    kinds = {name: type(feature_of(FRAME[name])).__name__ for name in FRAME}
    assert [n for n, kind in kinds.items() if kind == "Categorical"] == [
        "flag",
        "maybe",
        "kind",
        "grade",
        "code",
        "bin",
    ]
    assert dtype_of(FRAME["whole"], feature_of(FRAME["whole"])) == ""


# -- missing cells ----------------------------------------------------------------------------------


def holes() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "a": np.round(rng.normal(0, 1, 200), 2),
            "b": np.round(rng.normal(0, 1, 200), 2),
            "k": pd.Categorical(rng.choice(["x", "y"], 200)),
        }
    )
    labels = np.where(frame["a"].fillna(0) + (frame["k"] == "x") > 0.3, "yes", "no")
    frame.loc[::5, "a"] = np.nan
    frame.loc[::7, "k"] = None
    return frame, labels


@pytest.mark.parametrize("method", first(2, METHODS))
def test_missing_cells_are_left_alone_and_never_chosen(method: str) -> None:
    frame, labels = holes()
    model = HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype").fit(frame, labels)
    explainer = grace.Explainer(model, frame)
    batch = explainer.explain(frame.head(40), method=method)
    assert (batch.original_class == model.predict(frame.head(40))).all()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()
    assert (batch.contrast.isna() == frame.head(40).isna()).all(axis=None)
    assert not (batch.changed & frame.head(40).isna()).any(axis=None)
    assert batch.success.any()
    first = batch[0]
    assert first.row["a"] is None
    assert grace.Explanation.from_json(first.to_json()) == first
    assert "missing" in first.to_html()
    for e in batch:
        if e.success and method in ("search", "gradient", "local"):
            assert read(e.text(), e, batch.schema)[0] == e.contrast


def test_missing_cells_reach_a_model_of_arrays() -> None:
    frame, labels = holes()
    numbers = frame[["a", "b"]]
    model = HistGradientBoostingClassifier(max_iter=20).fit(numbers.to_numpy(), labels)
    batch = grace.Explainer(model, numbers).explain(numbers.head(20))
    assert (batch.original_class == model.predict(numbers.head(20).to_numpy())).all()
    done = batch.success
    assert (model.predict(batch.contrast.to_numpy())[done] == batch.contrast_class[done]).all()


def test_a_model_that_takes_no_missing_cells_gets_none() -> None:
    frame, _ = holes()
    numbers = frame[["a", "b"]]

    def model(rows: pd.DataFrame) -> np.ndarray:
        assert not rows.isna().any(axis=None)
        return np.where(rows["a"] > 0, "yes", "no")

    explainer = grace.Explainer(grace.wrap(model, classes=["no", "yes"]), numbers)
    with pytest.raises(grace.GraceError, match="'a', row 0: the cell is missing"):
        explainer.explain(numbers.head(1))


# -- rare categories --------------------------------------------------------------------------------


def test_rare_categories_become_one() -> None:
    rng = np.random.default_rng(3)
    job = rng.choice(["clerk", "cook", "nurse"], 200).astype(object)
    job[:4] = ["smith", "baker", "smith", "diver"]
    frame = pd.DataFrame({"job": job, "pay": rng.normal(50, 9, 200).round(1)})
    frame["risk"] = np.where((frame["job"] == "cook") | (frame["pay"] > 55), "high", "low")
    model = grace.training.fit(frame, target="risk", rare="other", max_epochs=30)
    assert model.schema["job"].categories == ("clerk", "cook", "nurse", "other")
    explainer = grace.Explainer(model, frame)
    batch = explainer.explain(
        [{"job": "astronaut", "pay": 40.0}, {"job": "smith", "pay": 40.0}, {"job": "cook", "pay": 1}]
    )
    assert batch[0].row["job"] == batch[1].row["job"] == "other"
    assert batch[0].changes == batch[1].changes
    assert all(c.new != "other" for e in batch for c in e.changes)
    strict = grace.Explainer(grace.training.fit(frame, target="risk", max_epochs=3), frame)
    with pytest.raises(grace.GraceError, match=r"'job'.*unknown category 'astronaut'.*'baker'"):
        strict.explain({"job": "astronaut", "pay": 40.0})


def test_unseen_categories_are_an_error_for_black_boxes() -> None:
    frame = FRAME[["whole", "kind"]]
    labels = frame["whole"] > 20
    model = RandomForestClassifier(5, random_state=0).fit(frame.assign(kind=frame["kind"].cat.codes), labels)
    explainer = grace.Explainer(lambda f: model.predict_proba(f.assign(kind=f["kind"].cat.codes)),
                                frame.assign(y=labels), target="y")  # fmt: skip
    assert explainer.model.classes == (False, True)
    with pytest.raises(grace.GraceError, match="'kind', row 0: unknown category 'screw'"):
        explainer.explain({"whole": 3, "kind": "screw"})


@pytest.mark.parametrize("marker", [None, np.nan])
@pytest.mark.parametrize("dtype", [object, None, "category"])
def test_missing_text_reaches_a_model_as_in_training(dtype: Any, marker: Any) -> None:
    """Also if all cells of a column are missing, as of a row alone."""
    cells = pd.Series(["a", "b", marker, "a", marker] * 20, dtype=dtype)
    frame = pd.DataFrame({"k": cells, "n": range(100)})
    encoder = ColumnTransformer([("k", OneHotEncoder(handle_unknown="ignore"), ["k"])], remainder="passthrough")
    target = np.where((frame["n"] > 40) ^ frame["k"].isna(), "yes", "no")
    model = make_pipeline(encoder, DecisionTreeClassifier(max_depth=4)).fit(frame, target)
    for wrapped in (model, grace.wrap(model.predict_proba, classes=list(model.classes_))):
        explainer = grace.Explainer(wrapped, frame, gamma=1.0)
        np.testing.assert_allclose(explainer.model.predict_proba(frame), model.predict_proba(frame), atol=1e-9)
        rows = frame.iloc[[2, 0, 4, 63]]
        batch = explainer.explain(rows)
        assert (batch.original_class == model.predict(rows)).all()
        for i in range(len(rows)):
            alone = explainer.explain(rows.iloc[[i]])
            assert (alone.answers.before == batch.answers.before[i]).all()
            pd.testing.assert_frame_equal(alone.contrast, batch.contrast.iloc[[i]], check_dtype=False)
            kept = alone.contrast["k"].iloc[0]
            assert pd.isna(kept) == pd.isna(rows["k"].iloc[i])
            assert kept is not None or marker is None
