"""Random questions whose answers can be checked: tables, networks on them, rows and limits, all drawn by a seed.

A family is a function from a random generator to a `Case`; each leans towards one kind of difficulty.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import grace
from fuzz_disguises import DISGUISES
from grace.models import Network, TorchModel

Rng = np.random.Generator
N = 80
ROWS = 6
# a number's offset and its spread: from tiny to huge, map coordinates, Unix times, identifiers
SCALES = [(0, 1e-6), (0, 1e-3), (0, 1e6), (0, 1e9), (48.2, 0.01), (5e5, 20.0), (4.5e6, 50.0), (1.7e9, 1e6)]
SCALES += [(1.7e9, 1e7), (1e4, 1.0), (1e6, 1.0), (1e8, 1.0)]
KINDS = ("number", "number", "whole", "category", "ordered", "twin")


@dataclass(frozen=True)
class Case:
    """A question put to an explainer, and the model itself, which decides what is true."""

    explainer: grace.Explainer
    rows: pd.DataFrame
    call: dict[str, Any]
    module: nn.Module | None = None
    predict: Callable[[pd.DataFrame], Any] | None = None  # of a black box
    plain: bool = True  # whether the module is what its layers say
    exact: bool = False  # whether its sums are exact, so that a tie is one


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
    for a, b in itertools.pairwise(widths):
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
    for layer, later in itertools.pairwise(layers):
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


# -- families ---------------------------------------------------------------------------------------


def anything(rng: Rng, *kinds: str, classes: int = 0, own: float = 0.5, odd: bool = False) -> Case:
    frame = table(rng, some_kinds(rng, *kinds))
    classes = classes or int(rng.choice([2, 2, 3]))
    make = own_network if rng.random() < own else sequential
    module = make(rng, frame, classes, hidden_layers(rng))
    if odd:
        odd_weights(rng, module)
    tilted(rng, module, frame)
    if rng.random() < 0.2 and not odd:
        module = module.float()
    explainer = explained(module, frame, classes)
    return Case(explainer, drawn_rows(rng, frame), question(rng, frame, classes), module)


def scaled(rng: Rng) -> Case:
    """Numbers far from zero beside their spread, very large and very small ones; rows beyond the range of the domain,
    that only come back by as much as they may."""
    if rng.random() < 0.4:
        return anything(rng, "scaled", "scaled")
    frame = table(rng, ["scaled", *rng.choice(["number", "whole", "category"], rng.integers(1, 3))])
    call = question(rng, frame, 2)
    ends = grace.Schema.infer(frame, domain=call["domain"]).bounds()
    return beyond(rng, frame, call, (ends[0][0], ends[1][0]))


def outside(rng: Rng) -> Case:
    """Rows outside a given range whose ends are no short decimals: 0.7999999999999999 rather than 0.8."""
    if rng.random() < 0.3:
        case = anything(rng, "number", "number")
        return replace(case, call={**case.call, "ranges": ranges(rng, case.rows)})
    frame = table(rng, ["number", *rng.choice(["number", "whole", "category"], rng.integers(1, 3))])
    call = question(rng, frame, 2)
    low, high = (round(float(frame["a"].quantile(q)), int(rng.integers(1, 3))) for q in (0.2, 0.7))
    low, high = np.nextafter(low, np.inf), np.nextafter(high, -np.inf)
    call["ranges"] = {"a": (float(low), float(high))}
    return beyond(rng, frame, call, (low, high))


def beyond(rng: Rng, frame: pd.DataFrame, call: dict[str, Any], ends: tuple[float, float]) -> Case:
    """Rows outside the range of the first feature, of a class that ends between them and the range."""
    spread = float(frame["a"].std())
    farther = spread * rng.choice([0.3, 1.0])
    rows = drawn_rows(rng, frame)
    rows["a"] = np.where(rng.random(ROWS) < 0.5, ends[0] - farther, ends[1] + farther)
    share = rng.uniform(0.2, 0.8)
    module = nn.Sequential(nn.Linear(frame.shape[1], 5), nn.ReLU(), nn.Linear(5, 2)).double()
    first, last = linear_layers(module)
    with torch.no_grad():
        x = codes(frame)
        first.weight.copy_(torch.as_tensor(rng.normal(0, 0.3, first.weight.shape)) / (x.std(dim=0) + 1e-300))
        first.weight[:2] = 0
        first.weight[0, 0], first.weight[1, 0] = 1 / spread, -1 / spread
        first.bias.copy_(-first.weight @ x.mean(dim=0))
        first.bias[0], first.bias[1] = -(ends[1] + share * farther) / spread, (ends[0] - share * farther) / spread
        last.weight.copy_(torch.as_tensor(rng.normal(0, 0.01, last.weight.shape)))
        last.weight[:, :2] = torch.tensor([[0.0], [1.0]])
        last.bias.copy_(torch.tensor([0.05, 0.0]))
    for limit in ("frozen", "increase_only", "decrease_only", "confidence", "against"):
        call.pop(limit, None)
    return Case(explained(module, frame, 2), rows, call, module)


def fractions(rng: Rng) -> Case:
    """Fractions in columns of whole numbers: 2.5 may become 2 or 3. Often only one whole number has another class."""
    frame = table(rng, ["whole", *rng.choice(["whole", "number", "category"], rng.integers(1, 3))])
    rows = drawn_rows(rng, frame)
    hat = rng.random() < 0.6
    classes = 2 if hat else int(rng.choice([2, 3]))
    for name in rows:
        if pd.api.types.is_integer_dtype(rows[name]):
            rows[name] = rows[name] + rng.choice([0.5, 0.25, 0.75, 0.0], len(rows))
    if not hat:
        module = own_network(rng, frame, classes, hidden_layers(rng, 2))
        linear_layers(module)[0].weight.data *= 4  # steep: between two whole numbers it differs from both
        tilted(rng, module, frame)
        return Case(explained(module, frame, classes), rows, question(rng, frame, classes), module)
    place = int(rng.integers(frame["a"].min(), frame["a"].max() + 1))
    rows.loc[:2, "a"] = place + rng.choice([-0.5, 0.5, 0.3], 3)
    module = nn.Sequential(nn.Linear(frame.shape[1], 5), nn.ReLU(), nn.Linear(5, 2)).double()
    first, last = linear_layers(module)
    with torch.no_grad():
        first.weight[:3] = 0
        first.weight[:3, 0] = 1
        first.bias[:3] = torch.tensor([0.3, 0.0, -0.3]) - place
        first.weight[3:] /= codes(frame).std(dim=0) * 10
        last.weight.mul_(0.02)
        last.weight[:, :3] = torch.tensor([[0.0, 0.0, 0.0], [1.0, -2.0, 1.0]])
        last.bias.copy_(torch.tensor([0.15, 0.0]))
    call = question(rng, frame, 2)
    call.pop("confidence", None)
    return Case(explained(module, frame, 2), rows, call, module)


def confident(rng: Rng) -> Case:
    """A confidence for one class, often the row's own, and among three or four classes."""
    case = anything(rng, "number", classes=int(rng.choice([2, 3, 4])))
    with torch.no_grad():
        scores = case.module(codes(case.rows).to(next(case.module.parameters()).dtype))
    own = int(scores.argmax(dim=1)[0]) if scores.shape[1] > 1 else int(scores[0, 0] > 0)
    case.call["confidence"] = float(rng.choice([0.55, 0.8, 0.9, 0.97]))
    if rng.random() < 0.7:
        case.call["against"] = f"c{own}"
        case.call["max_features"] = int(rng.integers(1, 3))
    return case


