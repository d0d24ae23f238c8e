"""ONNX files as an attacker would write them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from hostile import mutated_bytes


def network(activation: str = "Relu") -> Any:
    """Two layers for rows of three numbers; with another activation than these three, a black box."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(4)
    shapes = {"w": (6, 3), "b": (6,), "v": (6, 2), "c": (2,)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1),
        helper.make_node(activation, ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])],
        [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), k) for k, s in shapes.items()],
    )
    return _model(graph)


def trees() -> Any:
    """Two stumps, as scikit-learn's forests are written."""
    from onnx import TensorProto, helper

    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0, 1, 1, 1],
        nodes_nodeids=[0, 1, 2, 0, 1, 2],
        nodes_featureids=[0, 0, 0, 2, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        nodes_values=[0.2, 0.0, 0.0, -0.3, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 2, 0, 0],
        nodes_missing_value_tracks_true=[0] * 6,
        class_treeids=[0, 0, 0, 0, 1, 1, 1, 1],
        class_nodeids=[1, 1, 2, 2, 1, 1, 2, 2],
        class_ids=[0, 1, 0, 1, 0, 1, 0, 1],
        class_weights=[0.4, 0.1, 0.1, 0.4, 0.3, 0.2, 0.1, 0.4],
        classlabels_int64s=[0, 1],
        post_transform="NONE",
    )
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2]),
        ],
    )
    return _model(graph, ("ai.onnx.ml", 3))


def _model(graph: Any, *more: tuple[str, int]) -> Any:
    from onnx import helper

    imports = [helper.make_opsetid(*pair) for pair in (("", 17), *more)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 8
    return model


def endless_loop() -> Any:
    """A graph that counts without an end before it answers."""
    from onnx import TensorProto, helper, numpy_helper

    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("Identity", ["s_in"], ["s_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s_in", TensorProto.FLOAT, [None, 2]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s_out", TensorProto.FLOAT, [None, 2]),
        ],
    )
    model = network("Sin")
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array(2**62, dtype=np.int64), "most"))
    graph.initializer.append(numpy_helper.from_array(np.array(True), "go"))
    graph.node[-1].output[0] = "p"
    graph.node.append(helper.make_node("Loop", ["most", "go", "p"], ["y"], body=body))
    return model


def swollen(kind: str) -> Any:
    """A graph of a few hundred bytes that asks for more memory than there is: as a constant, or row by row."""
    from onnx import helper, numpy_helper

    model = network("Sin")
    graph = model.graph
    graph.node[-1].output[0] = "p"
    if kind == "constant":
        size = numpy_helper.from_array(np.array([2**38], dtype=np.int64), "size")
        graph.initializer.append(size)
        graph.node.append(helper.make_node("ConstantOfShape", ["size"], ["big"]))
        graph.node.append(helper.make_node("ReduceSum", ["big"], ["total"], keepdims=0))
    else:
        graph.node.append(helper.make_node("Identity", ["p"], ["t0"]))
        for k in range(40):
            graph.node.append(helper.make_node("Concat", [f"t{k}", f"t{k}"], [f"t{k + 1}"], axis=1))
        graph.node.append(helper.make_node("ReduceSum", ["t40"], ["total"], keepdims=0))
    graph.node.append(helper.make_node("Add", ["p", "total"], ["y"]))
    return model


def recursive() -> Any:
    """A function that calls itself."""
    from onnx import helper

    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = network("Sin")
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(
        helper.make_function(
            "own", "Again", ["a"], ["b"], [helper.make_node("Again", ["a"], ["b"], domain="own")], imports
        )
    )
    model.graph.node[1].op_type, model.graph.node[1].domain = "Again", "own"
    return model


def mutated_onnx(rng: Random) -> bytes:
    """A file of one of the models with something changed in its graph, or with bytes changed anywhere."""
    model = rng.choice((network, lambda: network("Sin"), trees))()
    graph = model.graph
    kind = rng.choice(
        ("bytes", "bytes", "bytes", "dims", "external", "op", "cycle", "names", "attribute", "weights", "odd")
    )
    if kind == "odd":
        junk = (b"", b"PK\x03\x04", b"\xff" * 64, b"\x0a" + b"\xff" * 9, bytes(1000), recursive().SerializeToString())
        return bytes(rng.choice(junk))
    if kind == "dims" and graph.initializer:
        tensor = rng.choice(list(graph.initializer))
        del tensor.dims[:]
        tensor.dims.extend(rng.choice(([2**60], [2**31, 2**31], [-1], [0], [], [10**9], [3, 6], [1] * 40)))
    elif kind == "external" and graph.initializer:
        from onnx import TensorProto

        tensor = rng.choice(list(graph.initializer))
        tensor.data_location = TensorProto.EXTERNAL
        where = rng.choice(("/etc/passwd", "../../secret", "weights.bin", "", "/dev/zero", "*/_ORT_MEM_ADDR_/*"))
        for key, value in (("location", where), ("offset", rng.choice(("0", "-1", "x"))), ("length", "24")):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        if rng.random() < 0.7:
            tensor.ClearField("raw_data")
    elif kind == "op":
        rng.choice(list(graph.node)).op_type = rng.choice(
            ("Unknown", "", "Loop", "If", "Einsum", "Gemm", "Reshape", "Constant")
        )
    elif kind == "cycle":
        node = rng.choice(list(graph.node))
        node.input[0] = rng.choice(list(graph.node)).output[0]
    elif kind == "names":
        node = rng.choice(list(graph.node))
        if rng.random() < 0.5:
            node.output[0] = rng.choice(("", "x", "y", "nowhere"))
        else:
            node.input[rng.randrange(len(node.input))] = rng.choice(("", "x", "w", "nowhere"))
    elif kind == "attribute" and any(n.attribute for n in graph.node):
        attribute = rng.choice([a for n in graph.node for a in n.attribute])
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice((-1, 0, 7, 2**31, 2**62))
        elif attribute.floats:
            attribute.floats[rng.randrange(len(attribute.floats))] = rng.choice((float("nan"), float("inf"), -1e38))
        else:
            attribute.i = rng.choice((0, 1, -1, 2**62))
    elif kind == "weights" and graph.initializer:
        tensor = rng.choice(list(graph.initializer))
        tensor.raw_data = rng.choice((b"", tensor.raw_data[:-3], b"\xff" * len(tensor.raw_data), tensor.raw_data * 2))
    else:
        return mutated_bytes(model.SerializeToString(), rng)
    return bytes(model.SerializeToString())
