"""Schemas: what is learnt from a table, what an expert adds, and the way between frames and rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grace import Categorical, GraceError, Numeric, Schema
from grace.schema.features import MAX_CATEGORIES, Feature, Value
from grace.text import languages

pytestmark = pytest.mark.quick

NORMAL = np.random.default_rng(0).normal(size=1997)


def infer(values: Any, **kind: Any) -> Feature:
    """The feature learnt from one column."""
    return Schema.infer(pd.DataFrame({"f": pd.Series(values, **kind)}))["f"]


def one(feature: Feature) -> Schema:
    return Schema(features=(feature,))


# -- inference ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "integer", "decimals", "observed", "typical"),
    [
        (pd.Series([3, 1, 2]), True, 0, (1.0, 3.0), 2.0),
        (pd.Series([3, 1, 2], dtype="uint8"), True, 0, (1.0, 3.0), 2.0),
        (pd.Series([1.0, 2.0, 4.0]), True, 0, (1.0, 4.0), 2.0),
        (pd.Series([1.5, 2.0, 4.0]), False, 1, (1.5, 4.0), 2.0),
        (pd.Series([0.25, -7.125, 3.0]), False, 3, (-7.125, 3.0), 0.25),
        (pd.Series([1 / 3, 2 / 3]), False, 10, (1 / 3, 2 / 3), 1 / 3),
        (pd.Series([3, None, 1], dtype="Int64"), True, 0, (1.0, 3.0), 1.0),
        (pd.Series([0.5, None, 1.25], dtype="Float64"), False, 2, (0.5, 1.25), 0.5),
        (pd.Series([0.5, np.nan, 1.25]), False, 2, (0.5, 1.25), 0.5),
        (pd.Series([0.5, None, 1.25], dtype=object), False, 2, (0.5, 1.25), 0.5),
        (pd.Series([7, 7, 7]), True, 0, (7.0, 7.0), 7.0),
    ],
)
def test_numbers_are_learnt(
    column: pd.Series, integer: bool, decimals: int, observed: tuple[float, float], typical: float
) -> None:
    feature = infer(column)
    assert isinstance(feature, Numeric)
    assert (feature.integer, feature.decimals) == (integer, decimals)
    assert (feature.observed, feature.typical) == (observed, typical)


@pytest.mark.parametrize(
    ("column", "categories", "typical"),
    [
        (pd.Series(["b", "a", "b"]), ("a", "b"), "b"),
        (pd.Series(["b", "a", "b"], dtype=object), ("a", "b"), "b"),
        (pd.Series(["b", None, "b"], dtype="string"), ("b",), "b"),
        (pd.Series([True, False, True]), (False, True), True),
        (pd.Series([True, None, True], dtype="boolean"), (True,), True),
        (pd.Series(pd.Categorical(["lo", "hi", "hi"], categories=["lo", "unused", "hi"])), ("lo", "hi"), "hi"),
        (pd.Series(pd.Categorical([3, 1, 3])), (1, 3), 3),
        (pd.Series(["a", 1, "a"], dtype=object), (1, "a"), "a"),
    ],
)
def test_categories_are_learnt(column: pd.Series, categories: tuple[Value, ...], typical: Value) -> None:
    feature = infer(column)
    assert isinstance(feature, Categorical)
    assert feature.categories == categories
    assert [type(c) for c in feature.categories] == [type(c) for c in categories]  # plain values: they go to JSON
    assert feature.typical == typical


def test_the_target_gives_classes_and_is_no_feature() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "y": [2, 1, 2]})
    schema = Schema.infer(frame, "y")
    assert (schema.names, schema.target, schema.classes) == (["x"], "y", (1, 2))


def test_spread_looks_past_outliers_but_never_vanishes() -> None:
    assert infer(np.append(2 * NORMAL, 1e9)).spread == pytest.approx(2, rel=0.1)
    assert infer([5.5] * 10).spread == 1.0
    assert infer([0] * 999 + [30]).spread == 30.0  # the middle 98 % are constant


@pytest.mark.parametrize(("domain", "share"), [("central", 0.98), ("minmax", 1.0), (0.9, 0.9), (1, 1.0), (0.5, 0.5)])
def test_domain_is_the_middle_share_of_the_data(domain: str | float, share: float) -> None:
    low, high = Schema.infer(pd.DataFrame({"f": NORMAL}), domain=domain).bounds()
    tail = (1 - share) / 2
    assert low[0] == np.quantile(NORMAL, tail, method="lower")
    assert high[0] == np.quantile(NORMAL, 1 - tail, method="higher")
    assert share <= np.mean((low <= NORMAL) & (high >= NORMAL)) <= share + 0.003


@pytest.mark.parametrize("domain", ["central", 0.9, 0.5, "minmax"])
@given(st.lists(st.integers(-3, 8), min_size=1, max_size=300))
def test_whole_numbers_keep_to_the_middle_share_too(domain: str | float, values: list[int]) -> None:
    low, high = (end[0] for end in Schema.infer(pd.DataFrame({"f": values}), domain=domain).bounds())
    tail = {"central": 0.01, "minmax": 0.0}.get(domain) if isinstance(domain, str) else (1 - domain) / 2
    first, last = np.quantile(values, tail, method="lower"), np.quantile(values, 1 - tail, method="higher")
    if first < last:
        assert (low, high) == (first, last)
    else:  # a single value, and the commonest other one
        counts = {v: values.count(v) for v in values if v != first}
        others = [v for v in (low, high) if v != first]
        assert len(others) == bool(counts)
        assert all(counts[v] == max(counts.values()) for v in others)


def test_a_rare_count_is_no_place_to_go() -> None:
    values = np.repeat([0, 1, 2, 8], [700, 250, 45, 5])
    assert [end[0] for end in Schema.infer(pd.DataFrame({"f": values})).bounds()] == [0, 2]
    assert [end[0] for end in Schema.infer(pd.DataFrame({"f": values}), domain="minmax").bounds()] == [0, 8]


JOBS = pd.DataFrame({"job": np.repeat(["clerk", "cook", "pilot", "soldier", "spy"], [600, 380, 12, 5, 3])})


@pytest.mark.parametrize(
    ("domain", "rare"),
    [("central", ("soldier", "spy")), ("minmax", ()), (0.95, ("pilot", "soldier", "spy")), (0.999, ())],
)
def test_rare_categories_are_not_chosen(domain: str | float, rare: tuple[str, ...]) -> None:
    schema = Schema.infer(JOBS, domain=domain)
    assert schema["job"].rare == rare
    assert schema["job"].selectable == tuple(c for c in schema["job"].categories if c not in rare)
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert Schema.infer(JOBS, domain="minmax", like=schema)["job"].rare == ()


def test_at_least_two_categories_stay() -> None:
    frame = pd.DataFrame({"c": np.repeat(["a", "b", "c"], [998, 1, 1])})
    assert len(Schema.infer(frame)["c"].selectable) == 2


def test_an_expert_opens_and_closes_categories() -> None:
    always = Schema(features=(Categorical(name="job", always=("spy",), never=("cook",)),))
    assert Schema.infer(JOBS, like=always)["job"].selectable == ("clerk", "pilot", "spy")
    asked = Schema.infer(JOBS).constrain(ranges={"job": ["clerk", "soldier"]})
    assert asked["job"].selectable == ("clerk", "soldier")
    with pytest.raises(GraceError, match="always='nun' is not one of its categories"):
        Categorical(name="job", categories=("a", "b"), always=("nun",))


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=40), st.integers(0, 4))
def test_decimals_are_those_of_the_data(steps: list[int], decimals: int) -> None:
    values = np.array([s * 10 + 3 for s in steps]) / 10**decimals  # the last digit is never 0
    feature = infer(values)
    assert isinstance(feature, Numeric)
    assert (feature.decimals, feature.integer) == (decimals, decimals == 0)


@pytest.mark.parametrize(
    ("spread", "decimals", "integer", "digits"),
    [
        (1.0, 10, False, 3),
        (1.0, 2, False, 2),  # the data are coarser
        (0.9, 10, False, 4),
        (2.5, 10, False, 3),
        (0.01, 10, False, 5),
        (1.0, None, False, 3),
        (1e3, 2, False, 0),  # the spread is coarser
        (5e4, 2, False, -1),
        (5.0, 0, True, 0),
        (5e6, 0, True, -3),
    ],
)
def test_digits_are_the_coarser_of_data_and_spread(
    spread: float, decimals: int | None, integer: bool, digits: int
) -> None:
    assert Numeric(name="f", spread=spread, decimals=decimals, integer=integer).digits == digits


# -- the expert -----------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "age": [20, 35, 60, 80] * 10,
        "dose": [0.5, 1.25, 2.0, 3.75] * 10,
        "ward": ["a", "b", "b", "c"] * 10,
        "y": ["no", "yes"] * 20,
    }
)
EXPERT = {
    "age": {"low": 18, "high": 65.0, "integer": False, "decimals": 1, "unit": "years", "spread": 10.0, "typical": 40.0},
    "dose": {"low": 0.0, "phrase": "the dose", "more": "stronger"},
    "ward": {"categories": ("c", "b", "a", "z"), "never": ("z",), "typical": "z", "labels": {"a": "ward A"}},
}


def declared(**more: Any) -> Schema:
    features = (
        Numeric(name="age", **EXPERT["age"]),
        Numeric(name="dose", **EXPERT["dose"]),
        Categorical(name="ward", **EXPERT["ward"]),
    )
    return Schema(features=features, target="y", row="the patient", **more)


def overridden() -> Schema:
    schema = replace(Schema.infer(FRAME, "y"), row="the patient")
    for name, parts in EXPERT.items():
        schema = schema.replace(name, **parts)
    return schema


@pytest.mark.parametrize("make", [declared, overridden])
def test_the_expert_wins_over_the_data(make: Any) -> None:
    other = FRAME.assign(age=FRAME.age * 3, dose=FRAME.dose - 7)
    for schema in (Schema.infer(FRAME, like=make()), Schema.infer(other, domain="minmax", like=make())):
        for name, parts in EXPERT.items():
            assert {k: getattr(schema[name], k) for k in parts} == parts
        assert (schema.row, schema.target, schema.classes) == ("the patient", "y", ("no", "yes"))
        low, high = schema.bounds()
        assert (low[0], high[0], low[1]) == (18, 65, 0)


def test_what_the_expert_leaves_open_comes_from_the_data() -> None:
    schema = Schema.infer(FRAME, like=declared(), domain="minmax")
    dose = schema["dose"]
    assert isinstance(dose, Numeric)
    assert (dose.decimals, dose.integer, dose.observed, dose.bounds) == (2, False, (0.5, 3.75), (0.0, 3.75))
    assert schema.domain == "minmax"


def test_an_expert_may_give_words_alone() -> None:
    schema = Schema.infer(FRAME, like=Schema(features=(), target="y", row="the patient"))
    assert (schema.row, schema.target, schema.names) == ("the patient", "y", ["age", "dose", "ward"])


def test_an_expert_may_compute_with_the_data() -> None:
    schema = Schema.infer(FRAME, "y").replace("age", low=FRAME.age.min(), high=FRAME.age.quantile(0.9))
    schema = schema.replace("ward", never=tuple(FRAME.ward.to_numpy()[:1]))
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("parts", "bounds"),
    [
        ({"low": 5.0}, (5.0, 5.0)),  # an expert's low above all data
        ({"high": -1.0}, (-1.0, -1.0)),
        ({"low": 0.5, "high": 2.5, "integer": True}, (1.0, 2.0)),
        ({}, (0.0, 3.0)),
    ],
)
def test_bounds_join_expert_and_data(parts: dict[str, Any], bounds: tuple[float, float]) -> None:
    assert Numeric(name="f", observed=(0.0, 3.0), **parts).bounds == bounds


# -- random schemas -------------------------------------------------------------------------------

finite = st.floats(-1e9, 1e9)
words = st.text(max_size=5)
values = st.one_of(
    st.text(max_size=3), st.booleans(), st.integers(-5, 5), st.floats(-5, 5).filter(lambda v: not v.is_integer())
)
codes = st.sampled_from(languages.names())


@st.composite
def numerics(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted([draw(finite), draw(finite)])
    integer = draw(st.booleans())
    if integer:  # at least one whole number in the range
        low, high = float(math.floor(low)), float(math.ceil(high))
    seen = draw(st.booleans())
    return {
        "low": None if seen else low,
        "high": None if seen else high,
        "observed": (low, high) if seen else draw(st.one_of(st.none(), st.just((low - 1, high + 1)))),
        "integer": draw(st.one_of(st.just(integer), st.none())) if not integer else True,
        "decimals": draw(st.one_of(st.none(), st.just(0) if integer else st.integers(0, 10))),
        "spread": draw(st.one_of(st.none(), st.floats(1e-9, 1e9))),
        "typical": draw(st.one_of(st.none(), finite)),
        "unit": draw(words),
        "more": draw(words),
        "kind": draw(st.sampled_from(["", "count", "date"])),
        "style": draw(st.sampled_from(["", "relative"])),
        "translations": draw(st.dictionaries(codes, st.fixed_dictionaries({"phrase": words}), max_size=2)),
    }


@st.composite
def categoricals(draw: st.DrawFn) -> dict[str, Any]:
    categories = draw(st.lists(values, min_size=1, max_size=6, unique=True))
    never = draw(st.lists(st.sampled_from(categories), max_size=len(categories) - 1, unique=True))
    return {
        "categories": tuple(categories),
        "never": tuple(never),
        "typical": draw(st.one_of(st.none(), st.sampled_from(categories))),
        "labels": draw(st.dictionaries(st.sampled_from([str(c) for c in categories]), words, max_size=2)),
        "phrase": draw(words),
        "protected": draw(st.booleans()),
    }


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    features: list[Feature] = []
    for name in draw(st.lists(words, min_size=1, max_size=4, unique=True)):
        if draw(st.booleans()):
            features.append(Numeric(name=name, **draw(numerics())))
        else:
            features.append(Categorical(name=name, **draw(categoricals())))
    classes = tuple(draw(st.lists(values, max_size=3, unique=True)))
    named = st.sampled_from([str(c) for c in classes]) if classes else words
    return Schema(
        features=tuple(features),
        target=draw(st.one_of(st.none(), st.just("the target"))),
        classes=classes,
        domain=draw(st.sampled_from(["central", "minmax", 0.9])),
        row=draw(words),
        class_words=draw(st.dictionaries(named, words, max_size=2)),
        language=draw(codes),
        translations=draw(st.dictionaries(codes, st.fixed_dictionaries({"row": words}), max_size=2)),
    )


def cells(feature: Feature) -> st.SearchStrategy[Value]:
    if isinstance(feature, Categorical):
        return st.sampled_from(feature.categories)
    return st.integers(-(2**53), 2**53) if feature.integer else st.floats(allow_nan=False, allow_infinity=False)


def frames(schema: Schema) -> st.SearchStrategy[pd.DataFrame]:
    """Rows of the schema, in its domain or not."""
    row = st.fixed_dictionaries({f.name: cells(f) for f in schema.features})
    return st.lists(row, min_size=1, max_size=5).map(lambda rows: pd.DataFrame(rows, dtype=object))


def arrays(schema: Schema) -> st.SearchStrategy[np.ndarray]:
    number = st.one_of(st.floats(-1e300, 1e300), st.floats(-10, 10), st.integers(-10, 10).map(float))
    row = st.lists(number, min_size=len(schema), max_size=len(schema))
    return st.lists(row, min_size=1, max_size=5).map(lambda rows: np.array(rows, dtype=np.float64))


@given(schemas())
def test_json_round_trip(schema: Schema) -> None:
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert repr(again) == repr(schema)  # 1, 1.0 and True are equal, but not the same


@given(st.data())
def test_encode_and_decode_are_inverse(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    frame = data.draw(frames(schema))
    rows = schema.encode(frame)
    again = schema.decode(rows, frame.index)
    for j, feature in enumerate(schema.features):
        was, now = frame[feature.name].tolist(), again[feature.name].tolist()
        if isinstance(feature, Numeric):
            assert rows[:, j].tobytes() == np.array(was, dtype=np.float64).tobytes()
            assert now == was
        else:
            assert [(type(v), v) for v in now] == [(type(v), v) for v in was]
    assert schema.encode(again).tobytes() == rows.tobytes()


@given(st.data())
def test_projection_lands_in_the_domain_and_stays(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    rows = data.draw(arrays(schema))
    before = rows.copy()
    landed = schema.project(rows)
    assert schema.contains(landed).all()
    np.testing.assert_array_equal(schema.project(landed), landed)
    inside = schema.contains(rows)
    assert (landed[inside] == rows[inside]).all()
    assert rows.tobytes() == before.tobytes()
    for j, feature in enumerate(schema.features):
        if isinstance(feature, Categorical):
            assert not {feature.categories[int(c)] for c in landed[:, j]} & set(feature.never)
        elif feature.integer:
            assert (landed[:, j] % 1 == 0).all()


def test_projection_is_to_the_nearest() -> None:
    ward = Categorical(name="ward", categories=("a", "b", "c"), never=("a",))
    schema = Schema(features=(Numeric(name="age", low=18, high=65.5, integer=True), ward))
    frame = pd.DataFrame({"age": [3.2, 40.6, 99.0], "ward": ["a", "b", "c"]}, index=[7, 8, 9])
    landed = pd.DataFrame({"age": [18, 41, 65], "ward": ["b", "b", "c"]}, index=[7, 8, 9])
    pd.testing.assert_frame_equal(schema.project(frame), landed, check_dtype=False)
    np.testing.assert_array_equal(schema.contains(frame), [[False, False], [False, True], [False, True]])


# -- frames of every kind -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 2, None], dtype="Int64"),
        pd.Series([0.1, 0.2, None], dtype="Float64"),
        pd.Series(["u", "v", None], dtype="string"),
        pd.Series(["u", "v", None], dtype="category"),
        pd.Series([True, False, None], dtype="boolean"),
        pd.Series([1e20, 2e20, None]),
        pd.Series(pd.cut([1, 5, np.nan], [0, 2, 6])),
    ],
    ids=lambda c: str(c.dtype),
)
def test_a_table_can_be_encoded_by_its_own_schema(column: pd.Series) -> None:
    frame = pd.DataFrame({"f": column})
    schema = Schema.infer(frame)
    rows = schema.encode(frame, missing=True)
    np.testing.assert_array_equal(np.isnan(rows[:, 0]), [False, False, True])
    assert rows[0, 0] != rows[1, 0]
    full = schema.decode(rows[:2])
    assert schema.encode(full).tobytes() == rows[:2].tobytes()
    assert schema.decode(rows)["f"].isna().tolist() == [False, False, True]


def test_columns_may_have_numbers_for_names() -> None:
    frame = pd.DataFrame([[0.5, 2.0], [1.5, 3.0]])
    np.testing.assert_array_equal(Schema.infer(frame).encode(frame), frame)


def test_order_target_and_index_do_not_matter() -> None:
    schema = Schema.infer(FRAME, "y")
    rows = schema.encode(FRAME[schema.names])
    for frame in (FRAME, FRAME[["y", "ward", "dose", "age"]], FRAME.set_index(FRAME.index[::-1]), FRAME.astype(object)):
        assert schema.encode(frame).tobytes() == rows.tobytes()


# -- errors ---------------------------------------------------------------------------------------


def test_limits_add_up_and_no_limits_change_nothing() -> None:
    schema = Schema.infer(FRAME, "y")
    assert schema.constrain() is schema
    once = schema.constrain(
        frozen="dose", increase_only=["age"], ranges={"age": (None, 50), "ward": ["a"]}, costs={"age": 2}
    )
    apart = schema.constrain(frozen=["dose"]).constrain(costs={"age": 2}, increase_only=["age"])
    assert once == apart.constrain(ranges={"ward": ["a"]}).constrain(ranges={"age": (None, 50)})
    age, ward = once["age"], once["ward"]
    assert isinstance(age, Numeric)
    assert isinstance(ward, Categorical)
    assert (age.increase_only, age.cost, age.low, age.high, age.frozen) == (True, 2, None, 50, False)
    assert ward.selectable == ("a",)
    assert [f.name for f in once.features if f.frozen] == ["dose"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numeric(name="f", low=2, high=1), "'f'.*low=2.*high=1"),
        (lambda: Numeric(name="f", low=float("nan")), "'f'.*low=nan"),
        (lambda: Numeric(name="f", spread=0.0), "'f'.*spread=0.0"),
        (lambda: one(Numeric(name="f", low=1.2, high=1.8, integer=True)).bounds(), "'f'.*whole number.*1.2 and 1.8"),
        (lambda: Categorical(name="f", categories=("a", "a")), "'f'.*twice"),
        (lambda: Categorical(name="f", categories=("a",), never=("b",)), "'f'.*'b'"),
        (lambda: Categorical(name="f", categories=("a",), never=("a",)), "'f'.*never"),
        (lambda: Schema(features=(Numeric(name="f"), Categorical(name="f"))), "feature 'f' occurs twice"),
        (lambda: Schema(features=(), domain="wide"), "domain='wide'.*central.*minmax"),
        (lambda: one(Numeric(name="f")).replace("g", low=1), "'g'.*'f'"),
        (lambda: one(Numeric(name="f")).constrain(frozen=[["f"]]), r"no feature \['f'\]; features: 'f'"),
        (lambda: one(Numeric(name="f")).replace("f", never=("a",)), "'f'.*'never'.*low"),
        (lambda: one(Numeric(name="f")).replace("f", low=2, high=1), "'f'.*low=2.*high=1"),
        (lambda: Schema.from_dict({"features": [], "words": {}}), "schema.*'words'.*verb"),
        (lambda: Schema.from_dict({"features": [{"kind": "numeric", "name": "f", "min": 0}]}), "'f'.*'min'.*low"),
        (lambda: Schema.from_dict({"features": [{"kind": "time", "name": "f"}]}), "'time'.*numeric.*categorical"),
        (lambda: Schema.from_dict({"features": [{"kind": "numeric"}]}), "name"),
        (lambda: Schema.from_dict({"target": "y"}), "features"),
        (lambda: Schema.from_json("{'features': []}"), "JSON"),
        (lambda: infer([f"v{i}" for i in range(MAX_CATEGORIES + 1)]), "'f'.*1001 different"),
        (lambda: infer([np.nan, np.nan]), "'f'.*missing"),
        (lambda: infer([None, None], dtype="string"), "'f'.*missing"),
        (lambda: infer([1.0, np.inf]), "'f', row 1: .*infinite"),
        (lambda: Schema.infer(FRAME, "z"), "'z'.*'ward'"),
        (lambda: Schema.infer(FRAME.drop(columns="y"), "z", like=one(Numeric(name="age"))), "'z'"),
        (lambda: Schema.infer(FRAME[["y"]], "y"), "no feature columns"),
        (lambda: Schema.infer(FRAME[:0], "y"), "empty"),
        (lambda: Schema.infer(FRAME.assign(y=None), "y"), "'y'"),
        (lambda: Schema.infer(FRAME.drop(columns="age"), like=declared()), "'age'"),
        (lambda: Schema.infer(pd.concat([FRAME, FRAME.age], axis=1), "y"), "column 'age' occurs twice"),
        (lambda: Schema.infer(FRAME, "y").encode({"age": 1, "dose": 1, "ward": ["a"]}), "'ward'"),
    ],
)
def test_errors_say_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises(GraceError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_as_many_categories_as_allowed() -> None:
    feature = infer([f"v{i}" for i in range(MAX_CATEGORIES)])
    assert isinstance(feature, Categorical)
    assert len(feature.categories) == MAX_CATEGORIES


def test_columns_in_any_order_after_frames_with_the_same_columns() -> None:
    schema = Schema.infer(FRAME, "y")
    columns = FRAME.drop(columns="y")
    expected = schema.encode(columns)
    for frame in (columns, columns.iloc[[1]], columns[columns.columns[::-1]], columns.assign(id=1), columns.iloc[[1]]):
        assert np.array_equal(schema.encode(frame), expected[: len(frame)] if len(frame) > 1 else expected[[1]])
    with pytest.raises(GraceError, match="column 'age' is missing"):
        schema.encode(columns.drop(columns="age"))
