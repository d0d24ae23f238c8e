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

import grace
from grace import GraceError
from grace.problem.budget import LEAST
from grace.scale import explain_dataset, run
from grace.scale.cluster import PROCESS, ActorResources, BatchActor
from grace.scale.saved_explainer import saved_files
from scaling import children, command, contents, loans, saved_explainer

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
    src = str(Path(__file__).parents[2] / "src")
    runtime = {"env_vars": {"PYTHONPATH": src, "OMP_NUM_THREADS": "1"}}
    # a GPU is declared that torch does not see
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False, runtime_env=runtime)
    ray.data.DataContext.get_current().enable_progress_bars = False
    lost = grace.Explainer(grace.wrap(lambda f: f["income"].to_numpy(), task="regression"), loans(50))
    yield SimpleNamespace(here=here, explainer=explainer, rows=here / "rows.parquet", model=here / "model", lost=lost)
    ray.shutdown()


def machines(*resources: dict[str, float]) -> SimpleNamespace:
    """What is asked of Ray about a cluster of such machines, the last of which is gone."""
    nodes = [{"Alive": True, "Resources": r} for r in resources]
    return SimpleNamespace(nodes=lambda: [*nodes, {"Alive": False, "Resources": {"CPU": 64, "GPU": 8, "memory": 1e12}}])


def test_what_an_actor_asks_for():
    plain = machines({"CPU": 2, "memory": 10e9}, {"CPU": 8, "memory": 5e9})
    needs = ActorResources.of(plain, "2GB", None)
    assert needs.requests == {"num_cpus": 0.5, "memory": 2 * 10**9}
    assert needs.row_memory == 2 * 10**9 - PROCESS
    assert ActorResources.of(plain, "2GB", None, 10**9).row_memory == 10**9 - PROCESS
    with pytest.raises(GraceError, match=r"memory=2 GB is too little for an actor of Ray; give at least 2\.41 GB"):
        ActorResources.of(plain, "2GB", None, 19 * 10**8)
    assert needs.max_actors(plain) == 2 + 2  # by cores on the one, by memory on the other
    assert ActorResources.of(plain, None, None).max_actors(plain) == 2 + 3
    mixed = machines({"CPU": 8, "memory": 20e9}, {"CPU": 8, "GPU": 4, "memory": 9e9}, {"GPU": 0.5, "memory": 9e9})
    needs = ActorResources.of(mixed, None, None)
    assert needs.requests == {"num_cpus": 0.5, "num_gpus": 1, "memory": 4 * 10**9}
    assert (needs.device, needs.max_actors(mixed)) == ("cuda", 2)
    assert ActorResources.of(mixed, "1GB", "cuda").max_actors(mixed) == 4
    assert ActorResources.of(mixed, "1GB", "cpu").requests == {"num_cpus": 0.5, "memory": 10**9}
    assert ActorResources.of(mixed, "1GB", "cpu").max_actors(mixed) == 16


@pytest.mark.parametrize(
    ("memory", "device", "match"),
    [
        ("12GB", None, r"no machine of the cluster has so much for an actor; Ray lends 10 GB at most"),
        (PROCESS + LEAST - 1, None, "memory=514 MB is too little for an actor of Ray"),
        ("much", None, "memory='much'"),
        (None, "cuda", "no machine of the cluster has a GPU"),
        (None, "cuda:1", "each actor has its own GPU"),
    ],
)
def test_what_a_cluster_cannot_give_is_named_instead_of_waited_for(memory, device, match):
    with pytest.raises(GraceError, match=match):
        ActorResources.of(machines({"CPU": 2, "memory": 10e9, "GPU": 0.5}), memory, device)


