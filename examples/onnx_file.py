"""A network from an ONNX file: its layers are read exactly.

Run: python examples/onnx_file.py      (needs the extra onnx)
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pandas as pd

import grace

rng = np.random.default_rng(0)
rows = pd.DataFrame(rng.normal(size=(300, 3)).round(2), columns=["speed", "load", "heat"])
weights = {"w": rng.normal(size=(3, 8)), "b": rng.normal(size=8), "v": rng.normal(size=(8, 2)), "c": np.zeros(2)}
steps = [("Gemm", ["x", "w", "b"], "h"), ("Relu", ["h"], "r"), ("Gemm", ["r", "v", "c"], "y")]
graph = onnx.helper.make_graph(
    [onnx.helper.make_node(kind, inputs, [output]) for kind, inputs, output in steps],
    "machine",
    [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 3])],
    [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, 2])],
    [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
)
path = Path(tempfile.mkdtemp()) / "machine.onnx"
onnx.save(onnx.helper.make_model(graph), path)

explainer = grace.Explainer(grace.wrap(path, classes=["runs", "stops"]), rows)
print(explainer.explain(rows.head(1), prove=True, gamma=1.0)[0])
