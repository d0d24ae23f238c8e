"""What may befall a job: full disks, ends at every step of a write, tables that change, and tables of nothing but bad
rows. Whatever it was, the same command again gives the same files."""

from __future__ import annotations

import errno
import io
import os
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

import grace
from grace import GraceError
from grace.cli import main
from grace.cli.jobs import job_bar
from grace.scale import read, rejects, run
from grace.scale.job_folder import JobFolder
from grace.schema import files
from scaling import HOW, SRC, children, command, contents, loans, small_job


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> SimpleNamespace:
    return small_job(tmp_path_factory.mktemp("mishaps"))


class Killed(BaseException):
    """As if the process had ended there and then."""


def failing(patch, at: int, reason: BaseException) -> None:
    """Have the step numbered `at` of all that write fail."""
    made = count(1)

    def guard(real):
        def step(*args, **how):
            if next(made) == at:
                raise reason
            return real(*args, **how)

        return step

    patch.setattr(files.os, "fsync", guard(os.fsync))
    patch.setattr(Path, "replace", guard(Path.replace))


@pytest.mark.slow
@pytest.mark.parametrize("reason", [Killed(), OSError(errno.ENOSPC, "No space left on device")])
def test_ended_at_every_step_of_every_write(world, tmp_path, reason):
    for at in count(1):
        out, said = tmp_path / str(at), None
        with pytest.MonkeyPatch.context() as patch:
            failing(patch, at, reason)
            try:
                run(world.model, world.rows, out, **HOW)
                break
            except (Killed, GraceError) as ended:
                said = ended
        assert isinstance(said, Killed) or "cannot be written: No space left on device" in str(said)
        assert isinstance(said, Killed) or not list(out.rglob(".*.new"))
        run(world.model, world.rows, out, **HOW)
        assert contents(out) == contents(world.here / "whole")
    assert at > 3 * (4 + 2 + 2)  # four parts, twice rows set aside, the manifest twice: flushed twice and renamed


@pytest.mark.slow
def test_a_full_disk_ends_workers_too_and_the_job_goes_on_when_there_is_room(world, tmp_path):
    big = tmp_path / "big.parquet"
    loans(6000).to_parquet(big)
    words = (world.model, big, "--method", "gradient", "--part-rows", 3000)
    out = tmp_path / "out"
    program = (
        f"import sys, resource; sys.path.insert(0, {str(SRC)!r}); from grace.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); main()"
    )
    process = command(*words, "--out", out, "--workers", 2, program=program)
    stderr = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 1
    assert "cannot be written: File too large" in " ".join(stderr.split())
    assert "Traceback" not in stderr
    for folder, workers in ((out, 2), (tmp_path / "whole", 1)):
        process = command(*words, "--out", folder, "--workers", workers)
        assert process.wait(120) == 0
        process.communicate()
    assert contents(out) == contents(tmp_path / "whole")


def test_a_table_that_changes_meanwhile_is_told_from_the_one_that_was_begun(world, tmp_path):
    rows = tmp_path / "rows.parquet"
    rows.write_bytes(world.rows.read_bytes())

    def touch(done: int, total: int) -> None:
        if done == 40:
            os.utime(rows, ns=(0, 0))

    with pytest.raises(GraceError, match="has changed while it was read"):
        run(world.model, rows, tmp_path / "out", progress=touch, **HOW)
    with pytest.raises(GraceError, match="begun with another table"):  # whose answers these are nobody knows
        run(world.model, rows, tmp_path / "out", **HOW)


def test_nothing_but_bad_rows(world, tmp_path):
    frame = loans(3000).assign(home=[f"castle {i % 7}" for i in range(3000)])
    frame.to_parquet(tmp_path / "rows.parquet")
    start = time.perf_counter()
    job = run(world.model, tmp_path / "rows.parquet", tmp_path / "out", **{**HOW, "part_rows": 1000})
    assert time.perf_counter() - start < 20  # a fault that is everywhere is found once, not row by row
    assert (job.explained, job.not_explained, job.set_aside) == (0, 0, 3000)
    assert job.rejects().index.tolist() == list(range(3000))
    assert job.rejects()["reason"][8].startswith("unknown category 'castle 1'")
    assert len(job.read()) == 0
    assert len((tmp_path / "out/rejects.csv").read_text().splitlines()) == 3001


