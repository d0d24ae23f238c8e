"""What counts as an answer: a margin on the model's scores.

A goal offers one or more *alternatives*, each with a margin per row; the goal is reached when the best
margin is at least the model's tolerance. A method sees the margins and nothing else, so a new task is a
new goal and changes no method. The alternatives of a flip are the other classes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import embedding

from grace.models.network import LinearMargins
from grace.problem.numpy_or_torch import to_device


class Goal(ABC):
    """One margin per row and alternative, for the rows it was made for."""

    @abstractmethod
    def margins(self, scores: Tensor) -> Tensor:
        """(n, ..., classes) scores to (n, ..., alternatives) margins; -inf where there is no alternative."""

    @abstractmethod
    def select(self, index: Tensor) -> Goal:
        """The goal of some of the rows."""

    def on(self, device: torch.device) -> Goal:
        """The same goal, a dataclass, in the memory of a device."""
        moved: Goal = to_device(self, device)
        return moved

    def of_targets(self, per_class: Tensor) -> Tensor:
        """From a value per class (n, ..., classes) those of the alternatives."""
        return per_class

    def margin(self, scores: Tensor) -> Tensor:
        """How far inside the goal a row is: the best of its alternatives."""
        return self.margins(scores).amax(dim=-1)

    def decided(self, scores: Tensor) -> Tensor:
        """Whether the model's own decision is what was asked for, however small its margin: a tie goes to the first of
        the best classes."""
        return self.margin(scores) >= 0

    def single_target(self, classes: int) -> Tensor | None:
        """The alternative (n,) of each row where, with so many classes, there is no other."""
        return None


class ClassGoal(Goal):
    """A goal about classes, with a least probability of the winner. Without one, each margin is linear in the scores:
    the lead of one class over another."""

    confidence: float
    """The probability that a winner has to reach."""

    shift: Tensor | None
    """What cut-offs subtracted from the scores of each class: probabilities are those without them."""

    asks_for_one: ClassVar[bool]
    """Whether one class was asked for, which has to beat all others."""

    @property
    def leads(self) -> bool:
        """Whether each margin is the lead of one class over another; then there are `contests`."""
        return self.confidence <= 0

    @abstractmethod
    def with_shift(self, shift: Tensor | None) -> ClassGoal:
        """The goal for scores from which cut-offs subtracted something else."""

    @abstractmethod
    def winner_and_rival(self, scores: Tensor, alternative: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The two classes whose scores make each margin that is a lead, of each alternative (n, m) or of some (n, m) of
        them; the same class twice where there is no alternative."""

    def offset(self, winner: Tensor, rivals: Tensor, like: Tensor) -> Tensor:
        """By how much, in scores such as `like`, a winner has to beat each rival at least: the logit of the confidence,
        less what the cut-offs make of it."""
        if self.confidence <= 0:
            return like.new_zeros(())
        odds = like.new_tensor(logit(self.confidence)).expand(rivals.shape)
        if self.shift is not None:
            shift = self.shift.to(like)
            odds = odds - shift[winner] + shift[rivals]
        return odds.clamp_min(0)


def has_linear_margins(goal: Goal) -> TypeGuard[ClassGoal]:
    """Whether each margin is the lead of one class over another."""
    return isinstance(goal, ClassGoal) and goal.leads


