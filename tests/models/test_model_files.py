"""Models from files: read as their libraries read them, known again by their hash, and never run unasked."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import grace
from grace.cli import main
from grace.models.files import model_file, read
from grace.scale.saved_explainer import as_saved, load_reference, unpacked_files
from kinds import CLASSES, KINDS, MIXED, NUMBERS, YES
from subsets import first

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")

FRAME = NUMBERS.assign(y=YES)
CODES = (YES == "yes").astype(int)
CODE = """
import numpy as np

class Sum:
    def __init__(self, bound):
        self.bound = bound

    def __call__(self, frame):
        total = frame["a"] + 0.6 * frame["b"] - 0.4 * frame["c"] - self.bound
        return 1 / (1 + np.exp(-total.to_numpy()))

model = Sum(0.0)
"""


def xgboost_file(folder: Path, end: str = "json", rounds: int = 8) -> Path:
    path = folder / f"model.{end}"
    xgboost.XGBClassifier(n_estimators=rounds, max_depth=3, n_jobs=1).fit(NUMBERS, CODES).save_model(path)
    return path


def lightgbm_file(folder: Path) -> Path:
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(settings, lightgbm.Dataset(NUMBERS, CODES), 8)
    booster.save_model(folder / "model.txt")
    return folder / "model.txt"


def onnx_file(folder: Path) -> Path:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    weight = np.array([[-1.0, 1], [-0.6, 0.6], [0.4, -0.4]], dtype=np.float32)
    parts = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.zeros(2, np.float32), "b")]
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "g", [rows], [out], parts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def exported_file(folder: Path) -> Path:
    network = nn.Linear(3, 2).double()
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[-1.0, -0.6, 0.4], [1, 0.6, -0.4]]))
        network.bias.zero_()
    batch = torch.export.Dim("rows")
    rows = torch.zeros(4, 3, dtype=torch.float64)
    torch.export.save(torch.export.export(network, (rows,), dynamic_shapes=({0: batch},)), folder / "model.pt2")
    return folder / "model.pt2"


def python_file(folder: Path) -> Path:
    path = folder / f"own_{folder.name.replace('-', '_')}.py"
    path.write_text(CODE)
    return Path(f"{path}:model")


@pytest.fixture(autouse=True)
def _without_trials(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are made here are whole: only tests of damaged ones try them in another process first."""
    if not re.search("no_model|truncated|from_a_file_to_a_sentence", request.node.name):
        monkeypatch.setattr("grace.models.files._try_out", lambda file: None)


FILES: list[Callable[[Path], Path]] = [xgboost_file, lightgbm_file, onnx_file, exported_file, python_file]


