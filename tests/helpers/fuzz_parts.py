"""The parts of random questions: tables, networks on them, settings and limits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

import grace
from grace.models import Network, TorchModel

Rng = np.random.Generator
N = 80
ROWS = 6
# a number's offset and its spread: from tiny to huge, map coordinates, Unix times, identifiers
SCALES = [(0, 1e-6), (0, 1e-3), (0, 1e6), (0, 1e9), (48.2, 0.01), (5e5, 20.0), (4.5e6, 50.0), (1.7e9, 1e6)]
SCALES += [(1.7e9, 1e7), (1e4, 1.0), (1e6, 1.0), (1e8, 1.0)]
KINDS = ("number", "number", "whole", "category", "ordered", "twin")


# -- tables -----------------------------------------------------------------------------------------


def column(rng: Rng, kind: str, others: pd.DataFrame) -> Any:
    if kind == "scaled":
        offset, spread = SCALES[rng.integers(len(SCALES))]
        values = offset + spread * rng.normal(0, 1, N)
        return values.round(int(2 - np.log10(spread))) if rng.random() < 0.5 else values
    if kind == "whole":
        return rng.integers(0, rng.choice([3, 8, 60]), N) - (rng.integers(0, 4) if rng.random() < 0.5 else 0)
    if kind == "category":
        return rng.choice(["u", "v", "w", "x"][: rng.integers(2, 5)], N)
    if kind == "ordered":
        names = ["low", "mid", "high"]
        return pd.Categorical(rng.choice(names, N), names, ordered=True)
    numbers = [c for c in others if pd.api.types.is_numeric_dtype(others[c])]
    if kind == "twin" and numbers:  # says nearly the same as another column
        twin = others[rng.choice(numbers)].to_numpy(dtype=float)
        return (twin + 0.05 * twin.std() * rng.normal(0, 1, N)).round(3)
    return rng.normal(rng.normal(0, 3), 1, N).round(int(rng.integers(1, 5)))


def table(rng: Rng, kinds: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(index=range(N))
    for place, kind in enumerate(kinds):
        frame["abcdefgh"[place]] = column(rng, kind, frame)
    return frame


def some_kinds(rng: Rng, *wanted: str) -> list[str]:
    drawn = [*wanted, *rng.choice(KINDS, rng.integers(1, 4))]
    return [str(k) for k in rng.permutation(drawn)]


def codes(frame: pd.DataFrame) -> torch.Tensor:
    """The table as a module is given it: categories by their position."""
    parts = [
        frame[c]
        if pd.api.types.is_numeric_dtype(frame[c])
        else pd.Series(pd.Categorical(frame[c])).cat.codes.to_numpy()
        for c in frame
    ]
    return torch.as_tensor(np.column_stack([np.asarray(p, dtype=np.float64) for p in parts]))


# -- networks ---------------------------------------------------------------------------------------


def hidden_layers(rng: Rng, depth: int | None = None) -> list[int]:
    depth = int(rng.choice([0, 1, 2, 2, 3])) if depth is None else depth
    return [int(rng.integers(2, 11 if depth < 3 else 6)) for _ in range(depth)]


def sequential(
    rng: Rng, frame: pd.DataFrame, classes: int, hidden: list[int], parts: tuple[type, ...] = ()
) -> nn.Sequential:
    """Linear layers and ReLUs that scale the raw columns by their first weights; `parts` are the classes to use."""
    outer, linear = parts or (nn.Sequential, nn.Linear)
    outputs = 1 if classes == 2 and rng.random() < 0.25 else classes
    widths = [frame.shape[1], *hidden, outputs]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [linear(a, b, dtype=torch.float64), nn.ReLU()]
        layers[-2].weight.data = torch.as_tensor(rng.normal(0, 1.5 / np.sqrt(a), (b, a)))
        layers[-2].bias.data = torch.as_tensor(rng.normal(0, 0.5, b))
    x = codes(frame)
    scale = x.std(dim=0) + 1e-300
    first = layers[0]
    first.weight.data = first.weight.data / scale
    first.bias.data = first.bias.data - first.weight.data @ x.mean(dim=0)
    return outer(*layers[:-1])


def own_network(rng: Rng, frame: pd.DataFrame, classes: int, hidden: list[int]) -> Network:
    """grace's own network, with its scaling and its embedded categories."""
    schema = grace.Schema.infer(frame)
    network = Network(schema, hidden, classes).double()
    numbers = [f for f in schema.features if isinstance(f, grace.Numeric)]
    with torch.no_grad():
        centre = torch.tensor([f.typical for f in numbers], dtype=torch.float64)
        scale = torch.tensor([f.spread for f in numbers], dtype=torch.float64)
        network.initialise(centre, scale, torch.Generator().manual_seed(int(rng.integers(1 << 30))))
        for layer in network.layers:
            layer.weight.mul_(1.5)
            layer.bias.copy_(torch.as_tensor(rng.normal(0, 0.4, len(layer.bias))))
    return network.eval()


