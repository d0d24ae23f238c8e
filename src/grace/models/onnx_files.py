"""ONNX files and sessions, of which anybody may be the author: one file, of limited size, memory and time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from grace.errors import GraceError, pip_install
from grace.schema.parsing import check_size

MOST_BYTES = 2**31 - 1  # what protobuf reads
MOST_MEMORY = 4 * 2**30  # that all sessions may take together
MOST_SECONDS = 60.0  # that a graph with loops may take for one call
LOOPS = ("Loop", "Scan", "If")


def read_proto(model: Any) -> Any:
    """The model of a file; a model itself is taken as it is."""
    try:
        import onnx
    except ImportError as missing:
        raise GraceError(f"reading ONNX needs more packages: {pip_install('onnx')}") from missing
    named = "the ONNX model"
    if isinstance(model, str | os.PathLike):
        named = os.fspath(model)
        if not Path(model).is_file():
            raise GraceError(f"there is no file {named!r}")
        check_size(Path(model), MOST_BYTES)
        try:
            model = onnx.load(named, load_external_data=False)
        except Exception as reason:  # whatever a damaged file makes protobuf raise
            raise GraceError(f"{named} cannot be read as ONNX: {type(reason).__name__}") from reason
    if not model.graph.node or not model.graph.output:
        raise GraceError(f"{named} cannot be read as ONNX: it has no graph")
    if any(tensor.data_location == tensor.EXTERNAL for tensor in tensors_of(model)):
        raise GraceError(
            f"{named} keeps weights in other files, which are not read; save it as a single file: "
            "onnx.save(onnx.load(path), path)"
        )
    return model


def tensors_of(model: Any) -> Iterator[Any]:
    """Every tensor that a model holds, those in the graphs of its nodes and functions included."""
    for graph in _graphs(model):
        yield from getattr(graph, "initializer", ())
        for sparse in getattr(graph, "sparse_initializer", ()):
            yield from (sparse.values, sparse.indices)
        for attribute in (a for node in graph.node for a in node.attribute):
            yield from (attribute.t, *attribute.tensors)


def _graphs(model: Any) -> Iterator[Any]:
    """The graph, the functions, and the graphs inside of them."""
    left = [model.graph, *model.functions]
    while left:
        graph = left.pop()
        yield graph
        for attribute in (a for node in graph.node for a in node.attribute):
            left += [attribute.g] if attribute.HasField("g") else []
            left += attribute.graphs


class Session:
    """A session of onnxruntime whose memory is limited and, where the graph has loops, its time."""

    def __init__(self, proto: Any) -> None:
        try:
            import onnxruntime
        except ImportError as missing:
            raise GraceError(f"this ONNX model needs onnxruntime: {pip_install('onnx')}") from missing
        _limit_memory()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.use_env_allocators", "1")
        try:
            self.session = onnxruntime.InferenceSession(
                proto.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=["ConstantFolding"],  # which would be done without a limit
                enable_fallback=0,
            )
        except Exception as reason:  # onnxruntime has a class of its own for each way to be wrong
            line = (str(reason).strip() or type(reason).__name__).splitlines()[0]
            raise GraceError(f"onnxruntime refuses the ONNX model: {line}") from reason
        self.loops = any(node.op_type in LOOPS for graph in _graphs(proto) for node in graph.node)

    def get_inputs(self) -> Any:
        return self.session.get_inputs()

    def run(self, names: None, rows: dict[str, Any]) -> Any:
        if not self.loops:
            return self.session.run(names, rows)
        import onnxruntime

        options = onnxruntime.RunOptions()
        timer = threading.Timer(MOST_SECONDS, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            return self.session.run(names, rows, options)
        finally:
            timer.cancel()


@cache
def _limit_memory() -> None:
    """Register the allocator that sessions share, once in a process."""
    import onnxruntime as ort

    where = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    same_as_requested = 1
    limits = ort.OrtArenaCfg({"max_mem": MOST_MEMORY, "arena_extend_strategy": same_as_requested})
    ort.create_and_register_allocator(where, limits)