@dataclass
class MarginFunction(LinearMargins):
    """The margins of a goal as a function of the scores: of all its alternatives, or of one (n, 1) per row."""

    goal: Goal
    alternative: Tensor | None = None
    _cache: tuple[Tensor, Tensor] | None = field(default=None, init=False, repr=False)

    def __call__(self, scores: Tensor) -> Tensor:
        margins = self.goal.margins(scores)
        return margins if self.alternative is None else margins.gather(1, self.alternative)

    def select(self, index: Tensor) -> MarginFunction:
        """The same of some of the rows."""
        return MarginFunction(self.goal.select(index), None if self.alternative is None else self.alternative[index])

    def with_best(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The margin (n, 1) of the one alternative, and the best of all."""
        if self.goal.single_target(scores.shape[1]) is not None:
            margin = self.goal.margin(scores)[:, None]
            return margin, margin
        margins = self.goal.margins(scores)
        own = margins if self.alternative is None else margins.gather(1, self.alternative)
        return own, margins.amax(dim=1, keepdim=True)

    def directions(self, scores: Tensor, last: Tensor) -> Tensor | None:
        """Closed form where margins are leads of one class over another. Of two classes, it does not depend on the
        scores and is cached."""
        if self._cache is not None and self._cache[0] is last:
            return self._cache[1]
        if not has_linear_margins(self.goal):
            return None
        winner, rival = self.goal.winner_and_rival(scores, self.alternative)
        found = embedding(winner, last) - embedding(rival, last)
        if scores.shape[1] == 2:
            self._cache = last, found
        return found


def lead(scores: Tensor) -> Tensor:
    """By how much each class leads the best of the other classes: f_c - max_{k != c} f_k."""
    if scores.shape[-1] == 2:
        return scores - scores.flip(-1)
    best = scores.topk(2, dim=-1)
    classes = torch.arange(scores.shape[-1], device=scores.device)
    first = classes == best.indices[..., :1]
    return scores - torch.where(first, best.values[..., 1:], best.values[..., :1])


def rivals(scores: Tensor, classes: Tensor) -> Tensor:
    """The best of the other classes, for some classes (n, m) of each row."""
    if scores.shape[1] == 2:
        return 1 - classes
    best = scores.topk(2, dim=1).indices
    return torch.where(classes == best[:, :1], best[:, 1:], best[:, :1])


def ahead(scores: Tensor, sign: Tensor) -> Tensor:
    """Of two classes, the lead of the second where the sign (n,) is 1, and of the first where it is -1."""
    first, second = scores.unbind(-1)
    return (second - first).mul_(sign.reshape(-1, *[1] * (first.dim() - 1)))


def surplus(scores: Tensor, confidence: float, shift: Tensor | None = None) -> Tensor:
    """By how much each class leads; with a confidence, also by how much its probability, before cut-offs took `shift`
    off the scores, exceeds it, in logits."""
    leads = lead(scores)
    if confidence <= 0:
        return leads
    shares = (scores if shift is None else scores + shift).log_softmax(dim=-1)
    rest = torch.log1p(-shares.exp().clamp_max(1 - 1e-16))
    return torch.minimum(leads, shares - rest - logit(confidence))


def logit(share: float) -> float:
    return math.log(share / (1 - share))


@dataclass(frozen=True)
class Flip(ClassGoal):
    """Any class but the original one: "why X?"."""

    original: Tensor
    confidence: float = 0.0
    shift: Tensor | None = None
    asks_for_one: ClassVar[bool] = False

    def margin(self, scores: Tensor) -> Tensor:
        return ahead(scores, self._sign) if self.leads and scores.shape[-1] == 2 else super().margin(scores)

    def decided(self, scores: Tensor) -> Tensor:
        other = scores.argmax(dim=-1) != self.original.reshape(-1, *[1] * (scores.dim() - 2))
        return other if self.leads else other & super().decided(scores)

    def single_target(self, classes: int) -> Tensor | None:
        return self._other if classes == 2 else None

    @cached_property
    def _other(self) -> Tensor:
        return 1 - self.original

    @cached_property
    def _sign(self) -> Tensor:
        return (1 - 2 * self.original).double()

    def margins(self, scores: Tensor) -> Tensor:
        classes = torch.arange(scores.shape[-1], device=scores.device)
        own = self.original.reshape(-1, *[1] * (scores.dim() - 1))
        return surplus(scores, self.confidence, self.shift).masked_fill(classes == own, -torch.inf)

    def winner_and_rival(self, scores: Tensor, alternative: Tensor | None = None) -> tuple[Tensor, Tensor]:
        classes = alternative
        if classes is None:
            classes = torch.arange(scores.shape[1], device=scores.device).expand(scores.shape)
        return classes, torch.where(classes == self.original[:, None], classes, rivals(scores, classes))

    def select(self, index: Tensor) -> Flip:
        return Flip(self.original[index], self.confidence, self.shift)

    def with_shift(self, shift: Tensor | None) -> Flip:
        return Flip(self.original, self.confidence, shift)


@dataclass(frozen=True)
class Against(ClassGoal):
    """One class that was asked for: "why X rather than Y?"."""

    wanted: Tensor
    confidence: float = 0.0
    shift: Tensor | None = None
    asks_for_one: ClassVar[bool] = True

    def margin(self, scores: Tensor) -> Tensor:
        return self.margins(scores)[..., 0]

    def decided(self, scores: Tensor) -> Tensor:
        chosen = scores.argmax(dim=-1) == self.wanted.reshape(-1, *[1] * (scores.dim() - 2))
        return chosen if self.leads else chosen & super().decided(scores)

    def single_target(self, classes: int) -> Tensor | None:
        return torch.zeros_like(self.wanted)

    def margins(self, scores: Tensor) -> Tensor:
        index = self.wanted.reshape(-1, *[1] * (scores.dim() - 1)).expand(*scores.shape[:-1], 1)
        return surplus(scores, self.confidence, self.shift).gather(-1, index)

    def winner_and_rival(self, scores: Tensor, alternative: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.wanted[:, None], rivals(scores, self.wanted[:, None])  # the one alternative

    def of_targets(self, per_class: Tensor) -> Tensor:
        index = self.wanted.reshape(-1, *[1] * (per_class.dim() - 1)).expand(*per_class.shape[:-1], 1)
        return per_class.gather(-1, index)

    def select(self, index: Tensor) -> Against:
        return Against(self.wanted[index], self.confidence, self.shift)

    def with_shift(self, shift: Tensor | None) -> Against:
        return Against(self.wanted, self.confidence, shift)


@dataclass(frozen=True)
class Between(Goal):
    """A number from `low` to `high`, for models with one output; margins in units of `scale`, the spread of what
    they predict."""

    low: Tensor
    high: Tensor
    scale: float = 1.0

    def single_target(self, classes: int) -> Tensor | None:
        return torch.zeros_like(self.low, dtype=torch.int64)

    def margins(self, scores: Tensor) -> Tensor:
        low, high = (end.reshape(-1, *[1] * (scores.dim() - 1)) for end in (self.low, self.high))
        return torch.minimum(scores - low, high - scores) / self.scale

    def select(self, index: Tensor) -> Between:
        return Between(self.low[index], self.high[index], self.scale)


@dataclass(frozen=True)
class AllModelsGoal(Goal):
    """A goal that each of several models has to reach, by the same alternative; their scores stand side by side."""

    goal: Goal
    models: int

    def margins(self, scores: Tensor) -> Tensor:
        apart = scores.reshape(*scores.shape[:-1], self.models, -1)
        return self.goal.margins(apart).amin(dim=-2)

    def of_targets(self, per_class: Tensor) -> Tensor:
        return self.goal.of_targets(per_class)

    def select(self, index: Tensor) -> AllModelsGoal:
        return AllModelsGoal(self.goal.select(index), self.models)
