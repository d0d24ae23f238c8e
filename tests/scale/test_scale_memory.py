"""`--memory` of a job: counted from the table before the job begins, and kept by all of its processes together."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from grace import GraceError
from grace.problem.budget import LEAST, bytes_of
from grace.scale import run
from grace.scale.budget import CUDA, MEMORY, PROCESS, READER, Budget, cuda_build_bytes
from grace.scale.saved_explainer import as_saved
from grace.schema.tables.table_file import TableFile
from scaling import command, peak_of, wide_explainer, wide_rows

NAMES = [f"f{i}" for i in range(200)]


def budget(
    path: Path, *, memory: str = "2GB", rows: int = 20_000, part_rows: int = 5000, device: str = "cpu"
) -> Budget:
    return Budget.of(bytes_of(memory), TableFile.of(path), rows, NAMES, part_rows, {"weights": 1000}, device)


def test_what_the_reader_takes_is_counted_from_the_row_groups(tmp_path):
    table = pa.table({name: [i / 7 for i in range(20_000)] for name in NAMES})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=20_000)
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=1000)
    one, many = budget(tmp_path / "one.parquet"), budget(tmp_path / "many.parquet")
    assert one.reader - many.reader > 20_000 * 200 * 8 / 2
    assert one.process == many.process
    with pytest.raises(GraceError, match=r"give at least .*; or write .*one\.parquet in smaller row groups"):
        budget(tmp_path / "one.parquet", memory="500MB").shares(1)
    with pytest.raises(GraceError, match="or fewer rows per part than part_rows=20000"):
        budget(tmp_path / "many.parquet", memory="500MB", part_rows=20_000).shares(1)
    assert budget(tmp_path / "many.parquet", part_rows=10**6) == budget(tmp_path / "many.parquet", part_rows=20_000)
    narrow = Budget.of(10**9, TableFile.of(tmp_path / "one.parquet"), 20_000, NAMES[:3], 5000, {}, "cpu")
    assert READER < narrow.reader < READER + 5 * 10**6
    assert PROCESS < narrow.process - cuda_build_bytes() < PROCESS + 5 * 10**6


def test_text_and_arrays_of_the_explainer_count(tmp_path):
    words = pa.table({"f0": ["word " * 200] * 1000})
    pq.write_table(words, tmp_path / "text.parquet", use_dictionary=False)
    table = TableFile.of(tmp_path / "text.parquet")
    assert 1000 < table.row_bytes(["f0"], 1000) < 1100
    pq.write_table(pa.table({"f0": [[1.0] * 100] * 1000}), tmp_path / "lists.parquet", use_dictionary=False)
    assert TableFile.of(tmp_path / "lists.parquet").row_bytes(["f0"], 1000) < 1000  # as small as Parquet makes them
    wide_rows(40, 100, tmp_path / "t.csv")
    table = TableFile.of(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").stat().st_size // 101 < table.row_bytes(NAMES[:40], 100)
    few, many = (
        Budget.of(10**9, table, 100, NAMES[:40], 100, {"su": n, "background": n, "head": 9}, "cpu") for n in (0, 10**6)
    )
    assert many.process - few.process == 50 * 10**6


def test_a_gpu_takes_memory_of_the_machine_and_it_is_said(tmp_path):
    pq.write_table(pa.table({name: [1.0] for name in NAMES}), tmp_path / "t.parquet")
    gpu = budget(tmp_path / "t.parquet", rows=1, device="cuda")
    assert gpu.process - budget(tmp_path / "t.parquet", rows=1).process == CUDA
    with pytest.raises(GraceError, match="CUDA takes up to 3 GB of it for each worker"):
        gpu.shares(1)
    assert budget(tmp_path / "t.parquet", rows=1, device="cuda", memory=MEMORY["cuda"]).shares(None)[0] == 1


def test_too_little_memory_is_said_before_the_first_part(tmp_path):
    wide_explainer(60, tmp_path / "model")
    wide_rows(60, 300, tmp_path / "rows.parquet")
    with pytest.raises(GraceError, match="memory=400 MB is too little for a worker on this table; give at least"):
        run(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "out", memory="400MB", workers=1)
    assert not list((tmp_path / "out/answers").iterdir())
    with as_saved(tmp_path / "model") as known:
        sizes = known.sizes()
    assert (sizes["su"], sizes["background"]) == (3600, 18_000)
    assert sizes["weights"] > 60 * 16


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    here = tmp_path_factory.mktemp("wide")
    for columns in (500, 5000):
        wide_explainer(columns, here / str(columns))
    return here


CASES = [  # of each the least that is allowed, or little more
    (500, "parquet", 1, "900MB", "gradient"),
    (500, "parquet", 2, "1500MB", "gradient"),
    (500, "csv", 2, "1500MB", "search"),
    (5000, "parquet", 1, "2GB", "gradient"),
    (5000, "parquet", 2, "3GB", "search"),
    (5000, "csv", 1, "2GB", "gradient"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "kind", "workers", "memory", "method"), CASES)
def test_all_processes_together_stay_within_the_memory(models, tmp_path, columns, kind, workers, memory, method):
    rows = tmp_path / f"rows.{kind}"
    wide_rows(columns, 3_000_000 // columns, rows)
    words = (models / str(columns), rows, "--out", tmp_path / "out", "--method", method, "--workers", workers)
    size = bytes_of(memory) + workers * cuda_build_bytes()
    process = command(*words, "--memory", f"{size // 10**6}MB")
    peak = peak_of(process)
    assert process.returncode == 0, process.stderr.read().decode()
    process.communicate()
    assert peak <= size
    assert len(list((tmp_path / "out/answers").iterdir())) == 3


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_stays_within_the_memory_of_the_machine(models, tmp_path):
    wide_rows(500, 6000, tmp_path / "rows.parquet")
    with as_saved(models / "500") as known:
        table = TableFile.of(tmp_path / "rows.parquet")
        known_least = Budget.of(0, table, 6000, table.columns(), 2000, known.sizes(), "cuda")
    memory = known_least.reader + known_least.process + LEAST
    process = command(
        *(models / "500", tmp_path / "rows.parquet", "--out", tmp_path / "out", "--device", "cuda"),
        *("--method", "gradient", "--memory", memory),
    )
    peak = peak_of(process)
    assert process.returncode == 0, process.stderr.read().decode()
    process.communicate()
    assert peak <= memory
