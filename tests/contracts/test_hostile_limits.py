"""Single ways in which a file would take memory or time, reach elsewhere, or have its words run."""

from __future__ import annotations

import json
import resource
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import grace
from grace import GraceError
from grace.schema.parsing import MAX_BYTES, MAX_DEPTH, Bound, fitted, read_json, read_text
from grace.schema.schema import Schema
from hostile_onnx import endless_loop, network, recursive, swollen
from saved_folder import asked, explainer, folder, rows

BOX = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A saved explainer to damage."""
    shutil.copytree(folder(), tmp_path / "model")
    return tmp_path / "model"


def edited(copy: Path, **parts: Any) -> Path:
    head = json.loads((copy / "grace.json").read_text())
    (copy / "grace.json").write_text(json.dumps({**head, **parts}))
    return copy


def grown_by() -> int:
    """Megabytes that the process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000


# -- JSON -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 300 + "]" * 300])
def test_deep_json(text: str) -> None:
    with pytest.raises(GraceError, match=rf"the file is damaged: it is nested more than {MAX_DEPTH} deep"):
        read_json(text, "the file")


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "'a' occurs twice"),
        ("[NaN]", "NaN is not a number"),
        ('["\\ud800"]', "not Unicode"),
        ("9" * 5000, "digits"),
        ("{", "not JSON"),
    ],
)
def test_json_that_cannot_be_meant(text: str, culprit: str) -> None:
    with pytest.raises(GraceError, match=culprit):
        read_json(text, "the file")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large.json").open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(GraceError, match=r"large\.json is too large"):
        read_text(tmp_path / "large.json")
    with pytest.raises(GraceError, match="not a file"):
        read_text(tmp_path)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        *((True, kind) for kind in (int, float, str)),
        *((value, int) for value in (1.5, 2**63, "1", None)),
        *((value, float) for value in (float("inf"), float("nan"), [1])),
        ([1, 2, 3], tuple[int, int]),
        ("abc", tuple[str, ...]),
        ({"a": "x"}, dict[str, int]),
    ],
)
def test_values_of_other_types(value: Any, hint: Any) -> None:
    with pytest.raises(GraceError, match=r"^it[: ]"):
        fitted(value, hint, "it")


def test_values_as_they_are_declared() -> None:
    assert fitted([1, 2.5], tuple[float, ...], "it") == (1, 2.5)
    assert fitted(float("-inf"), Bound | None, "it") == float("-inf")
    assert fitted(None, Bound | None, "it") is None


def test_an_unlimited_range_survives() -> None:
    schema = explainer().schema.replace("a", high=float("inf"))
    assert Schema.from_json(schema.to_json()) == schema


# -- saved explainers -----------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [[10**9], [10**6, 10**6], [8] * 10_000, [0], [-1], [True], [2**63]])
def test_huge_layers_are_refused_before_memory_is_taken(copy: Path, hidden: list[int]) -> None:
    before = grown_by()
    with pytest.raises(GraceError, match=r"does not fit|damaged"):
        grace.load(edited(copy, network={"hidden": hidden}))
    assert grown_by() - before < 200


@pytest.mark.parametrize(
    ("name", "change", "culprit"),
    [
        ("su", lambda a: a * 2, "symmetric, with numbers from 0 to 1"),
        ("su", lambda a: np.triu(a), "symmetric"),
        ("su", lambda a: np.full_like(a, np.nan), "symmetric"),
        ("su", lambda a: a[:2], "'su' is F64 2 × 4"),
        ("background", lambda a: a[:, :3], "should be F64 rows × 4"),
        ("background", lambda a: a[:0], "no background rows"),
        ("background", lambda a: np.full_like(a, np.inf), "other values of 'a'"),
        ("background", lambda a: a + np.array([0, 0, 7, 0]), "other values of 'home'"),
        ("background", lambda a: a + np.array([0, 0, 0, 0.5]), "other values of 'grade'"),
        ("background", lambda a: a.astype(np.float32), "F32"),
    ],
)
def test_arrays_that_do_not_fit(copy: Path, name: str, change: Any, culprit: str) -> None:
    arrays = load_file(copy / "training.safetensors")
    save_file({**arrays, name: np.ascontiguousarray(change(arrays[name]))}, copy / "training.safetensors")
    with pytest.raises(GraceError, match=culprit):
        grace.load(copy)