def ties(rng: Rng) -> Case:
    """Scores that tie exactly, and then the lower class wins: whole weights on whole numbers, or a row on the edge."""
    return [whole_weights, knife, edge][rng.integers(3)](rng)


def whole_weights(rng: Rng) -> Case:
    frame = table(rng, ["whole"] * int(rng.integers(2, 5)))
    classes = int(rng.choice([2, 3]))
    module = sequential(rng, frame, classes, hidden_layers(rng, int(rng.integers(2))))
    for layer in linear_layers(module):
        layer.weight.data = torch.as_tensor(rng.integers(-2, 3, layer.weight.shape), dtype=torch.float64)
        layer.bias.data = torch.as_tensor(rng.integers(-2, 3, layer.bias.shape), dtype=torch.float64)
    last = linear_layers(module)[-1]
    with torch.no_grad():
        last.bias -= module(codes(frame)).mean(dim=0).round()
        last.bias[-1] += int(rng.integers(0, 9))  # a tie ends the class only if it is not the lower one
    call = question(rng, frame, classes)
    if rng.random() < 0.7:
        call.pop("confidence", None)
    return Case(explained(module, frame, classes), drawn_rows(rng, frame), call, module, exact=True)


def knife(rng: Rng) -> Case:
    """The best single change of the first row makes two classes tie: by argmax, the lower one has won."""
    frame = table(rng, ["whole", "whole", "whole"])
    module = nn.Sequential(nn.Linear(3, 2)).double()
    weights = torch.as_tensor(rng.choice([-3, -2, -1, 1, 2, 3], 3), dtype=torch.float64)
    x = codes(frame)
    rows = drawn_rows(rng, frame)
    row = codes(rows)[0]
    ends = torch.stack([weights * (x.amin(dim=0) - row), weights * (x.amax(dim=0) - row)])
    with torch.no_grad():
        module[0].weight.copy_(torch.stack([weights, torch.zeros(3)]))
        module[0].bias.copy_(torch.stack([-(weights @ row) - ends.max(), torch.tensor(0.0)]))
    call = {"method": str(rng.choice(["search", "gradient", "local"])), "prove": True, "budget": 0.1, "gamma": 1.0}
    call |= {"max_features": 3, "domain": "minmax", "distance": "l1"}
    return Case(explained(module, frame, 2), rows, call, module, exact=True)


