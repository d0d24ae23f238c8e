"""Memory budgets, big tables in parts, and rows that are set aside."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import grace
from grace import GraceError
from grace.explain import batching
from grace.problem import binding
from grace.problem.budget import COSTS, LEAST, Size, bytes_of, rows_within
from grace.scale import sample
from grace.scale.rejected_rows import split_rejects
from grace.schema.tables.table_file import ROW, Part, TableFile
from scaling import SRC, loans, saved_explainer

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def explainer(tmp_path_factory) -> grace.Explainer:
    return saved_explainer(tmp_path_factory.mktemp("scale") / "model")


# -- the budget ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("500MB", 500_000_000),
        ("2GiB", 2 * 1024**3),
        (" 1.5 gb ", 1_500_000_000),
        ("100000 kB", 10**8),
        ("0.5TB", 5 * 10**11),
        ("256 MiB", 256 << 20),
        ("70000000", 70_000_000),
        (10**9, 10**9),
    ],
)
def test_sizes_as_people_write_them(said, size):
    assert bytes_of(said) == size


@pytest.mark.parametrize("said", ["much", "", "-1GB", "1 XB", "1GB2", "10 MB", "1e9", 5, True, 2.0, None, "1,5GB"])
def test_what_is_no_size_is_named(said):
    with pytest.raises(GraceError, match=f"memory={said!r}".replace("(", "\\(")):
        bytes_of(said)


@given(
    st.integers(LEAST, 10**11),
    st.integers(LEAST, 10**11),
    st.sampled_from(sorted(COSTS)),
    st.integers(1, 500),
    st.integers(0, 20_000),
)
def test_more_memory_never_means_fewer_rows_and_they_fit(one, other, method, features, background):
    size = Size(features, features, 3, 16 * features, 80, background)
    few, many = (rows_within(m, torch.device("cpu"), method, size, 5, 4) for m in sorted((one, other)))
    assert 1 <= few <= many <= COSTS[method].most


def test_the_memory_of_a_call_decides_how_many_rows_are_asked_together(explainer, monkeypatch):
    asked = []
    real = batching.rows_within
    monkeypatch.setattr(batching, "rows_within", lambda memory, *rest: asked.append(memory) or real(memory, *rest))
    frame = loans(3)
    explainer.explain(frame)
    explainer.explain(frame, memory="100MB")
    grace.Explainer(explainer.model, schema=explainer.schema, gamma=1, memory="2GiB").explain(frame)
    assert asked == [0, 10**8, 2 << 30]
    with pytest.raises(GraceError, match="memory='tiny'"):
        explainer.explain(frame, memory="tiny")


@pytest.mark.parametrize("method", sorted(COSTS))
@settings(FEW, max_examples=5)
@given(step=st.integers(1, 12), start=st.integers(0, 4))
def test_answers_do_not_depend_on_how_many_rows_are_asked_together(explainer, method, step, start):
    frame = loans(12, seed=3).iloc[start:]
    whole = explainer.explain(frame, method=method).answers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "rows_within", lambda *_: step)
        parts = explainer.explain(frame, method=method).answers
    assert (whole.success == parts.success).all()
    if method == "deepfool":  # not polished: its values have all the digits that a sum in another order leaves
        assert parts.contrast == pytest.approx(whole.contrast, rel=1e-9, abs=1e-9)
    else:
        assert (whole.contrast == parts.contrast).all()
        assert (whole.distance == parts.distance).all()


PEAK = """
import ctypes, sys
import numpy as np, pandas as pd, torch
torch.set_num_threads(1)
import grace

def status(key):
    return 1024 * int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1])

torch.manual_seed(9)  # of ten, the network that takes the search most
x = np.random.default_rng(0).normal(size=(6000, 40)).round(3)
rows = pd.DataFrame(x, columns=[f"f{i}" for i in range(40)])
module = torch.nn.Sequential(torch.nn.Linear(40, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3)).double()
e = grace.Explainer(grace.wrap(module, classes=["a", "b", "c"]), rows, method=sys.argv[1])
e.explain(rows.head(20))
ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was freed before must not hide what is taken now
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = status("VmRSS")
e.explain(rows.head(2400), memory=sys.argv[2])
print(status("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is Linux's")
@pytest.mark.parametrize("method", sorted(COSTS))
def test_the_work_stays_within_the_memory(method):
    """Beside the rows and their answers, which are 2400 rows of 40 numbers a few times over."""
    env = {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PEAK, method, "150MB"], env=env, capture_output=True, check=True)
    assert int(done.stdout) < 150e6 + 10 * 2400 * 40 * 8


# -- training rows ------------------------------------------------------------------------------------


