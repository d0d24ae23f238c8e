"""Ray gives the answers that one machine gives, and loses no row when it loses a process."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest

from grace import GraceError
from grace.scale import explain_dataset, run
from grace.scale.cluster import BatchActor
from grace.scale.manifest import saved_files
from scaling import children, contents, loans, saved_explainer

ray = pytest.importorskip("ray", reason="ray is not installed: no test on a cluster")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> SimpleNamespace:
    """A cluster of this machine's two cores, a table with rows that do not fit, and what a local job makes of it."""
    here = tmp_path_factory.mktemp("ray")
    explainer = saved_explainer(here / "model")
    frame = loans(600, seed=9)
    frame.loc[[17, 400], "home"] = "castle"
    frame.assign(key=[f"k{i}" for i in range(600)], risk="?").to_parquet(here / "rows.parquet", row_group_size=130)
    run(explainer, here / "rows.parquet", here / "local", workers=0, part_rows=100, method="gradient")
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    src = str(Path(__file__).parent.parent / "src")
    runtime = {"env_vars": {"PYTHONPATH": src, "OMP_NUM_THREADS": "1"}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=runtime)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield SimpleNamespace(here=here, explainer=explainer, rows=here / "rows.parquet", model=here / "model")
    ray.shutdown()


def test_ray_writes_what_one_machine_writes(cluster):
    said = []
    out = cluster.here / "ray"
    how = {"part_rows": 100, "method": "gradient", "engine": "ray"}
    run(cluster.model, cluster.rows, out, progress=lambda *a: said.append(a), **how)
    assert contents(out) == contents(cluster.here / "local")
    assert said[0] == (0, 600)
    assert said[-1] == (600, 600)


@pytest.mark.slow
def test_a_job_goes_on_by_ray_where_it_was_broken_off(cluster):
    out = cluster.here / "broken"
    how = {"part_rows": 100, "method": "gradient"}
    run(cluster.model, cluster.rows, out, workers=0, **how)
    for part in (0, 2):
        (out / f"answers/part-{part:06}.parquet").unlink()
    run(cluster.model, cluster.rows, out, engine="ray", **how)
    assert contents(out) == contents(cluster.here / "local")


def test_an_actor_alone(cluster):
    """What Ray is given, without Ray: from the bytes of an explainer and a batch to a table of as many lines."""
    files = {p.name: p.read_bytes() for p in saved_files(cluster.model)}
    question = {"settings": {"method": "gradient"}, "impute": False, "text": None, "memory": 10**9}
    rows = pq.read_table(cluster.rows).drop_columns("risk")
    answers = BatchActor(files, None, question)(rows.slice(10, 20))
    assert answers["key"].to_pylist() == [f"k{i}" for i in range(10, 30)]
    assert [i for i, reason in enumerate(answers["rejected"].to_pylist()) if reason] == [7]
    with pytest.raises(GraceError, match="'distance' of the dataset has the name of an answer"):
        BatchActor(files, None, question)(rows.rename_columns({"key": "distance"}))
    with pytest.raises(GraceError, match="'home' is missing"):
        BatchActor(files, None, question)(rows.drop_columns("home"))


@pytest.mark.slow
def test_a_dataset_carries_its_keys_and_says_why_rows_do_not_fit(cluster):
    dataset = ray.data.read_parquet(str(cluster.rows)).repartition(5)
    answers = cluster.explainer.explain_dataset(dataset, method="gradient", batch_rows=64).to_pandas()
    assert "risk" not in answers
    found = answers.assign(row=answers["key"].str[1:].astype(int)).set_index("row").sort_index()
    assert found.index.tolist() == list(range(600))
    assert found.index[found["rejected"].notna()].tolist() == [17, 400]
    assert found.loc[17, "rejected"].startswith("column 'home': unknown category 'castle'")
    local = pd.read_parquet(cluster.here / "local/answers").set_index("row")
    for name in local.columns:
        one, other = found[name].drop(index=[17, 400]), local[name]
        assert (one.isna() == other.isna()).all()
        assert (one.dropna() == other.dropna()).all()
    with pytest.raises(GraceError, match="unknown class 'dire'"):
        explain_dataset(cluster.model, dataset, against="dire")


@pytest.mark.slow
def test_a_killed_process_loses_no_row(cluster):
    out = cluster.here / "killed"
    killed: list[int] = []

    def kill() -> None:
        while not list((out / "answers").glob("part-*")):
            time.sleep(0.02)
        for pid in children(os.getpid()):
            with suppress(OSError):
                if b"MapWorker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    run(cluster.model, cluster.rows, out, part_rows=10, method="gradient", engine="ray")
    thread.join()
    assert killed
    local = cluster.here / "small"
    run(cluster.model, cluster.rows, local, workers=0, part_rows=10, method="gradient")
    assert contents(out) == contents(local)
