"""What profiles, reasons and sufficient reasons of a row share: the row, its classes, what was asked, and the words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from grace.explain.shared_parts import CellReader, without_features
from grace.schema.features import Feature, Numeric, Value, plain
from grace.schema.schema import Schema
from grace.text.vocabulary import feature_words, schema_words, with_class_words

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations


@dataclass(frozen=True)
class RowContext:
    """A row and the question about it. `contrast_class` is that of the explanation's answer; without an answer, the
    class that was asked for, or the next one. `asked` is None for any other class."""

    row: Mapping[str, Any]
    original_class: Value
    contrast_class: Value
    classes: tuple[Value, ...]
    task: str
    asked: Value | None
    wanted: Mapping[str, float | None] | None  # the target range of a regression
    domain: str
    own_ranges: bool  # whether an expert has set any range
    success: bool  # whether the explanation has an answer
    already: bool  # whether the row is what was asked for
    words: Schema = field(repr=False)
    confidence: float = 0.0  # the probability that was asked for

    def feature(self, name: str) -> Feature:
        return self.words[name]

    def in_language(self, code: str) -> RowContext:
        """The same with all words in another language."""
        current = self.words.language
        if code == current:
            return self
        features = tuple(feature_words(f, current, code) for f in self.words.features)
        return replace(self, words=replace(schema_words(self.words, code), features=features))

    def to_dict(self) -> dict[str, Any]:
        return {
            "row": dict(self.row),
            "original_class": self.original_class,
            "contrast_class": self.contrast_class,
            "classes": list(self.classes),
            "task": self.task,
            "asked": self.asked,
            "wanted": None if self.wanted is None else dict(self.wanted),
            "domain": self.domain,
            "confidence": self.confidence,
        }


def row_contexts(batch: Explanations) -> list[RowContext]:
    """The context of each row of a batch."""
    a, schema = batch.answers, batch.schema
    reader, classes = CellReader(schema), tuple(batch.explainer.model.classes)
    words = replace(without_features(schema), features=schema.features)
    named = with_class_words(words, batch.task, classes, (), None)
    own_ranges = any(isinstance(f, Numeric) and not (f.low is f.high is None) for f in schema.features)
    number = batch.task == "regression"
    out = []
    for i, row in enumerate(a.rows):
        asked = batch.against_each[i] if batch.against_each is not None else batch.call["against"]
        wanted = None if batch.target_ranges is None else batch.target_ranges[i]
        if number:
            original, contrast = float(a.before[i, 0]), float(a.after[i, 0])
            named = with_class_words(words, batch.task, (), (original, contrast), wanted)
        else:
            order = (-a.before[i]).argsort(kind="stable")
            original = classes[order[0]]
            other = classes[a.after[i].argmax()] if a.success[i] else classes[order[min(1, len(order) - 1)]]
            contrast = other if a.success[i] or asked is None else asked
        out.append(
            RowContext(
                row=reader.row(row),
                original_class=plain(original),
                contrast_class=plain(contrast),
                classes=classes,
                task=batch.task,
                asked=None if number else plain(asked),
                wanted=wanted,
                domain=str(schema.domain),
                own_ranges=own_ranges,
                success=bool(a.success[i]),
                already=bool(a.trivial[i]),
                words=named,
                confidence=0.0 if number else float(batch.call["confidence"]),
            )
        )
    return out
