"""ONNX models: layers that torch has as well are read exactly, with gradients; anything else runs in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from grace.errors import GraceError
from grace.models.base import Model
from grace.models.checking import Origin
from grace.models.onnx_files import Session, read_proto
from grace.models.predictor import OutputReader, Predictor
from grace.models.threshold import Cutoffs
from grace.models.to_torch import Layers, SameOutputs, module, sigmoids
from grace.models.torch import TorchModel
from grace.schema.features import Floats, Value
from grace.schema.schema import Schema

SKIPPED = ("Identity", "Flatten", "Dropout", "Cast")  # do nothing to rows of numbers
ENDS = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}  # leave the order of scores as it is
ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}


def is_onnx(model: Any) -> bool:
    return type(model).__name__ in ("ModelProto", "InferenceSession") and "onnx" in type(model).__module__


def onnx_model(
    model: Any, *, classes: Sequence[Value] | None, outputs: str | None, schema: Schema | None, task: str | None
) -> Model:
    """The model as exact layers if it is made of them, else as a black box."""
    task = task or "classification"
    number = task == "regression"

    kind = "numbers" if number else outputs
    if type(model).__name__ == "InferenceSession":
        return _of_session(model, kind, classes, schema, task)
    model = read_proto(model)
    content = model.SerializeToString()
    read = _layers(model)
    fits = read is not None and len(read[0][-1][1]) in ((1,) if number else (1, len(classes or ())))
    if read is not None and fits and (number or classes is not None):
        found = TorchModel(module(*read), () if number else classes or (), outputs="logits", schema=schema, task=task)
        last = model.graph.node[-1].op_type
        end = ENDS.get(last, "")
        found.no_probabilities_because = sigmoids(end, len(read[0][-1][1]))
        itself = partial(_black_box, GraphOutputs(content), kind, classes, schema, task)
        found.origin = Origin("the ONNX model", GraphOutputs(content, fallback=True), SameOutputs(end), itself)
        return found
    asked = GraphOutputs(content)
    _input_of(asked.session)  # what onnxruntime refuses is found out now
    return _black_box(asked, kind, classes, schema, task)


def _of_session(
    session: Any, outputs: str | None, classes: Sequence[Value] | None, schema: Schema | None, task: str
) -> Predictor:
    """A session by its answers; it is kept as the graph behind it, which can be pickled, where it tells that."""
    content: bytes | None = getattr(session, "_model_bytes", None)
    path = getattr(session, "_model_path", None)
    if content is None and path and Path(path).is_file():
        content = Path(path).read_bytes()
    _input_of(session)
    asked = SessionOutputs(session) if content is None else GraphOutputs(content)
    found = _black_box(asked, outputs, classes, schema, task)
    found.subject = content
    return found


def _black_box(
    asked: Callable[[Floats], Any],
    outputs: str | None,
    classes: Sequence[Value] | None,
    schema: Schema | None,
    task: str,
    cutoffs: Cutoffs | None = None,
) -> Predictor:
    """The model by its answers alone."""
    way = OutputReader(asked, outputs)
    found = Predictor([way], classes, inputs="array", schema=schema, task=task, name="the ONNX model")
    return found.with_cutoffs(cutoffs)


class _Evaluator:
    """onnx's reference evaluator behind the two methods of a session that are used here."""

    def __init__(self, content: bytes) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        proto = onnx.load_from_string(content)
        self.evaluator, self.given = ReferenceEvaluator(proto), proto.graph

    def get_inputs(self) -> list[Any]:
        constants = {t.name for t in self.given.initializer}
        kinds = {1: "tensor(float)", 11: "tensor(double)"}
        return [
            SimpleNamespace(name=i.name, type=kinds.get(i.type.tensor_type.elem_type, "another type"))
            for i in self.given.input
            if i.name not in constants
        ]

    def run(self, names: None, rows: dict[str, Any]) -> Any:
        return self.evaluator.run(names, rows)


@dataclass(frozen=True)
class SessionOutputs:
    """Rows of numbers to the probabilities among the outputs of a session, else to the last output."""

    session: Any

    def __call__(self, rows: Floats) -> Any:
        return _outputs(self.session, rows)


@dataclass(frozen=True)
class GraphOutputs:
    """The same of a serialised graph. Its session, which cannot be pickled, is made when it is first needed; with
    `fallback`, where onnxruntime does not run the graph, by the slow evaluator that comes with onnx."""

    content: bytes
    fallback: bool = False

    @cached_property
    def session(self) -> Any:
        import onnx

        try:
            return Session(onnx.load_from_string(self.content))
        except GraceError:
            if self.fallback:
                return _Evaluator(self.content)
            raise

    def __call__(self, rows: Floats) -> Any:
        return _outputs(self.session, rows)

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, "fallback": self.fallback}