@pytest.mark.parametrize("make", FILES)
def test_a_model_file_is_saved_for_loaded_and_known_again(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    model = grace.wrap(path, classes=CLASSES)
    explainer = grace.Explainer(model, FRAME, target="y")
    explainer.save(str(tmp_path / "saved"))
    again = grace.load(tmp_path / "saved", str(path))
    rows = NUMBERS.head(3)
    assert again.explain(rows).to_json() == explainer.explain(rows).to_json()
    if model_file(path).runs_code:
        with pytest.raises(grace.GraceError, match="load it with model="):
            grace.load(tmp_path / "saved")
    else:
        assert grace.load(tmp_path / "saved").explain(rows).to_json() == explainer.explain(rows).to_json()


def test_another_model_is_refused_and_a_moved_one_found(tmp_path: Path) -> None:
    path = xgboost_file(tmp_path)
    grace.Explainer(grace.wrap(path, classes=CLASSES), FRAME, target="y").save(str(tmp_path / "saved"))
    path.rename(tmp_path / "saved" / path.name)
    assert grace.load(tmp_path / "saved").model.classes == tuple(CLASSES)
    other = xgboost_file(tmp_path, rounds=9)
    with pytest.raises(grace.GraceError, match=r"is not the model that .* was saved for: the file .* another hash"):
        grace.load(tmp_path / "saved", other)
    (tmp_path / "saved" / path.name).unlink()
    other.unlink()
    with pytest.raises(grace.GraceError, match="not there any more; say where with --model"):
        grace.load(tmp_path / "saved")


def test_an_object_of_ones_own_is_known_by_what_it_has_learnt(tmp_path: Path) -> None:
    first, second = (xgboost.XGBClassifier(n_estimators=n, n_jobs=1).fit(NUMBERS, CODES) for n in (5, 6))
    grace.Explainer(first, NUMBERS).save(str(tmp_path))
    assert grace.load(tmp_path, first)
    with pytest.raises(grace.GraceError, match="is not the model"):
        grace.load(tmp_path, second)


def test_a_function_is_known_by_its_code_and_answers(tmp_path: Path) -> None:
    bound = 0.0

    def share(frame: pd.DataFrame) -> Any:
        return (1 / (1 + np.exp(bound - frame["a"]))).to_numpy()

    grace.Explainer(grace.wrap(share, classes=CLASSES), NUMBERS).save(str(tmp_path))
    assert grace.load(tmp_path, grace.wrap(share, classes=CLASSES))
    bound = 1.0
    with pytest.raises(grace.GraceError, match="it gives other scores"):
        grace.load(tmp_path, grace.wrap(share, classes=CLASSES))


@pytest.mark.parametrize("end", ["pkl", "joblib", "pt", "pickle"])
def test_pickles_are_never_read(end: str, tmp_path: Path) -> None:
    (tmp_path / f"model.{end}").write_bytes(pickle.dumps(print))
    with pytest.raises(grace.GraceError, match=r"load it in a Python file of your own.*FILE.py:NAME"):
        grace.wrap(tmp_path / f"model.{end}")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("model.json", b"{", "is not JSON"),
        ("model.json", b"{}", "not a model of XGBoost or CatBoost"),
        ("model.ubj", b"{\x00", "cannot be read as a model of XGBoost"),
        ("model.txt", b"tree\nversion=v4\n", "cannot be read as a model of LightGBM"),
        ("model.onnx", b"\xff\xff", "cannot be read as ONNX"),
        ("model.xls", b"", "a model file ends in"),
        ("model.py", b"", "name the model in it"),
    ],
)
def test_what_is_no_model_gets_one_line(name: str, content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(grace.GraceError, match=reason) as caught:
        grace.wrap(tmp_path / name, classes=CLASSES)
    assert "\n" not in str(caught.value)


CATBOOST = Path(__file__).parents[1] / "data" / "catboost.json"


def test_a_model_of_catboost_is_recognised() -> None:
    """By its own JSON, also where CatBoost is not installed: then the error says what to install."""
    file = model_file(CATBOOST)
    assert (file.kind, file.runs_code) == ("CatBoost", False)
    if find_spec("catboost") is None:
        with pytest.raises(grace.GraceError, match="pip install catboost"):
            grace.wrap(CATBOOST)
    else:
        wrapped = grace.wrap(CATBOOST)
        assert wrapped.classes == ("no", "yes")
        model = grace.Explainer(wrapped, NUMBERS).model
        assert model.predict_proba(NUMBERS).sum(axis=1).to_numpy() == pytest.approx(1)


def test_a_truncated_file_of_lightgbm_does_not_end_the_process(tmp_path: Path) -> None:
    path = lightgbm_file(tmp_path)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(grace.GraceError, match="damaged"):
        read(model_file(path))


def test_own_code_that_fails_says_so(tmp_path: Path) -> None:
    (tmp_path / "broken_code.py").write_text("raise ValueError('no weights')")
    with pytest.raises(grace.GraceError, match=r"broken_code.py fails when it is run: ValueError: no weights"):
        grace.wrap(f"{tmp_path / 'broken_code.py'}:model")
    (tmp_path / "fine_code.py").write_text("model = 1")
    with pytest.raises(grace.GraceError, match="has no 'other'; it has model"):
        grace.wrap(f"{tmp_path / 'fine_code.py'}:other")
    assert str(tmp_path) not in sys.path


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_explainers_of_every_kind_can_be_pickled(kind: Any) -> None:
    model, _ = kind.make()
    explainer = grace.Explainer(model, kind.frame)
    rows = kind.frame.head(2)
    asked = {} if kind.against is None else {"against": kind.against}
    expected = explainer.explain(rows, **asked).to_json()
    again = pickle.loads(pickle.dumps(explainer))
    assert again.explain(rows, **asked).to_json() == expected


def run(*words: Any) -> Any:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_the_command_from_a_file_to_a_sentence(tmp_path: Path) -> None:
    path, data = xgboost_file(tmp_path), tmp_path / "data.csv"
    FRAME.to_csv(data, index=False)
    unnamed = run("save", data, "--target", "y", "--model", path, "-o", tmp_path / "why")
    assert unnamed.exit_code == 1
    assert "--classes no,yes" in unnamed.stderr
    done = run("save", data, "--target", "y", "--model", path, "--classes", "no,yes", "-o", tmp_path / "why")
    assert done.exit_code == 0, done.output
    assert "The model classifies" in done.stderr
    twice = run("save", data, "--target", "y", "--model", path, "--classes", "no,yes", "-o", tmp_path / "why")
    assert "--force" in twice.stderr
    said = run("explain", tmp_path / "why", data, "--row", 0)
    assert said.exit_code == 0, said.output
    assert "the model would have classified the row as" in said.output
    other = xgboost_file(tmp_path, rounds=3)
    refused = run("explain", tmp_path / "why", data, "--row", 0, "--model", other)
    assert refused.exit_code == 1
    assert "is not the model" in refused.stderr


def test_the_command_with_own_code(tmp_path: Path) -> None:
    spec, data = python_file(tmp_path), tmp_path / "data.csv"
    FRAME.assign(customer=range(len(FRAME))).drop(columns="customer").to_csv(data, index=False)
    done = run("save", data, "--target", "y", "--model", spec, "--classes", "no,yes", "-o", tmp_path / "why")
    assert done.exit_code == 0, done.output
    assert "Running code of" in done.stderr
    unsaid = run("explain", tmp_path / "why", data, "--row", 0)
    assert unsaid.exit_code == 1
    assert "--model" in unsaid.stderr
    said = run("explain", tmp_path / "why", data, "--row", 0, "--model", spec, "--json")
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)[0]["success"]