@pytest.mark.slow
def test_actors_have_the_memory_and_the_gpu_that_they_ask_for(cluster):
    """Ray counts both as taken while an actor is at work; torch, which sees no GPU, works on the processor."""
    before, taken, told = ray.available_resources(), [], []
    end = threading.Event()

    def look() -> None:
        while not end.wait(0.02):
            free = ray.available_resources()
            taken.append((before["GPU"] - free.get("GPU", 0), round(before["memory"] - free["memory"])))

    out, how = cluster.here / "declared", {"part_rows": 100, "method": "gradient", "engine": "ray"}
    thread = threading.Thread(target=look)
    thread.start()
    with pytest.warns(UserWarning, match="the cluster has GPUs, but torch sees none"):
        run(cluster.model, cluster.rows, out, memory="800MB", progress=lambda *a: told.append(a), **how)
    end.set()
    thread.join()
    assert (1, 800_000_000) in taken
    assert contents(out) == contents(cluster.here / "local")
    assert told[-1] == (600, 600)
    with pytest.raises(GraceError, match="no machine of the cluster has so much"):
        run(cluster.model, cluster.rows, cluster.here / "vast", memory="100TB", **how)
    with pytest.raises(GraceError, match="cannot be saved"):
        run(cluster.lost, cluster.rows, cluster.here / "lost", **how)


@pytest.mark.slow
def test_what_fails_in_an_actor_is_said_in_a_line(cluster):
    """A table that changes while it is read."""
    rows = cluster.here / "torn.parquet"
    pq.write_table(pq.read_table(cluster.rows), rows, row_group_size=130)

    def tear(done: int, total: int) -> None:
        if done == 0:
            rows.write_bytes(cluster.rows.read_bytes()[:4000])

    how = {"part_rows": 100, "method": "gradient", "engine": "ray", "device": "cpu"}
    with pytest.raises(GraceError, match=r"torn\.parquet cannot be read as Parquet") as reason:
        run(cluster.model, rows, cluster.here / "torn", progress=tear, **how)
    assert "\n" not in str(reason.value)


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
    with pytest.warns(UserWarning, match="torch sees no GPU in this process"):
        answers = BatchActor(files, "cuda", question)(rows.slice(10, 20))
    assert answers["key"].to_pylist() == [f"k{i}" for i in range(10, 30)]
    assert [i for i, reason in enumerate(answers["rejected"].to_pylist()) if reason] == [7]
    renamed = BatchActor(files, "cpu", question)(rows.slice(10, 20).rename_columns({"key": "distance"}))
    assert renamed["input.distance"].to_pylist() == answers["key"].to_pylist()
    assert renamed["distance"].to_pylist() == answers["distance"].to_pylist()
    more = {**question, "settings": {"method": "search", "n": 2}}
    answers = BatchActor(files, "cpu", more)(rows.slice(10, 20))
    keys, ranks = answers["key"].to_pylist(), answers["rank"].to_pylist()
    assert keys == sorted(keys)
    assert len(set(keys)) == 20 < len(keys)
    assert [r for r, k in zip(ranks, keys, strict=True) if k == "k17"] == [None]
    with pytest.raises(GraceError, match="'home' is missing"):
        BatchActor(files, "cpu", question)(rows.drop_columns("home"))


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
        if name.startswith("probability"):  # whose last bits depend on how many rows are multiplied together
            assert one.dropna().to_numpy(float) == pytest.approx(other.dropna().to_numpy(float), rel=1e-12)
        else:
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


@pytest.mark.slow
def test_the_whole_job_killed_on_a_cluster_of_its_own(cluster):
    """The command is killed with kill -9 while actors are at work, and given again."""
    words = (cluster.model, cluster.rows, "--method", "gradient", "--part-rows", 10)
    out, local = cluster.here / "whole", cluster.here / "tens"
    process = command(*words, "--out", out, "--engine", "ray", "--memory", "700MB")
    end = time.monotonic() + 120
    while len(list(out.glob("answers/part-*.parquet"))) < 5:
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert len(list(out.glob("answers/part-*.parquet"))) < 60
    process = command(*words, "--out", out, "--engine", "ray", "--memory", "700MB")
    assert process.wait(240) == 0, process.stderr.read()
    process.communicate()
    run(cluster.model, cluster.rows, local, workers=0, part_rows=10, method="gradient")
    assert contents(out) == contents(local)
