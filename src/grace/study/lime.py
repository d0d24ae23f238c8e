"""LIME's explanation of a prediction (Ribeiro, Singh, Guestrin, KDD 2016), by the `lime` package, in GRACE's terms.

As in the paper's case study, numbers are cut into quartiles and the weights read as LIME's authors say: were the
value not in its bin, the class's probability would on average be so much lower. The package is used out of the
box; only its random numbers start afresh for each row, so that an answer depends on the row and the seed alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from grace.errors import GraceError, pip_install
from grace.explain.explainer import Explainer
from grace.models.base import checked_scores, class_codes
from grace.pictures.drawing import Drawing, Mark, Rect, Text, line
from grace.pictures.svg import to_svg
from grace.schema.features import Categorical, Feature, Floats, Value
from grace.schema.low_precision import is_low_precision
from grace.schema.schema import Schema
from grace.schema.words import fill
from grace.text import sentence
from grace.text.vocabulary import class_caption

FEATURES = 5  # as in the paper's studies
SAMPLES = 5000  # the default of the package


@dataclass(frozen=True)
class Reason:
    """One line of LIME's explanation: the row's value lies in (low, high], or is `category`, which adds `weight` to the
    class's probability on average in the neighbourhood."""

    feature: Feature
    weight: float
    low: float | None = None
    high: float | None = None
    category: Value | None = None

    @property
    def name(self) -> str:
        return self.feature.name

    def inside(self) -> str:
        """The bin as LIME writes it: "2 < bare nuclei ≤ 6"."""
        phrase = _name(self.feature)
        if isinstance(self.feature, Categorical):
            assert self.category is not None
            return f"{phrase} = {self.feature.label(self.category)}"
        if self.low is None:
            return f"{phrase} ≤ {_edge(self.high)}"
        if self.high is None:
            return f"{phrase} > {_edge(self.low)}"
        return f"{_edge(self.low)} < {phrase} ≤ {_edge(self.high)}"

    def outside(self) -> str:
        """The complement of the bin: "bare nuclei is less than or equal to 6"."""
        phrase = _name(self.feature)
        if isinstance(self.feature, Categorical):
            assert self.category is not None
            return f"{phrase} is not {self.feature.label(self.category)}"
        below = [] if self.low is None else [f"less than or equal to {_edge(self.low)}"]
        above = [] if self.high is None else [f"greater than {_edge(self.high)}"]
        return f"{phrase} is {' or '.join(below + above)}"

    def to_dict(self) -> dict[str, Any]:
        keys = ("category",) if isinstance(self.feature, Categorical) else ("low", "high")
        return {"feature": self.name, **{key: getattr(self, key) for key in keys}, "weight": self.weight}


@dataclass(frozen=True, kw_only=True)
class LimeExplanation:
    """LIME's reasons for (weight > 0) or against one class, by decreasing weight."""

    row: Mapping[str, Value]
    label: Value
    probability: float
    reasons: tuple[Reason, ...]
    words: Schema = field(repr=False)

    def text(self, most: int | None = None) -> str:
        """The reasons as sentences in the form of the paper's studies."""
        label = class_caption(self.words, self.label)
        kind = label if label.isalpha() else f"“{label}”"
        text = fill(self.words.verb, label, self.words.row)
        sentences = [f"The model {text}."]
        for reason in self.reasons[:most]:
            direction = "less" if reason.weight > 0 else "more"
            change = f"{_size(reason.weight)} {direction} {kind}"
            sentences.append(f"If {reason.outside()}, on average, this prediction would be {change}.")
        return " ".join(sentences)

    def picture(self) -> str:
        """The bars as SVG."""
        return to_svg(bars(self))

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text(),
            "label": self.label,
            "probability": self.probability,
            "reasons": [r.to_dict() for r in self.reasons],
            "row": dict(self.row),
        }


