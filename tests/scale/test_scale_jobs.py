"""Jobs: what they write, that they go on where they were killed, and what they refuse."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import grace
from grace import GraceError
from grace.cli import main
from grace.scale import job_folder, read, rejects, run
from grace.scale.budget import Budget
from grace.scale.job_folder import JobFolder
from grace.scale.pool import WorkerPool
from grace.schema.tables.table_file import TableFile
from scaling import children, command, contents, loans, saved_explainer

SIZE = 250


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> SimpleNamespace:
    """Rows of which some do not fit, explained by a job in this process."""
    here = tmp_path_factory.mktemp("jobs")
    explainer = saved_explainer(here / "model")
    frame = loans(3000, seed=7).astype({"income": object})
    frame.loc[[5, 260, 2999], "income"] = "plenty"
    frame.to_csv(here / "rows.csv", index=False)
    frame.assign(income=pd.to_numeric(frame["income"], errors="coerce"), id=range(3000)).to_parquet(
        here / "rows.parquet"
    )
    w = SimpleNamespace(here=here, explainer=explainer, model=here / "model", frame=frame, csv=here / "rows.csv")
    w.parquet = here / "rows.parquet"
    w.job = run(explainer, w.csv, here / "whole", workers=0, part_rows=SIZE, method="gradient")
    return w


def grace_explain(*args: object) -> str:
    result = CliRunner().invoke(main, ["explain", *map(str, args)])
    assert result.exit_code == 0, result.output
    return result.stderr


# -- what is written ----------------------------------------------------------------------------------


def test_the_answers_are_those_of_explain(world):
    good = world.frame.drop(index=[5, 260, 2999]).astype({"income": float})
    batch = world.explainer.explain(good, method="gradient")
    answers = world.job.read()
    assert answers.index.tolist() == good.index.tolist()
    assert answers["success"].tolist() == batch.success.tolist()
    assert (world.job.explained, world.job.not_explained) == (batch.success.sum(), (~batch.success).sum())
    assert answers["original_class"].tolist() == batch.original_class.tolist()
    assert answers["contrast_class"].where(answers["success"], None).tolist() == batch.contrast_class.tolist()
    assert answers["distance"].tolist() == batch.answers.distance.tolist()
    assert answers["features"].tolist() == batch.changed.sum(axis=1).tolist()
    for name in good.columns:
        new = answers[f"new.{name}"]
        assert (new.notna() == batch.changed[name]).all()
        assert (new[new.notna()] == batch.contrast.loc[new.notna(), name]).all()
    pd.testing.assert_frame_equal(pd.read_parquet(world.here / "whole/answers").set_index("row"), answers)
    assert read(world.here / "whole", ["success"]).columns.tolist() == ["success"]


def test_rows_that_do_not_fit_are_set_aside_and_stop_nothing(world):
    assert world.job.set_aside == 3
    expected = dict.fromkeys((5, 260, 2999), ("income", "'plenty' is not a number"))
    assert {r: (x["column"], x["reason"]) for r, x in world.job.rejects().iterrows()} == expected
    written = (world.here / "whole/rejects.csv").read_text().splitlines()
    assert written[:2] == ["row,column,reason", "5,income,'plenty' is not a number"]
    assert len(written) == 4


def test_parquet_and_csv_give_the_same_answers(world):
    job = world.explainer.explain_file(
        world.parquet, world.here / "parquet", workers=0, part_rows=SIZE, method="gradient", memory="900MB", id=[]
    )
    for path in (world.here / "whole/answers").iterdir():
        assert (world.here / "parquet/answers" / path.name).read_bytes() == path.read_bytes()
    assert job.rejects()["reason"].tolist() == ["the cell is missing"] * 3
    filled = run(world.model, world.parquet, world.here / "filled", workers=0, method="gradient", impute=True)
    assert (filled.set_aside, len(filled.read())) == (0, 3000)


def test_a_model_that_fails_on_a_row_does_not_stop_the_job(world):
    def picky(frame):
        if (frame["income"] > 89.5).any():
            raise RuntimeError("too rich\nfor me")
        high = (frame["income"] / 100).to_numpy()
        return np.stack([high, 1 - high], axis=1)

    train = world.frame.drop(index=[5, 260, 2999]).astype({"income": float})
    train = train[train["income"] < 80].head(200)
    picky_one = grace.Explainer(grace.wrap(picky, classes=["rich", "poor"]), train, method="nearest")
    job = picky_one.explain_file(world.parquet, world.here / "picky", part_rows=1000)
    rich = pd.read_parquet(world.parquet)["income"]
    expected = {
        **dict.fromkeys(np.flatnonzero(rich > 89.5).tolist(), "too rich"),
        **dict.fromkeys([5, 260, 2999], "the cell is missing"),
    }
    assert job.rejects()["reason"].str.rpartition(": ")[2].to_dict() == expected
    assert len(job.read()) == 3000 - len(expected)
    with pytest.raises(GraceError, match="workers=0"):
        picky_one.explain_file(world.parquet, world.here / "picky2", workers=2)
    other = grace.Explainer(grace.wrap(lambda f: picky(f)[:, ::-1], classes=["rich", "poor"]), train, method="nearest")
    with pytest.raises(GraceError, match="another explainer"):
        other.explain_file(world.parquet, world.here / "picky", part_rows=1000)


def test_sentences_numbers_and_proofs(world):
    some = world.here / "some.parquet"
    pd.read_parquet(world.parquet).head(12).drop(index=5).to_parquet(some)
    job = run(world.model, some, world.here / "said", workers=0, text={"style": "relative"}, prove=True, against="low")
    answers = job.read()
    batch = world.explainer.explain(pd.read_parquet(some).drop(columns="id"), against="low", prove=True)
    assert answers["text"].tolist() == [e.text(style="relative") for e in batch]
    assert answers["proven"].any()
    regression = grace.Explainer(
        grace.wrap(lambda f: f["income"].to_numpy() * 2.0, task="regression"), loans(100), method="search"
    )
    job = regression.explain_file(some, world.here / "number", against=grace.above(150))
    assert (job.read()["contrast_class"].dropna() >= 150).all()
    assert job.explained > 0


def test_groups_rules_and_numbers(tmp_path):
    """Rows with groups and rules go through a job as through `explain`; so does a saved model of a number."""
    rng = np.random.default_rng(0)
    home = rng.integers(0, 2, 300)
    frame = pd.DataFrame({"income": rng.normal(30, 8, 300).round(1), "home_own": home, "home_rent": 1 - home})
    frame["double"] = (frame["income"] * 2).round(1)
    frame["risk"] = np.where(frame["income"] + 30 * home > 45, "good", "bad")
    schema = grace.Schema.infer(frame, "risk").group("home", ["home_own", "home_rent"])
    schema = schema.with_rules("double = 2 * income")
    network = grace.training.fit(frame, "risk", hidden=(8,), max_epochs=60, schema=schema)
    explainer = grace.Explainer(network, frame, schema=schema, gamma=1.0)
    explainer.save(str(tmp_path / "model"))
    rows = frame.drop(columns="risk").head(60)
    rows.loc[7, ["home_own", "home_rent"]] = 1
    rows.to_csv(tmp_path / "rows.csv", index=False)
    job = run(tmp_path / "model", tmp_path / "rows.csv", tmp_path / "out", workers=0)
    answers, batch = job.read(), explainer.explain(rows.drop(index=7))
    assert job.rejects().index.tolist() == [7]
    assert "exactly one" in job.rejects().loc[7, "reason"]
    assert answers["features"].tolist() == batch.changed.sum(axis=1).tolist()
    assert batch.followed["double"].any()
    assert batch.changed["home"].any()
    for name in rows.columns:
        new = answers[f"new.{name}"].dropna()
        assert len(new)
        assert (new == batch.contrast.loc[new.index, name]).all()
    grace_explain(tmp_path / "model", tmp_path / "rows.csv", "--out", tmp_path / "free", "--no-rules", "--workers", 1)
    assert read(tmp_path / "free")["features"].sum() != answers["features"].sum()

    frame["worth"] = (3 * frame["income"] + 10 * home).round(2)
    values = grace.training.fit(frame.drop(columns=["risk", "double"]), "worth", hidden=(8,), max_epochs=60)
    grace.Explainer(values, frame.drop(columns=["risk", "double"]), target="worth").save(str(tmp_path / "values"))
    grace_explain(
        tmp_path / "values",
        tmp_path / "rows.csv",
        "--out",
        tmp_path / "worth",
        "--against",
        "above 100",
        "--workers",
        1,
    )
    found = read(tmp_path / "worth")
    assert (found["contrast_class"][found["success"]] >= 100).all()
    assert found["success"].any()


# -- what is refused ----------------------------------------------------------------------------------


def test_a_folder_of_another_job_is_refused(world):
    same = {"workers": 0, "part_rows": SIZE, "method": "gradient"}
    before = contents(world.here / "whole")

    def refused(match, *, model=world.model, rows=world.csv, **how):
        with pytest.raises(GraceError, match=match):
            run(model, rows, world.here / "whole", **{**same, **how})

    refused(r'other settings \(method="gradient" instead of "search"\)', method="search")
    refused(r"other settings \(max_features=null instead of 3\)", max_features=3)
    refused(r"other settings \(impute=false instead of true\)", impute=True)
    refused(r"parts of another size \(250 instead of 100\)", part_rows=100)
    refused("another table", rows=world.parquet)
    changed = grace.load(world.model)
    changed.settings = grace.problem.settings.Settings(max_features=2)
    refused("another explainer", model=changed)
    assert contents(world.here / "whole") == before
    run(world.model, world.csv, world.here / "whole", **same, memory="5GB")  # the same again: nothing changes
    assert contents(world.here / "whole") == before


def test_what_cannot_be_a_job_is_named(world, tmp_path, monkeypatch):
    def refused(match, *, rows=world.csv, out=tmp_path / "out", **how):
        with pytest.raises(GraceError, match=match):
            run(world.model, rows, out, **{"workers": 0, **how})

    refused("robust=", robust=[world.explainer.model])
    refused("same class", against=["low", "high"])
    refused("engine='spark'", engine="spark")
    refused("part_rows=0", part_rows=0)
    refused("convert the CSV", engine="ray")
    refused("unknown class 'dire'", against="dire")
    refused("no setting 'depth'", depth=3)
    (tmp_path / "narrow.csv").write_text("income,years\n1,2\n")
    refused("column 'home' is missing", rows=tmp_path / "narrow.csv")
    (tmp_path / "empty.csv").write_text("income,years,home,member,since\n")
    refused("the table is empty", rows=tmp_path / "empty.csv")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    refused("is not empty", out=tmp_path / "mine")
    assert (tmp_path / "mine/notes.txt").read_text() == "mine"
    monkeypatch.setattr(job_folder, "LOCK_TIMEOUT", 0.2)
    with JobFolder(tmp_path / "out").locked():
        refused("another job is at work")
    run(world.model, world.csv, tmp_path / "out", workers=0, part_rows=1000, method="deepfool")  # after all of these
    with pytest.raises(GraceError, match="not the folder of a job"):
        read(tmp_path)


def test_processes_share_the_memory():
    reader, process = 2 * 10**8, 4 * 10**8

    def shares(memory, workers):
        return Budget(memory, reader, process, "; or less").shares(workers)

    assert shares(4 * 10**9, 2) == (2, (4 * 10**9 - reader) // 2 - process)
    assert shares(reader + 2 * (process + 10**8), 2)[1] == 10**8
    assert shares(reader + process + 10**8, None) == (1, 10**8)
    with pytest.raises(GraceError, match=r"too little for 2 workers on this table; give at least 1\.13 GB; or less"):
        shares(reader + 2 * process, 2)
    with pytest.raises(GraceError, match="too little for a worker"):
        shares(reader, None)
    with pytest.raises(GraceError, match="workers=-1"):
        shares(10**10, -1)


def test_options_of_a_job_need_a_folder(world):
    for option in (["--workers", "2"], ["--text"], ["--engine", "ray"], ["--part-rows", "5"]):
        result = CliRunner().invoke(main, ["explain", str(world.model), str(world.csv), *option])
        assert result.exit_code == 2
        assert f"{option[0]} is for a job" in result.stderr
    result = CliRunner().invoke(main, ["explain", str(world.model), str(world.csv), "--out", "why", "--row", "3"])
    assert result.exit_code == 2


# -- killed and started again -------------------------------------------------------------------------


def job_of(world, out: Path, *more: object) -> tuple[object, ...]:
    return (world.model, world.csv, "--out", out, "--method", "gradient", "--part-rows", SIZE, *more)


def wait_for_parts(out: Path, count: int, process) -> None:
    end = time.monotonic() + 120
    while len(list(out.glob("answers/part-*.parquet"))) < count:
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < end
        time.sleep(0.005)


def test_killed_in_the_middle_it_goes_on_and_nothing_shows(world):
    out = world.here / "killed"
    process = command(*job_of(world, out, "--workers", 2))
    wait_for_parts(out, 3, process)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    done = {p.name: p.stat().st_mtime_ns for p in (out / "answers").glob("part-*.parquet")}
    assert 3 <= len(done) < 12
    (out / "answers/.part-000009.parquet.1.new").write_bytes(b"half a fi")
    assert len(workers) == 2
    said = grace_explain(*job_of(world, out, "--workers", 1))
    assert f"{world.job.explained} of 3000 rows explained, 3 set aside; written to {out}" in said
    assert contents(out) == contents(world.here / "whole")
    again = {p.name: p.stat().st_mtime_ns for p in (out / "answers").glob("part-*.parquet")}
    assert {name: again[name] for name in done} == done  # what was done was not done again
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):  # nobody is left behind
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment(world, tmp_path, seed):
    """Several times, at moments drawn by the seed, whatever it is doing then."""
    rng = random.Random(seed)
    for _ in range(3):
        process = command(*job_of(world, tmp_path / "out", "--workers", rng.choice([1, 2])))
        time.sleep(rng.uniform(0.2, 9))
        process.kill()
        process.communicate()
    grace_explain(*job_of(world, tmp_path / "out"))
    assert contents(tmp_path / "out") == contents(world.here / "whole")


@pytest.mark.slow
def test_a_killed_worker_is_replaced(world, tmp_path):
    process = command(*job_of(world, tmp_path / "out", "--workers", 2))
    for count in (1, 5):
        wait_for_parts(tmp_path / "out", count, process)
        os.kill(children(process.pid)[0], signal.SIGKILL)
    assert process.wait(120) == 0, process.stderr.read()
    assert contents(tmp_path / "out") == contents(world.here / "whole")
    process.communicate()


@pytest.mark.slow
def test_a_part_that_kills_every_worker_is_named(world, tmp_path, monkeypatch):
    """Workers that die at once, as those do that run out of memory."""
    monkeypatch.setattr("sys.executable", "/bin/false")
    parts = TableFile.of(world.csv).parts(SIZE, world.explainer.schema.names)
    with pytest.raises(GraceError, match="rows 0 to 249: 3 processes ended"):
        WorkerPool({}, 1).run(parts, lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize("how", [(), ("--memory", "1100MB"), ("--workers", 1), ("--workers", 3, "--memory", "4GB")])
def test_workers_and_memory_change_nothing(world, tmp_path, how):
    grace_explain(*job_of(world, tmp_path / "out", *how))
    assert contents(tmp_path / "out") == contents(world.here / "whole")


def test_the_manifest_says_what_the_job_is_about(world):
    manifest = json.loads((world.here / "whole/manifest.json").read_text())
    question = {"settings": {"method": "gradient"}, "impute": False, "text": None, "id": None}
    assert manifest["question"] == question
    assert manifest["done"]["set_aside"] == 3
    assert len(manifest["done"]["parts"]) == 12
    assert len(rejects(world.here / "whole")) == 3
