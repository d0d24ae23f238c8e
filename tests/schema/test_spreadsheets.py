"""CSV files for people hold no formulas: text that would start one has an apostrophe in front."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grace.cli.terminal import write_batch
from grace.scale.job_folder import JobFolder
from grace.scale.results import rejects
from grace.schema.files import escape_formula, escape_formulas, unescape_formula
from grace.study.responses import Response, read_csv, to_csv
from saved_folder import explainer, rows

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "'=1", '"=1', "=cmd|' /C calc'!A0", "-x", "＝1"]
PLAIN = ["", "a", "a=b", "1", "-1", "+2.5", "-1e-05", ".5", "it's", "x-y", "'quoted'"]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_starts_a_formula(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("cell", [*PLAIN, -1, 2.5, None, True])
def test_what_starts_none_stays_as_it_is(cell: object) -> None:
    assert escape_formula(cell) is cell


@given(st.text(alphabet="=+-@'\" \t\r\n1.ea", max_size=6))
def test_what_is_defused_is_restored(text: str) -> None:
    assert unescape_formula(escape_formula(text)) == text
    assert escape_formula(text)[:1] not in ("=", "@", "\t", "\r", "\n")


def test_frames() -> None:
    frame = pd.DataFrame({"=a": ["=1", None, "x"], "n": [-1.5, 2, 3], "c": pd.Categorical(["+x", "y", "y"])})
    out = escape_formulas(frame.set_index(pd.Index(["@1", "b", "c"])))
    assert list(out.columns) == ["'=a", "n", "c"]
    assert list(out.index) == ["'@1", "b", "c"]
    assert out.iloc[0].tolist() == ["'=1", -1.5, "'+x"]
    assert pd.isna(out.iloc[1, 0])


def test_answers(tmp_path: Path) -> None:
    """Labels of rows in the CSV that the command writes; Parquet is as it was."""
    frame = rows(20).drop(columns="verdict").set_index(pd.Index([f"=r{i}" for i in range(20)]))
    batch = explainer().explain(frame)
    write_batch(batch, tmp_path / "out.csv")
    write_batch(batch, tmp_path / "out.parquet")
    with (tmp_path / "out.csv").open(newline="") as stream:
        lines = list(csv.reader(stream))
    assert [line[0] for line in lines[1:]] == [f"'=r{i}" for i in range(20)]
    assert pd.read_parquet(tmp_path / "out.parquet").index[0] == "=r0"


def test_rows_set_aside(tmp_path: Path) -> None:
    import pyarrow as pa

    place = JobFolder(tmp_path)
    place.begin({"input": "", "explainer": "", "question": {}, "part_rows": 10}, [])
    place.write_part(0, pa.table({"rank": [1], "success": [True]}), [(3, "=column", "-reason"), (-1, "plain", "it's")])
    assert (tmp_path / "rejects" / "part-000000.csv").read_text().splitlines()[1:] == [
        "3,'=column,'-reason",
        "-1,plain,it's",
    ]
    read = rejects(tmp_path)
    assert read.index.tolist() == [3, -1]
    assert read.to_numpy().tolist() == [["=column", "-reason"], ["plain", "it's"]]


def test_answers_of_a_study(tmp_path: Path) -> None:
    given = [Response(participant="p", method="grace", correct=True, predicted=label) for label in ("=1+1", "-1", "no")]
    table = to_csv(given)
    assert "'=1+1" in table
    assert ",-1," in table
    (tmp_path / "responses.csv").write_text(table)
    assert [r.predicted for r in read_csv(tmp_path / "responses.csv")] == ["=1+1", "-1", "no"]
