"""`grace reproduce`: known answers for its sums, every part at tiny size, and going on after an end by force."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import grace
from grace import Schema, datasets
from grace.cli import main
from grace.datasets import Table
from grace.errors import GraceError
from grace.experiments.reproduction import page, paper, released, runs, samples, tables
from grace.experiments.reproduction.plan import PARTS, Sizes, Store, Unit, plan_of
from grace.experiments.reproduction.results import Reproduction
from grace.experiments.reproduction.subject import Subject
from grace.training import Recipe

TINY = Sizes(sweep_rows=10, reader_rows=3, lime_samples=60, shap_samples=40)
EVIL = "<script>alert(1)</script>"


def tiny(name: str = "tiny") -> Table:
    """Three numbers, one of them with an ugly name, and two classes."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(160, 3)).round(2), columns=["height", EVIL, "weight"])
    frame["kind"] = np.where(frame["height"] + frame[EVIL] / 2 + rng.normal(size=160) / 4 > 0, "tall", EVIL)
    return Table(name, frame, Schema(features=(), target="kind"))


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(tiny(), 0)


# -- the paper's figures, and sums --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["nearest", "local", "gradient"])
def test_the_papers_figures_agree_with_each_other(method: str) -> None:
    """Influence is info-gain* / avg #features for methods that stay in the domain, up to rounding."""
    for data in datasets.PAPER:
        low, high = (
            (paper.INFO_GAIN[method][data] + sign * 0.0051) / (paper.FEATURES[method][data] - sign * 0.0051)
            for sign in (-1, 1)
        )
        assert low - 0.0251 <= paper.INFLUENCE[method][data] <= high + 0.0251, data
    assert paper.FEATURES["deepfool"]["musk"] == 166


def test_beside_the_paper() -> None:
    found = tables.beside([0.5, 0.7, float("nan")], 0.9)
    assert found["runs"] == 2
    assert found["mean"] == pytest.approx(0.6)
    assert found["sd"] == pytest.approx(np.sqrt(0.02))
    assert found["difference"] == pytest.approx(-0.3)
    assert found["beyond"] == 1  # 0.3 > 2 · 0.1414 + 0.005
    assert tables.beside([0.5, 0.7], 0.88)["beyond"] == 0
    assert tables.beside([1.0, 1.0], 1.004)["beyond"] == 0  # the paper's rounding
    assert np.isnan(tables.beside([0.5], 0.9)["beyond"])  # one run has no standard deviation
    assert np.isnan(tables.beside([], None)["mean"])


def sweeps(share: float, fidelity: float, features: int = 10) -> dict[str, Any]:
    line = {"share": share, "k": 2, "fidelity": fidelity}
    base = {"share": 0.9, "k": 9.0, "fidelity": 1.0}
    return {"features": features, "methods": {"gradient": [line], "nearest": [base]}}


def test_means_over_runs_then_over_tables() -> None:
    found = {
        Unit("a", 0, "figure-fidelity"): sweeps(0.1, 0.2),
        Unit("a", 1, "figure-fidelity"): sweeps(0.1, 0.4),
        Unit("b", 0, "figure-fidelity"): sweeps(0.1, 0.9, 20),
    }
    frame = tables.tables(found)["figure-fidelity"]
    of = {(r["data"], r["method"]): r for r in frame.to_dict("records")}
    assert of["a", "gradient"]["fidelity"] == pytest.approx(0.3)
    assert of["a", "gradient"]["fidelity_sd"] == pytest.approx(np.std([0.2, 0.4], ddof=1))
    assert of["a", "gradient"]["runs"] == 2
    assert of["mean", "gradient"]["fidelity"] == pytest.approx(0.6)  # of two tables, not of three runs
    assert np.isnan(of["mean", "nearest"]["share"])
    assert of["mean", "nearest"]["perturbed"] == pytest.approx((0.9 + 0.45) / 2)


def told(**changes: list[float]) -> dict[str, Any]:
    keys = ("flipped", "moved", "distance", "any_right", "any_total", "own_right", "own_total")
    return {**{k: [0, 0] for k in keys}, **changes}


def test_what_readers_do_is_summed_over_rows_and_runs() -> None:
    first = told(policy="typical", flipped=[1, 0], moved=[3, 1], any_right=[4, 6], any_total=[10, 10])
    other = told(policy="far", flipped=[1, 1])
    second = told(policy="typical", flipped=[1, 1], moved=[2, 2], any_right=[10, 0], any_total=[10, 0])
    found = {
        Unit("a", 0, "reader-none"): {"rows": 2, "policies": [first, other]},
        Unit("a", 1, "reader-none"): {"rows": 2, "policies": [second, other]},
    }
    frame = tables.tables(found)["reader"]
    line = frame[(frame["data"] == "a") & (frame["policy"] == "typical")].iloc[0]
    assert line["flipped"] == 0.75
    assert line["moved"] == 2
    assert line["forward_any"] == pytest.approx(20 / 30)
    assert np.isnan(line["forward_own"])
    assert (line["rows"], line["edits_any"], line["edits_own"]) == (4, 30, 0)
    assert line["uses"] == "table"


