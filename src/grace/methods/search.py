"""Beam search for the fewest features that can be changed, then the nearest values.

At level k, all single moves from each state in the beam are scored in one batch. At the first level where a row reaches
its goal, its nearest candidates are polished and the nearest answer is taken. The paper's walks are further candidates,
so that the search is never worse than they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from grace.methods.backtrack import improved_by_way_back, way_back
from grace.methods.gpu_kernels import is_polished_at_once, nearest_single_changes
from grace.methods.line_search import ROUNDING
from grace.methods.moves import VALUES, Moves, moves_of
from grace.methods.observed import is_scanned, nearest_flips
from grace.methods.polish import is_compiled, polish, trees_of
from grace.methods.requirements import RuledTrees, ruled_trees, serves
from grace.methods.steady import steadied, steadiness
from grace.methods.transformed import search_transformed
from grace.methods.walk import both, gradient, is_compiled_walk
from grace.problem.cancellation import check_cancelled
from grace.problem.numpy_or_torch import first_true
from grace.problem.problem import Problem, positions
from grace.problem.space import nearly_sorted
from grace.problem.transformed import is_transformed

BEAM = 8
TRIED_AFTER_FIRST_LEVEL = 64  # features, by how much each brings alone
CANDIDATES = 16  # answers per row whose last value is moved to the decision boundary
FINALISTS = 2  # of those, how many are polished before the nearest is taken
POLISHED_AT_ONCE = 4  # answers per row that a kernel polishes
BEYOND_SINGLES = 4  # values per number where the nearest single changes are known, as a start for several
QUARTERINGS = 4


def search(problem: Problem) -> Tensor:
    """The answer with the fewest features, and of those the nearest, or the nearest steady one; the original row where
    none is found."""
    if is_transformed(problem):
        found = search_transformed(problem, search, search_on_tensors)
        return steady_answers(problem, found) if is_steady(problem) else found
    if (ruled := ruled_trees(problem)) is not None:
        return search_under_rules(problem, ruled)
    ensemble = trees_of(problem)
    if not is_compiled(problem) and ensemble is None:
        return search_on_tensors(problem) if serves(problem) is None else search_required(problem)
    if ensemble is not None:
        from grace.methods.trees import search_trees  # numba takes a second to import

        found = search_trees(problem, ensemble)
    else:
        found = with_walks(problem)
    return steady_answers(problem, found) if is_steady(problem) else found


def search_under_rules(problem: Problem, ruled: RuledTrees) -> Tensor:
    """The exact search of trees under rules; the search on tensors for rows that it does not serve or gave up, and for
    those whose answer the model does not confirm."""
    from grace.methods.trees import search_ruled_trees  # numba takes a second to import

    found, left = problem.rows.clone(), ~ruled.served
    served = positions(ruled.served)
    if len(served):
        part = problem.select(served)
        answers, complete = search_ruled_trees(ruled.select(served))
        if is_steady(problem):
            answers = steadied(part, answers)
        changed = (answers != part.rows).any(dim=1)
        fits = part.reached(answers) & part.inside(answers).all(dim=1)
        left[served] = torch.where(changed, ~fits, ~complete)
        found[served] = answers
    rest = positions(left)
    if len(rest):
        found[rest] = beam_search(problem.select(rest))
    return found


def search_required(problem: Problem) -> Tensor:
    """The compiled search where more is required than the goal; the search on tensors for rows whose answer the model
    does not confirm, as it may round in another way."""
    from grace.methods.compiled import search_required_compiled  # numba takes a second to import

    found = search_required_compiled(problem)
    changes = (found != problem.rows).sum(dim=1)
    left = positions(changes != 1) if problem.prefer == "fewest" else torch.arange(len(found))
    if len(left) and problem.background is not None:
        found[left] = improved_by_way_back(problem.select(left), found[left])
    if is_steady(problem):
        found = steadied(problem, found)
    fits = problem.reached(found) & problem.inside(found).all(dim=1)
    rest = positions(~fits & (found != problem.rows).any(dim=1))
    if len(rest):
        found[rest] = beam_search(problem.select(rest))
    return found


def is_steady(problem: Problem) -> bool:
    """Whether steady answers are looked for: if asked for, and by default where there is compiled code for them, as
    other models would have to be asked more often."""
    if problem.among == "auto":
        return is_compiled(problem) or trees_of(problem) is not None
    return problem.among == "steady"


def steady_answers(problem: Problem, found: Tensor) -> Tensor:
    """The nearest answers, or rows without one, replaced by steady ones with as few features."""
    if (ensemble := trees_of(problem)) is not None:
        from grace.methods.trees import steady_trees

        return steady_trees(problem, ensemble, found)
    if is_compiled(problem):
        from grace.methods.compiled import steady_compiled

        return steady_compiled(problem, found)
    return steadied(problem, found)


def search_on_tensors(problem: Problem) -> Tensor:
    """The beam search, for any model; on a GPU for rows that no single change answers, as those are found before."""
    found = None if is_steady(problem) else nearest_single_changes(problem)
    if found is None:
        return beam_search(problem)
    single = (found != problem.rows).any(dim=1)
    if problem.prefer == "nearest":
        answers = torch.cat([beam_search(problem), found])
        owner = torch.arange(len(found), device=found.device).repeat(2)
        use = positions((answers != problem.rows.repeat(2, 1)).any(dim=1))
        best = best_of_each(problem.select(owner[use]), answers[use], owner[use], len(found))
        return problem.rows.index_copy(0, owner[use[best]], answers[use[best]])
    rest = positions(~single)
    return found.index_copy(0, rest, beam_search(problem.select(rest), BEYOND_SINGLES)) if len(rest) else found


def beam_search(problem: Problem, values: int = VALUES) -> Tensor:
    """The search in batches of tensors, for any model, with so many values per number at first."""
    found = problem.rows.clone()
    left = torch.arange(len(found), device=found.device)
    moves, states = moves_of(problem, values), found[:, None]  # states: (rows left, beam, d)
    candidates: list[tuple[Tensor, Tensor]] = []  # answers to polish, each with the rows they belong to
    single = torch.zeros(len(found), dtype=torch.bool, device=found.device)  # rows that one change answers
    for k in range(min(problem.max_features, found.shape[1])):
        check_cancelled()
        if moves.value.shape[1] == 0:
            break
        part = problem.select(left)
        if k:
            states = refined(part, moves, states)
        margin = margins(part, moves, states)
        hits = margin >= problem.model.tolerance
        solved = hits.flatten(1).any(dim=1)
        rows = positions(solved)
        single[left[rows]] |= k == 0
        if len(rows):
            few = CANDIDATES if is_steady(problem) else FINALISTS
            near = nearest_answers(part.select(rows), moves.select(rows), states[rows], hits[rows], few)
            candidates += [(left[rows[index]], answers) for index, answers in near]
        if k == 0 and is_scanned(problem):
            more = single_changes(problem, candidates)
            candidates += more
            for rows, _ in more:
                single[rows] = solved[rows] = True
        rest = positions(~solved) if problem.prefer == "fewest" else torch.arange(len(left), device=left.device)
        left, part, margin = left[rest], part.select(rest), margin[rest]
        if len(left) == 0 or k + 1 == problem.max_features:
            break
        moves = moves.select(rest)
        states = next_beam(part, moves, states[rest], margin)
        if k == 0:
            ends = moves.thinned(part, values)
            if found.shape[1] > TRIED_AFTER_FIRST_LEVEL:
                best, _ = per_feature_best(margin, moves, found.shape[1])
                ends = ends.of_features(strongest(best[:, 0]))
            moves = ends
    # backtracking from observed rows brings nothing to a row that a single observed value answers
    spared = single if problem.model.black_box and problem.prefer == "fewest" else torch.zeros_like(single)
    walking = positions(~spared)
    part = problem.select(walking) if bool(spared.any()) else problem
    for walked in walks(part) if len(walking) else []:
        hit = positions((walked != part.rows).any(dim=1))
        candidates.append((walking[hit], walked[hit]))
    # in one batch: polish is many small operations whose cost hardly depends on the number of rows
    owner = torch.cat([index for index, _ in candidates]) if candidates else left[:0]
    if len(owner):
        part = problem.select(owner)
        answers = polish(part, torch.cat([rows for _, rows in candidates]))
        if is_steady(problem):
            answers = steadied(part, answers)
        best = best_of_each(part, answers, owner, len(found))
        found[owner[best]] = answers[best]
    return found


def single_changes(problem: Problem, found: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """Answers with a single observed value that are nearer than those found, each with the rows they belong to."""
    reach = problem.rows.new_full((len(problem),), torch.inf)
    for index, answers in found:
        reach.scatter_reduce_(0, index, problem.space.distance(problem.rows[index], answers), "amin")
    values, flips = nearest_flips(problem, reach)
    rows = positions(flips.any(dim=1))
    if len(rows) == 0:
        return []
    every = torch.arange(values.shape[1], device=values.device)[None]
    moves = Moves(every, values[rows], None)
    part = problem.select(rows)
    near = nearest_answers(part, moves, part.rows[:, None], flips[rows, None], FINALISTS)
    return [(rows[index], answers) for index, answers in near]


def with_walks(problem: Problem) -> Tensor:
    """The compiled search, and the walks where they may do better: not than the nearest single change."""
    from grace.methods.compiled import search_compiled  # numba takes a second to import

    if is_compiled_walk(problem):
        return search_compiled(problem, walks=True)
    found = search_compiled(problem, walks=False)
    count = (found != problem.rows).sum(dim=1)
    left = positions(count != 1) if problem.prefer == "fewest" else torch.arange(len(found))
    if len(left) == 0:
        return found
    part = problem.select(left)
    hits = [(positions((walked != part.rows).any(dim=1)), walked) for walked in walks(part)]
    owner = torch.cat([index for index, _ in hits]) if hits else left[:0]
    found_by_walks = torch.cat([walked[index] for index, walked in hits]) if hits else part.rows[:0]
    own = positions(count[left] > 0)
    answers = torch.cat([found[left[own]], polish(part.select(owner), found_by_walks)])
    owners = torch.cat([own, owner])
    best = best_of_each(part.select(owners), answers, owners, len(part))
    found[left[owners[best]]] = answers[best]
    return found


def walks(problem: Problem) -> list[Tensor]:
    """Further candidates: the paper's walks. Of a black box, whose finite differences are expensive, backtracking
    from a training row instead."""
    if problem.model.black_box:
        return [] if problem.background is None else [way_back(problem)]
    return [gradient(problem)] if problem.background is None else both(problem)


def best_of_each(problem: Problem, answers: Tensor, owner: Tensor, rows: int) -> Tensor:
    """The place of the best answer of each of so many rows that has any: by default that with the fewest features, and
    of those the nearest, the nearest that is steady, or the widest if none is; lengths are equal up to rounding."""
    count = (answers != problem.rows).sum(dim=1).to(answers.dtype)
    length = problem.space.distance(problem.rows, answers)
    keys = [length, count] if problem.prefer == "nearest" else [count, length]
    if is_steady(problem):
        width = steadiness(problem, answers)
        keys = [count, 1 / width.clamp(1e-9, 1), length]
    use = torch.ones_like(owner, dtype=torch.bool)
    for value in keys:
        least = value.new_full((rows,), torch.inf).scatter_reduce(0, owner, value.masked_fill(~use, torch.inf), "amin")
        use &= value <= least[owner] * (1 + 1e-9)
    place = torch.arange(len(owner), device=owner.device)
    first = place.new_full((rows,), len(owner)).scatter_reduce(0, owner, place.masked_fill(~use, len(owner)), "amin")
    return first[first < len(owner)]


def margins(problem: Problem, moves: Moves, states: Tensor) -> Tensor:
    """The margin (n, b, M) after one more move from every state of the beam; -inf for moves not allowed."""
    each, tried, flat = per_state(problem, moves, states)
    margin = tried.margins(each, flat).masked_fill(~tried.allowed(each, flat), -torch.inf)
    return margin.reshape(*states.shape[:2], -1)


def per_state(problem: Problem, moves: Moves, states: Tensor) -> tuple[Problem, Moves, Tensor]:
    """The problem and the moves repeated for every state of the beam (n, b, d), and the states (n b, d)."""
    n, b, d = states.shape
    owner = torch.arange(n, device=states.device).repeat_interleave(b)
    return problem.select(owner), moves.select(owner), states.reshape(n * b, d)


def refined(problem: Problem, moves: Moves, states: Tensor) -> Tensor:
    """Coordinate ascent: every state with the value of one of its changed features replaced, where the margin grows."""
    each, tried, flat = per_state(problem, moves, states)
    own = tried.of_features(flat != each.rows)
    if own.value.shape[1] == 0:
        return states
    still = own.value != each.rows.gather(1, own.feature_per_move())  # padding and moves back to x are no moves
    still &= (flat != each.rows).gather(1, own.feature_per_move())
    margin = own.margins(each, flat).masked_fill(~still, -torch.inf)
    best = margin.argmax(dim=1, keepdim=True)
    changed = flat.scatter(1, own.feature_per_move().gather(1, best), own.value.gather(1, best))
    helps = margin.gather(1, best)[:, 0] > each.margin(flat) + 1e-9
    return torch.where(helps[:, None], changed, flat).reshape(states.shape)


def strongest(best: Tensor) -> Tensor:
    """The features (n, d) whose best single move came closest to the goal."""
    order = nearly_sorted(finite(best))[:, :TRIED_AFTER_FIRST_LEVEL]
    return torch.zeros_like(best, dtype=torch.bool).scatter(1, order, True)


def finite(values: Tensor) -> Tensor:
    """Values with -inf put far below all others of the row, yet finite."""
    low = torch.where(torch.isinf(values), torch.inf, values).amin(dim=-1, keepdim=True)
    low = torch.where(torch.isinf(low), 0.0, low)
    return torch.where(torch.isinf(values), low - low.abs() - 1, values)


def per_feature_best(value: Tensor, moves: Moves, features: int) -> tuple[Tensor, Tensor]:
    """The best move of each feature (n, b, d), its value and its position; -inf where there is none."""
    n, b, count = value.shape
    index = moves.feature_per_move()[:, None].expand(n, b, count)
    best = value.new_full((n, b, features), -torch.inf).scatter_reduce(2, index, value, "amax")
    # the first move that attains it up to rounding
    top = best.gather(2, index)
    attained = value >= top - 1e-9 * top.abs().clamp_min(1e-12)
    place = torch.arange(count, device=value.device).expand(n, b, count)
    first = torch.full((n, b, features), count, device=value.device).scatter_reduce(
        2, index, torch.where(attained, place, count), "amin"
    )
    return best, first.clamp_max(count - 1)


def grown(states: Tensor, moves: Moves, order: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """The rows (n, t, d) after the chosen moves, `order` (n, t) being positions among beam x features;
    and the features moved."""
    d = states.shape[2]
    state = states.gather(1, (order // d)[:, :, None].expand(-1, -1, d))
    chosen = where.flatten(1).gather(1, order)
    feature, value = moves.feature_per_move().gather(1, chosen), moves.value.gather(1, chosen)
    return state.scatter(2, feature[:, :, None], value[:, :, None]), feature


def next_beam(problem: Problem, moves: Moves, states: Tensor, margin: Tensor) -> Tensor:
    """The states with the best margins after one more move, each with another set of features."""
    best, where = per_feature_best(margin, moves, states.shape[2])
    best = best.flatten(1)
    pool = min(3 * BEAM, best.shape[1])
    order = nearly_sorted(finite(best))[:, :pool]
    usable = torch.isfinite(best.gather(1, order))
    rows, _ = grown(states, moves, order, where)
    generator = torch.Generator().manual_seed(0)
    # random hashes of the sets of changed features
    marks = torch.randint(2**62, (rows.shape[2],), generator=generator).to(states.device)
    mark = ((rows != problem.rows[:, None]) * marks).sum(dim=2)
    earlier = torch.ones(pool, pool, dtype=torch.bool, device=states.device).tril(-1)
    repeated = ((mark[:, :, None] == mark[:, None, :]) & earlier).any(dim=2)
    rank = torch.where(usable & ~repeated, torch.arange(pool, device=states.device), pool).sort(dim=1).values[:, :BEAM]
    # rows with fewer good states repeat their first one
    rank = torch.where(rank < pool, rank, rank[:, :1].clamp_max(pool - 1))
    return rows.gather(1, rank[:, :, None].expand(-1, -1, rows.shape[2]))


def nearest_answers(
    problem: Problem, moves: Moves, states: Tensor, hits: Tensor, most: int
) -> list[tuple[Tensor, Tensor]]:
    """Of the moves that reach the goal: bring the nearest of different features to the boundary, and return
    at most so many of those, the nearest, each with the rows it belongs to."""
    base = problem.space.cost(problem.rows[:, None], states).sum(dim=2)
    cost = base[:, :, None] + moves.cost(problem)[:, None]
    best, where = per_feature_best(torch.where(hits, -cost, -torch.inf), moves, states.shape[2])
    best = best.flatten(1)
    at_once = is_polished_at_once(problem)  # then all of them are
    order = nearly_sorted(finite(best))[:, : POLISHED_AT_ONCE if at_once else CANDIDATES]
    usable = torch.isfinite(best.gather(1, order))
    rows, feature = grown(states, moves, order, where)
    if at_once:
        owner, which = torch.nonzero(usable, as_tuple=True)
        return [(owner, rows[owner, which])]
    rows = to_boundary(problem, moves, rows, feature, usable)
    length = problem.space.distance(problem.rows[:, None], rows)
    order = nearly_sorted(finite(torch.where(usable, -length, -torch.inf)))[:, :most]
    usable = usable.gather(1, order)
    rows = rows.gather(1, order[:, :, None].expand(-1, -1, rows.shape[2]))
    out = []
    for place in range(rows.shape[1]):
        index = positions(usable[:, place])
        out.append((index, rows[index, place]))
    return out


def to_boundary(problem: Problem, moves: Moves, rows: Tensor, feature: Tensor, usable: Tensor) -> Tensor:
    """Each candidate (n, t, d) with its last moved number as near to x as still reaches the goal, by quartering."""
    owner, place = torch.nonzero(usable & problem.space.is_numeric[feature], as_tuple=True)
    each, candidate, column = problem.select(owner), rows[owner, place], feature[owner, place][:, None]
    works, x, low, high = (t.gather(1, column) for t in (candidate, each.rows, each.low, each.high))
    fails, whole = torch.minimum(torch.maximum(x, low), high), problem.space.is_integer[column]
    quarters = torch.tensor([0.25, 0.5, 0.75], dtype=x.dtype, device=x.device)
    for _ in range(QUARTERINGS):
        tried = fails + (works - fails) * quarters
        if problem.space.has_integers:
            tried = torch.where(whole, tried.round(), tried)
        margin = Moves(column.expand(-1, 3), tried, moves.network).margins(each, candidate)
        hits = torch.cat(
            [margin >= problem.model.tolerance + ROUNDING, torch.ones_like(works, dtype=torch.bool)], dim=1
        )
        first = first_true(hits)
        steps = torch.cat([fails, tried, works], dim=1)
        fails, works = steps.gather(1, first), steps.gather(1, first + 1)
    rows[owner, place] = candidate.scatter(1, column, works)
    return rows
