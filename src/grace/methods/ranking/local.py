"""W_Local: features ranked by the weights of an interpretable model g, fitted to the model's own outputs
on Q, the q nearest training rows of each predicted class."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot, softplus

from grace.problem.budget import at_once
from grace.problem.goal import has_linear_margins
from grace.problem.neighbours import nearest_rows
from grace.problem.problem import Problem
from grace.problem.space import nearly_sorted

CHUNK_BYTES = 1 << 27
MOST_AT_ONCE = 1 << 14  # small matrices that CUDA's solvers take in one batch
NEWTON_STEPS = 30
CONJUGATE_STEPS = 60
HALVINGS = 20
ACCURACY = 1e-5  # of the slope, and so of W, whose curvature is at least 1
TRACE = 1e-9  # b is free but for so much, which picks one of its equivalent values


def rank_local(problem: Problem, v: Tensor) -> Tensor:
    """Best first: what w_v - w_C of g promises within a feature's range, or a tree's Gini importance."""
    space, known = problem.space, problem.known_rows("the local method")
    points = space.euclidean(problem.rows)
    number = problem.model.task == "regression"  # then the two sides of the goal are the classes
    index, used = both_sides(problem, points) if number else neighbourhood(problem, points)
    toward = points.new_tensor([[-1.0, 1.0]]).repeat(len(points), 1) if number else margin_of_scores(problem, v)
    chunk = max(1, at_once(CHUNK_BYTES, points.device) // (8 * index.shape[1] * points.shape[1] * 4))
    parts = []
    for start in range(0, len(points), chunk):
        here = slice(start, start + chunk)
        near, scores, mask = known.coordinates[index[here]], known.scores[index[here]], used[here]
        if number:
            margin = problem.goal.select(torch.arange(len(points), device=points.device)[here]).margins(scores)
            scores = torch.cat([-margin, margin], dim=2)
        soft = scores.softmax(dim=2)
        if problem.local_model == "tree":
            parts.append(gini_importance(near, soft, mask))
        else:
            weights = (two_class_weights if soft.shape[2] == 2 else logistic_weights)(near, soft, mask)
            parts.append((weights @ toward[here, :, None])[:, :, 0])
    return nearly_sorted(per_feature(problem, torch.cat(parts)))


def neighbourhood(problem: Problem, points: Tensor) -> tuple[Tensor, Tensor]:
    """Q: background positions (n, q x classes), and which of them are real: a class with fewer
    than q rows gives what it has."""
    index, used = [], []
    for members, known in problem.known_rows("the local method").by_class:
        near, found = nearest_rows(points, known, problem.neighbours)
        index.append(members[near])
        used.append(found)
    return torch.cat(index, dim=1), torch.cat(used, dim=1)


def both_sides(problem: Problem, points: Tensor) -> tuple[Tensor, Tensor]:
    """Q for a model that predicts a number: the q nearest rows that reach the goal and the q nearest that do not."""
    known = problem.known_rows("the local method")

    def reaches(index: Tensor) -> Tensor:
        return problem.goal.select(index).margin(known.scores.expand(len(index), -1, -1)) >= problem.model.tolerance

    sides = [
        nearest_rows(points, known.points, problem.neighbours, side)
        for side in (reaches, lambda index: ~reaches(index))
    ]
    return torch.cat([index for index, _ in sides], dim=1), torch.cat([found for _, found in sides], dim=1)


def margin_of_scores(problem: Problem, v: Tensor) -> Tensor:
    """How the margin of alternative v depends on the scores: for a flip +1 for class v, -1 for class C."""
    scores = problem.scores(problem.rows).detach()
    if has_linear_margins(problem.goal):
        ahead, behind = (one_hot(c[:, 0], scores.shape[1]) for c in problem.goal.winner_and_rival(scores, v[:, None]))
        return (ahead - behind).to(scores.dtype)
    scores.requires_grad_(True)
    with torch.enable_grad():
        chosen = problem.goal.margins(scores).gather(1, v[:, None])
        (toward,) = torch.autograd.grad(chosen.sum(), scores)
    return toward


def per_feature(problem: Problem, values: Tensor) -> Tensor:
    """The worth of each feature from weights in the coordinates of `Space.euclidean`: what it could bring
    within its range, or, as printed, the size of its weight."""
    space = problem.space
    start = space.n_numeric
    weight = values[:, :start]
    if problem.as_printed or problem.local_model == "tree":
        worth = weight.abs()
    else:
        x, low, high = (space.numbers(t) for t in (problem.rows, problem.low, problem.high))
        slope = weight / space.numbers(space.spread)
        worth = torch.maximum(slope * (high - x), slope * (low - x))
    if not space.categorical:
        return worth
    out = values.new_zeros(problem.rows.shape)
    out[:, space.is_numeric] = worth
    for j in space.categorical:
        width = 1 if space.has_magnitude[j] else len(space.vectors[j])
        block = values[:, start : start + width]
        if space.has_magnitude[j]:  # ordered categories have one coordinate, their rank
            block = block * torch.arange(len(space.vectors[j]), device=values.device) / space.spread[j]
        own = block.gather(1, problem.rows[:, [j]].long())
        apart = block[:, space.choices[j]] - own
        tree = values[:, start : start + width].sum(dim=1)
        out[:, j] = tree if problem.local_model == "tree" else apart.amax(dim=1)
        start += width
    return out


def logistic_weights(near: Tensor, soft: Tensor, used: Tensor) -> Tensor:
    """Multinomial logistic regression with soft labels, one per row of the batch:

        min_W,b  sum_i CE(soft_i, softmax(W x_i + b)) + ||W||^2 / 2        (C = 1, b free)

    near (n, m, p), soft (n, m, c), used (n, m) -> W (n, p, c). Since m is far below p it is solved in
    the span of the m points, by Newton's method with conjugate gradients.
    """
    weight = used.to(near.dtype)[:, :, None]
    centred = (near - (near * weight).sum(dim=1, keepdim=True) / weight.sum(dim=1, keepdim=True).clamp_min(1)) * weight
    solved = [torch.linalg.eigh(part) for part in torch.split(centred @ centred.mT, MOST_AT_ONCE)]
    value, vector = torch.cat([s[0] for s in solved]), torch.cat([s[1] for s in solved])
    root = value.clamp_min(0).sqrt()
    inverse = torch.where(root > 1e-7 * root.amax(dim=1, keepdim=True), 1 / root.clamp_min(1e-300), 0.0)
    ones = torch.ones_like(weight)
    basis = torch.cat([vector * root[:, None], ones], dim=2) * weight  # (n, m, m + 1), the last for b
    penalty = torch.ones(basis.shape[2], 1, dtype=near.dtype, device=near.device)
    penalty[-1] = TRACE
    theta = soft.new_zeros(len(near), basis.shape[2], soft.shape[2])

    left = torch.arange(len(near), device=near.device)  # rows that are not there yet
    for _ in range(NEWTON_STEPS):
        step, rough = newton_step(theta[left], basis[left], soft[left], weight[left], penalty)
        left, step = left[rough], step[rough]
        if len(left) == 0:
            break
        theta[left] += step
    weights: Tensor = centred.mT @ (vector * inverse[:, None]) @ theta[:, :-1]
    return weights


def two_class_weights(near: Tensor, soft: Tensor, used: Tensor) -> Tensor:
    """`logistic_weights` for two classes, whose weights are opposite: W = (-d, d) / 2. At the optimum d is 2 sum_i
    (y_i - p_i) x_i, so that Newton's method needs no more than one small system in a_i = y_i - p_i and b:

        f = G a + b,  G = 2 X X',  (I + V G) a = V (f - b) + y - p,  sum_i a_i = 0,  V = diag p (1 - p)
    """
    weight = used.to(near.dtype)[:, :, None]
    centred = (near - (near * weight).sum(dim=1, keepdim=True) / weight.sum(dim=1, keepdim=True).clamp_min(1)) * weight
    gram = torch.bmm(2 * centred, centred.mT)
    eye = torch.eye(gram.shape[1], dtype=near.dtype, device=near.device)
    y = soft[:, :, 1:] * weight
    a, b, f = torch.zeros_like(y), torch.zeros_like(y[:, :1]), torch.zeros_like(y)
    loss, ones = torch.full_like(b, torch.inf), torch.ones_like(y)
    most = centred.square().sum(dim=(1, 2), keepdim=True) + gram.shape[1]  # |X' s|^2 + |sum s|^2 <= most |s|^2
    for _ in range(NEWTON_STEPS):
        p = f.sigmoid() * weight
        wrong = y - p
        slope = wrong - a
        rough = slope.square().sum(dim=1, keepdim=True) * most > ACCURACY**2
        many = int(rough.sum())
        if many == 0:
            break
        variance = p * (1 - p)
        root = variance.sqrt()
        factor, _ = torch.linalg.cholesky_ex(eye + root * gram * root.mT)
        right = variance * f + wrong
        solved = torch.cholesky_solve(root * torch.cat([torch.bmm(gram, right), ones], dim=2), factor) * root
        free, shift = right - solved[:, :, :1], solved[:, :, 1:]
        new_b = free.sum(dim=1, keepdim=True) / (shift.sum(dim=1, keepdim=True) + TRACE)
        new_a = free - new_b * shift
        for _ in range(HALVINGS):  # halve the step of the rows that it does not help
            pull = torch.bmm(gram, new_a)
            new_f = pull + new_b
            new_loss = ((softplus(new_f) - y * new_f) * weight + new_a * pull / 2).sum(dim=1, keepdim=True)
            worse = rough & (new_loss > loss + 1e-12 * loss.abs())
            if not worse.any():
                break
            new_a, new_b = torch.where(worse, (a + new_a) / 2, new_a), torch.where(worse, (b + new_b) / 2, new_b)
        a, b, f, loss = (
            new if many == len(rough) else torch.where(rough, new, old)
            for new, old in zip((new_a, new_b, new_f, new_loss), (a, b, f, loss), strict=True)
        )
    half = torch.bmm(centred.mT, a)
    return torch.cat([-half, half], dim=2)


def newton_step(theta: Tensor, basis: Tensor, soft: Tensor, weight: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor]:
    """A step that lowers the loss of each row, and which rows still need one."""

    def objective(t: Tensor) -> Tensor:
        loss = -(soft * (basis @ t).log_softmax(dim=2) * weight).sum(dim=(1, 2))
        return loss + (penalty * t.square()).sum(dim=(1, 2)) / 2

    p = (basis @ theta).softmax(dim=2)
    slope = basis.mT @ ((p - soft) * weight) + penalty * theta

    def curvature(d: Tensor) -> Tensor:
        z = basis @ d
        return basis.mT @ (p * (z - (p * z).sum(dim=2, keepdim=True))) + penalty * d

    step = conjugate_gradients(curvature, -slope, basis.square().mT @ (p * (1 - p)) + penalty)
    before, size = objective(theta), torch.ones_like(theta[:, :1, :1])
    for _ in range(HALVINGS):  # halve the step of the rows that it does not help
        worse = objective(theta + size * step) > before + 1e-12 * before.abs()
        if not worse.any():
            break
        size = torch.where(worse[:, None, None], size / 2, size)
    return size * step, slope.abs().amax(dim=(1, 2)) > ACCURACY


def conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor, diagonal: Tensor) -> Tensor:
    """Solve H s = right for each row of the batch, more precisely the smaller `right` is: a Newton step far from
    the solution need not be exact. Preconditioned by the diagonal of H."""

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(dim=(1, 2), keepdim=True)

    solution, rest, direction = torch.zeros_like(right), right, right / diagonal
    square = dot(rest, direction)
    goal = (square * square.sqrt().clamp_max(1e-2)).clamp_min(1e-4 * ACCURACY**2)
    for _ in range(CONJUGATE_STEPS):
        image = product(direction)
        length = square / dot(direction, image).clamp_min(1e-300)
        length = torch.where(square > goal, length, 0.0)
        solution, rest = solution + length * direction, rest - length * image
        scaled = rest / diagonal
        new = dot(rest, scaled)
        if (new <= goal).all():
            break
        direction = scaled + torch.where(square > goal, new / square.clamp_min(1e-300), 0.0) * direction
        square = new
    return solution


DEPTH = 3


def gini_importance(near: Tensor, soft: Tensor, used: Tensor, depth: int = DEPTH) -> Tensor:
    """Grow a CART tree on each set of points and sum the impurity that each coordinate removes.

    near (n, m, p), soft (n, m, c) class shares, used (n, m) -> importance (n, p), summing to 1.
    """
    n, _, p = near.shape
    order = near.argsort(dim=1, stable=True)
    value = near.gather(1, order)
    cuttable = value[:, 1:] > value[:, :-1]
    importance = near.new_zeros(n, p)
    nodes = [used.to(near.dtype)]
    for _ in range(depth):
        nodes = [child for node in nodes for child in split(node, near, soft, order, cuttable, importance)]
    total = importance.sum(dim=1, keepdim=True)
    return importance / total.clamp_min(1e-300)


def split(
    node: Tensor, near: Tensor, soft: Tensor, order: Tensor, cuttable: Tensor, importance: Tensor
) -> tuple[Tensor, Tensor]:
    """Cut the points of a node (n, m: 1 inside, 0 outside) where it lowers Gini impurity most; add what
    it removes to `importance`; return the two children."""
    n, m, p = near.shape
    shares = soft * node[:, :, None]
    sorted_shares = shares[:, :, None].expand(n, m, p, -1).gather(1, order[..., None].expand(n, m, p, soft.shape[2]))
    inside = node[:, :, None].expand(n, m, p).gather(1, order)
    left, left_count = sorted_shares.cumsum(dim=1)[:, :-1], inside.cumsum(dim=1)[:, :-1]
    total, count = shares.sum(dim=1)[:, None, None], node.sum(dim=1)[:, None, None]

    def impurity(counts: Tensor, size: Tensor) -> Tensor:
        """size x Gini."""
        return size - counts.square().sum(dim=-1) / size.clamp_min(1)

    removed = impurity(total, count) - impurity(left, left_count) - impurity(total - left, count - left_count)
    proper = cuttable & (left_count > 0) & (left_count < count)
    removed = torch.where(proper, removed, 0.0).reshape(n, -1)
    # the first of nearly equal cuts, coordinate by coordinate
    removed = removed.reshape(n, m - 1, p).mT.reshape(n, -1)
    top = removed.amax(dim=1, keepdim=True)
    places = torch.arange(removed.shape[1], device=near.device)
    best = torch.where(removed >= top - 1e-9 * top.abs(), places, removed.shape[1]).amin(dim=1)
    feature, cut = best // (m - 1), best % (m - 1)
    gain = top[:, 0].clamp_min(0)
    importance.scatter_add_(1, feature[:, None], gain[:, None])
    column = near.gather(2, feature[:, None, None].expand(n, m, 1))[:, :, 0]
    last_left = order.gather(2, feature[:, None, None].expand(n, m, 1))[:, :, 0].gather(1, cut[:, None])
    goes_left = (column <= column.gather(1, last_left)).to(node.dtype)
    parts = (gain > 0).to(node.dtype)[:, None]
    return node * goes_left * parts, node * (1 - goes_left) * parts