def test_cells_that_differ_are_named_with_what_comes_nearest() -> None:
    def cell(method: str, measure: str, *values: float) -> dict[str, Any]:
        theirs = paper.MAIN.get(measure, {}).get(method.split("-")[0], {}).get("spam")
        return {"data": "spam", "method": method, "measure": measure, **tables.beside(values, theirs)}

    lines = [
        cell("local", "features", 1.3, 1.4),
        cell("local", "features_all", 2.0, 2.1),
        cell("local-as-printed", "features", 2.9, 3.0),
        cell("gradient", "features", 1.0, 1.2),
    ]
    _, heads, found = page.differences(pd.DataFrame(lines))
    assert len(found) == 1
    row = dict(zip(heads, found[0], strict=True))
    assert (row["data"], row["method"], row["paper"], row["nearest"]) == ("spam", "local", "2.95", "as-printed")
    assert "a miss counts K 2.05 ± 0.07" in row["other readings"]


# -- other readings -----------------------------------------------------------------------------------


def test_the_released_program_fills_up_with_the_least_redundant() -> None:
    su = np.eye(4)
    su[0, 1] = su[1, 0] = 0.9
    su[0, 2] = su[2, 0] = 0.5
    order = np.array([0, 1, 2, 3])
    assert released.select(order, su, 0.5, 2) == [0, 3]
    assert released.select(order, su, 0.5, 3) == [0, 3, 2]
    assert released.select(order, su, 0.5, 4) == [0, 3, 2, 1]
    assert released.select(order, su, 0.51, 3) == [0, 2, 3]


def test_the_released_program_on_a_network(subject: Subject) -> None:
    explainer = subject.explainer
    rows = explainer.schema.encode(subject.test)
    contrast, chosen, success = released.generate(explainer, rows, 3, 0.5)
    low, high = explainer.schema_for("minmax").bounds()
    assert success.any()
    assert np.array_equal(explainer._scores(contrast).argmax(1) != explainer._scores(rows).argmax(1), success)
    moved = contrast != np.clip(rows, low, high)
    assert not (moved & ~chosen).any()
    assert (chosen.sum(axis=1)[~success] == 3).all()  # a miss has tried everything
    assert ((contrast >= low) & (contrast <= high)).all()