def edge(rng: Rng) -> Case:
    """The first row lies where two classes tie, but for rounding."""
    frame = table(rng, ["number", *rng.choice(["number", "whole", "scaled"], rng.integers(1, 3))])
    module = own_network(rng, frame, 2, hidden_layers(rng, int(rng.integers(1, 3))))
    rows = drawn_rows(rng, frame)
    with torch.no_grad():
        scores = module(codes(rows))[0]
        module.layers[-1].bias[1] += scores[0] - scores[1]
    return Case(explained(module, frame, 2), rows, question(rng, frame, 2), module)


def weighted(rng: Rng) -> Case:
    return anything(rng, "number", odd=True)


def disguised(rng: Rng) -> Case:
    """A module that is not what its layers say."""
    frame = table(rng, ["number"] * int(rng.integers(2, 4)))
    classes = int(rng.choice([2, 3]))
    disguise = DISGUISES[rng.integers(len(DISGUISES))]
    module = disguise(lambda *parts: sequential(rng, frame, classes, hidden_layers(rng, 1), parts), codes(frame))
    tilted(rng, module, frame, 1.0)
    return Case(
        explained(module, frame, classes), drawn_rows(rng, frame), question(rng, frame, classes), module, plain=False
    )


def voting(rng: Rng) -> Case:
    """A forest of an even number of trees, each sure of its class: votes tie, and then the lower class wins."""
    frame = table(rng, ["number", "whole", "number"])
    x = codes(frame).numpy()
    sums = rng.normal(0, 1, N) + (x - x.mean(axis=0)) @ rng.normal(0, 1, x.shape[1])
    labels = np.array(names(2))[(sums > np.median(sums)).astype(int)]
    forest = RandomForestClassifier(int(rng.choice([2, 4, 6])), max_depth=None, random_state=int(rng.integers(99)))
    forest.fit(frame, labels)
    call = {**question(rng, frame, 2), "prove": False, "method": "search"}
    for name in ("confidence", "as_printed"):
        call.pop(name, None)
    return Case(grace.Explainer(forest, frame), drawn_rows(rng, frame), call, predict=forest.predict, exact=True)


FAMILIES: dict[str, Callable[[Rng], Case]] = {
    "anything": anything,
    "scaled": scaled,
    "outside": outside,
    "fractions": fractions,
    "confident": confident,
    "ties": ties,
    "weighted": weighted,
    "disguised": disguised,
    "voting": voting,
}


def case_of(family: str, seed: int) -> Case:
    return FAMILIES[family](np.random.default_rng([sorted(FAMILIES).index(family), seed]))
