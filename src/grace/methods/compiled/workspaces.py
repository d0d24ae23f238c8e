"""The arrays that a thread of the compiled search works with."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.beam import SAMPLES
from grace.methods.compiled.first_level import FOLLOWED_FIRST
from grace.methods.compiled.lines import Columns, Lines
from grace.methods.compiled.polish import BEAM, FINALISTS, STRONGEST, Work
from grace.methods.compiled.required import line_of, room_for
from grace.methods.compiled.required_moves import TRIED_PER_NUMBER
from grace.models.compiled import BLOCK, Layers
from grace.models.compiled_lines import scratch

PIECES = 64  # of a line that are followed at a time, for every unit of the network


def section_of(net: Layers) -> int:
    """How many breakpoints of a line are found at a time."""
    return PIECES * int(net.units[-1])


def workspace(net: Layers, columns: Columns, d: int, most: int) -> Work:
    units, classes, pieces = int(net.units[-1]), int(net.widths[-1]), section_of(net)
    tried, beside = 2, 0  # values of a number, and what stands after the scores
    if net.linear:
        functions, targets = len(net.linear.bias), max(net.linear.group, 2)
        tried, beside = TRIED_PER_NUMBER, functions + room_for(targets)
    moves = max(int(np.maximum(np.diff(columns.begins), tried).sum()), FOLLOWED_FIRST * SAMPLES)
    lines = Lines(
        scratch=scratch(net),
        places=np.empty(pieces),
        scores=np.empty((pieces, classes)),
        margins=np.empty(pieces),
        values=np.empty(units + beside),
        trial=np.empty(classes + beside),
        above=np.empty(classes),
        below=np.empty(classes),
        since=np.empty(classes),
        until=np.empty(classes),
        required=line_of(functions, targets, BEAM, d) if net.linear else (),
    )
    return Work(
        lines=lines,
        states=np.empty((2, BEAM, d)),
        sets=np.empty((2, BEAM, max(most, 1)), dtype=np.int64),
        starts=np.empty((FINALISTS + STRONGEST, d)),
        worth=np.empty(BEAM * d),
        finalists=np.empty(FINALISTS + STRONGEST, dtype=np.int64),
        layers=np.empty((BEAM, units + beside)),
        margin=np.empty((BEAM, d)),
        value=np.empty((BEAM, d)),
        moved=np.empty(moves, dtype=np.int64),
        moved_to=np.empty(moves),
        moved_margin=np.empty(BLOCK),
        block=np.zeros((units, BLOCK)),
        active=np.zeros((net.widths.max(), BLOCK)),
        gain=np.empty(d),
        order=np.empty(d, dtype=np.int64),
        rising=np.empty(d),
        falling=np.empty(d),
        begun=np.empty(d),
        current=np.empty(d),
        first=np.empty(units + beside),
        origin=np.empty(units + beside),
        best=np.empty(d),
        kept=np.empty(d),
        found=np.empty(d),
        features=np.empty(d, dtype=np.int64),
        tried=np.empty(d, dtype=np.bool_),
        end=np.empty(d),
    )