def test_training_as_released() -> None:
    """The learning rate is a tenth after half the patience, training ends after all of it, the last weights stay."""
    seen: list[float] = []

    class Watch(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            if torch.is_grad_enabled():
                seen.append(float(self.bias[0].detach()))
            return super().forward(rows)

    x = torch.zeros(6, 2)  # the training rows are all of one class, those for validation of the other
    network = Watch(2, 2)
    nn.init.zeros_(network.bias)
    held = (x, torch.ones(6, dtype=torch.int64))
    released.fit(network, x, 1 - held[1], held, Recipe((), 0.01, patience=4, batch_size=6))
    steps = np.diff([*seen, float(network.bias[0].detach())])
    assert steps == pytest.approx([0.01, 0.01, 0.01, 0.001, 0.001], rel=0.05)

    rows = torch.as_tensor(np.random.default_rng(0).normal(3, 2, (50, 2)), dtype=torch.float32)
    built = released.build(rows, Recipe((4, 3)), 2, seed=1)
    scaled = built[0](rows)
    assert torch.allclose(scaled.mean(dim=0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(scaled.std(dim=0, correction=0), torch.ones(2), atol=1e-5)
    assert [tuple(m.weight.shape) for m in built if isinstance(m, nn.Linear)] == [(4, 2), (3, 4), (2, 3)]
    assert all((m.bias == 0.01).all() for m in built if isinstance(m, nn.Linear))


def test_nearest_by_labels_is_what_a_loop_finds(subject: Subject) -> None:
    explainer = subject.explainer
    rows = explainer.schema.encode(subject.test)
    known = explainer.schema.encode(subject.parts.train)
    names = list(explainer.model.classes)
    labels = np.array([names.index(c) for c in subject.parts.train["kind"]])
    own = explainer._scores(rows).argmax(axis=1)
    counts = []
    for row, label in zip(rows, own, strict=True):
        others = [z for z, y in zip(known, labels, strict=True) if y != label]
        nearest = min(others, key=lambda z: float(((z - row) ** 2).sum()))
        counts.append((nearest != row).sum())
    m = released.nearest_by_labels(explainer, rows, known, labels, 5)
    assert m.features == pytest.approx(np.mean(counts))
    assert m.fidelity == 1


def test_the_domain_by_cells_is_what_a_loop_finds(subject: Subject) -> None:
    batch = subject.explain("deepfool")
    a = batch.answers
    low, high = batch.schema.bounds()
    shares = []
    for old, new, done in zip(a.rows, a.contrast, a.success, strict=True):
        cells = [low[j] <= new[j] <= high[j] for j in range(3) if old[j] != new[j]]
        if done:
            shares.append(np.mean(cells))
    m, found = batch.metrics(raw=True), samples.by_cells(batch)
    assert found["domain_cells"] == pytest.approx(np.mean(shares))
    assert found["influence_cells_raw"] * m.features == pytest.approx(found["info_gain_star_cells_raw"])


def test_more_features_change_nothing_once_all_rows_flip(subject: Subject) -> None:
    found = samples.effect_of_share(subject, TINY)["methods"]
    for method in samples.SWEPT:
        for entry in found[method]:
            batch = subject.explainer.explain(
                subject.test.head(10), method=method, domain="minmax", max_features=entry["k"], gamma=0.5
            )
            assert entry["fidelity"] == pytest.approx(batch.success.mean())
        assert [e["k"] for e in found[method]][-1] == 3


def test_the_patient_is_explained_by_a_network_that_has_not_seen_them() -> None:
    found = samples.case_study(Subject(datasets.load("cancer95"), 1), Sizes(lime_samples=200))
    assert found["class"] == "malignant"
    assert found["contrast"]["search"] == "benign"
    changes = found["grace"]["search"]["changes"]
    assert all(datasets.CASE_STUDY[c["feature"]] == c["old"] for c in changes)
    assert found["lime"]["text"].count("If ") == 5
    explainer, _ = samples.embedded("cancer95", 1)
    rows = explainer.background_rows
    assert rows is not None
    assert not datasets.is_case_study(explainer.schema.decode(rows)).any()


# -- running, storing, showing ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reproduction]:
    out = tmp_path_factory.mktemp("done")
    plan = plan_of([tiny(EVIL)], runs=2, only=[p for p in PARTS if p != "case-study"], sizes=TINY)
    wanting = runs.compute(plan, out, workers=1)
    results = Reproduction(plan, out, wanting)
    assert results.write() == []
    return out, results


def test_every_part_at_tiny_size(done: tuple[Path, Reproduction]) -> None:
    out, results = done
    expected = {"table2", "table3", "figure-fidelity", "figure-k", "figure-gamma", "reader"}
    assert set(results.frames) == expected
    for name in expected:
        assert len(pd.read_csv(out / f"{name}.csv"))
    for name in ("figure-fidelity", "figure-k", "figure-k-features", "figure-gamma", "reader"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{name}.svg").read_text(encoding="utf-8")
    main = results.frames["table3"]
    assert set(samples.VARIANTS) | {"gradient-released", "nearest-by-labels"} == set(main["method"])
    search = main[(main["method"] == "search") & (main["measure"] == "fidelity")]
    walk = main[(main["method"] == "gradient") & (main["measure"] == "fidelity")]
    assert search["mean"].iloc[0] >= walk["mean"].iloc[0]
    assert json.loads(results.to_json())["table2"][0]["runs"] == 2
    assert not list(out.rglob("*.part"))


def test_the_page_is_whole_and_safe(done: tuple[Path, Reproduction]) -> None:
    out, _ = done
    html = (out / "reproduction.html").read_text(encoding="utf-8")
    assert EVIL not in html
    assert "&lt;script&gt;" in html
    assert html.count("data:image/svg+xml") == 5
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert page.SIMULATED.split(":")[0] in html
    markdown = (out / "reproduction.md").read_text(encoding="utf-8")
    assert page.SIMULATED in markdown


def test_nothing_is_computed_twice(done: tuple[Path, Reproduction], monkeypatch: pytest.MonkeyPatch) -> None:
    out, results = done
    if results.unavailable:
        pytest.skip("needs every package")
    before = {f: f.read_bytes() for f in out.rglob("*") if f.is_file()}
    monkeypatch.setattr(Subject, "__init__", lambda *_: pytest.fail("computed again"))
    assert runs.compute(results.plan, out, workers=1) == []
    Reproduction(results.plan, out).write()
    assert {f: f.read_bytes() for f in out.rglob("*") if f.is_file()} == before


def test_what_is_damaged_or_stale_is_made_again(tmp_path: Path) -> None:
    plan = plan_of([tiny()], runs=1, only=["table2", "figure-gamma"], sizes=TINY)
    runs.compute(plan, tmp_path, workers=1)
    file = tmp_path / "runs" / "tiny-0-table2.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:50])
    network = next((tmp_path / "networks").iterdir())
    (network / "weights.safetensors").write_bytes(b"damaged")
    half = network.with_name(f".{network.name}.part")  # what an end by force in the middle of a save leaves
    (half / ".new-1").mkdir(parents=True)
    seen: list[str] = []
    runs.compute(plan, tmp_path, workers=1, progress=lambda unit, _: seen.append(unit.part))
    assert seen == ["table2"]
    assert file.read_bytes() == whole
    larger = plan_of([tiny()], runs=1, only=["table2", "figure-gamma"], sizes=Sizes(sweep_rows=12))
    assert [u.part for u in Store(tmp_path, larger).missing()] == ["figure-gamma"]
    changed = tiny()
    changed.frame.iloc[0, 0] += 1
    assert len(Store(tmp_path, plan_of([changed], 1, ["table2"], TINY)).missing()) == 1


def test_a_missing_package_is_named_and_made_up_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of([tiny()], runs=1, only=["reader"], sizes=TINY)
    with monkeypatch.context() as without:
        for name in ("lime.lime_tabular", "shap", "matplotlib.figure"):
            without.setitem(sys.modules, name, None)
        wanting = runs.compute(plan, tmp_path, workers=1)
        assert [w.split(";")[0] for w in wanting] == ["LIME needs the package lime", "SHAP needs the package shap"]
        results = Reproduction(plan, tmp_path, wanting)
        assert "matplotlib" in results.write()[0]
        assert "2 of 4 results are missing." in results.notes()
        assert not list(tmp_path.glob("*.png"))
    seen: list[str] = []
    wanting = runs.compute(plan, tmp_path, workers=1, progress=lambda unit, _: seen.append(unit.part))
    assert seen == ["reader-lime", "reader-shap"]
    assert Reproduction(plan, tmp_path, wanting).write() == []
    assert (tmp_path / "reader.png").exists()


def test_wide_tables_give_fewer_rows() -> None:
    sizes = Sizes()
    assert [sizes.rows_for(d) for d in (5, 100, 166, 5000)] == [20, 20, 12, 1]
    assert [sizes.sweep_for(d) for d in (5, 40, 216)] == [500, 500, 92]


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    for words, said in (
        (["--only", "table9"], "there is no part 'table9'"),
        (["--data", "nothing"], "there is no table 'nothing'"),
        (["--data", "spam,spam"], "named twice"),
        (["--data", ","], "names nothing"),
    ):
        result = CliRunner().invoke(main, ["reproduce", "--out", str(tmp_path), *words])
        assert result.exit_code == 1
        assert said in result.output
    with pytest.raises(GraceError, match="workers=0"):
        runs.compute(plan_of([tiny()], 1, ["table2"]), tmp_path, workers=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(GraceError, match="cannot be made"):
        runs.compute(plan_of([tiny()], 1, ["table2"]), tmp_path / "file", workers=1)


# -- an end by force ----------------------------------------------------------------------------------

ASKED = ["--data", "cancer95,diabetes", "--runs", "1", "--only", "table2,figure-gamma"]


def start(out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "grace.cli", "reproduce", "--out", str(out), "--workers", "2", *ASKED]
    path = str(Path(grace.__file__).parents[1])
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, stdout=-3, stderr=-3
    )


def workers_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[1]) == parent:
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")
def test_killed_in_the_middle_it_goes_on_and_ends_with_the_same_files(tmp_path: Path) -> None:
    killed, calm = tmp_path / "killed", tmp_path / "calm"
    process = start(killed)
    deadline = time.monotonic() + 60
    while not list(killed.glob("runs/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    children = workers_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    stored = {f.name: f.read_bytes() for f in killed.glob("runs/*.json")}
    assert 0 < len(stored) < 4
    assert not list(killed.glob("*.csv"))
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{child}").exists() for child in children), "workers live on without their parent"
    for out in (killed, calm):
        words = ["reproduce", "--out", str(out), "--workers", "1", *ASKED]
        assert CliRunner().invoke(main, words).exit_code == 0
    for name, content in stored.items():
        assert (killed / "runs" / name).read_bytes() == content
    made = sorted(f.name for f in calm.iterdir() if f.is_file())
    assert made == sorted(f.name for f in killed.iterdir() if f.is_file())
    assert "figure-gamma.csv" in made
    for name in made:
        assert (killed / name).read_bytes() == (calm / name).read_bytes(), name
