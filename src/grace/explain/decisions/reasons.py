"""Reasons of rows: all minimal sets of features that can flip the prediction, and the values of the best of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from grace.explain.decisions.row_context import RowContext
from grace.explain.decisions.sufficient import SufficientReason
from grace.explain.explanation import Explanation
from grace.explain.json_text import indented
from grace.text import decisions


@dataclass(frozen=True)
class Reason:
    """A set of features that can flip the prediction if they change together. `minimal` if it is proven that none of
    them can be left out; `redundant` if two of them say much the same (SU > gamma)."""

    features: tuple[str, ...]
    minimal: bool
    redundant: bool
    explanation: Explanation | None = None
    """The nearest values that were found; None if the set is only counted."""

    def to_dict(self) -> dict[str, Any]:
        known = self.explanation
        return {
            "features": list(self.features),
            "minimal": self.minimal,
            "redundant": self.redundant,
            "explanation": None if known is None else known.to_dict(),
        }


@dataclass(frozen=True)
class Reasons:
    """The minimal sets of features of a row with at most `max_features` features; those with values come first.

    There are no others with at most `complete_to` features, which is proven. `in_all` are the features that are part of
    every set, and `in_none` those that are part of none, though they may change.
    """

    about: RowContext
    sets: tuple[Reason, ...]
    max_features: int
    complete_to: int
    free: tuple[str, ...]
    """The features that may change."""
    because: SufficientReason | None = None
    """The features that suffice for the prediction, if they were asked for."""

    @property
    def complete(self) -> bool:
        """Whether it is proven that there are no other sets."""
        return self.complete_to >= self.max_features

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of sets of each size, from 1 on."""
        sizes = [len(reason.features) for reason in self.sets]
        return tuple(sizes.count(size) for size in range(1, self.max_features + 1))

    @property
    def shown(self) -> tuple[Reason, ...]:
        """The sets with values, the fewest features and the nearest values first."""
        return tuple(reason for reason in self.sets if reason.explanation is not None)

    @property
    def in_all(self) -> tuple[str, ...]:
        """The features that are part of every set."""
        every = [set(reason.features) for reason in self.sets]
        return tuple(name for name in self.free if every and all(name in s for s in every))

    @property
    def in_none(self) -> tuple[str, ...]:
        """The features that may change and are part of no set."""
        used = {name for reason in self.sets for name in reason.features}
        return tuple(name for name in self.free if name not in used)

    def text(self, *, language: str | None = None) -> str:
        """How many sets there are, whether that is all, and what they have in common."""
        return decisions.reasons_text(self if language is None else self.in_language(language))

    def in_language(self, code: str) -> Reasons:
        sets = (
            r if r.explanation is None else replace(r, explanation=r.explanation.in_language(code)) for r in self.sets
        )
        because = None if self.because is None else self.because.in_language(code)
        return replace(self, about=self.about.in_language(code), sets=tuple(sets), because=because)

    def computed(self) -> Reasons:
        """These reasons, with the deferred fields of their explanations computed now, see `Explanation.computed`."""
        for reason in self.shown:
            assert reason.explanation is not None
            reason.explanation.computed()
        return self

    def to_dict(self, *, language: str | None = None) -> dict[str, Any]:
        """What `grace reasons --json` prints; `language` is that of the text."""
        return {
            "text": self.text(language=language),
            **self.about.to_dict(),
            "max_features": self.max_features,
            "complete": self.complete,
            "complete_to": self.complete_to,
            "counts": list(self.counts),
            "in_all": list(self.in_all),
            "in_none": list(self.in_none),
            "sets": [reason.to_dict() for reason in self.sets],
            **({} if self.because is None else {"because": self.because.to_dict(language=language)}),
        }

    def _repr_html_(self) -> str:
        from grace.pictures.report import reasons_fragment

        return reasons_fragment(self)

    def to_json(self, *, language: str | None = None) -> str:
        return indented(self.to_dict(language=language))

    def __str__(self) -> str:
        return "\n".join([self.text(), *(f"  {r.explanation.text()}" for r in self.shown if r.explanation is not None)])

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} of size {size}" for size, n in enumerate(self.counts, 1))
        return f"<Reasons: {counts}; {'complete' if self.complete else f'complete up to size {self.complete_to}'}>"