def linear_layers(module: nn.Module) -> list[nn.Linear]:
    return [m for m in module.modules() if isinstance(m, nn.Linear)]


def tilted(rng: Rng, module: nn.Module, frame: pd.DataFrame, tilt: float | None = None) -> None:
    """Every class somewhere, the first in favour: then one change is not always enough."""
    last = linear_layers(module)[-1]
    tilt = float(rng.choice([0.5, 1.5, 3.0])) if tilt is None else tilt
    with torch.no_grad():
        scores = module(codes(frame))
        last.bias -= scores.mean(dim=0)
        last.bias[0] += tilt * scores.std()


def odd_weights(rng: Rng, module: nn.Module) -> None:
    """Dead units, huge and tiny weights that cancel, twin and negated units."""
    layers = linear_layers(module)
    for layer, later in pairwise(layers):
        for unit in range(len(layer.bias)):
            what = rng.choice(["", "", "dead", "shut", "huge", "tiny", "twin", "negated"])
            weight, bias = layer.weight.data, layer.bias.data
            factor = {"huge": 1e5, "tiny": 1e-5}.get(what, 1.0)
            if what == "dead":
                weight[unit] = 0
            elif what == "shut":
                bias[unit] -= 50 + 50 * bias[unit].abs()
            elif what in ("twin", "negated"):
                sign = 1 if what == "twin" else -1
                weight[unit], bias[unit] = sign * weight[0], sign * bias[0]
            weight[unit] *= factor
            bias[unit] *= factor
            later.weight.data[:, unit] /= factor


# -- limits -----------------------------------------------------------------------------------------


def names(classes: int) -> list[str]:
    return [f"c{k}" for k in range(classes)]


def question(rng: Rng, frame: pd.DataFrame, classes: int) -> dict[str, Any]:
    """A method, settings, and limits on what may change."""
    call: dict[str, Any] = {"method": str(rng.choice(["search", "search", "gradient", "local"])), "prove": True}
    call |= {"max_features": int(rng.integers(1, 4)), "gamma": float(rng.choice([0, 0.05, 0.3, 0.5, 1, 1]))}
    call |= {"distance": str(rng.choice(["l1", "l1", "l2", "linf"])), "budget": 0.1}
    call["domain"] = [("central"), "minmax", 0.9][rng.integers(3)]
    if rng.random() < 0.25:
        call["prefer"] = "nearest"
    if call["method"] != "search" and rng.random() < 0.15:
        call["as_printed"] = True
    if rng.random() < 0.3:
        call["confidence"] = float(rng.choice([0.35, 0.6, 0.8, 0.95]))
    if rng.random() < 0.4:
        call["against"] = str(rng.choice(names(classes)))
    directed = [c for c in frame if pd.api.types.is_numeric_dtype(frame[c]) or hasattr(frame[c], "cat")]
    for limit, columns in (("frozen", list(frame)), ("increase_only", directed), ("decrease_only", directed)):
        if columns and rng.random() < 0.25:
            call[limit] = [str(rng.choice(columns))]
    if set(call.get("increase_only", ())) & set(call.get("decrease_only", ())):
        del call["increase_only"]
    if rng.random() < 0.3:
        call["ranges"] = ranges(rng, frame)
    if rng.random() < 0.15:
        call["costs"] = {str(rng.choice(list(frame))): float(rng.choice([0.3, 4.0]))}
    return call


def ranges(rng: Rng, frame: pd.DataFrame) -> dict[str, Any]:
    """A range that leaves many rows outside; of a number, its ends are no short decimals."""
    name = str(rng.choice(list(frame)))
    cells = frame[name]
    if not pd.api.types.is_numeric_dtype(cells):
        return {name: [str(c) for c in rng.permutation(cells.unique())[:2]]}
    low, high = sorted(rng.choice([0.0, 0.1, 0.25, 0.45, 0.6, 0.8, 1.0], 2, replace=False))
    ends = [float(cells.quantile(q)) for q in (low, high)]
    if pd.api.types.is_integer_dtype(cells):
        ends = [float(np.floor(ends[0])), float(np.floor(ends[1]))]
    else:
        ends = [ends[0] + (0.1 + 0.7 - 0.8), ends[1] - (0.8 - (0.1 + 0.7))]
    return {name: (None if rng.random() < 0.2 else ends[0], None if rng.random() < 0.2 else ends[1])}


def drawn_rows(rng: Rng, frame: pd.DataFrame, count: int = ROWS) -> pd.DataFrame:
    return frame.iloc[np.sort(rng.choice(len(frame), count, replace=False))].reset_index(drop=True)


def explained(module: nn.Module, frame: pd.DataFrame, classes: int) -> grace.Explainer:
    if isinstance(module, Network):
        model = TorchModel(module, names(classes), outputs="logits", schema=grace.Schema.infer(frame))
        return grace.Explainer(model, frame)
    return grace.Explainer(grace.wrap(module.eval(), classes=names(classes), outputs="logits"), frame)
