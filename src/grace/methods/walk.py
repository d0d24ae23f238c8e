"""GRACE-Gradient and GRACE-Local: Algorithms 1 and 2 on whole batches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from grace.methods.gpu_kernels import key_of, layout_for
from grace.methods.polish import is_compiled
from grace.methods.ranking.entropy import filter_ranking
from grace.methods.ranking.gradient import nearest_alternative, rank_gradient, rank_gradient_as_printed
from grace.methods.ranking.local import rank_local
from grace.methods.walk_state import StepControl, WalkState, feasible_step
from grace.models.relu import relu_network
from grace.problem.budget import at_once
from grace.problem.goal import MarginFunction
from grace.problem.numpy_or_torch import to_native
from grace.problem.problem import Problem, positions

MOST = 32  # features of a walk that a kernel has room for


def grown_at_once(problem: Problem, chosen: Tensor, v: Tensor) -> Tensor | None:
    """What `grow` returns for the features `chosen` (n, K) and the alternatives v; None where no kernel serves."""
    if problem.as_printed or problem.space.categorical or not 0 < chosen.shape[1] <= MOST:
        return None
    packed = layout_for(problem, "walk")
    if packed is None:
        return None
    from grace.methods.walk_triton import walks

    key, is_flip = key_of(problem)
    target, own = (v, key) if is_flip else (key, torch.full_like(v, -1))
    column = chosen.clamp_min(0)
    x, low, high = (t.gather(1, column) for t in (problem.rows, problem.low, problem.high))
    space, tolerance = problem.space, problem.model.tolerance
    values, count, _ = walks(
        packed, packed.start(problem.rows), chosen, x, (low, high), space.scale, space.is_integer, target, own,
        tolerance, problem.steps,
    )  # fmt: skip
    # padding points to feature 0, which must not be written over
    spare = problem.rows.shape[1]
    wide = torch.cat([problem.rows, problem.rows[:, :1]], dim=1)
    taken = (torch.arange(chosen.shape[1], device=chosen.device) < count[:, None]) & (chosen >= 0)
    found = wide.scatter(1, torch.where(taken, chosen, spare), values)[:, :spare]
    # the model has the last word: it may round in another way
    reached = (count > 0) & problem.reached(found)
    return torch.where(reached[:, None], found, problem.rows)


SHORT = 16  # steps of a short walk
DROP = 8  # rows that are done drop out when they are one in so many,
FEW = 16  # and at least so many: to carry fewer along takes less than to drop them
TOGETHER = 4096  # rows times K up to which all k are walked together from the start


def is_compiled_walk(problem: Problem) -> bool:
    """Whether there is compiled code for the walks of a problem: also categories that are read as vectors."""
    network = relu_network(problem.model)
    if not is_compiled(problem) or problem.as_printed or network is None or problem.local_model != "logistic":
        return False
    return all(j in network.embedded for j in problem.space.categorical)


def gradient(problem: Problem) -> Tensor:
    """GRACE-Gradient."""
    if is_compiled_walk(problem):
        from grace.methods.compiled import walk_compiled  # numba takes a second to import

        return walk_compiled(problem, local=False)
    v, slope = nearest_alternative(problem)
    order = rank_gradient_as_printed(problem, v) if problem.as_printed else rank_gradient(problem, slope)
    return grow(problem, order, v)


def local(problem: Problem) -> Tensor:
    """GRACE-Local."""
    problem.known_rows("the local method")
    if is_compiled_walk(problem):
        from grace.methods.compiled import walk_compiled  # numba takes a second to import

        return walk_compiled(problem, local=True)
    v, _ = nearest_alternative(problem)
    return grow(problem, rank_local(problem, v), v)


def both(problem: Problem) -> list[Tensor]:
    """The answers of GRACE-Gradient and GRACE-Local, which in tensor operations take their steps together."""
    if is_compiled_walk(problem):
        return [gradient(problem), local(problem)]
    v, slope = nearest_alternative(problem)
    first = rank_gradient_as_printed(problem, v) if problem.as_printed else rank_gradient(problem, slope)
    twice = torch.arange(len(problem), device=v.device).repeat(2)
    rows = grow(problem.select(twice), torch.cat([first, rank_local(problem, v)]), v[twice])
    return list(rows.chunk(2))


def grow(problem: Problem, order: Tensor, v: Tensor) -> Tensor:
    """Algorithm 1: S = the first k features of U*, for k = 1 ... K, until the row reaches the goal.
    Returns the original row where it never does.

    Most walks are short. Those that are not are broken off, and walked to their end together, while the next k is tried
    already: many small steps cost the same for few rows as for many.
    """
    chosen = filter_ranking(order, problem.conflict, problem.max_features, problem.free)
    by_kernel = grown_at_once(problem, chosen, v)
    if by_kernel is not None:
        return by_kernel
    found = problem.rows.clone()
    count = torch.full_like(v, chosen.shape[1])  # how many features the answer found has, less one
    if chosen.numel() <= at_once(TOGETHER, v.device):
        row, place = torch.nonzero(chosen >= 0, as_tuple=True)
    else:
        left = torch.arange(len(found), device=found.device)
        slow = [torch.nonzero(chosen[:0] >= 0)]  # rows and k that take many steps
        for k in range(chosen.shape[1]):
            left = left[chosen[left, k] >= 0]
            if len(left) == 0:
                break
            short = min(SHORT, problem.steps)
            rows, reached, going = walked(problem, chosen, v, left, torch.full_like(left, k), short)
            found[left[reached]], count[left[reached]] = rows[reached], k
            slow.append(torch.stack([left[going], torch.full_like(left[going], k)], dim=1))
            left = left[~reached]
        row, place = torch.cat(slow).unbind(dim=1)
        use = positions(place < count[row])  # the others have an answer with fewer features
        row, place = row[use], place[use]
    if len(row):
        rows, reached, _ = walked(problem, chosen, v, row, place, problem.steps)
        least = count.scatter_reduce(0, row, torch.where(reached, place, chosen.shape[1]), "amin")
        first = positions(reached & (place == least[row]))
        found[row[first]] = rows[first]
    return found


def walked(
    problem: Problem, chosen: Tensor, v: Tensor, row: Tensor, k: Tensor, steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Algorithm 2 for some rows, each with its first k + 1 features: what `generate` returns."""
    chosen = chosen[row]
    taken = torch.arange(chosen.shape[1], device=row.device) <= k[:, None]
    spare = problem.rows.shape[1]  # a column to spare for places not taken
    subset = torch.zeros(len(row), spare + 1, dtype=torch.bool, device=row.device)
    subset = subset.scatter_(1, torch.where(taken, chosen, spare), True)[:, :-1]
    part = problem.select(row)
    part = part if steps == problem.steps else replace(part, steps=steps)
    if problem.as_printed:
        return generate_as_printed(part, subset, v[row])
    state = WalkState(
        index=torch.arange(len(row), device=row.device),
        rows=part.rows.clone(),
        subset=subset,
        towards=MarginFunction(part.goal, v[row][:, None]),
        step=feasible_step(part, chosen, taken, subset),
        control=StepControl(row, k),
    )
    return generate(part, state)


