"""Every question: about each model with the settings that people use, in turn, and what lies around them. Only what is
public is used, so that any commit that keeps its promises can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import grace
from comparing.answers import Case, kept
from comparing.commands import commands, pages
from comparing.edges import around, misuses, public_names
from comparing.models import World, worlds

METHODS = ("search", "gradient", "local", "nearest", "deepfool")
BUDGET = 600.0  # seconds a row, of which proofs about these small networks take well under one
EVERY = {False: ((19, 6), (9, 3)), True: ((61, 11), (13, 5))}  # in turn: by quick; a network; the search
ASKED = {False: (3, 6), True: (2, 4)}  # rows: by quick; a network
WIDE = 100  # features of a table about which less is asked
Settings = list[tuple[str, dict[str, Any]]]


def settings(world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings that people use, in terms of the features that the plain answers change."""
    explainer, classes = world.explainer, world.explainer.model.classes
    schema = explainer.schema
    usual = explainer.explain(world.rows, against=world.wanted).changed.sum()
    first = [str(name) for name in usual.sort_values(ascending=False, kind="stable").index[:3]]
    numbers = [f.name for f in schema.features if isinstance(f, grace.Numeric)]
    ordered = [name for name in first if name in numbers] or numbers[:1]
    middle = {name: (_quantile(world, name, 0.2), _quantile(world, name, 0.8)) for name in ordered}
    yield "as usual", {}
    yield "gamma=0.2", {"gamma": 0.2}
    yield "gamma=1, max_features=2", {"gamma": 1.0, "max_features": 2}
    yield "max_features=1", {"max_features": 1}
    yield "domain=minmax", {"domain": "minmax"}
    yield "domain=0.9", {"domain": 0.9}
    yield "confidence", {"confidence": 0.8}
    yield "prefer=nearest", {"prefer": "nearest"}
    yield "prefer=nearest, l2", {"prefer": "nearest", "distance": "l2"}
    yield "linf", {"distance": "linf", "max_features": 3}
    yield "among=steady", {"among": "steady"}
    yield "n=3", {"n": 3}
    yield "n=3, gamma=0.3, max_features=2", {"n": 3, "gamma": 0.3, "max_features": 2}
    yield "frozen", {"frozen": first[:1]}
    yield "frozen, max_features=1", {"frozen": first[:2], "max_features": 1}
    yield "only", {"only": first}
    yield "only one", {"only": first[-1:], "n": 2}
    yield "protected", {"protected": first[:2]}
    yield "increase_only", {"increase_only": ordered}
    yield "decrease_only, prefer=nearest", {"decrease_only": ordered[:1], "prefer": "nearest"}
    yield "ranges", {"ranges": middle}
    yield "ranges and costs", {"ranges": middle, "costs": {first[0]: 3.0}}
    yield "costs, l2", {"costs": {first[0]: 5.0}, "distance": "l2"}
    yield "no polish", {"polish": False}
    yield "few steps", {"steps": 20, "local_model": "tree", "neighbours": 8}
    yield "as printed", {"as_printed": True}
    yield "memory", {"memory": "64MB"}
    yield "max_calls", {"max_calls": 3000}
    if classes:
        yield "against the last", {"against": classes[-1], "missing": "fill"}
        yield "against each", {"against": [classes[i % len(classes)] for i in range(len(world.rows))]}
    if explainer.model.task == "regression":
        level = float(np.median(explainer.model.predict(world.rows)))
        yield "above", {"against": grace.above(level)}
        yield "below, n=2", {"against": grace.below(level), "n": 2}
        yield "within", {"against": grace.within(level, level + explainer.spread() / 5)}
        yield "by, frozen", {"against": grace.by("-5 %"), "frozen": first[:1]}
    if len(schema) <= WIDE:
        yield from demands(world, first, numbers)


def demands(world: World, first: list[str], numbers: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """More to ask of answers, and proofs, which take minutes on the widest tables."""
    yield "prove", {"prove": True, "budget": BUDGET}
    yield "prove, frozen, max_features=2", {"prove": True, "budget": BUDGET, "frozen": first[:1], "max_features": 2}
    yield "follow", {"follow": True}
    yield "follow one", {"follow": numbers[-1:]}
    yield "plausible", {"plausible": 0.1}
    yield "plausible, confidence", {"plausible": 0.05, "confidence": 0.6}
    if world.rules:
        yield "rules", {"rules": world.rules}
        yield "rules, follow", {"rules": world.rules, "follow": True}
        yield "rules, n=2, confidence", {"rules": world.rules, "n": 2, "confidence": 0.6}
    if world.others:
        yield "robust", {"robust": world.others}
        yield "robust, confidence", {"robust": world.others, "confidence": 0.7, "gamma": 1.0}


def _quantile(world: World, name: str, share: float) -> Any:
    """A value of a feature in the rows that are asked about; of a date, the day."""
    values = world.rows[name].dropna().sort_values()
    return values.iloc[int(share * (len(values) - 1))]


def asked(name: str, world: World, chosen: Settings, place: int, quick: bool) -> Iterator[Case]:
    """The questions about a model: the plain one by every method, the others in turn. Networks answer fast, and are
    asked more, about more rows."""
    network = ": network" in name
    rows = world.rows.head(2 if world.rows.shape[1] > WIDE else ASKED[quick][network])
    for i, (said, how) in enumerate(chosen):
        for j, method in enumerate(METHODS):
            every = EVERY[quick][network][method == "search"]
            plain = i == 0 and (network or not quick or method in ("search", METHODS[1 + place % 4]))
            plain |= method == "search" and world.wanted is not None and "against" in how
            if not plain and (i + 2 * j + place) % every:
                continue
            call = {"against": world.wanted, "method": method, **how}
            if isinstance(call["against"], list):
                call["against"] = call["against"][: len(rows)]
            yield Case(f"{name}: {method}, {said}", partial(answered, world, rows, call, pages=i % 6 == 0))


def answered(world: World, rows: pd.DataFrame, call: dict[str, Any], *, pages: bool) -> dict[str, Any]:
    return kept(world.explainer.explain(rows, **call), pages=pages)


def cases(quick: bool, only: str) -> Iterator[Case]:
    """Every question, in an order that does not change; those of a model follow when it could be made."""
    yield Case("public names", public_names)
    for place, (name, make) in enumerate(worlds(quick)):
        if only not in name:
            continue
        made: list[tuple[World, Settings]] = []
        yield Case(f"{name}: made", partial(ready, make, made))
        for world, chosen in made:
            yield from asked(name, world, chosen, place, quick)
            if name == "diabetes: network":
                yield from around(world)
                yield from misuses(world)
                yield from (Case(f"command: {said}", run) for said, run in commands(world))
                yield from (Case(f"page: {said}", run) for said, run in pages(world))


def ready(make: Callable[[], World], made: list[tuple[World, Settings]]) -> dict[str, Any]:
    """Make a model, and choose the settings for its table."""
    world = make()
    made.append((world, list(settings(world))))
    said = [repr(c) for c in world.explainer.model.predict(world.rows)]
    return {"printed": repr(world.explainer), "says": said}
