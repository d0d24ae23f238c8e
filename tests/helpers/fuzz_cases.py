"""Random questions whose answers can be checked: tables, networks on them, rows and limits, all drawn by a seed.

A family is a function from a random generator to a `Case`; each leans towards one kind of difficulty.
"""

from __future__ import annotations

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
from fuzz_parts import (
    ROWS,
    N,
    Rng,
    codes,
    drawn_rows,
    explained,
    hidden_layers,
    linear_layers,
    names,
    odd_weights,
    own_network,
    question,
    ranges,
    sequential,
    some_kinds,
    table,
    tilted,
)


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