@pytest.mark.parametrize(
    ("name", "value", "culprit"),
    [("layers.0.weight", np.nan, "not finite"), ("layers.2.bias", np.inf, "not finite"), ("scale", 0, "scaled")],
)
def test_weights_that_cannot_be(copy: Path, name: str, value: float, culprit: str) -> None:
    arrays = load_file(copy / "weights.safetensors")
    save_file({**arrays, name: np.full_like(arrays[name], value)}, copy / "weights.safetensors")
    with pytest.raises(GraceError, match=culprit):
        grace.load(copy)


def test_the_file_itself_is_fine(copy: Path) -> None:
    asked(grace.load(copy))


def test_too_many_categories_or_features() -> None:
    many = {"kind": "categorical", "name": "c", "categories": list(range(3000))}
    with pytest.raises(GraceError, match="too many"):
        Schema.from_dict({"features": [many]})
    with pytest.raises(GraceError, match="at most"):
        Schema.from_dict({"features": [{"kind": "numeric", "name": "a"}] * 100_001})


# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["{row.__class__}", "{0}", "{class!r:>9999999}", "{", "put {row} in {{class}}", "{}"])
def test_a_verb_is_not_a_format_string(verb: str) -> None:
    with pytest.raises(GraceError, match=r"beside \{row\} and \{class\} it must be plain text"):
        Schema(features=(), verb=verb)
    with pytest.raises(GraceError, match="translations"):
        Schema(features=(), translations={"de": {"verb": verb}})
    with pytest.raises(GraceError, match="translations"):
        Schema(features=()).translate("de", {"verb": verb})


def test_other_words_are_never_filled_in() -> None:
    """What stands in braces in the words for rows, classes and features is said as it is."""
    schema = Schema.infer(rows(), "verdict").replace("a", phrase="{class} of {row}", unit="{0}")
    schema = Schema.from_dict({**schema.to_dict(), "row": "{class}", "class_words": {"yes": "{row}", "no": "{0.x}"}})
    found = grace.Explainer(explainer().model, rows(), schema=schema, rules=())
    e = next(e for e in found.explain(rows(20).drop(columns="verdict")) if e.success and e.changes[0].name == "a")
    assert "classified {class} as " in e.text()
    assert {"{row}", "{0.x}"} <= set(e.text().replace(",", " ").split())
    with pytest.raises(GraceError, match="cannot be translated"):
        Schema(features=(), translations={"de": {"cluster": "{class.x}"}})


# -- ONNX -----------------------------------------------------------------------------------------


def explained(path: Path, proto: Any) -> Any:
    pytest.importorskip("onnxruntime")
    path.write_bytes(proto.SerializeToString())
    found = grace.Explainer(grace.wrap(path, classes=["no", "yes"]), BOX, gamma=1.0)
    return found.explain(BOX.head(1))[0]


def test_an_onnx_file_has_its_weights_inside(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "secret").write_bytes(bytes(100))
    proto = network()
    tensor = proto.graph.initializer[0]
    tensor.data_location = tensor.EXTERNAL
    tensor.ClearField("raw_data")
    for key, value in (("location", "secret"), ("length", "72")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    with pytest.raises(GraceError, match="keeps weights in other files"):
        explained(tmp_path / "m.onnx", proto)
    with pytest.raises(GraceError, match="keeps weights in other files"):
        grace.wrap(proto, classes=["no", "yes"])


@pytest.mark.parametrize("kind", ["constant", pytest.param("rows", marks=pytest.mark.slow)])
def test_an_onnx_graph_takes_no_more_memory_than_it_may(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("onnx")
    with pytest.raises(GraceError, match="failed on"):
        explained(tmp_path / "m.onnx", swollen(kind))


def test_an_endless_loop_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    monkeypatch.setattr("grace.models.onnx_files.MOST_SECONDS", 0.5)
    begun = time.monotonic()
    with pytest.raises(GraceError, match="terminate"):
        explained(tmp_path / "m.onnx", endless_loop())
    assert time.monotonic() - begun < 30


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    with pytest.raises(GraceError, match="refuses"):
        explained(tmp_path / "m.onnx", recursive())
