"""LIME's explanation of a prediction (Ribeiro, Singh, Guestrin, KDD 2016), by the `lime` package, in GRACE's terms.

As in the paper's case study, numbers are cut into quartiles and the weights read as LIME's authors say: were the
value not in its bin, the class's probability would on average be so much lower. The package is used out of the
box; only its random numbers start afresh for each row, so that an answer depends on the row and the seed alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import torch

from grace import text
from grace.columns import is_small
from grace.errors import GraceError
from grace.explainer import Explainer
from grace.extras import pip_install
from grace.features import Categorical, Feature, Floats, Value
from grace.models.base import checked_scores, class_codes
from grace.schema import Schema

FEATURES = 5  # as many as the paper's participants saw
SAMPLES = 5000  # the package's own default


@dataclass(frozen=True)
class Reason:
    """One line of LIME's answer: the row's value lies in (low, high], or is `category`; being there adds `weight`
    to the probability of the class, on average around the row."""

    feature: Feature
    weight: float
    low: float | None = None
    high: float | None = None
    category: Value | None = None

    @property
    def name(self) -> str:
        return self.feature.name

    def inside(self) -> str:
        """The bin, as LIME writes it: "2 < bare nuclei ≤ 6"."""
        phrase = _name(self.feature)
        if isinstance(self.feature, Categorical):
            assert self.category is not None
            return f"{phrase} = {self.feature.label(self.category)}"
        if self.low is None:
            return f"{phrase} ≤ {_edge(self.high)}"
        return (
            f"{phrase} > {_edge(self.low)}"
            if self.high is None
            else f"{_edge(self.low)} < {phrase} ≤ {_edge(self.high)}"
        )

    def outside(self) -> str:
        """Everything else: "bare nuclei is less than or equal to 6"."""
        phrase = _name(self.feature)
        if isinstance(self.feature, Categorical):
            assert self.category is not None
            return f"{phrase} is not {self.feature.label(self.category)}"
        below = [] if self.low is None else [f"less than or equal to {_edge(self.low)}"]
        above = [] if self.high is None else [f"greater than {_edge(self.high)}"]
        return f"{phrase} is {' or '.join(below + above)}"

    def to_dict(self) -> dict[str, Any]:
        place = (
            {"category": self.category}
            if isinstance(self.feature, Categorical)
            else {"low": self.low, "high": self.high}
        )
        return {"feature": self.name, **place, "weight": self.weight}


@dataclass(frozen=True, kw_only=True)
class LimeExplanation:
    """LIME's reasons for (or, below 0, against) one class, the weightiest first."""

    row: Mapping[str, Value]
    label: Value
    probability: float
    reasons: tuple[Reason, ...]
    words: Schema = field(repr=False)

    def text(self, most: int | None = None) -> str:
        """The reasons as sentences in the form the paper showed to its participants."""
        label = self.words.class_word(self.label)
        kind = label if label.isalpha() else f"“{label}”"
        said = self.words.verb.format(**{"row": self.words.row, "class": label})
        sentences = [f"The model {said}."]
        for reason in self.reasons[:most]:
            direction = "less" if reason.weight > 0 else "more"
            change = f"{_size(reason.weight)} {direction} {kind}"
            sentences.append(f"If {reason.outside()}, on average, this prediction would be {change}.")
        return " ".join(sentences)

    def picture(self) -> str:
        """Bars for and against the class, as a self-contained SVG."""
        return bars(self)

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
        self._lime = _tabular()(
            np.array(explainer.background_rows),
            feature_names=self.schema.names,
            categorical_features=[j for j, f in enumerate(self.schema.features) if isinstance(f, Categorical)],
            discretize_continuous=True,
            discretizer="quartile",
            random_state=self._random,
        )

    def explain(self, rows: Any, *, label: Value | None = None) -> list[LimeExplanation]:
        """Why each row gets its class, or what speaks for and against `label`."""
        self.model.refresh()
        encoded = self.schema.encode(rows)
        probabilities = self._probabilities(encoded)
        asked = None if label is None else int(class_codes([label], self.model.classes, "label")[0])
        shown = self.schema.decode(encoded)
        out = []
        for i, row in enumerate(encoded):
            code = int(probabilities[i].argmax()) if asked is None else asked
            cells = {
                f.name: row[j] if is_small(f) and not f.gaps else shown[f.name].iloc[i]
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
        found = self._lime.explain_instance(
            row, self._probabilities, labels=(code,), num_features=self.features, num_samples=self.samples
        )
        weights = sorted(found.local_exp[code], key=lambda pair: -abs(pair[1]))
        return tuple(self._reason(int(j), float(row[j]), float(weight)) for j, weight in weights)

    def _reason(self, j: int, value: float, weight: float) -> Reason:
        feature = self.schema.features[j]
        if isinstance(feature, Categorical):
            return Reason(feature, weight, category=feature.categories[int(value)])
        edges = self._lime.discretizer.maxs[j][:-1]
        place = int(np.searchsorted(edges, value))
        low = float(edges[place - 1]) if place > 0 else None
        return Reason(feature, weight, low=low, high=float(edges[place]) if place < len(edges) else None)

    def _probabilities(self, rows: Floats) -> Floats:
        tensor = torch.as_tensor(rows, dtype=torch.float64, device=self.model.device)
        scores = np.asarray(checked_scores(self.model, tensor).cpu().numpy())
        return self.model.probabilities(scores) if self.model.sure else np.eye(scores.shape[1])[scores.argmax(axis=1)]


# Orange and blue after Okabe and Ito, dark (or light) enough for small text
STYLE = """.lime{--ink:#1b1f24;--soft:#59636e;--line:#8c959f;--for:#b84a00;--against:#0066a1}
@media(prefers-color-scheme:dark){
.lime{--ink:#e6edf3;--soft:#9198a1;--line:#6e7681;--for:#ff9d5c;--against:#6cb6ff}}
.lime{font:13px system-ui,sans-serif}.lime text{fill:var(--ink)}.lime .head{fill:var(--soft)}
.lime .for{fill:var(--for)}.lime .against{fill:var(--against)}.lime line{stroke:var(--line)}"""

WIDTH, LINE, TOP, HALF, LONGEST = 384, 44, 30, 125, 46


def bars(e: LimeExplanation) -> str:
    """A bar per reason from the middle: to the right for the class, to the left against it."""
    label = _xml(_cut(e.words.class_word(e.label), LONGEST // 3))
    most = max((abs(r.weight) for r in e.reasons), default=0.0) or 1.0
    height, middle = TOP + LINE * len(e.reasons) + 6, WIDTH // 2
    parts = [
        f'<text class="head" x="{middle - 8}" y="16" text-anchor="end">← against {label}</text>',
        f'<text class="head" x="{middle + 8}" y="16">for {label} →</text>',
    ]
    for i, reason in enumerate(e.reasons):
        parts.append(_bar(reason, TOP + LINE * i, abs(reason.weight) / most * HALF))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lime" width="{WIDTH * 4 // 3}" height="{height * 4 // 3}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{_xml(e.text())}">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>"
    )


def _bar(reason: Reason, y: int, length: float) -> str:
    """The bin, and below it the bar with its size at its end."""
    middle = WIDTH / 2
    if reason.weight > 0:
        kind, left, end, anchor, sign = "for", middle, middle + length + 6, "start", ""
    else:
        kind, left, end, anchor, sign = "against", middle - length, middle - length - 6, "end", "\N{MINUS SIGN}"
    return (
        f'<text x="{middle:g}" y="{y + 14}" text-anchor="middle">{_xml(_cut(reason.inside(), LONGEST))}</text>'
        f'<rect class="{kind}" x="{left:.1f}" y="{y + 20}" width="{length:.1f}" height="16" />'
        f'<line x1="{middle:g}" x2="{middle:g}" y1="{y + 18}" y2="{y + 38}" />'
        f'<text x="{end:.1f}" y="{y + 33}" text-anchor="{anchor}">{sign}{_size(reason.weight)}</text>'
    )


def _xml(said: str) -> str:
    """Text that is safe in an SVG: no markup, and no characters that XML forbids."""
    return escape("".join(c if c >= " " and not "\ud800" <= c <= "\udfff" else "\ufffd" for c in said))


def _cut(said: str, longest: int) -> str:
    return said if len(said) <= longest else f"{said[: longest - 1]}…"


def _name(feature: Feature) -> str:
    """The column's name: a phrase of the schema ("the person ... older") fits GRACE's sentences only."""
    return feature.name.replace("_", " ")


def _edge(value: float | None) -> str:
    assert value is not None
    return text.number(text.decimal(float(f"{value:.6g}")))


def _size(weight: float) -> str:
    size = abs(weight)
    return f"{size:.2f}" if size >= 0.005 else f"{size:.1g}" if size >= 0.0001 else "0.00"


def _tabular() -> Any:
    try:
        from lime.lime_tabular import LimeTabularExplainer
    except ImportError as reason:
        raise GraceError(f"LIME needs the package lime; {pip_install('lime')}") from reason
    return LimeTabularExplainer
