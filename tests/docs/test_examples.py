"""Every example runs, without a warning, and says something."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

from subsets import but

OWN_TEST = {"mlflow_model"}  # in test_mlflow.py, with a store of its own
EXAMPLES = sorted(p for p in (Path(__file__).parents[2] / "examples").glob("*.py") if p.stem not in OWN_TEST)
SLOW = {"house_values", "keras_network"}
NEEDS = {
    "boosted_trees": "lightgbm",
    "keras_network": "keras",
    "onnx_file": "onnx",
    "polars_frame": "polars",
    "skorch_network": "skorch",
    "xgboost_trees": "xgboost",
}


@pytest.mark.parametrize("path", but([p for p in EXAMPLES if p.stem in SLOW], EXAMPLES), ids=lambda p: p.stem)
def test_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if path.stem in NEEDS and find_spec(NEEDS[path.stem]) is None:
        pytest.skip(f"needs {NEEDS[path.stem]}")
    runpy.run_path(str(path), run_name="__main__")
    assert "odel" in capsys.readouterr().out
