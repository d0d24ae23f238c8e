"""The model protocol: `scores(rows)`, and `slopes` where the model has gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.files import ModelFile
from grace.models.threshold import Cutoffs
from grace.schema.columns import imputed
from grace.schema.features import Categorical, Floats, Numeric, Value, plain
from grace.schema.frames import as_frame, cell_repr, join_first
from grace.schema.groups import layout_of
from grace.schema.low_precision import is_low_precision
from grace.schema.schema import Schema

Margins = Callable[[Tensor], Tensor]
AT_ONCE = 1 << 16  # rows of which a model is asked together: what its layers hold of them stays small


class Model(ABC):
    """A classifier on encoded rows. Scores are logits or log-probabilities: only differences matter."""

    classes: tuple[Value, ...]
    name: str = "the model"
    """What warnings and errors call it."""
    schema: Schema | None = None
    device: torch.device = torch.device("cpu")
    tolerance: float = 1e-6
    """The margin above which a class counts as the winner, in the precision the scores come in."""
    task: str = "classification"
    """Or "clustering", where classes are clusters, or "regression", with one number and no classes."""
    no_probabilities_because: str = ""
    """Why the scores are no probabilities of the model's own, such as "it names classes alone"; else empty."""
    cutoffs: Cutoffs | None = None
    """The rule by which a class is decided, if it is not the most probable one; scores are shifted by it."""
    subject: Any = None
    """What `grace.wrap` was given, where that is something else."""
    file: ModelFile | None = None
    """The file that it was read from, if it was."""
    black_box: bool = False
    """Whether the model is known by its answers alone: they may be constant in steps, and slopes are estimates."""

    @property
    def has_probabilities(self) -> bool:
        """Whether the scores say how sure the model is: probabilities, not bare labels, distances or margins."""
        return not self.no_probabilities_because

    @property
    def shift(self) -> Tensor | None:
        """What the cut-offs took off the scores of each class."""
        return None if self.cutoffs is None else self.cutoffs.tensor(self.device)

    def with_threshold(self, threshold: Any) -> Model:
        """The same model with another rule to decide classes by; see `grace.wrap`."""
        raise GraceError(f"a {type(self).__name__} takes no threshold=; wrap the model itself with it")

    def without_layers(self) -> Model:
        """The same model without anything that was read from its layers."""
        return self

    @property
    def width(self) -> int:
        """How many scores a row has."""
        return len(self.classes) or 1

    @property
    def n_reported(self) -> int:
        """How many of the scores, from the first on, are reported."""
        return self.width

    @property
    def analytic_gradients(self) -> bool:
        """Whether the slopes of leads are worked out by hand, so that torch need not record anything."""
        return False

    @abstractmethod
    def scores(self, rows: Tensor) -> Tensor:
        """(n, features) float64 rows to (n, classes) float64 scores."""

    def decisive_scores(self, rows: Tensor) -> Tensor:
        """Scores that decide as `scores` do, and are near to them; faster where a model was read and need not be
        asked."""
        return self.scores(rows)

    def unread(self, rows: Floats, schema: Schema) -> str:
        """Why what was read of the model does not tell what it computes for encoded rows within their limits; else an
        empty text."""
        return ""

    def slopes(self, rows: Tensor, margins: Margins, moving: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Scores (n, classes), and the gradients (n, a, coordinates) of `margins(scores)` (n, a) in the
        coordinates of `Space`. `moving` marks the features of each row whose slopes are
        asked for; others may be left 0."""
        raise GraceError(f"{type(self).__name__} has no gradients; use method='nearest'")

    def vectors(self) -> Mapping[int, Tensor]:
        """The vectors learnt for the categories of each categorical feature, where there are any."""
        return {}

    def fingerprint(self) -> str:
        """A hash of what the model has learnt, for records of proofs."""
        return ""

    def refresh(self) -> None:
        """Called before each batch of questions: whatever was kept of the model may have changed."""
        return

    def bind(self, schema: Schema, rows: Tensor) -> None:
        """Called once with the schema and sample rows before the model is asked anything."""
        self.schema = schema if self.schema is None else filled_in(self.schema, schema)

    def read(self, rows: Tensor) -> Model:
        """Called once after `bind`: the model by what is inside it, such as layers, where that could not be read before
        its columns were known; else itself. `rows` are samples of the domain."""
        return self

    def on(self, device: torch.device) -> Model:
        """The model on a device."""
        if device == self.device:
            return self
        raise GraceError(f"{type(self).__name__} cannot move to {device}")

    # -- for people ---------------------------------------------------------------------------

    def predict(self, frame: Any) -> np.ndarray[Any, np.dtype[Any]]:
        """The class of each row, or the number predicted for it."""
        if self.task == "regression":
            return np.asarray(self._scores(frame)[:, 0])
        table = np.array(self.classes, dtype=object)
        return np.asarray(table[self._scores(frame).argmax(axis=1)])

    def predict_proba(self, frame: Any) -> pd.DataFrame:
        """The probability of each class, with the class names as columns."""
        shares = self.probabilities(self._scores(frame))
        index = frame.index if isinstance(frame, pd.DataFrame) else None
        return pd.DataFrame(shares, columns=list(self.classes), index=index)

    def probabilities(self, scores: Floats) -> Floats:
        """The model's own probabilities behind scores (n, classes)."""
        if self.task == "regression":
            raise GraceError("the model predicts a number, which has no probability; use predict")
        self.check_probabilities("a probability")
        return softmax(scores if self.cutoffs is None else scores + np.array(self.cutoffs.shifts))

    def check_probabilities(self, asked_for: str) -> None:
        """An error that says why what was asked for is not to be had, where the model gives no probabilities."""
        if not self.has_probabilities:
            raise GraceError(
                f"{asked_for} needs a model that gives probabilities, and this one does not: "
                f"{self.no_probabilities_because}"
            )

    def impute(self, frame: Any) -> pd.DataFrame:
        """The rows with missing cells filled in as in training: the median, or the category "missing"
        where training had missing cells, else the commonest category."""
        schema = self._need_schema()
        rows = schema.encode(frame, missing=True)
        filled = schema.decode(imputed(schema.features, rows))
        if isinstance(frame, pd.DataFrame):
            filled.index = frame.index
            given = as_frame(frame)
            extra = layout_of(schema, given).extra
            for column in given.columns:
                if column == schema.target or column in extra:
                    filled[column] = given[column]
        return filled

    def _scores(self, frame: Any) -> Floats:
        self.refresh()
        rows = torch.as_tensor(self._need_schema().encode(frame), device=self.device)
        return np.asarray(checked_scores(self, rows).cpu().numpy())

    def _need_schema(self) -> Schema:
        if self.schema is None:
            raise GraceError(
                "the model does not know its columns yet; pass schema= to wrap, or make an Explainer first"
            )
        return self.schema


def filled_in(schema: Schema, other: Schema) -> Schema:
    """A schema with what another, learnt from data, knows of the same columns, where it says nothing itself: ranges and
    spreads, categories, and the precision of numbers."""
    known = {f.name: f for f in other.features}
    return replace(schema, features=tuple(_filled_in(f, known.get(f.name)) for f in schema.features))


def _filled_in(feature: Numeric | Categorical, other: Numeric | Categorical | None) -> Numeric | Categorical:
    if isinstance(feature, Numeric) and isinstance(other, Numeric):
        if feature.spread is None:
            return other
        return replace(feature, dtype=other.dtype) if is_low_precision(other) and not feature.dtype else feature
    return other if isinstance(other, Categorical) and not getattr(feature, "categories", True) else feature


def softmax(scores: Floats) -> Floats:
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def checked_scores(model: Model, rows: Tensor, decisive: bool = False) -> Tensor:
    """The scores, or if they only have to be `decisive`, those; or an error that says what is wrong with them."""
    if rows.shape[0] > AT_ONCE:
        return torch.cat([checked_scores(model, part, decisive) for part in torch.split(rows, AT_ONCE)])
    scores = model.decisive_scores(rows) if decisive else model.scores(rows)
    if scores.shape != (len(rows), model.width):
        raise GraceError(
            f"the model returned shape {tuple(scores.shape)} for {len(rows)} rows, "
            f"but there are {len(model.classes)} classes; check classes= and the model's last layer"
        )
    if bool(np.isnan(scores.numpy()).any() if scores.is_cpu and not scores.requires_grad else scores.isnan().any()):
        row = int(scores.isnan().any(dim=1).nonzero()[0])
        raise GraceError(f"the model returned NaN for row {row}; check its weights and `encode`")
    return scores


def class_codes(
    labels: Sequence[Any] | pd.Series[Any], classes: Sequence[Value], what: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Labels as positions in `classes`."""
    known = {label: i for i, label in enumerate(classes)}
    codes = np.empty(len(labels), dtype=np.int64)
    for i, label in enumerate(labels):
        scalar = plain(label)
        if scalar not in known:
            raise GraceError(f"{what}: unknown class {cell_repr(label)}; the classes are {join_first(classes, 20)}")
        codes[i] = known[scalar]
    return codes


def device_of(name: str | torch.device) -> torch.device:
    """The device that was named, if it can be used."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as reason:
        raise GraceError(f"device={str(name)!r} cannot be used here: {str(reason).splitlines()[0]}") from reason
    return device
