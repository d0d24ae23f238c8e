"""Results that were changed, cut short or joined by other files since a job wrote them are found, named and, if asked
for, made anew; and what the folder of a job does not hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import grace
from grace import GraceError
from grace.cli import main
from grace.scale import job_folder, read, rejects, run
from grace.scale.job_folder import JobFolder
from grace.scale.saved_explainer import as_saved, load_reference
from scaling import HOW, contents, small_job

EARLIER = Path(__file__).parents[1] / "data" / "job-0.1"


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> SimpleNamespace:
    return small_job(tmp_path_factory.mktemp("damage"))


def again(world, out: Path, **how) -> grace.scale.Job:
    return run(world.model, world.rows, out, **{**HOW, **how})


def unfinished(world, out: Path) -> None:
    """A job that was broken off after three parts."""

    class Ended(BaseException):
        pass

    def end(done: int, total: int) -> None:
        if done == 60:
            raise Ended

    with pytest.raises(Ended):
        again(world, out, progress=end)


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def other_answers(path: Path) -> None:
    """A file that is in order, of answers that are not the job's."""
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 1), path)


def strange(path: Path) -> None:
    path.write_bytes(b"of somebody else")


DAMAGE = [
    ("answers/part-000001.parquet", flip_a_byte),
    ("answers/part-000000.parquet", cut),
    ("answers/part-000002.parquet", other_answers),
    ("rejects/part-000001.csv", flip_a_byte),
    ("rejects/part-000001.csv", lambda path: path.unlink()),
    ("answers/part-000009.parquet", strange),
    ("answers/part-1.parquet", strange),
    ("answers/more.parquet", strange),
    ("rejects/part-000000.csv", strange),
    ("rejects/part-000077.csv", strange),
]


@pytest.mark.parametrize("finished", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "harm"), DAMAGE)
def test_damage_is_named_and_repaired(world, tmp_path, name, harm, finished):
    out = tmp_path / "out"
    if finished:
        shutil.copytree(world.here / "whole", out)
    else:
        unfinished(world, out)
    harm(out / name)
    before = contents(out)
    remedy = "--repair"
    with pytest.raises(GraceError, match=f"{name}.*{remedy}"):
        again(world, out)
    assert contents(out) == before  # not written into a manifest as if it were the job's
    if name.startswith("answers"):
        with pytest.raises(GraceError, match=name):
            read(out)
    else:
        with pytest.raises(GraceError, match=name):
            rejects(out)
    job = again(world, out, repair=True)
    assert len(job.repaired) == 1
    assert job.repaired[0].startswith(name)
    assert contents(out) == contents(world.here / "whole")
    assert again(world, out, repair=True).repaired == ()


def test_the_file_of_all_rows_set_aside_and_records_are_looked_at_too(world, tmp_path):
    shutil.copytree(world.here / "whole", tmp_path / "out")
    cut(tmp_path / "out/rejects.csv")
    with pytest.raises(GraceError, match=r"rejects\.csv is not as this job wrote it"):
        again(world, tmp_path / "out")
    again(world, tmp_path / "out", repair=True)
    assert contents(tmp_path / "out") == contents(world.here / "whole")
    unfinished(world, tmp_path / "half")
    cut(tmp_path / "half/parts/part-000001.json")
    for way in (lambda: again(world, tmp_path / "half"), lambda: read(tmp_path / "half")):
        with pytest.raises(GraceError, match=r"parts/part-000001\.json is not as this job wrote it"):
            way()
    again(world, tmp_path / "half", repair=True)
    assert contents(tmp_path / "half") == contents(world.here / "whole")


def test_only_damaged_parts_are_done_again(world, tmp_path):
    shutil.copytree(world.here / "whole", tmp_path / "out")
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "out/answers").iterdir()}
    for part in (0, 3):
        cut(JobFolder(tmp_path / "out").answers(part))
    with pytest.raises(GraceError, match=r"part-000000\.parquet is not as this job wrote it \(and 1 more\)"):
        again(world, tmp_path / "out")
    words = ["explain", world.model, world.rows, "--out", tmp_path / "out", "--part-rows", 20, "--method", "gradient"]
    result = CliRunner().invoke(main, [*map(str, words), "--workers", "1", "--repair"])
    assert result.exit_code == 0, result.output
    assert "Repaired: answers/part-000000.parquet done again" in result.stderr
    assert "Repaired: answers/part-000003.parquet done again" in result.stderr
    assert contents(tmp_path / "out") == contents(world.here / "whole")
    same = [p.name for p, t in times.items() if p.stat().st_mtime_ns == t]
    assert sorted(same) == ["part-000001.parquet", "part-000002.parquet"]