def _input_of(session: Any) -> tuple[str, Any]:
    """The name and the type of the one input that a session must have."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise GraceError(f"the ONNX model has {len(inputs)} inputs; it must have one, rows of numbers")
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}.get(inputs[0].type)
    if kind is None:
        raise GraceError(f"the ONNX model takes {inputs[0].type}; it must take rows of numbers")
    return inputs[0].name, kind


def _outputs(session: Any, rows: Floats) -> Any:
    """The outputs, or one clear line of what went wrong."""
    name, kind = _input_of(session)
    try:
        out = session.run(None, {name: rows.astype(kind)})[-1]
        if isinstance(out, list):  # one dict of classes per row
            out = np.array([list(row.values()) for row in out])
    except Exception as reason:  # onnxruntime has a class of its own for each way to be wrong
        line = (str(reason).strip() or type(reason).__name__).splitlines()[0]
        raise GraceError(f"the ONNX model failed on {len(rows)} rows: {line}") from reason
    if np.shape(out)[:1] != (len(rows),):
        raise GraceError(f"the ONNX model returned shape {np.shape(out)} for {len(rows)} rows")
    return out


def _layers(proto: Any) -> tuple[Layers, str] | None:
    """Linear layers and the activation between them; None if the graph is anything else than a chain of these."""
    constants = {t.name: t for t in proto.graph.initializer}
    here = [i.name for i in proto.graph.input if i.name not in constants]
    if len(here) != 1:
        return None
    current = here[0]
    layers: Layers = []
    found: list[str] = []
    nodes = list(proto.graph.node)
    for place, node in enumerate(nodes):
        if len(node.output) == 0 or (len(node.input) == 0) != (node.op_type == "Constant"):
            return None
        if node.op_type == "Constant":
            constants |= dict.fromkeys(node.output, next((a.t for a in node.attribute if a.name == "value"), None))
            continue
        if [name for name in node.input if name not in constants and name] != [current]:
            return None
        fixed = [_array(constants[name]) for name in node.input if name in constants]
        current = node.output[0]
        if node.op_type in SKIPPED or (node.op_type in ENDS and place == len(nodes) - 1):
            continue
        if node.op_type in ACTIVATIONS and len(found) < len(layers):
            found.append(ACTIVATIONS[node.op_type])
        elif node.input[0] in constants or not _linear(node, [f for f in fixed if f is not None], layers, len(found)):
            return None
    if not layers or current != proto.graph.output[-1].name or len(found) != len(layers) - 1 or len(set(found)) > 1:
        return None
    if not all(np.isfinite(part).all() for layer in layers for part in layer):
        raise GraceError("the ONNX model has weights that are not finite")
    return layers, found[0] if found else "identity"


def _array(tensor: Any) -> Floats | None:
    """A constant as numbers; None if it is something else, or damaged."""
    from onnx import numpy_helper

    try:
        return np.asarray(numpy_helper.to_array(tensor), dtype=np.float64)
    except Exception:  # sizes that do not fit, unknown types, text: whatever onnx makes of them
        return None


def _linear(node: Any, fixed: list[Floats], layers: Layers, activations: int) -> bool:
    """Add the node to the last layer, or as a new one after an activation; False if it is not linear."""
    if len(layers) > activations:  # an affine step after a linear one
        weight, bias = layers[-1]
        if node.op_type == "Add" and len(fixed) == 1 and fixed[0].size in (1, len(bias)):
            layers[-1] = (weight, bias + fixed[0].reshape(-1))
            return True
        return False
    if node.op_type not in ("MatMul", "Gemm") or not fixed or fixed[0].ndim != 2 or 0 in fixed[0].shape:
        return False
    parts = {a.name: a.i if a.name.startswith("trans") else a.f for a in node.attribute}
    weight = (fixed[0].T if parts.get("transB", 0) else fixed[0]) * parts.get("alpha", 1.0)
    width = weight.shape[1]
    if layers and len(layers[-1][1]) != len(weight):
        return False
    if node.op_type == "MatMul":
        layers.append((fixed[0], np.zeros(fixed[0].shape[1])))
        return len(fixed) == 1
    bias = fixed[1].reshape(-1) * parts.get("beta", 1.0) if len(fixed) > 1 else np.zeros(width)
    if parts.get("transA", 0) or len(fixed) != sum(map(bool, node.input)) - 1 or bias.size not in (1, width):
        return False
    layers.append((weight, np.broadcast_to(bias, width).copy()))
    return True