class Lime:
    """LIME with the model, schema and background rows of an explainer.

    print(Lime(explainer).explain(row)[0].text())
    """

    def __init__(
        self, explainer: Explainer, *, features: int = FEATURES, samples: int = SAMPLES, seed: int = 0
    ) -> None:
        if explainer.background_rows is None:
            raise GraceError("LIME needs training rows; give train= to Explainer, or save it with its background")
        if features < 1 or samples < 2:
            raise GraceError(f"features={features}, samples={samples}: LIME needs at least 1 feature and 2 samples")
        self.model, self.schema, self.seed = explainer.model, explainer.schema, seed
        self.features, self.samples = features, samples
        self._random = np.random.RandomState(seed)
        self._lime = _lime_tabular_explainer()(
            np.array(explainer.background_rows),
            feature_names=self.schema.names,
            categorical_features=[j for j, f in enumerate(self.schema.features) if isinstance(f, Categorical)],
            discretize_continuous=True,
            discretizer="quartile",
            random_state=self._random,
        )

    def explain(self, rows: Any, *, label: Value | None = None) -> list[LimeExplanation]:
        """The reasons for each row's predicted class, or for `label`."""
        self.model.refresh()
        encoded = self.schema.encode(rows)
        probabilities = self._probabilities(encoded)
        target_code = None if label is None else int(class_codes([label], self.model.classes, "label")[0])
        decoded = self.schema.decode(encoded)
        out = []
        for i, row in enumerate(encoded):
            code = int(probabilities[i].argmax()) if target_code is None else target_code
            cells = {
                f.name: row[j] if is_low_precision(f) and not f.gaps else decoded[f.name].iloc[i]
                for j, f in enumerate(self.schema.features)
            }
            out.append(
                LimeExplanation(
                    row={k: v.item() if isinstance(v, np.generic) else v for k, v in cells.items()},
                    label=self.model.classes[code],
                    probability=float(probabilities[i, code]),
                    reasons=self._reasons(row, code),
                    words=self.schema,
                )
            )
        return out

    def _reasons(self, row: Floats, code: int) -> tuple[Reason, ...]:
        self._random.seed(self.seed)
        explanation = self._lime.explain_instance(
            row, self._probabilities, labels=(code,), num_features=self.features, num_samples=self.samples
        )
        weights = sorted(explanation.local_exp[code], key=lambda pair: -abs(pair[1]))
        return tuple(self._reason(int(j), float(row[j]), float(weight)) for j, weight in weights)

    def _reason(self, j: int, value: float, weight: float) -> Reason:
        feature = self.schema.features[j]
        if isinstance(feature, Categorical):
            return Reason(feature, weight, category=feature.categories[int(value)])
        edges = self._lime.discretizer.maxs[j][:-1]
        bin_ = int(np.searchsorted(edges, value))
        low = float(edges[bin_ - 1]) if bin_ > 0 else None
        return Reason(feature, weight, low=low, high=float(edges[bin_]) if bin_ < len(edges) else None)

    def _probabilities(self, rows: Floats) -> Floats:
        tensor = torch.as_tensor(rows, dtype=torch.float64, device=self.model.device)
        scores = np.asarray(checked_scores(self.model, tensor).cpu().numpy())
        if self.model.has_probabilities:
            return self.model.probabilities(scores)
        return np.asarray(np.eye(scores.shape[1])[scores.argmax(axis=1)])


WIDTH, LINE, TOP, HALF, MAX_CHARACTERS = 460, 44, 30, 150, 56


def bars(e: LimeExplanation) -> Drawing:
    """A bar per reason: to the right for the class, to the left against it. Drawn with the same primitives as GRACE's
    pictures, so that participants cannot tell the method by the style."""
    label = _shortened(class_caption(e.words, e.label), MAX_CHARACTERS // 3)
    most = max((abs(r.weight) for r in e.reasons), default=0.0) or 1.0
    middle = WIDTH / 2
    marks: list[Mark] = [
        Text(middle - 8, 16, f"← against {label}", 13, "soft", "end"),
        Text(middle + 8, 16, f"for {label} →", 13, "soft"),
    ]
    for i, reason in enumerate(e.reasons):
        marks += _bar(reason, TOP + LINE * i, abs(reason.weight) / most * HALF)
    title = f"Why {class_caption(e.words, e.label)}?"
    return Drawing(WIDTH, TOP + LINE * len(e.reasons) + 6, title, e.text(), tuple(marks))


def _bar(reason: Reason, y: int, length: float) -> list[Mark]:
    """The bin, and below it the bar with its weight."""
    middle = WIDTH / 2
    if reason.weight > 0:
        colour, left, end, anchor, sign = "old", middle, middle + length + 6, "start", ""
    else:
        colour, left, end, anchor, sign = "new", middle - length, middle - length - 6, "end", "\N{MINUS SIGN}"
    return [
        Text(middle, y + 14, _shortened(reason.inside(), MAX_CHARACTERS), 13, anchor="middle"),
        Rect(left, y + 20, length, 16, colour),
        line(middle, y + 18, middle, y + 38, "soft"),
        Text(end, y + 33, f"{sign}{_size(reason.weight)}", 13, anchor=anchor),
    ]


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _name(feature: Feature) -> str:
    """The column's name. Phrases of the schema ("the person ... older") only fit GRACE's sentences."""
    return feature.name.replace("_", " ")


def _edge(value: float | None) -> str:
    assert value is not None
    return sentence.number(sentence.decimal(float(f"{value:.6g}")))


def _size(weight: float) -> str:
    size = abs(weight)
    return f"{size:.2f}" if size >= 0.005 else f"{size:.1g}" if size >= 0.0001 else "0.00"


def _lime_tabular_explainer() -> Any:
    try:
        from lime.lime_tabular import LimeTabularExplainer
    except ImportError as reason:
        raise GraceError(f"LIME needs the package lime; {pip_install('lime')}") from reason
    return LimeTabularExplainer