@np.errstate(all="ignore")
def generate(problem: Problem, state: WalkState) -> tuple[Tensor, Tensor, Tensor]:
    """Algorithm 2: step onto the linearised boundary to v on the features in S, project with P, repeat.

    Both classes are evaluated at the current point; the norm runs over S; a feature at its bound and
    pushed outwards leaves the step. A row that the projection holds back (a whole number or category that
    the step does not yet reach) has its step doubled. Rows that are done drop out, see `StepControl`. Returns the rows,
    which of them reach the goal, and which were still going when the steps ran out.
    """
    model = problem.model
    found = problem.rows.clone()
    reached = torch.zeros(len(found), dtype=torch.bool, device=found.device)
    few = 1 if model.black_box else FEW  # a black box is not queried again for rows that are done
    for _ in range(problem.steps + 1):
        scores, slopes = model.slopes(state.rows, state.towards, state.subset)
        margin, best = state.towards.with_best(scores)
        unit = state.step.unit(state.rows, slopes[:, 0])
        grad_sq_norm = unit.square().sum(dim=1, keepdim=True)
        hit = to_native(best) >= model.tolerance
        over = state.control.update(to_native(margin), hit, to_native(grad_sq_norm))
        if over == len(state.index):
            found[state.index], reached[state.index] = state.rows, torch.as_tensor(hit)[:, 0]
            return found, reached, torch.zeros_like(reached)
        if over >= few and over * DROP >= len(state.index):
            done = torch.as_tensor(state.control.done)[:, 0]
            out, go = positions(done), positions(~done)
            found[state.index[out]], reached[state.index[out]] = state.rows[out], torch.as_tensor(hit)[out, 0]
            state, unit = state.select(go), unit[go]
        # rows that are done stay where they are until they drop out
        state = replace(state, rows=state.step.moved(state.rows, state.control.lengths() * unit))
    done = torch.as_tensor(state.control.done)[:, 0]
    out = positions(done)
    if len(out):
        index, rows = state.index[out], state.rows[out]
        found[index], reached[index] = rows, problem.select(index).reached(rows)
    going = torch.zeros_like(reached)
    going[state.index[~done]] = True
    return found, reached, going


def generate_as_printed(problem: Problem, subset: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Algorithm 2 to the letter: class C is taken at the start point, the norm runs over all features,
    a held row is not pushed. It knows classes, where every other method knows only margins."""
    space, model = problem.space, problem.model
    current = problem.rows.clone()
    scores = problem.scores(current)
    own = scores.argmax(dim=1)
    start, start_slope = model.slopes(current, lambda s: s.gather(1, own[:, None]))
    start_score = start.gather(1, own[:, None])[:, 0]
    live = torch.arange(len(current), device=current.device)
    reached = torch.zeros(len(current), dtype=torch.bool, device=current.device)
    for _ in range(problem.steps + 1):
        target = v[live][:, None]
        scores, slopes = model.slopes(current[live], partial(torch.gather, dim=1, index=target))
        hit = problem.goal.select(live).margin(scores) >= model.tolerance
        reached[live[hit]] = True
        away = slopes[:, 0] - start_slope[live, 0]
        apart = (scores.gather(1, target)[:, 0] - start_score[live]).abs()
        stride = (apart / away.square().sum(dim=1).clamp_min(1e-300))[:, None] * away
        landed = problem.select(live).project(space.embed(current[live]) + stride)
        landed = torch.where(subset[live], landed, current[live])
        still = (landed == current[live]).all(dim=1)
        go = ~hit & ~still
        live, landed = live[go], landed[go]
        if len(live) == 0:
            break
        current[live] = landed
    going = torch.zeros_like(reached)
    going[live] = True
    return current, reached, going