def test_a_part_that_is_missing_is_done_again_and_not_passed_over_in_reading(world, tmp_path):
    shutil.copytree(world.here / "whole", tmp_path / "out")
    JobFolder(tmp_path / "out").answers(2).unlink()
    with pytest.raises(GraceError, match=r"answers/part-000002\.parquet is missing"):
        read(tmp_path / "out")
    again(world, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(world.here / "whole")


def test_damage_during_the_job_is_found_at_its_end(world, tmp_path):
    def harm(done: int, total: int) -> None:
        if done == 40:
            flip_a_byte(JobFolder(tmp_path / "out").answers(0))

    with pytest.raises(GraceError, match=r"part-000000\.parquet is not as this job wrote it"):
        again(world, tmp_path / "out", progress=harm)


def test_what_is_read_and_what_is_passed_over(world, tmp_path):
    shutil.copytree(world.here / "whole", tmp_path / "out")
    (tmp_path / "out/answers/.DS_Store").write_bytes(b"hidden")
    (tmp_path / "out/notes.txt").write_text("mine")
    pd.testing.assert_frame_equal(read(tmp_path / "out"), read(world.here / "whole"))
    again(world, tmp_path / "out")
    other_answers(JobFolder(tmp_path / "out").answers(1))
    assert len(read(tmp_path / "out", check=False)) == 66
    (tmp_path / "out/answers/folder").mkdir()
    with pytest.raises(GraceError, match=r"answers/folder .* is no file; move it away"):
        again(world, tmp_path / "out", repair=True)
    unfinished(world, tmp_path / "half")
    assert len(read(tmp_path / "half")) == 58
    found = json.loads((tmp_path / "out/manifest.json").read_text())
    found["done"]["parts"]["part-000000"] = {"rows": "many"}
    (tmp_path / "out/manifest.json").write_text(json.dumps(found))
    with pytest.raises(GraceError, match=r"manifest\.json is damaged"):
        read(tmp_path / "out")


def test_jobs_of_the_format_before_are_read_but_do_not_go_on(world, tmp_path):
    shutil.copytree(EARLIER, tmp_path / "out")
    answers = read(tmp_path / "out")
    assert answers.index.tolist() == [0, 1, 2, *range(4, 12)]
    assert answers["success"].all()
    assert rejects(tmp_path / "out").index.tolist() == [3]
    with pytest.raises(GraceError, match="earlier version of GRACE: its answers can be read"):
        again(world, tmp_path / "out")
    cut(tmp_path / "out/answers/part-000001.parquet")
    with pytest.raises(GraceError, match=r"part-000001\.parquet is not as this job wrote it"):
        read(tmp_path / "out")
    about = json.loads((tmp_path / "out/manifest.json").read_text())
    del about["done"]
    (tmp_path / "out/manifest.json").write_text(json.dumps(about))
    with pytest.raises(GraceError, match="earlier version of GRACE: it cannot go on"):
        again(world, tmp_path / "out")
    with pytest.raises(GraceError, match="unfinished job of an earlier version"):
        read(tmp_path / "out")
    (tmp_path / "out/manifest.json").write_text('{"format": 9}')
    with pytest.raises(GraceError, match="another version of GRACE"):
        read(tmp_path / "out")
    assert job_folder.FORMAT == 2


# -- training rows ------------------------------------------------------------------------------------


def test_the_folder_holds_no_training_rows(world, tmp_path):
    run(world.explainer, world.rows, tmp_path / "out", **{**HOW, "workers": 1})
    kept = contents(tmp_path / "out")
    assert sorted(n for n in kept if n.startswith("explainer")) == [
        "explainer/grace.json",
        "explainer/weights.safetensors",
    ]
    rows = world.explainer.background_rows
    stored = (world.model / "training.safetensors").read_bytes()
    assert rows[7].tobytes() in stored
    assert not any(row.tobytes() in content for row in rows for content in kept.values())
    assert kept == contents(world.here / "whole")


def test_an_explainer_that_changes_meanwhile_is_refused_by_processes(world, tmp_path):
    shutil.copytree(world.model, tmp_path / "model")
    with as_saved(tmp_path / "model") as known:
        load_reference(known.reference(), "cpu")
        head = tmp_path / "model/grace.json"
        head.write_text(head.read_text() + " ")
        with pytest.raises(GraceError, match="model has changed since the job began"):
            load_reference(known.reference(), "cpu")