def test_how_many_training_rows_are_kept_is_said_and_decided_by_the_seed(explainer, tmp_path):
    train = loans(300, seed=5)

    def kept(**how):
        return grace.Explainer(explainer.model, train, **how)

    assert kept().training_rows == len(kept().background_rows) == 300
    assert "kept" not in repr(kept())
    few = kept(keep=50, seed=1)
    assert (few.training_rows, len(few.background_rows)) == (300, 50)
    assert "50 of 300 training rows kept" in repr(few)
    assert (few.background_rows == kept(keep=50, seed=1).background_rows).all()
    assert not (few.background_rows == kept(keep=50, seed=2).background_rows).all()
    rows = {tuple(r) for r in kept().background_rows}
    assert all(tuple(r) in rows for r in few.background_rows)
    assert (few.su == kept().su).all()  # SU is that of all rows
    few.save(str(tmp_path / "few"))
    assert grace.load(tmp_path / "few").training_rows == 300
    with pytest.raises(GraceError, match="keep=0"):
        kept(keep=0)


def test_models_are_asked_of_many_rows_in_blocks(explainer, monkeypatch):
    rows = explainer.background_rows
    whole = binding.query(explainer.model, rows)
    monkeypatch.setattr("grace.models.base.AT_ONCE", 7)
    assert binding.query(explainer.model, rows) == pytest.approx(whole, abs=1e-12)


def test_rows_are_drawn_from_a_table_of_any_size(tmp_path):
    frame = loans(500)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet", row_group_size=37)
    drawn = sample(tmp_path / "t.parquet", 60, seed=4)
    assert len(set(drawn.index)) == 60
    pd.testing.assert_frame_equal(drawn, frame.loc[drawn.index], check_dtype=False)
    assert drawn.index.equals(sample(tmp_path / "t.parquet", 60, seed=4).index)
    assert not drawn.index.equals(sample(tmp_path / "t.parquet", 60, seed=5).index)
    assert len(sample(tmp_path / "t.parquet", 10_000)) == 500


# -- parts --------------------------------------------------------------------------------------------