def test_columns_that_the_model_was_not_fitted_on_are_left_out(tmp_path: Path) -> None:
    path, data = xgboost_file(tmp_path), tmp_path / "data.csv"
    FRAME.assign(customer=range(len(FRAME))).to_csv(data, index=False)
    done = run("save", data, "--target", "y", "--model", path, "--classes", "no,yes", "-o", tmp_path / "why")
    assert done.exit_code == 0, done.output
    assert "Left out, as the model was not fitted on them: customer." in done.stderr
    short = tmp_path / "short.csv"
    FRAME.drop(columns="a").to_csv(short, index=False)
    failed = run("save", short, "--target", "y", "--model", path, "--classes", "no,yes", "-o", tmp_path / "other")
    assert "has no column 'a'" in failed.stderr


def test_mixed_columns_reach_a_booster_as_in_training(tmp_path: Path) -> None:
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    codes = (MIXED["a"] + MIXED["count"] > 2).astype(int)
    lightgbm.train(settings, lightgbm.Dataset(MIXED, codes), 5).save_model(tmp_path / "mixed.txt")
    explainer = grace.Explainer(grace.wrap(tmp_path / "mixed.txt", classes=[0, 1]), MIXED.assign(y=codes), target="y")
    assert explainer.explain(MIXED.head(3)).success.any()


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_categories_of_a_csv_reach_a_booster_by_name(library: str, tmp_path: Path) -> None:
    """In a table of text, and where it has fewer categories than there were in training."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300).round(2), "p": rng.choice(["x", "y", "z"], 300)})
    codes = ((frame["p"] == "x") | (frame["a"] > 1)).astype(int)
    typed = frame.astype({"p": "category"})
    if library == "xgboost":
        path = tmp_path / "model.json"
        model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1).fit(typed, codes)
        model.save_model(path)
    else:
        path = tmp_path / "model.txt"
        model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(typed, codes)
        model.booster_.save_model(path)
    few = frame[frame["p"] != "x"]
    wrapped = grace.Explainer(grace.wrap(path, classes=[0, 1]), few).model
    expected = model.predict_proba(typed[typed["p"] != "x"])
    assert np.allclose(wrapped.predict_proba(few), expected, atol=1e-6)


def test_a_booster_without_the_names_of_its_categories_is_refused(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": NUMBERS["a"], "p": np.arange(len(NUMBERS)) % 3})
    data = xgboost.DMatrix(rows, CODES, feature_types=["float", "c"], enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 3)
    words = rows.assign(p=rows["p"].map({0: "x", 1: "y", 2: "z"}))
    with pytest.raises(grace.GraceError, match="does not hold the names of its categories"):
        grace.Explainer(grace.wrap(booster, classes=CLASSES), words)


@pytest.mark.parametrize("make", first(1, [xgboost_file, python_file]))
def test_jobs_take_models_from_files(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """With processes of their own, and from an explainer in memory as well as from its folder."""
    path, rows = make(tmp_path), tmp_path / "rows.parquet"
    NUMBERS.head(20).to_parquet(rows)
    explainer = grace.Explainer(grace.wrap(path, classes=CLASSES), FRAME, target="y")
    explainer.save(str(tmp_path / "saved"))
    memory = explainer.explain_file(rows, tmp_path / "one", workers=0, method="gradient")
    folder = grace.scale.run(tmp_path / "saved", rows, tmp_path / "two", model=path, workers=1, method="gradient")
    assert memory.explained == folder.explained > 0
    pd.testing.assert_frame_equal(memory.read(), folder.read())
    if model_file(path).runs_code:
        with pytest.raises(grace.GraceError, match="--model"):
            grace.scale.run(tmp_path / "saved", rows, tmp_path / "three")
    else:
        found = grace.scale.run(tmp_path / "saved", rows, tmp_path / "three", workers=0, method="gradient")
        assert found.explained == folder.explained


def test_what_is_sent_to_other_machines_is_the_file_of_the_model(tmp_path: Path) -> None:
    path = xgboost_file(tmp_path)
    grace.Explainer(grace.wrap(path, classes=CLASSES), FRAME, target="y").save(str(tmp_path / "saved"))
    with as_saved(tmp_path / "saved") as known:
        files = known.files()
    path.unlink()
    with unpacked_files(files) as reference:
        assert load_reference(reference, "cpu").explain(NUMBERS.head(2)).success.any()


def test_the_schema_and_rules_of_a_model_of_ones_own(tmp_path: Path) -> None:
    path, data, out = xgboost_file(tmp_path), tmp_path / "data.csv", tmp_path / "schema.json"
    FRAME.assign(customer=range(len(FRAME))).to_csv(data, index=False)
    done = run("schema", data, "--target", "y", "--model", path, "-o", out)
    assert done.exit_code == 0, done.output
    assert grace.Schema.from_json(out.read_text()).names == ["a", "b", "c"]
    assert "customer" in done.stderr
    found = run("rules", data, "--target", "y", "--model", path, "--json")
    assert found.exit_code == 0, found.output
    assert "customer" not in found.stdout


def test_more_than_ten_classes_by_number_need_no_names(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 12, 360), "b": rng.uniform(0, 1, 360)})
    codes = frame["a"].astype(int)
    booster = xgboost.train(
        {"objective": "multi:softprob", "num_class": 12, "nthread": 1}, xgboost.DMatrix(frame, codes), 3
    )
    booster.save_model(tmp_path / "model.json")
    frame.assign(y=codes).to_csv(tmp_path / "rows.csv", index=False)
    data, model = tmp_path / "rows.csv", tmp_path / "model.json"
    done = run("save", data, "--target", "y", "--model", model, "-o", tmp_path / "saved")
    assert done.exit_code == 0, done.output
    assert list(grace.load(tmp_path / "saved").model.classes) == list(range(12))
