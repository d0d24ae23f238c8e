"""What the walks in compiled code read: coordinates, training rows, and arrays to work with."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from grace.methods.compiled.local import Background, LocalWork, local_work
from grace.models.compiled import Bools, Floats, Ints, Layers
from grace.models.relu import ReluNetwork, relu_network
from grace.problem.problem import BackgroundRows, Problem
from grace.problem.space import Space


class Coordinates(NamedTuple):
    """In which coordinates steps are taken, see `Space`."""

    scale: Floats  # (d,)
    begins: Ints  # (d + 1,) where the coordinates of each category begin; a number has none of its own
    weights: Floats  # (coordinates, h) of the first layer
    vectors: Floats  # (entries, widest) of the categories, in the order of `Layers.tables`
    one_way: Bools  # (d,) whether categories may only rise or fall


class WalkOptions(NamedTuple):
    """How walks are taken."""

    most: int  # features
    steps: int
    tolerance: float
    nearest: bool  # whether a nearer answer is preferred to one with fewer changes


class WalkWork(NamedTuple):
    """Arrays to work with, one set per thread; k is the most features that may change."""

    origin: Floats  # (units,) pre-activations of x,
    values: Floats  # of the current point,
    slopes: Floats  # and the gradient in them
    worth: Floats  # (d,)
    chosen: Ints  # (k,) S,
    cells: Floats  # (k,) their values,
    unit: Floats  # (k, widest) and the direction of a step
    apart: Floats  # (classes or categories,) distances
    answer: Floats  # (d,)
    local: LocalWork


def walk_options(problem: Problem) -> WalkOptions:
    return WalkOptions(problem.max_features, problem.steps, problem.model.tolerance, problem.prefer == "nearest")


def walk_arrays(problem: Problem) -> tuple[Coordinates, Background]:
    """The coordinates in which walks take steps, and the training rows."""
    network, space, known = relu_network(problem.model), problem.space, problem.background
    assert network is not None
    coordinates = coordinates_of(network, space)
    if known is None:
        rows, whole = np.zeros((0, 1)), np.zeros(0, dtype=np.int64)
        return coordinates, Background(rows, whole, rows, np.zeros(0), rows, whole)
    if "compiled" not in known.cache:
        known.cache["compiled"] = background_arrays(known, space, problem.model.task == "regression")
    return coordinates, known.cache["compiled"]


def coordinates_of(network: ReluNetwork, space: Space) -> Coordinates:
    """The coordinates for a network; those of its last space are kept in it."""
    last: tuple[Space, Coordinates] | None = vars(network).get("_coordinates")
    if last is not None and last[0] is space:
        return last[1]
    scale, begins, vectors = coordinate_arrays(space, tuple(network.tables))
    weights = [np.zeros((0, len(network.bias))), *(network.embedded[j].numpy() for j in space.categorical)]
    one_way = np.array([j in space.codes_outside_order for j in range(len(scale))])
    made = Coordinates(scale, begins, np.concatenate(weights), vectors, one_way)
    vars(network)["_coordinates"] = space, made
    return made


@lru_cache(maxsize=8)
def coordinate_arrays(space: Space, tables: tuple[int, ...]) -> tuple[Floats, Ints, Floats]:
    """The scale of each feature, where the coordinates of each category begin, and the vectors of all categories."""
    widths = [space.vectors[j].shape[1] if j in space.vectors else 0 for j in range(len(space.spread))]
    scale = np.ones(len(widths))
    scale[space.owner.numpy()] = space.scale.numpy()
    vectors = np.zeros((sum(len(space.vectors[j]) for j in tables), max([0, *widths])))
    start = 0
    for j in tables:
        table = space.vectors[j].numpy()
        vectors[start : start + len(table), : table.shape[1]] = table
        start += len(table)
    return scale, np.concatenate([[0], np.cumsum(widths)]).astype(np.int64), vectors


def background_arrays(known: BackgroundRows, space: Space, number: bool) -> Background:
    """Training rows for GRACE-Local; `number` says that the model predicts one."""
    measured = space.has_magnitude.tolist()
    order = sorted(range(len(measured)), key=lambda j: j in space.categorical)  # numbers come first in the coordinates
    widths = [1 if measured[j] else len(space.vectors[j]) for j in order]
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum([0, *widths[:-1]])
    points = np.ascontiguousarray(known.coordinates.numpy())
    cells = np.where(measured, points[:, places], known.rows.numpy())
    return Background(
        cells=np.ascontiguousarray(cells.T),
        label=known.classes.numpy(),
        shares=np.zeros((0, 1)) if number else known.scores.softmax(dim=1).numpy(),
        number=known.scores[:, 0].numpy().copy() if number else np.zeros(0),
        points=points,
        places=places,
    )


def walk_workspace(problem: Problem, net: Layers, coordinates: Coordinates, background: Background) -> WalkWork:
    choices = max([0, *(len(c) for c in problem.space.choices.values())])
    sides = 2 if len(background.number) else background.shares.shape[1]
    local = local_work(background.points.shape[1], sides, problem.neighbours)
    return walk_work(net, problem.rows.shape[1], problem.max_features, choices, coordinates.vectors.shape[1], local)


def walk_work(net: Layers, d: int, most: int, choices: int, widest: int, local: LocalWork) -> WalkWork:
    units, classes = int(net.units[-1]), int(net.widths[-1])
    return WalkWork(
        origin=np.empty(units),
        values=np.empty(units),
        slopes=np.empty(units),
        worth=np.empty(d),
        chosen=np.empty(most, dtype=np.int64),
        cells=np.empty(most),
        unit=np.empty((most, max(widest, 1))),
        apart=np.empty(max(classes, choices)),
        answer=np.empty(d),
        local=local,
    )
