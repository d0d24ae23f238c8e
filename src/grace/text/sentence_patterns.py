"""Patterns of sentences: the words of a sentence that states changes exactly, with gaps for its numbers.

The words around a number may depend on whether it is 1, and on nothing else of it. That is checked for each pattern:
the sentence is made twice, with fractions and with whole numbers, and if the two differ elsewhere, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from grace.schema.caching import cached_on_first
from grace.schema.features import Feature, Value
from grace.text import languages
from grace.text.languages import ChangedFeature
from grace.text.precision import Delta, Difference, NewCategory, Replacement
from grace.text.sentence import complete, facts_of
from grace.text.vocabulary import feature_in

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation
    from grace.schema.schema import Schema

HAD = "had"
GAPS = 2
"""Gaps of a change: the size of a difference, or the new and the old value."""
EXAMPLES: tuple[Callable[[int], Decimal], ...] = (
    lambda gap: Decimal("0.7001") + gap * Decimal("0.001"),
    lambda gap: Decimal(5001 + 10 * gap),
)
"""Numbers for each gap, none of which is part of another."""


@dataclass(frozen=True)
class Shape:
    """A statement of a change without its numbers: a difference up or down, a `pair` of the new and the old value, or a
    category, old and new. `ones`: which of the two numbers are 1."""

    feature: Feature
    up: bool = False
    pair: bool = False
    about_old: bool = False
    ones: tuple[bool, bool] = (False, False)
    category: tuple[Value, Value] | None = None

    def stated(self, numbers: Sequence[Decimal]) -> Difference:
        """The statement with these numbers."""
        if self.category is not None:
            old, new = self.category
            return NewCategory(new, old)
        first, second = (Decimal(1) if one else number for one, number in zip(self.ones, numbers, strict=True))
        return Replacement(first, second, about_old=self.about_old) if self.pair else Delta(first, self.up)

    @property
    def shown(self) -> int:
        """How many numbers the statement has."""
        return 0 if self.category is not None else 2 if self.pair else 1


@cached_on_first
def patterns_of(schema: Schema, code: str, *about: Any) -> dict[Any, str | None]:
    """The patterns that were made so far, for a schema, a language and what else all sentences of a model share."""
    return {}


def pattern_of(e: Explanation, shapes: Sequence[Shape], code: str) -> str | None:
    """The sentence about changes of these shapes as a format string, whose fields 0 and 1 are the numbers of the first
    change, 2 and 3 those of the second, and so on; None if there is no such pattern. Of `e`, only what it has in common
    with all explanations of the same classes is used."""
    made = {_with_gaps(e, shapes, code, example) for example in EXAMPLES}
    return made.pop() if len(made) == 1 else None


def _with_gaps(e: Explanation, shapes: Sequence[Shape], code: str, example: Callable[[int], Decimal]) -> str | None:
    language, changes, gaps = languages.load(code), [], []
    for k, shape in enumerate(shapes):
        numbers = [example(GAPS * k + gap) for gap in range(GAPS)]
        changes.append(ChangedFeature(feature_in(shape.feature, e.words.language, code), shape.stated(numbers)))
        open_ = [gap for gap in range(shape.shown) if not shape.ones[gap]]
        gaps += [(GAPS * k + gap, language.number(numbers[gap])) for gap in open_]
    body = language.TEMPLATES[HAD][0](facts_of(e, code, tuple(changes)))
    text = complete(e, body, HAD, code).replace("{", "{{").replace("}", "}}")
    if any(text.count(number) != 1 for _, number in gaps):
        return None
    for gap, number in gaps:
        text = text.replace(number, f"{{{gap}}}")
    return text
