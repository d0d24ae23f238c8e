"""The example for MLflow: the explainer comes back from code and data alone, and the artifacts say what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

import grace
from grace.explain.audit_record import read_record, replay

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlflow_model.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("mlflow") is None, reason="needs mlflow: pip install mlflow-skinny"),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store of MLflow in which the example has run, and what it printed."""
    store = tmp_path_factory.mktemp("mlflow")
    own = {
        "MLFLOW_TRACKING_URI": (store / "runs").as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        cwd=store,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return store, ran.stdout


def test_the_loaded_model_explains_as_the_explainer_does(done: tuple[Path, str]) -> None:
    store, printed = done
    [head] = store.rglob("grace.json")
    records = [read_record(p) for p in sorted(store.rglob("records/*.json"))]
    rows = [known["question"]["row"] for known in records]
    expected = grace.load(head.parent).explain(rows, max_features=2).to_frame()["text"]
    assert printed.splitlines()[:-1] == list(expected)
    assert len(expected) == 3


def test_nothing_is_pickled_and_no_training_rows_are_kept(done: tuple[Path, str]) -> None:
    [head] = done[0].rglob("grace.json")
    kept = {p.name for p in head.parents[2].rglob("*") if p.is_file()}
    assert {"mlflow_model.py", "grace.json", "weights.safetensors", "training.safetensors"} <= kept
    assert not any(name.endswith((".pkl", ".pickle", ".joblib", ".pt")) for name in kept)
    assert grace.load(head.parent).background_rows is None


def test_explanations_are_artifacts_and_their_records_replay(done: tuple[Path, str]) -> None:
    [head] = done[0].rglob("grace.json")
    [table] = done[0].rglob("explanations/table.csv")
    [report] = done[0].rglob("explanations/report.html")
    records = [read_record(p) for p in sorted(done[0].rglob("records/*.json"))]
    sentences = pd.read_csv(table)["text"]
    assert list(sentences) == [known["answer"]["text"] for known in records]
    assert "<html" in report.read_text(encoding="utf-8")
    again = replay(json.loads(json.dumps(records[0])), grace.load(head.parent))
    assert (again.same, again.changed) == (True, [])
