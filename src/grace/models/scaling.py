"""A user's `encode` function read as a scaling of each column: x -> factor * x + offset.

The function is traced symbolically. It is read if it does nothing but add, subtract, multiply by and divide by
constants; anything else, such as a choice by the value of a cell, is no scaling.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, fx

OPERATIONS: dict[Any, str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "div",
    torch.add: "add",
    torch.sub: "sub",
    torch.mul: "mul",
    torch.div: "div",
    **{name: name for name in ("add", "sub", "mul", "div")},
}


def scaling_of(encode: Callable[[Tensor], Tensor], features: int) -> tuple[Tensor, Tensor] | None:
    """The factors and offsets (features,) of a function of rows, or None if it is no scaling."""
    try:
        traced = fx.symbolic_trace(cast(Any, encode))
    except Exception:  # what cannot be traced raises whatever the user's code and torch come up with
        return None
    known: dict[str, Tensor | tuple[Tensor, Tensor]] = {}
    for node in traced.graph.nodes:
        value: Tensor | tuple[Tensor, Tensor] | None = None
        if node.op == "placeholder" and not known:
            value = torch.ones(features, dtype=torch.float64), torch.zeros(features, dtype=torch.float64)
        elif node.op == "get_attr":
            value = _constant(getattr(traced, node.target, None), features)
        elif node.op in ("call_function", "call_method") and len(node.args) == 2 and not node.kwargs:
            sides = [known.get(a.name) if isinstance(a, fx.Node) else _constant(a, features) for a in node.args]
            value = _applied(OPERATIONS.get(node.target, ""), *sides)
        elif node.op == "output":
            result = known.get(node.args[0].name) if isinstance(node.args[0], fx.Node) else None
            return result if isinstance(result, tuple) else None
        if value is None:
            return None
        known[node.name] = value
    return None


def _constant(value: Any, features: int) -> Tensor | None:
    """A number or a tensor as one per column."""
    if isinstance(value, bool) or not isinstance(value, int | float | Tensor):
        return None
    found = torch.as_tensor(value).detach().cpu().double()
    if found.numel() not in (1, features) or found.shape[-1:].numel() != found.numel():
        return None
    return found.reshape(-1).expand(features)


def _applied(
    operation: str, left: Tensor | tuple[Tensor, Tensor] | None, right: Tensor | tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor] | None:
    """A scaling after an operation with a constant on one side of it."""
    if isinstance(left, tuple) and isinstance(right, Tensor):
        factor, offset = left
        if operation == "add":
            return factor, offset + right
        if operation == "sub":
            return factor, offset - right
        if operation == "mul":
            return factor * right, offset * right
        if operation == "div":
            return factor / right, offset / right
    if isinstance(left, Tensor) and isinstance(right, tuple):
        factor, offset = right
        if operation == "add":
            return factor, left + offset
        if operation == "sub":
            return -factor, left - offset
        if operation == "mul":
            return left * factor, left * offset
    return None
