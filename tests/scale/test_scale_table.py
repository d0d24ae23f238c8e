"""The table of a job's answers: one line per answer, beside the columns of the input."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grace
from grace import GraceError
from grace.explain.answer_table import unique_names
from grace.scale import read, run
from grace.scale.budget import rows_per_part
from scaling import HOW, loans, small_world


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> SimpleNamespace:
    return small_world(tmp_path_factory.mktemp("table"), 50, [25, 31])


def keyed(frame: pd.DataFrame) -> pd.DataFrame:
    """With columns of several types that are no features, one with the name of an answer's column, and the target."""
    n = len(frame)
    return frame.assign(
        customer=[f"c{i:03}" for i in range(n)],
        branch=pd.Categorical(["north", "south"] * (n // 2)),
        opened=pd.Timestamp("2020-01-01"),
        code=np.arange(n, dtype=np.int16),
        distance=0.5,
        tags=[["a", "b"]] * n,
        risk="?",
    )


def test_other_columns_are_carried_along_with_their_types(world, tmp_path):
    keyed(world.frame).to_parquet(tmp_path / "rows.parquet", row_group_size=13)
    job = run(world.model, tmp_path / "rows.parquet", tmp_path / "out", **HOW)
    assert job.carried == ("customer", "branch", "opened", "code", "distance", "tags")
    table = pq.read_table(tmp_path / "out/answers")
    assert table.column_names[:8] == [
        *("row", "customer", "branch", "opened", "code", "input.distance", "tags", "rank"),
    ]
    assert pa.types.is_timestamp(table.schema.field("opened").type)
    assert table.schema.field("code").type == pa.int16()
    assert table.schema.field("branch").type == pa.string()
    answers = job.read()
    assert answers["customer"].tolist() == [f"c{i:03}" for i in answers.index]
    assert answers["branch"].tolist() == [["north", "south"][i % 2] for i in answers.index]
    assert [x.tolist() for x in answers["tags"]] == [["a", "b"]] * 48
    assert (answers["input.distance"] == 0.5).all()
    assert (answers["distance"] > 0).all()
    batch = world.explainer.explain(world.frame.drop(index=[25, 31]), method="gradient")
    assert answers["distance"].tolist() == batch.answers.distance.tolist()


def test_named_columns_alone_are_carried_along(world, tmp_path):
    keyed(world.frame).to_parquet(tmp_path / "rows.parquet")
    rows = tmp_path / "rows.parquet"
    job = run(world.model, rows, tmp_path / "out", id="customer", **HOW)
    assert job.read().columns[:2].tolist() == ["customer", "rank"]
    assert run(world.model, rows, tmp_path / "two", id=["risk", "years"], **HOW).carried == ("risk", "years")
    assert (read(tmp_path / "two")["years"] == world.frame["years"].drop(index=[25, 31])).all()
    assert run(world.model, rows, tmp_path / "none", id=[], **HOW).read().columns[0] == "rank"
    with pytest.raises(GraceError, match=r"other settings \(id=\[\"customer\"\] instead of null\)"):
        run(world.model, rows, tmp_path / "out", **HOW)
    with pytest.raises(GraceError, match=r"id='customr': .* has no such column"):
        run(world.model, rows, tmp_path / "bad", id=["customr"], **HOW)
    with pytest.raises(GraceError, match="named twice"):
        run(world.model, rows, tmp_path / "bad", id=["code", "code"], **HOW)
    world.frame.assign(__row__=1).to_parquet(rows)
    with pytest.raises(GraceError, match="'__row__' has a name that is needed here"):
        run(world.model, rows, tmp_path / "bad", **HOW)


def test_cells_of_text_are_carried_as_they_are_written(world, tmp_path):
    """Country codes and numbers with zeros before them; only an empty cell is missing. A feature's NA still is."""
    cells = ["NA", "007", "", "None", " a ", "1e3"]
    frame = world.frame.head(6).assign(code=cells)
    frame.loc[5, "income"] = None
    frame.to_csv(tmp_path / "rows.csv", index=False, na_rep="NA")
    job = run(world.model, tmp_path / "rows.csv", tmp_path / "out", **HOW)
    assert job.read()["code"].fillna("missing").tolist() == ["NA", "007", "missing", "None", " a "]
    assert job.rejects()["reason"].tolist() == ["the cell is missing"]


def test_files_that_differ_in_a_type_give_parts_of_one_type(world, tmp_path):
    (tmp_path / "rows").mkdir()
    for i, key in enumerate(([1, 2, 3], [1.5, 2.5, 3.5], ["a", "b", "c"])):
        world.frame.iloc[3 * i : 3 * i + 3].assign(key=key, **{f"own{i}": 1}).to_parquet(tmp_path / f"rows/{i}.parquet")
    job = run(world.model, tmp_path / "rows", tmp_path / "out", **{**HOW, "part_rows": 2})
    assert job.carried == ("key",)
    assert job.read()["key"].tolist() == ["1", "2", "3", "1.5", "2.5", "3.5", "a", "b", "c"]


def test_all_answers_of_a_row_are_there_by_rank(world, tmp_path):
    keyed(world.frame).to_parquet(tmp_path / "rows.parquet")
    how = {**HOW, "method": "search", "n": 3}
    job = run(world.model, tmp_path / "rows.parquet", tmp_path / "out", text=True, **how)
    good = world.frame.drop(index=[25, 31])
    batch = world.explainer.explain(good, method="search", n=3)
    assert (job.explained, job.not_explained, job.set_aside) == (batch.success.sum(), (~batch.success).sum(), 2)
    answers = job.read()
    expected = [(i, e) for i, first in zip(good.index, batch, strict=True) for e in (first, *first.alternatives)]
    assert len(expected) > 2 * len(good)
    assert answers.index.tolist() == [i for i, _ in expected]
    assert answers["customer"].tolist() == [f"c{i:03}" for i, _ in expected]
    ranks = answers.groupby(level=0)["rank"].apply(list)
    assert all(found == list(range(1, len(found) + 1)) for found in ranks)
    for (_, line), (i, e) in zip(answers.iterrows(), expected, strict=True):
        assert (line["success"], line["original_class"]) == (e.success, e.original_class)
        assert line["contrast_class"] == e.contrast_class
        assert line["features"] == len(e.changes)
        assert line["distance"] == e.distance
        assert line["text"] == e.text()
        assert line["notes"] == "; ".join(e.notes)
        assert line["probability_before"] == pytest.approx(e.probability(e.original_class))
        assert line["probability_after"] == pytest.approx(e.probability(e.contrast_class, after=True))
        changed = {c.feature.name for c in e.changes}
        for name in good.columns:
            assert pd.isna(line[f"old.{name}"]) == pd.isna(line[f"new.{name}"]) == (name not in changed)
            if name in changed:
                assert line[f"old.{name}"] == good.loc[i, name]


def test_rows_without_an_answer_have_one_line(world, tmp_path):
    world.frame.head(20).to_parquet(tmp_path / "rows.parquet")
    how = {**HOW, "max_features": 1, "against": "low", "n": 2, "frozen": ["income", "years"]}
    job = run(world.model, tmp_path / "rows.parquet", tmp_path / "out", **how)
    answers = job.read()
    missed = answers[~answers["success"]]
    assert job.not_explained == len(missed) > 0
    assert (missed["rank"] == 1).all()
    assert missed.index.is_unique
    assert missed["contrast_class"].isna().all()
    assert missed["probability_after"].isna().all()
    assert answers["probability_before"].notna().all()
    assert answers["text"].isna().all()
    assert answers["notes"].isna().all()


def test_old_values_keep_their_decimals(world, tmp_path):
    """A row may have half a year where answers have whole ones."""
    frame = world.frame.head(8).astype({"years": float})
    frame["years"] += 0.5
    frame.to_parquet(tmp_path / "rows.parquet")
    how = {**HOW, "frozen": ["income", "home", "member", "since"]}
    answers = run(world.model, tmp_path / "rows.parquet", tmp_path / "out", **how).read()
    changed = answers.dropna(subset="old.years")
    assert len(changed)
    assert (changed["old.years"] == frame["years"][changed.index]).all()
    assert (changed["new.years"] % 1 == 0).all()


def test_numbers_have_no_probability(tmp_path):
    explainer = grace.Explainer(
        grace.wrap(lambda f: f["income"].to_numpy() * 2.0, task="regression"), loans(50), method="search"
    )
    loans(5).to_parquet(tmp_path / "rows.parquet")
    answers = explainer.explain_file(tmp_path / "rows.parquet", tmp_path / "out", against=grace.above(150)).read()
    assert answers["probability_before"].isna().all()
    changed = answers["old.income"].dropna()
    assert len(changed)
    assert (changed == loans(5)["income"][changed.index]).all()


@given(st.lists(st.sampled_from(["a", "row", "input.row", "input.input.row", "rank"]), unique=True))
def test_names_never_clash(names):
    taken = ["row", "rank", "success"]
    said = unique_names(names, taken)
    assert len({*said, *taken}) == len(said) + len(taken)
    assert all(s == n or (n in taken and s.endswith("." + n)) for s, n in zip(said, names, strict=True))


def test_wide_tables_have_parts_of_fewer_rows(world, tmp_path):
    assert [rows_per_part(d) for d in (1, 100, 500, 5000, 10**7)] == [10_000, 10_000, 2000, 200, 1]
    more = pd.DataFrame(1, index=range(12), columns=[f"x{i}" for i in range(200)])
    pd.concat([loans(12), more], axis=1).to_parquet(tmp_path / "rows.parquet")
    how = {"workers": 0, "method": "gradient"}
    run(world.model, tmp_path / "rows.parquet", tmp_path / "out", **how)
    with pytest.raises(GraceError, match=r"parts of another size \(4878 instead of 10000\)"):
        run(world.model, tmp_path / "rows.parquet", tmp_path / "out", part_rows=10_000, **how)
    assert Path(tmp_path / "out/answers/part-000000.parquet").exists()
