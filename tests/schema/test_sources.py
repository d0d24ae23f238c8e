"""Training rows from frames and from Parquet: the same ranges, and draws that are decided by the seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grace
from grace import GraceError, datasets
from grace.problem import background
from grace.problem.background import stratified_sample
from grace.schema import sources
from grace.schema.sources import FrameSource, ParquetSource, schemas, source_of
from scaling import loans, saved_explainer

DOMAINS = ("central", "minmax", 0.9)


def written(frame: pd.DataFrame, folder, *, files: int = 3, group: int = 37):
    """The frame as a folder of Parquet files."""
    folder.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
        table = pa.Table.from_pandas(frame.iloc[rows], preserve_index=i % 2 == 0)
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=group)
    return folder


@pytest.fixture(scope="module")
def explainer(tmp_path_factory) -> grace.Explainer:
    return saved_explainer(tmp_path_factory.mktemp("sources") / "model")


@pytest.mark.parametrize("name", ["diabetes", "cancer92", "spam", "loans"])
@pytest.mark.parametrize("declared", [False, True])
def test_ranges_column_by_column_are_those_of_the_table(name, declared, tmp_path):
    """Of several domains at once as of each alone, and of Parquet as of a frame."""
    if name == "loans":
        frame, target, like = loans(300).assign(risk="high"), "risk", None
        frame.loc[[3, 5], "income"] = np.nan
        frame["home"] = frame["home"].astype("category")
    else:
        table = datasets.load(name)
        frame, target, like = table.frame, table.target, table.declared if declared else None
    expected = {d: grace.Schema.infer(frame, target, domain=d, like=like, gaps=declared) for d in DOMAINS}
    assert schemas(FrameSource(frame), target, domains=DOMAINS, like=like, gaps=declared) == expected
    stored = ParquetSource.of(written(frame, tmp_path / "t", files=2))
    assert schemas(stored, target, domains=DOMAINS, like=like, gaps=declared) == expected


def test_rules_learn_from_all_rows(tmp_path):
    frame = pd.DataFrame({"city": ["a", "b", "c", "a"] * 50, "zip": [1, 2, 3, 1] * 50, "x": range(200)})
    like = grace.Schema(features=(), rules=[grace.rules.Follows("zip", of="city")])
    for source in (FrameSource(frame), ParquetSource.of(written(frame, tmp_path / "all"))):
        (rule,) = schemas(source, domains=["central"], like=like)["central"].rules
        assert rule.values == (("a", 1), ("b", 2), ("c", 3))
    frame.loc[199, "zip"] = 7
    with pytest.raises(GraceError, match="does not hold: 'zip' is 1 and 7 where 'city' is 'a'"):
        schemas(ParquetSource.of(written(frame, tmp_path / "t")), domains=["central"], like=like)


def test_an_explainer_learns_the_same_from_parquet(explainer, tmp_path):
    train = loans(500, seed=5)
    train["risk"] = explainer.model.predict(train)
    folder = written(train, tmp_path / "t")
    rows = loans(20, seed=6)
    for how in ({}, {"keep": 60, "seed": 3}):
        held, stored = (grace.Explainer(explainer.model, t, target="risk", **how) for t in (train, str(folder)))
        assert held.schemas == stored.schemas
        assert (held.su == stored.su).all()
        assert (held.background_rows == stored.background_rows).all()
        assert repr(held) == repr(stored)
        for method in ("nearest", "local", "search"):
            one, other = (e.explain(rows, method=method).answers.contrast for e in (held, stored))
            assert (one == other).all()
        assert held.schema_for(0.8) == stored.schema_for(0.8)


def test_of_very_many_rows_some_are_drawn_and_it_is_said(explainer, tmp_path, monkeypatch):
    monkeypatch.setattr(background, "POOL", 400)
    monkeypatch.setattr(background, "MOST_SU", 150)
    monkeypatch.setattr(sources, "BLOCK", 64)
    train = loans(900, seed=5)
    folder = written(train, tmp_path / "t")
    one, same, other = (grace.Explainer(explainer.model, folder, keep=50, seed=s) for s in (1, 1, 2))
    assert "50 of 900 training rows kept, SU from 150>" in repr(one)
    assert (one.training_rows, one.su_rows, len(one.background_rows)) == (900, 150, 50)
    assert (one.background_rows == same.background_rows).all()
    assert not (one.background_rows == other.background_rows).all()
    assert (
        one.schemas
        == other.schemas
        == schemas(FrameSource(train), domains=["central", "minmax"], like=explainer.schema)
    )
    every = {tuple(r) for r in one.schema.encode(train)}
    assert all(tuple(r) in every for r in one.background_rows)
    held = grace.Explainer(explainer.model, train, keep=50, seed=1)
    assert (held.background_rows == one.background_rows).all()
    for keep in (900, 1000, 700, 150):
        asked = grace.Explainer(explainer.model, folder, keep=keep)
        assert len({tuple(r) for r in asked.background_rows}) == len(asked.background_rows) == min(keep, 900)
        assert repr(asked).endswith("SU from 150>")
    one.save(str(tmp_path / "saved"))
    assert repr(grace.load(tmp_path / "saved")) == repr(one)


def test_the_model_is_asked_about_no_more_rows_than_the_pool(monkeypatch):
    asked = []

    def model(frame):
        asked.append(len(frame))
        return np.stack([frame["x"] > 0.5, frame["x"] <= 0.5], axis=1).astype(float)

    monkeypatch.setattr(background, "POOL", 300)
    monkeypatch.setattr(background, "MOST_SU", 100)
    train = pd.DataFrame(np.random.default_rng(0).random((5000, 2)), columns=["x", "y"])
    grace.Explainer(grace.wrap(model, classes=["a", "b"]), train, keep=50)
    assert sum(asked) <= 100 + 2 * 300  # the first rows twice, to see whether it answers alike


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=300),
    st.integers(1, 320),
    st.integers(0, 40),
    st.integers(0, 5),
)
def test_rare_classes_are_kept(classes, most, least, seed):
    """As many rows as asked for, of each class its due, and otherwise the first of the order."""
    classes = np.array(classes)
    order = np.random.default_rng(seed).permutation(len(classes))
    most = min(most, len(classes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background, "LEAST_OF_CLASS", least)
        found = stratified_sample(classes, order, most)
    assert len(set(found.tolist())) == len(found) == most
    assert (np.diff(found) > 0).all()
    due = min(least, most // len(set(classes.tolist())))
    have, all_of = Counter(classes[found].tolist()), Counter(classes.tolist())
    assert all(have[c] >= min(n, due) for c, n in all_of.items())
    plain = Counter(classes[order[:most]].tolist())
    if all(plain[c] >= min(n, due) for c, n in all_of.items()):
        assert set(found.tolist()) == set(order[:most].tolist())


def test_a_class_that_is_rare_in_training_is_not_rare_for_nearest():
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"x": rng.random(60_000), "y": rng.random(60_000)})
    rare = grace.wrap(
        lambda f: np.stack([f["x"] <= 0.995, f["x"] > 0.995], axis=1).astype(float), classes=["no", "yes"]
    )
    few = grace.Explainer(rare, train, keep=1000, method="nearest")
    assert (few.background_classes() == 1).sum() == (train["x"] > 0.995).sum().clip(max=500)


def test_what_is_no_table_of_training_rows_is_named(explainer, tmp_path):
    with pytest.raises(GraceError, match="nowhere"):
        grace.Explainer(explainer.model, tmp_path / "nowhere.parquet")
    loans(3).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(GraceError, match="rows are drawn from Parquet"):
        grace.Explainer(explainer.model, tmp_path / "t.csv")
    loans(3).iloc[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(GraceError, match="there are no rows"):
        grace.Explainer(explainer.model, tmp_path / "none.parquet")
    loans(3).drop(columns="home").to_parquet(tmp_path / "less.parquet")
    with pytest.raises(GraceError, match="column 'home' is missing from the data"):
        grace.Explainer(explainer.model, tmp_path / "less.parquet")
    with pytest.raises(GraceError, match="target column 'risk' is not in the data"):
        schemas(source_of(loans(3)), "risk", domains=["central"])
    with pytest.raises(GraceError, match="no feature columns"):
        schemas(source_of(loans(3)[["home"]]), "home", domains=["central"])
