"""The measures against a literal reference, the tables, the protocol for functions, the resume and the command."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.tree import DecisionTreeClassifier

from benchmark_world import loans
from grace import Categorical, GraceError
from grace.cli import main
from grace.experiments import Answers, Results, Task, benchmark, benchmarking, functions
from grace.experiments.evaluate import MEASURES, NEIGHBOURS, Judge, Verdict, coordinates, differs, figures
from grace.experiments.results import Line, compare, over_tasks
from grace.experiments.task import network_of, prepare, task_of
from grace.schema.information import discretise, symmetrical_uncertainty


@pytest.fixture(scope="module")
def task() -> Task:
    return prepare(loans(), domain="central", rows=12, seed=0, time_limit=30)


@pytest.fixture(scope="module")
def judge(task) -> Judge:
    return Judge(task, [network_of(loans(), 0, seed) for seed in (1, 2)])


def shaken(task: Task) -> np.ndarray:
    """Answers of all kinds: big and small moves, another category, outside the domain, none at all."""
    rng = np.random.default_rng(3)
    rows = task.rows.copy()
    rows[:, 0] += rng.normal(0, 60, len(rows))
    rows[::2, 1] = rng.integers(0, 12, len(rows[::2]))
    rows[::3, 2] = (rows[::3, 2] + 1) % 3
    rows[4] = np.nan
    rows[5] = task.rows[5] * (1 + 1e-9)
    return rows


def literal_distance(task: Task, a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for j, feature in enumerate(task.schema.features):
        if isinstance(feature, Categorical):
            total += a[j] != b[j]
        else:
            total += abs(a[j] - b[j]) / feature.spread
    return total


def test_measures_are_what_they_say(task, judge) -> None:
    answers = Answers(shaken(task))
    verdict = judge.verdict(answers)
    codes = discretise(task.train, task.labels, task.schema)
    predicted = task.classes_of(task.train)
    assert 3 <= verdict.valid.sum() < 12  # the reference below sees both kinds
    for i, (old, new) in enumerate(zip(task.rows, answers.rows, strict=True)):
        if np.isnan(new).any():
            assert not verdict.valid[i]
            continue
        own, now = task.classes_of(old[None])[0], task.classes_of(new[None])[0]
        assert verdict.valid[i] == (own != now)
        if own == now:
            continue
        changed = [j for j in range(4) if abs(new[j] - old[j]) > 1e-3]
        assert verdict.features[i] == len(changed)
        assert verdict.distance[i] == pytest.approx(literal_distance(task, old, new))
        assert verdict.within_k[i] == 1
        inside = all(task.schema.contains(new[None])[0, j] for j in changed)
        assert verdict.in_domain[i] == inside
        pairs = [
            symmetrical_uncertainty(codes[:, a], codes[:, b]) for k, a in enumerate(changed) for b in changed[k + 1 :]
        ]
        assert verdict.redundancy[i] == pytest.approx(np.mean(pairs) if pairs else 0)
        members = task.train[predicted == now]
        near = np.mean(sorted(literal_distance(task, new, m) for m in members)[:NEIGHBOURS])
        assert verdict.plausibility[i] == pytest.approx(near)
        usual = [
            np.mean(sorted(literal_distance(task, m, o) for k, o in enumerate(members) if k != j)[:NEIGHBOURS])
            for j, m in enumerate(members)
        ]
        assert verdict.percentile[i] == pytest.approx(np.mean([u < near - 1e-12 for u in usual]), abs=1e-9)
        again = [model.predict(task.schema.decode(new[None]))[0] for model in judge.retrained]
        assert verdict.kept_class[i] == np.mean([a == task.model.classes[now] for a in again])
        assert verdict.kept_flip[i] == np.mean([a != task.model.classes[own] for a in again])


def test_coordinates_have_the_distance_in_them(task) -> None:
    point = coordinates(task, task.train)
    apart = np.abs(point[:5, None] - point[None]).sum(axis=2)
    expected = [[literal_distance(task, a, b) for b in task.train] for a in task.train[:5]]
    np.testing.assert_allclose(apart, expected)


def test_rounding_to_float32_is_no_change_and_no_leaving_of_the_domain(task) -> None:
    rounded = task.train.astype(np.float32).astype(np.float64)
    assert (rounded != task.train).any()
    assert not differs(task, task.train, rounded).any()
    small = task.train.copy()
    small[:, 0] += 1e-4 * task.schema.features[0].spread
    assert differs(task, task.train, small)[:, 0].all()


def test_figures_are_means_over_valid_answers(task, judge) -> None:
    answers = Answers(shaken(task), np.array([0.5, 0.25] + [np.nan] * 10), 6.0)
    verdict = judge.verdict(answers)
    found = figures(verdict, answers)
    assert set(found) == set(MEASURES)
    assert found["valid"] == verdict.valid.mean()
    assert found["distance"] == pytest.approx(verdict.distance[verdict.valid].mean())
    assert found["ms"] == 375
    assert found["batch_ms"] == 500
    empty = judge.verdict(Answers(np.full_like(task.rows, np.nan))).figures()
    assert empty["valid"] == 0
    assert np.isnan(empty["features"])
    few = judge.verdict(Answers(shaken(task), tried=3))
    assert len(few.valid) == 3


def test_the_search_keeps_its_promises_under_this_judge(task, judge) -> None:
    answers = functions.call(functions.grace_method("search"), task)
    found = figures(judge.verdict(answers), answers)
    assert found["valid"] == found["within_k"] == found["in_domain"] == 1
    assert min(found["ms"], found["batch_ms"]) > 0


def line(method: str, ours: bool = False, verdict: Verdict | None = None, **figures: float) -> Line:
    head = {"data": "loans", "domain": "central", "seed": 0, "method": method}
    return Line(head, ours, 10, {m: figures.get(m, np.nan) for m in MEASURES}, verdict, failed="")


def test_ratios_are_to_the_best_peer_that_mostly_answers() -> None:
    results = Results(
        [
            line("search", ours=True, valid=1.0, features=1.5, distance=2.0, ms=30.0),
            line("gradient", ours=True, valid=0.9, features=0.1, distance=0.1, ms=0.1),
            line("a", valid=0.8, features=3.0, distance=4.0, ms=300.0),
            line("b", valid=0.6, features=2.0, distance=5.0, ms=60.0),
            line("rare", valid=0.1, features=1.0, distance=0.5, ms=1.0),
        ]
    )
    frame = results.frame().set_index("method")
    assert frame.loc["search", "valid_ratio"] == pytest.approx(1.25)
    assert frame.loc["search", "features_ratio"] == pytest.approx(0.75)
    assert frame.loc["search", "distance_ratio"] == pytest.approx(0.5)
    assert frame.loc["b", "ms_ratio"] == 1
    assert np.isnan(frame.loc["search", "kept_flip_ratio"])
    alone = Results([line("search", ours=True, valid=1.0)]).frame()
    assert np.isnan(alone["valid_ratio"]).all()


def test_a_method_is_dominated_by_one_that_is_worse_in_nothing() -> None:
    def on(name: str, features: float, distance: float, plausibility: float, kept: float, **more: float) -> Line:
        figures = {"valid": 1.0, "features": features, "distance": distance, "plausibility": plausibility}
        return line(name, name == "search", **{**figures, "kept_class": kept, **more})

    results = Results(
        [
            on("search", 1.0, 1.0, 5.0, 0.2),
            on("typical", 4.0, 6.0, 1.0, 0.9),
            on("behind", 4.0, 6.0, 1.0, 0.8),
            on("equal", 4.0, 6.0, 1.0, 0.9),
            on("rare", 1.0, 1.0, 1.0, 1.0, valid=0.2),  # too few answers to put others behind
            line("silent", valid=0.0),
        ]
    )
    frame = results.frame().set_index("method")
    assert frame["dominated_by"].tolist() == ["", "", "typical equal", "", "", ""]
    remarks = results.tables()[0][3]
    assert "On the front of features, distance, plausibility, kept_class: search, typical, equal, rare" in remarks
    assert "behind is dominated by typical, equal" in remarks


def test_over_tasks_are_geometric_means_of_ratios_to_the_search() -> None:
    def on(data: str, method: str, distance: float) -> Line:
        head = {"data": data, "domain": "central", "seed": 0, "method": method}
        figures = {**dict.fromkeys(MEASURES, np.nan), "valid": 1.0, "features": 2.0, "distance": distance}
        return Line(head, method == "search", 10, figures)

    pairs = (("one", 2.0, 8.0), ("two", 3.0, 3.0), ("three", 1.0, 16.0))
    lines = [on(data, method, d) for data, *both in pairs for method, d in zip(("search", "other"), both, strict=True)]
    failed = Line({"data": "four", "domain": "central", "seed": 0, "method": "other"}, False, 10, failed="no")
    results = Results([*lines, on("four", "search", 1.0), failed])
    found = over_tasks(results.frame()).set_index("method")
    assert found.index.tolist() == ["other"]
    assert found.loc["other", "distance"] == pytest.approx(4.0)  # the third root of 4 * 1 * 16; of the means 4.5
    assert (found.loc["other", "tasks"], found.loc["other", "features"]) == (3, pytest.approx(1.0))
    assert "| other | 3 | 1 | 4 | – | – |" in results.markdown()
    assert "<h2>Over all tasks</h2>" in results.html()
    alone = Results([on("one", "other", 1.0)])
    assert "Over all tasks" not in alone.markdown() + alone.html()


def verdict(valid: list[int], features: list[int], distance: list[float]) -> Verdict:
    filler = np.zeros(len(valid))
    parts = dict.fromkeys(("within_k", "in_domain", "redundancy", "plausibility", "percentile"), filler)
    kept = {"kept_class": filler, "kept_flip": filler}
    return Verdict(np.array(valid, bool), np.array(features, float), distance=np.array(distance), **parts, **kept)


def test_pairs_compare_like_with_like() -> None:
    own = verdict([1, 1, 1, 1, 0, 1], [1, 1, 2, 3, 1, 2], [1.0, 2.0, 3.0, 9.0, 0.0, 5.0])
    other = verdict([1, 1, 1, 1, 1], [1, 1, 3, 2, 1], [2.0, 1.0, 3.0, 9.0, 7.0])  # gave up before the last
    found = compare(own, other)
    assert (found["both"], found["equal"]) == (4, 2)
    assert (found["fewer"], found["more"]) == (0.25, 0.25)
    assert (found["distance_search"], found["distance_method"]) == (1.5, 1.5)
    assert (found["ratio"], found["not_farther"]) == (1.0, 0.5)


def test_tables_say_who_failed_and_escape_names(tmp_path) -> None:
    bad = "<script>alert(1)</script>"
    head = {"data": "loans", "domain": "central", "seed": 0, "method": bad}
    results = Results([line("search", ours=True, valid=1.0), Line(head, False, 10, failed="no | luck <b>")])
    page = results.html()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "no | luck &lt;b&gt;" in page
    assert f"{bad} failed: no | luck" in results.markdown()
    assert results.frame()["failed"].tolist() == ["", "no | luck <b>"]
    results.write(tmp_path)
    assert len(pd.read_csv(tmp_path / "results.csv")) == 2
    assert json.loads(results.to_json())["results"][1]["valid"] is None


def nearest_training_row(task: Task) -> pd.DataFrame:
    classes, own = task.classes_of(task.train), task.classes_of(task.rows)
    points, asked = coordinates(task, task.train), coordinates(task, task.rows)
    apart = np.abs(asked[:, None] - points[None]).sum(axis=2)
    apart[classes[None] == own[:, None]] = np.inf
    return task.schema.decode(task.train[apart.argmin(axis=1)])


def boom(task: Task) -> np.ndarray:
    raise ZeroDivisionError("boom")


def test_functions_of_your_own(task) -> None:
    def hang(task: Task) -> np.ndarray:
        time.sleep(60)
        return task.rows

    mine = {"mine": nearest_training_row, "boom": boom, "flat": lambda t: t.rows[:, 0], "hang": hang}
    mine |= {"wild": lambda t: t.rows + 7, "huge": lambda t: np.full_like(t.rows, 1e300)}
    results = benchmark([loans()], methods=mine, own=["nearest"], rows=6, time_limit=0.5, retrained=0)
    frame = results.frame().set_index("method")
    assert frame.loc["mine", "valid"] == 1
    assert frame.loc["mine", "ms"] > 0
    assert frame.loc["boom", "failed"] == "ZeroDivisionError: boom"
    assert "shape (6,)" in frame.loc["flat", "failed"]
    assert "longer than 0.5 s" in frame.loc["hang", "failed"]
    assert frame.loc["nearest", "failed"] == ""
    assert frame.loc["wild", "valid"] == 0
    assert frame.loc["wild", "note"] == "6 of 6 rows: a category of 'home' that does not exist"
    assert frame.loc["huge", "note"] == "6 of 6 rows: an answer with NaN or infinity"


@pytest.mark.slow
def test_a_function_in_a_file_runs_in_a_process_of_its_own(task, tmp_path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import os\n\ndef plus(task):\n    rows = task.rows.copy()\n    rows[:, 0] += 1\n    return rows\n\n"
        "def die(task):\n    print('last words', flush=True)\n    os._exit(9)\n"
    )
    np.testing.assert_array_equal(functions.call_file(f"{file}:plus", task).rows[:, 0], task.rows[:, 0] + 1)
    with pytest.raises(GraceError, match="last words"):
        functions.call_file(f"{file}:die", task)
    with pytest.raises(GraceError, match="no function 'minus'; it has plus, die"):
        functions.load(f"{file}:minus")


def test_answers_are_kept_and_asked_again_only_if_something_changed(tmp_path, monkeypatch) -> None:
    asked: list[str] = []
    file = tmp_path / "mine.py"
    file.write_text("one")

    def answer(place: str, task: Task) -> Answers:
        asked.append(place)
        if Path(place.rpartition(":")[0]).read_text() == "broken":
            raise GraceError("out of order")
        return Answers(task.rows.copy(), np.ones(len(task.rows)), 1.0, note="fresh")

    monkeypatch.setattr(benchmarking.functions, "call_file", answer)
    table = loans()

    def go(rows: int = 3) -> pd.DataFrame:
        peers = [f"{file}:mine"]
        return benchmark([table], own=[], peers=peers, rows=rows, retrained=0, out=tmp_path / "out").frame()

    first = go()
    again = go()
    assert len(asked) == 1
    pd.testing.assert_frame_equal(first, again)
    kept = list((tmp_path / "out" / "answers").iterdir())
    assert len(kept) == 1
    kept[0].write_text("{ damaged")
    go()
    assert len(asked) == 2
    go(rows=4)
    assert len(asked) == 3
    file.write_text("broken")
    assert go(rows=4)["failed"].tolist() == ["out of order"]
    file.write_text("two")  # a failure is not kept: it is asked again
    assert go(rows=4)["failed"].tolist() == [""]
    assert len(asked) == 5
    assert not [p for p in (tmp_path / "out" / "answers").iterdir() if p.name.startswith(".")]


def test_wrong_wishes_are_errors() -> None:
    for wish, said in [
        ({"peers": ["alibi"]}, "no peer 'alibi'"),
        ({"peers": ["missing.py:mine"]}, "no file missing.py"),
        ({"own": ["magic"]}, "no method 'magic'"),
        ({"rows": 0}, "at least 1"),
        ({"time_limit": 0}, "positive"),
        ({"methods": {"search": boom}}, "same name"),
        ({"data": ["nope"]}, "no table 'nope'"),
    ]:
        with pytest.raises(GraceError, match=said):
            benchmark(**{"data": [loans()], **wish})


def test_the_command(tmp_path) -> None:
    out = tmp_path / "results"
    args = ["benchmark", "--data", "diabetes", "--methods", "search,nearest", "--rows", "3", "--out", str(out)]
    said = CliRunner().invoke(main, args, env={"COLUMNS": "80"})
    assert said.exit_code == 0, said.output
    assert "search" in said.stdout
    assert "…" not in said.stdout
    assert {p.name for p in out.iterdir()} >= {"results.csv", "pairs.csv", "results.md", "results.html"}
    again = CliRunner().invoke(main, [*args, "--json"])
    found = json.loads(again.stdout)
    assert [r["method"] for r in found["results"]] == ["search", "nearest"]
    assert found["results"][0]["valid"] == 1
    assert found["pairs"][0]["method"] == "nearest"
    wrong = CliRunner().invoke(main, ["benchmark", "--peers", "alibi", "--out", str(out)])
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("Error: there is no peer 'alibi'")


def test_a_tiny_change_counts_where_the_class_depends_on_it() -> None:
    """A tree may split just above zero, as those of LightGBM do."""
    frame = pd.DataFrame({"a": [0.0, 0.0, 1.0, 2.0] * 10, "b": [0.0, 1.0, 2.0, 3.0] * 10})
    model = DecisionTreeClassifier(max_depth=1, random_state=2).fit(frame[["a", "b"]], frame.a > 0)
    assert model.tree_.feature[0] == 0
    model.tree_.threshold[0] = 1e-30
    task = task_of("tiny", model, frame.assign(y=frame.a > 0), frame.assign(y=frame.a > 0).head(2), target="y")
    tiny = task.rows + np.array([[1e-20, 1e-20], [1e-20, 0.5]])
    assert Judge(task, []).verdict(Answers(tiny)).features.tolist() == [2, 2]
    far = task.rows + np.array([[1.0, 1e-20], [1.0, 0.0]])
    assert Judge(task, []).verdict(Answers(far)).features.tolist() == [1, 1]