@pytest.mark.parametrize("size", [1, 69, 70, 71])
def test_parts_of_every_size(world, tmp_path, size):
    job = run(world.model, world.rows, tmp_path / "out", **{**HOW, "part_rows": size})
    assert len(list((tmp_path / "out/answers").iterdir())) == -(-70 // size)
    pd.testing.assert_frame_equal(job.read(), read(world.here / "whole"))
    pd.testing.assert_frame_equal(job.rejects(), rejects(world.here / "whole"))


def test_rejects_of_more_parts_than_their_names_have_digits_for(tmp_path):
    place = JobFolder(tmp_path)
    place.begin({}, [])
    empty = pa.table({"rank": pa.array([], pa.int32()), "success": pa.array([], pa.bool_())})
    for part in (1_000_000, 999_999):
        place.write_part(part, empty, [(part, "a", "b")])
    assert rejects(tmp_path).index.tolist() == [999_999, 1_000_000]
    assert place.finish({}) == (0, 0, 2)
    assert (tmp_path / "rejects.csv").read_text() == "row,column,reason\n999999,a,b\n1000000,a,b\n"
    assert rejects(tmp_path).index.tolist() == [999_999, 1_000_000]


def test_text_with_a_byte_order_mark_and_windows_lines(world, tmp_path):
    world.frame.to_csv(tmp_path / "t.csv", index=False, encoding="utf-8-sig", lineterminator="\r\n")
    job = run(world.model, tmp_path / "t.csv", tmp_path / "out", **HOW)
    pd.testing.assert_frame_equal(job.read(), read(world.here / "whole"))


def seconds(pid: int) -> float:
    """The processor time that a process has taken."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_a_worker_that_was_left_behind_keeps_the_folder_until_it_ends(world, tmp_path):
    """Killed while its worker is in the middle of a part: the worker ends, whatever it is doing, and only then another
    job may begin, so that nobody writes beside it."""
    big = tmp_path / "big.parquet"
    loans(100_000).to_parquet(big)
    words = (world.model, big, "--out", tmp_path / "out", "--part-rows", 100_000, "--method", "search", "--workers", 1)
    process = command(*words)
    end = time.monotonic() + 120
    while not (workers := children(process.pid)):
        assert time.monotonic() < end
        time.sleep(0.01)
    lock = (tmp_path / "out/.lock").stat().st_ino
    held = {os.stat(f"/proc/{workers[0]}/fd/{fd}").st_ino for fd in os.listdir(f"/proc/{workers[0]}/fd")}
    assert lock in held
    while seconds(workers[0]) < 6:  # until it is at work: it is ready after two or three
        assert time.monotonic() < end
        time.sleep(0.1)
    process.kill()
    process.wait()
    end = time.monotonic() + 5
    while Path(f"/proc/{workers[0]}").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    process.communicate()
    with JobFolder(tmp_path / "out").locked():
        pass


def test_a_model_that_fails_but_once(world, tmp_path):
    """The rows set aside in a part that was not finished are those of the part when it is done again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobFolder, "answers", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            run(world.model, world.rows, tmp_path / "out", **{**HOW, "part_rows": 70})
    place = JobFolder(tmp_path / "out")
    files.write_durably(place.rejects(0), b"row,column,reason\n1,,out of memory\n")
    frame = world.frame.drop(index=[25, 31, 69])
    frame.to_parquet(tmp_path / "good.parquet")
    run(world.model, tmp_path / "good.parquet", tmp_path / "good", **HOW)
    files.write_durably(JobFolder(tmp_path / "good").rejects(1), b"row,column,reason\n21,,out of memory\n")
    JobFolder(tmp_path / "good").answers(1).unlink()
    job = run(world.model, tmp_path / "good.parquet", tmp_path / "good", **HOW)
    assert job.set_aside == 0
    assert np.array_equal(job.read().index, np.arange(67))


def test_a_device_that_is_not_there_is_named_and_the_processor_is_one(world, tmp_path):
    run(world.model, world.rows, tmp_path / "out", device="cpu", **HOW)
    assert contents(tmp_path / "out") == contents(world.here / "whole")
    if not torch.cuda.is_available():
        with pytest.raises(GraceError, match="device='cuda' cannot be used here"):
            run(world.model, world.rows, tmp_path / "gpu", device="cuda", **HOW)


def test_threads_are_given_back(world, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run(world.model, world.rows, tmp_path / "out", **HOW)
        assert torch.get_num_threads() == 2
        assert contents(tmp_path / "out") == contents(world.here / "whole")
    finally:
        torch.set_num_threads(before)


def test_the_bar_says_rows_rate_and_time_left():
    """Of a job that goes on at 4,000 rows, starts for a minute, and then does two thousand rows every other second."""
    now = 0.0
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=120, color_system=None, get_time=lambda: now)
    with job_bar(screen) as progress:
        for now, done in ((1.0, 4000), (60.0, 6000), (62.0, 8000), (64.0, 10_000)):  # noqa: B007
            progress(done, 20_000)
    assert "10,000 of 20,000 rows 1,000 rows/s 0:00:10" in file.getvalue()


def test_a_network_is_trained_on_some_rows_and_the_explainer_knows_all(tmp_path):
    frame = loans(3000)
    frame["risk"] = np.where(frame["income"] + frame["years"] > 60, "low", "high")
    frame.loc[2999, "income"] = 1234.5
    frame.to_parquet(tmp_path / "big.parquet")
    words = ["train", tmp_path / "big.parquet", "--target", "risk", "-o", tmp_path / "model", "--hidden", "8"]
    result = CliRunner().invoke(main, [*map(str, words), "--sample", "400"])
    assert result.exit_code == 0, result.output
    explainer = grace.load(tmp_path / "model")
    assert explainer.training_rows == 3000
    assert explainer.schema_for("minmax")["income"].observed[1] == 1234.5