@FEW
@given(st.integers(1, 200), st.integers(1, 50), st.integers(1, 60), st.sets(st.integers(0, 20)), st.booleans())
def test_parts_are_slices_of_the_table(tmp_path, rows, group, size, done, as_text):
    frame = loans(rows)
    path = tmp_path / ("t.csv" if as_text else "t.parquet")
    if as_text:
        frame.to_csv(path, index=False)
    else:
        pq.write_table(pa.Table.from_pandas(frame), path, row_group_size=group)
    table = TableFile.of(path)
    assert table.fingerprint()[1] == rows
    parts = list(table.parts(size, ["years", "home"], frozenset(done)))
    expected = [p for p in range(-(-rows // size)) if p not in done]
    assert [p.number for p in parts] == expected
    for part in parts:
        piece = frame.iloc[part.number * size : (part.number + 1) * size]
        assert (part.start, part.stop) == (piece.index[0], piece.index[-1] + 1)
        assert part.rows[ROW].to_pylist() == piece.index.tolist()
        assert [str(v.decode() if as_text else v) for v in part.rows["home"].to_pylist()] == piece["home"].tolist()
        assert [int(v) for v in part.rows["years"].to_pylist()] == piece["years"].tolist()
        if not as_text:
            assert table.part(part.number, size, ["years", "home"]).rows.equals(part.rows)


def test_a_folder_of_files_is_one_table(tmp_path):
    frame = loans(100)
    for i, start in enumerate(range(0, 100, 30)):
        frame.iloc[start : start + 30].to_parquet(tmp_path / f"{i}.parquet", index=False)
    parts = list(TableFile.of(tmp_path).parts(45, ["years"]))
    assert [len(p.rows) for p in parts] == [45, 45, 10]
    assert pa.concat_tables([p.rows for p in parts])["years"].to_pylist() == frame["years"].tolist()
    loans(3).drop(columns="years").to_parquet(tmp_path / "9.parquet")
    TableFile.of(tmp_path).need(["home", "since"])
    with pytest.raises(GraceError, match=r"column 'years' is missing from .*9\.parquet"):
        TableFile.of(tmp_path).need(["home", "years"])


def test_files_of_one_table_may_differ_in_types_and_in_columns_that_are_not_asked_for(tmp_path, explainer):
    """Whole numbers, numbers with decimals, text, and a column of nothing."""
    kinds = [{"years": "int64"}, {"years": "float32", "income": "float64"}, {"years": "str"}, {"years": object}]
    frame = loans(40).drop(columns="since")
    for i, kind in enumerate(kinds):
        part = frame.iloc[10 * i : 10 * i + 10].astype(kind)
        part["years"] = None if i == 3 else part["years"]
        part.assign(**{f"note{i}": 1}).to_parquet(tmp_path / f"{i}.parquet", index=i == 1)
    table = TableFile.of(tmp_path)
    for size in (7, 20, 40):
        parts = list(table.parts(size, frame.columns))
        assert [table.part(p.number, size, frame.columns).rows for p in parts] == [p.rows for p in parts]
        sifted = [split_rejects(p, replace(explainer.schema, features=explainer.schema.features[:4])) for p in parts]
        good = pd.concat([rows for rows, _ in sifted if rows is not None])
        assert good["years"].astype(float).tolist() == frame["years"].iloc[:30].tolist()
        assert good["income"].tolist() == frame["income"].iloc[:30].tolist()
        assert [r.row for _, rejects in sifted for r in rejects] == list(range(30, 40))
    pq.write_table(pa.table({"years": [[1], [2]]}), tmp_path / "9.parquet")
    with pytest.raises(GraceError, match=r"column 'years' is of types that do not go together"):
        list(TableFile.of(tmp_path).parts(100, ["years"]))


# -- rows that do not fit -----------------------------------------------------------------------------

LINES = b"""income,years,home,member,since
50.5,10,owned,True,2016-01-01
plenty,10,owned,True,2016-01-01
50.5,10,castle,True,2016-01-01
50.5,10,owned
 60 ,+10,owned,false,2016-01-01
,10,owned,True,2016-01-01

50.5,1e1,"ow
ned",True,2016-01-01
50.5,10,\xff\xfe,True,2016-01-01
50.5,10,owned,True,2016-13-77
50.5,inf,owned,False,2016-02-03
50.5,10,owned,False,2016-02-03,extra
50.5,10,rented,False,2016-02-03
"""


def test_every_bad_row_of_a_file_is_named(explainer, tmp_path):
    (tmp_path / "t.csv").write_bytes(LINES)
    (part,) = TableFile.of(tmp_path / "t.csv").parts(100, explainer.schema.names)
    assert (part.start, part.stop) == (0, 12)
    frame, rejects = split_rejects(part, explainer.schema)
    assert frame.index.tolist() == [0, 4, 11]
    assert frame.loc[4].tolist() == [60.0, 10.0, "owned", False, "2016-01-01"]
    found = {r.row: (r.column, r.reason) for r in rejects}
    assert sorted(found) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert found[1] == ("income", "'plenty' is not a number")
    assert found[2][0] == "home"
    assert found[2][1].startswith("unknown category 'castle'")
    assert found[3] == (None, "the line has 3 cells instead of 5")
    assert found[5] == ("income", "the cell is missing")
    assert found[6][0] == found[7][0] == "home"
    assert found[8] == ("since", "'2016-13-77' is not a date")
    assert found[9] == ("years", "the value is infinite")
    assert found[10] == (None, "the line has 6 cells instead of 5")
    filled, rejects = split_rejects(part, explainer.schema, missing=True)
    assert filled.index.tolist() == [0, 4, 5, 11]


BAD = st.sampled_from(["plenty", "", None, "1e999", "owned", "True", "12.5", "2020-01-01", "-3"])


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 29), st.sampled_from(["income", "years", "home", "member"]), BAD), max_size=12),
    st.booleans(),
)
def test_a_row_is_set_aside_if_and_only_if_it_cannot_be_read_alone(explainer, faults, missing):
    frame = loans(30, seed=8).drop(columns="since").astype(object).assign(since=loans(30, seed=8)["since"])
    text = {c: frame[c].astype(str).tolist() for c in ("income", "years", "home", "member")}
    for row, column, cell in faults:
        text[column][row] = cell
    arrays = {c: pa.array(cells, pa.string()) for c, cells in text.items()}
    table = pa.table({**arrays, "since": pa.array(frame["since"]), ROW: pa.array(range(30))})
    good, rejects = split_rejects(Part(0, 0, 30, table), explainer.schema, missing=missing)
    kept = [] if good is None else good.index.tolist()
    assert sorted(kept + [r.row for r in rejects]) == list(range(30))
    if good is not None:
        explainer.schema.encode(good, missing=missing)
    for r in rejects:
        cells = {c: text[c][r.row] for c in text} | {"since": frame["since"][r.row]}
        cells["member"] = {"True": True, "False": False}.get(cells["member"], cells["member"])
        with pytest.raises(GraceError, match=r.column):
            explainer.schema.encode(pd.DataFrame([cells]), missing=missing)


def test_tables_that_are_none_are_named(tmp_path):
    with pytest.raises(GraceError, match="nowhere"):
        TableFile.of(tmp_path / "nowhere.parquet")
    with pytest.raises(GraceError, match=r"no \.parquet files"):
        TableFile.of(tmp_path)
    (tmp_path / "t.parquet").write_bytes(b"PAR1 not")
    with pytest.raises(GraceError, match=r"t\.parquet cannot be read as Parquet"):
        TableFile.of(tmp_path / "t.parquet").columns()
    (tmp_path / "u.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(GraceError, match="'a' occurs twice"):
        TableFile.of(Path(tmp_path / "u.csv")).columns()
