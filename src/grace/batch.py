"""A batch of explanations, kept as arrays until one of them is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from grace.explanation import Change, Explanation
from grace.features import Bools, Categorical, Feature, Floats, Numeric, Value, plain
from grace.metrics import Metrics, measure
from grace.models.base import softmax
from grace.schema import Schema
from grace.text import decimal, number

if TYPE_CHECKING:
    from grace.explainer import Explainer


@dataclass(frozen=True)
class Answers:
    """What the explainer found, one entry per row."""

    rows: Floats
    contrast: Floats
    success: Bools
    trivial: Bools
    before: Floats
    after: Floats
    distance: Floats
    checks: Mapping[str, Bools]

    @classmethod
    def join(cls, parts: list[Answers]) -> Answers:
        """The answers to several chunks, one after another."""
        if len(parts) == 1:
            return parts[0]
        arrays = {
            f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls) if f.name != "checks"
        }
        checks = {k: np.concatenate([p.checks[k] for p in parts]) for k in parts[0].checks}
        return cls(**arrays, checks=checks)


class Explanations:
    """A batch of explanations: a sequence of `Explanation`, and tables of the whole."""

    def __init__(
        self, explainer: Explainer, answers: Answers, schema: Schema, index: pd.Index[Any], settings: Mapping[str, Any]
    ) -> None:
        self.answers = answers
        self.schema = schema
        self.index = index
        self.settings = settings
        self._explainer = explainer
        self._words = replace(schema, features=())
        self._classes = np.array(explainer.model.classes, dtype=object)

    @property
    def success(self) -> Bools:
        return self.answers.success

    @property
    def contrast(self) -> pd.DataFrame:
        """The contrastive rows; the original row where none was found."""
        return self.schema.decode(self.answers.contrast, self.index)

    @property
    def changed(self) -> pd.DataFrame:
        """Which features differ, row by row."""
        return pd.DataFrame(self.answers.contrast != self.answers.rows, columns=self.schema.names, index=self.index)

    @property
    def original_class(self) -> np.ndarray[Any, np.dtype[Any]]:
        return np.asarray(self._classes[self.answers.before.argmax(axis=1)])

    @property
    def contrast_class(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The class of the contrastive row; None where none was found."""
        found = self._classes[self.answers.after.argmax(axis=1)].copy()
        found[~self.success] = None
        return np.asarray(found)

    def __len__(self) -> int:
        return len(self.answers.rows)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Explanation:
        i = range(len(self))[i]
        a, features = self.answers, self.schema.features
        old, new = a.rows[i], a.contrast[i]
        changes = [Change(f, _cell(f, old[j]), _cell(f, new[j])) for j, f in enumerate(features) if old[j] != new[j]]
        success = bool(a.success[i])
        return Explanation(
            row={f.name: _cell(f, old[j]) for j, f in enumerate(features)},
            changes=tuple(sorted(changes, key=lambda c: -_length(c))),
            classes=tuple(self._classes),
            original_class=self.original_class[i],
            contrast_class=self.contrast_class[i],
            before=tuple(softmax(a.before[[i]])[0].tolist()),
            after=tuple(softmax(a.after[[i]])[0].tolist()),
            success=success,
            reason="" if success else self._reason(i),
            checks={k: bool(v[i]) for k, v in a.checks.items()},
            distance=float(a.distance[i]),
            notes=tuple(self._notes(i)),
            settings=self.settings,
            words=self._words,
        )

    def _reason(self, i: int) -> str:
        if self.answers.trivial[i]:
            return "it is in the class that was asked for already"
        s = self.settings
        most = "one change" if s["max_features"] == 1 else f"{s['max_features']} changes"
        return (
            f"no contrast was found by the {s['method']} method with at most {most} within the {s['domain']} ranges"
            " (allow more with max_features, gamma or domain='minmax', or try another method)"
        )

    def _notes(self, i: int) -> Iterator[str]:
        row = self.answers.rows[i]
        low, high = self.schema.bounds()
        for j in np.flatnonzero(~self.schema.contains(row[None])[0]):
            feature = self.schema.features[j]
            if isinstance(feature, Numeric):
                if low[j] <= row[j] <= high[j]:
                    yield f"{feature.name} is {number(decimal(row[j]))}, not a whole number"
                else:
                    ends = f"{number(decimal(low[j]))} to {number(decimal(high[j]))}"
                    yield f"{feature.name} is {number(decimal(row[j]))}, outside the allowed range {ends}"

    def to_frame(self) -> pd.DataFrame:
        """One line per row: classes, success, number of changes, the predicate, distance and sentence."""
        lines = [
            {
                "success": e.success,
                "original_class": e.original_class,
                "contrast_class": e.contrast_class,
                "features": len(e.changes),
                "changes": e.predicate,
                "distance": e.distance,
                "probability_before": max(e.before),
                "probability_after": e.probability(e.contrast_class, after=True)
                if e.contrast_class is not None
                else None,
                "text": e.text(),
            }
            for e in self
        ]
        return pd.DataFrame(lines, index=self.index)

    def to_dicts(self) -> Iterator[dict[str, Any]]:
        """Each explanation as a dict, with the label of its row as "index"."""
        return ({"index": plain(self.index[i]), **e.to_dict()} for i, e in enumerate(self))

    def to_json(self) -> str:
        return json.dumps(list(self.to_dicts()), ensure_ascii=False, indent=1)

    def metrics(self, *, raw: bool = False) -> Metrics:
        """The paper's measures; `raw` adds the readings that need SU on raw values."""
        a, su = self.answers, self._explainer.su
        d = a.rows.shape[1]
        return measure(
            a.contrast != a.rows,
            a.success,
            self.schema.contains(a.contrast),
            a.distance,
            su=np.full((d, d), np.nan) if su is None else su,
            su_raw=self._explainer.su_raw() if raw else None,
            max_features=self.settings["max_features"],
        )

    def __repr__(self) -> str:
        done = int(self.success.sum())
        mean = (self.answers.contrast != self.answers.rows)[self.success].sum(axis=1).mean() if done else 0
        lines = [f"<Explanations: {done} of {len(self)} rows explained, {mean:.2f} features changed on average"]
        lines += [f"  {self.index[i]}: {self[i].text()}" for i in range(min(3, len(self)))]
        return "\n".join(lines + (["  ..."] if len(self) > 3 else [])) + ">"


def _cell(feature: Feature, code: float) -> Value:
    if isinstance(feature, Categorical):
        return feature.categories[int(code)]
    return int(code) if feature.integer and float(code).is_integer() else float(code)


def _length(change: Change) -> float:
    """How far a change goes, to say the largest first."""
    if isinstance(change.feature, Numeric):
        return abs(float(change.new) - float(change.old)) / (change.feature.spread or 1.0)
    return 1.0
