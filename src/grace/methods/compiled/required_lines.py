"""Margins on the line of a number where more is required than the goal, in compiled code."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import RANGE, CompiledGoal, margin_required
from grace.methods.compiled.required import Line, rooms_on_line
from grace.models.compiled import Floats, compiled


@compiled
def margin_on_line(goal: CompiledGoal, i: int, scores: Floats, place: float, line: Line) -> float:
    """The margin of the scores at a place on a line, and of what else is required there."""
    rooms_on_line(goal.required, i, place, line)
    return margin_required(goal, i, scores, 0, line.rooms, 0)


@compiled
def best_at_ends(
    goal: CompiledGoal, i: int, whole: bool, x: float, direction: float, begin: float, places: Floats, scores: Floats,
    trial: Floats, line: Line,
) -> tuple[float, float]:  # fmt: skip
    """The largest margin, and where it is, at the ends of the intervals in which all requirements are satisfied, of
    those within a section of a line, whose breakpoints are at `places`."""
    best, value = -np.inf, np.nan
    for k in range(1 if goal.kind == RANGE else goal.required.shift.shape[1]):
        for side in range(2):
            end = x + direction * (line.least[k] if side == 0 else line.most[k])
            if whole:
                end = np.ceil(end) if (side == 0) == (direction > 0.0) else np.floor(end)
            place = direction * (end - x)
            if place > 0.0 and place >= max(begin, places[0]) and place <= places[-1]:
                p = 1
                while places[p] < place:
                    p += 1
                share = (place - places[p - 1]) / (places[p] - places[p - 1])
                for c in range(scores.shape[1]):
                    trial[c] = scores[p - 1, c] + share * (scores[p, c] - scores[p - 1, c])
                margin = margin_on_line(goal, i, trial, place, line)
                if margin > best:
                    best, value = margin, end
    return best, value
