"""A model known by its answers alone: rows in, probabilities, scores, labels or numbers out.

It is asked in batches and about no row twice in one. What it is asked is counted and can be limited. Its gradients
are estimated from differences within the domain, whole numbers by whole steps.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import Margins, Model, class_codes, filled_in, softmax
from grace.models.checking import SUM, check_sums
from grace.models.threshold import Cutoffs, cutoffs_of
from grace.schema.features import Floats, Numeric, Value, plain
from grace.schema.schema import Schema

if TYPE_CHECKING:
    from grace.models.array_questions import ArrayQuestion
    from grace.models.trees.ensemble import TreeEnsemble

SMALL = 4096  # rows up to which one thread is at least about as fast
WITH_OPENMP = ("sklearn", "xgboost", "lightgbm", "torch")


@contextmanager
def one_thread_if_small(rows: int, pools: bool = True) -> Iterator[None]:
    """Limit this thread's OpenMP loops, and joblib's `pools` if there may be any, to one thread while few rows are
    asked about."""
    if rows > SMALL:
        yield
        return
    runtimes = _openmp(tuple(name in sys.modules for name in WITH_OPENMP))
    several = [(runtime, n) for runtime in runtimes if (n := runtime.get_num_threads()) != 1]
    try:
        for runtime, _ in several:
            runtime.set_num_threads(1)
        if not pools or "joblib" not in sys.modules:
            yield
            return
        from joblib import parallel_config

        with parallel_config("sequential"):
            yield
    finally:
        for runtime, before in several:
            runtime.set_num_threads(before)


@lru_cache(maxsize=1)
def _openmp(loaded: tuple[bool, ...]) -> Sequence[Any]:
    """The OpenMP runtimes that are loaded; looked for again when another library has brought one."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp").lib_controllers  # type: ignore[no-any-return]


OUTPUTS = ("probabilities", "logits", "labels", "numbers")
INPUTS = ("frame", "array")
LEAST = 1e-12  # the smallest probability above zero
MOST_ROWS = 1 << 16  # in one call
FEW = 4  # rows among which equal ones are not looked for
STEPS = (0.1, 0.5, 2.0)  # of a spread: tried one after another for slopes, until one shows a difference


class OutOfCallsError(GraceError):
    """The model has been asked about as many rows as it may be."""


@dataclass(frozen=True)
class OutputReader:
    """How a model is queried and what it returns: one of OUTPUTS, or None if that is inferred; `unsure` is why it gives
    no probabilities."""

    ask: Callable[[Any], Any]
    outputs: str | None
    unsure: str = ""


class Predictor(Model):
    """A black box: anything that predicts. Of several readers the first is used whose classes agree with `labels`, the
    model's own decisions."""

    black_box = True

    def __init__(
        self,
        ways: Sequence[OutputReader],
        classes: Sequence[Value] | None,
        *,
        labels: Callable[[Any], Any] | None = None,
        inputs: str = "frame",
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
        task: str = "classification",
        name: str = "the model",
    ) -> None:
        if inputs not in INPUTS:
            raise GraceError(f"inputs={inputs!r} is unknown; use one of {', '.join(map(repr, INPUTS))}")
        for way in ways:
            if way.outputs is not None and way.outputs not in OUTPUTS:
                raise GraceError(f"outputs={way.outputs!r} is unknown; use one of {', '.join(map(repr, OUTPUTS))}")
        self.readers, self.labels, self.inputs, self.columns = tuple(ways), labels, inputs, columns
        self.classes = () if classes is None else checked_classes(classes)
        self.schema, self.task, self.name = schema, task, name
        self.reader: OutputReader | None = None
        self.sampled: Floats | None = None  # the scores of the sample rows, when it was bound
        self.threshold: Any = None  # until the classes are known
        self.calls = self.rows_queried = 0
        self.call_limit: int | None = None
        self.reading: Callable[[Predictor, Floats], Model | None] | None = None
        """Reads what is inside the model, once it is bound, from sample rows; None if it stays a black box."""
        self.array_question: Callable[..., ArrayQuestion | None] | None = None
        """Finds the same question about arrays, from the schema, the columns, `given` and sample rows: faster than one
        about frames, and used where both give the same answers."""
        self.trees: TreeEnsemble | None = None
        """What it computes, where it is an ensemble of trees that was read."""
        self._single = False
        self._by_array: ArrayQuestion | None = None

    # -- asking -------------------------------------------------------------------------------

    def scores(self, rows: Tensor) -> Tensor:
        way = self._choose_reader(rows) if self.reader is None else self.reader
        values = rows.numpy() if rows.is_cpu and not rows.requires_grad else rows.detach().cpu().numpy()
        values = np.ascontiguousarray(values)
        if len(values) == 0:
            return torch.zeros(0, self.width, dtype=torch.float64)
        if len(values) <= FEW:
            return torch.from_numpy(np.array(self._answers(way, self._ask(way.ask, values))))
        keys = values.view(np.dtype((np.void, values.dtype.itemsize * values.shape[1])))[:, 0]
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        parts = [
            self._answers(way, self._ask(way.ask, values[first[start : start + MOST_ROWS]]))
            for start in range(0, len(first), MOST_ROWS)
        ]
        return torch.as_tensor(np.concatenate(parts)[place.reshape(-1)])

    def decisive_scores(self, rows: Tensor) -> Tensor:
        """By the trees that were read off the model; where rounding could decide, by the model itself."""
        if self.trees is None or self.trees.calibration is not None or self.task == "regression":
            return self.scores(rows)
        sums = self.trees.sums(rows.numpy())
        values = self.scores_from(self.trees.predicted(sums))
        lead = values if values.shape[1] == 2 else np.partition(values, -2, axis=1)[:, -2:]
        slack = self.trees.slack(self.tolerance)
        if self.cutoffs is not None:  # what is at a cut-off leads by twice the tolerance
            slack = self.trees.slack(2 * self.tolerance, float(np.exp(min(self.cutoffs.shifts))))
        close = (np.abs(lead[:, 1] - lead[:, 0]) <= slack) | self.trees.beyond(rows.numpy())
        if close.any():
            values[close] = self.scores(rows[torch.from_numpy(close)]).numpy()
        return torch.from_numpy(values)

    def _ask(self, ask: Callable[[Any], Any], rows: Floats) -> Any:
        """The raw answers, or one clear line of what went wrong."""
        if self.call_limit is not None and self.rows_queried + len(rows) > self.call_limit:
            raise OutOfCallsError(f"{self.name} may be asked about {self.call_limit} rows and no more; raise max_calls")
        self.calls, self.rows_queried = self.calls + 1, self.rows_queried + len(rows)
        question = self._by_array if self.reader is not None and ask == self.reader.ask else None
        try:
            if question is not None and question.fits(len(rows)):
                with one_thread_if_small(len(rows), pools=False):
                    return question(rows)
            given = self.given(rows)
            with one_thread_if_small(len(rows)):
                return ask(given)
        except GraceError:
            raise
        except Exception as reason:  # whatever a user's model raises
            line = (str(reason).strip() or type(reason).__name__).split("\n")[0]
            raise GraceError(f"{self.name} failed on {len(rows)} rows of {rows.shape[1]} features: {line}") from reason

    def given(self, rows: Floats) -> Any:
        """The rows as the model knows them: a frame with the columns and types of training, or an array."""
        schema = self._need_schema()
        if self.inputs == "array" and plain_numbers(schema):
            return rows.astype(np.float32) if self._single else rows.copy()
        frame = schema.decode(rows, narrow=True)
        if self.columns is not None:
            frame = frame[list(self.columns)]
        if self.inputs == "frame":
            return frame
        table = frame.to_numpy()
        return table.astype(np.float32) if self._single and table.dtype.kind in "fiu" else table

    def responses(self, rows: Floats) -> Floats:
        """What the model itself returns for encoded rows, as numbers (n, outputs)."""
        assert self.reader is not None
        return self._numbers(self._ask(self.reader.ask, rows))

    def scores_from(self, responses: Floats) -> Floats:
        """The scores (n, classes) of what the model returns."""
        assert self.reader is not None
        return self._answers(self.reader, responses)

    def _answers(self, way: OutputReader, out: Any) -> Floats:
        """Raw answers as scores (n, classes)."""
        if way.outputs == "labels":
            codes = class_codes(np.asarray(out, dtype=object).reshape(-1).tolist(), self.classes, self.name)
            return np.asarray(np.log(np.clip(np.eye(len(self.classes))[codes], LEAST, None)))
        values = self._numbers(out)
        if way.outputs == "numbers":
            return values
        probabilities = way.outputs == "probabilities"
        if values.shape[1] == 1 and len(self.classes) == 2:
            values = np.concatenate([1 - values if probabilities else 0 * values, values], axis=1)
        scores = np.log(np.maximum(values, LEAST)) if probabilities else values
        if self.cutoffs is None or scores.shape[1] != self.width:
            return scores
        responses = softmax(values) if self.cutoffs.named and not probabilities else values
        return self.cutoffs.decided(scores, responses, 2 * self.tolerance)

    def _numbers(self, out: Any) -> Floats:
        if type(out) is np.ndarray and out.ndim == 2:
            return np.asarray(out, dtype=np.float64)
        if isinstance(out, pd.DataFrame) and set(map(plain, out.columns)) == set(self.classes):
            out = out.set_axis([plain(c) for c in out.columns], axis=1)[list(self.classes)]
        if isinstance(out, Tensor):
            out = out.detach().cpu()
        values = np.asarray(out, dtype=np.float64)
        return values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)

    # -- meeting the data ---------------------------------------------------------------------

    def bind(self, schema: Schema, rows: Tensor) -> None:
        """Learn the columns, and look at the answers to sample rows."""
        if self.schema is None:
            if self.columns is not None:
                self._check_columns(schema)
            self.schema = schema
        else:
            self.schema = filled_in(self.schema, schema)
        if not self.classes and self.task != "regression":
            if not schema.classes:
                raise GraceError(
                    f"{self.name} does not say its classes; pass classes= to wrap, or target= to Explainer"
                )
            self.classes = checked_classes(schema.classes)
        if self.threshold is not None:
            self.cutoffs, self.threshold = cutoffs_of(self.threshold, self.classes), None
        self._choose_reader(rows)

    def read(self, rows: Tensor) -> Model:
        found = None if self.reading is None else self.reading(self, rows.detach().cpu().numpy())
        return self if found is None else found

    def with_threshold(self, threshold: Any) -> Predictor:
        if self.task != "classification":
            raise GraceError(f"threshold= is about the probabilities of classes; leave it out for a {self.task}")
        other = self.with_cutoffs(cutoffs_of(threshold, self.classes) if self.classes else None)
        other.threshold = None if self.classes else threshold
        return other

    def unread(self, rows: Floats, schema: Schema) -> str:
        return "" if self.trees is None or self.trees.known is None else self.trees.known.check(rows, schema)

    def without_layers(self) -> Model:
        other = copy.copy(self)
        other.trees = other.reading = None
        return other

    def fingerprint(self) -> str:
        return "" if self.trees is None else self.trees.fingerprint

    def with_cutoffs(self, cutoffs: Cutoffs | None) -> Predictor:
        """The same model with another rule to decide by: what it decides itself no longer counts."""
        other = copy.copy(self)
        other.reader, other.cutoffs = None, cutoffs
        return other

    def _check_columns(self, schema: Schema) -> None:
        given, fitted = set(schema.columns), set(self.columns or ())
        for column in self.columns or ():
            if column not in given:
                raise GraceError(f"column {column!r}, on which {self.name} was fitted, is missing from the data")
        for column in schema.columns:
            if column not in fitted:
                raise GraceError(
                    f"{self.name} was not fitted on column {column!r}; drop it, or pass target= if it is the target"
                )

    def _choose_reader(self, rows: Tensor) -> OutputReader:
        """Choose the way to ask, find out what comes back, and complain where that does not fit."""
        values = rows.detach().cpu().numpy()
        ways, decided = self.readers, None
        if self.cutoffs is not None:
            ways = tuple(w for w in ways if w.outputs != "labels" and bool(w.unsure) != bool(self.cutoffs.named))
        elif self.labels is not None:
            decided = self._labels(values)
        others = ""
        for way in ways:
            out = self._first(way, values)
            found = way if way.outputs else self._infer_outputs(way, out)
            scores = self._answers(found, out)
            if scores.shape != (len(values), self.width):
                if way is not ways[-1]:
                    continue
                raise GraceError(
                    f"{self.name} returned shape {np.shape(out)} for {len(values)} rows, but there are "
                    f"{self.width} {'numbers' if self.task == 'regression' else 'classes'}; check classes="
                )
            if np.isnan(scores).any():
                bad = int(np.isnan(scores).any(axis=1).argmax())
                raise GraceError(f"{self.name} returned NaN for row {bad}; check what it makes of the row's values")
            if decided is None or way is ways[-1] or agree(scores, decided):
                self.reader, self.no_probabilities_because, self.sampled = found, found.unsure, scores
                self._by_array = self._asked_by_array(values, scores)
                if found.outputs == "labels":
                    self.no_probabilities_because = others or "it names classes alone"
                elif found.outputs == "probabilities" and np.ndim(out) == 2 and np.shape(out)[1] > 1:
                    self.no_probabilities_because = check_sums(self._numbers(out), self.name)
                if self.cutoffs is not None and self.cutoffs.named:
                    self.check_probabilities("threshold=")
                return found
            if way.outputs == "probabilities":
                others = "what it decides is not always its most probable class; say by which rule with threshold="
        reason = "it gives none" if self.cutoffs is None else "threshold= needs probabilities, which it does not give"
        raise GraceError(f"{self.name} cannot be asked for its scores: {reason}")

    def _asked_by_array(self, values: Floats, scores: Floats) -> ArrayQuestion | None:
        """How the model is asked about arrays, if it gives the same scores as for frames: of the sample rows, and of
        rows with each category."""
        from grace.models.array_questions import trials

        schema, way = self._need_schema(), self.reader
        if self.array_question is None or self.inputs != "frame" or way is None:
            return None
        self._by_array = None
        try:
            question = self.array_question(schema, self.columns, self.given, values)
            if question is None:
                return None
            other = trials(schema, values)
            if len(other):
                values = np.concatenate([values, other])
                scores = np.concatenate([scores, self._answers(way, self._ask(way.ask, other))])
            with one_thread_if_small(len(values)):
                same = self._answers(way, question(values))
        except Exception:  # it takes frames alone
            return None
        return question if same.shape == scores.shape and bool((same == scores).all()) else None

    def _labels(self, values: Floats) -> Any:
        assert self.labels is not None
        out = self._first(OutputReader(self.labels, "labels"), values)
        return class_codes(np.asarray(out, dtype=object).reshape(-1).tolist(), self.classes, self.name)

    def _first(self, way: OutputReader, values: Floats) -> Any:
        """The answers to sample rows; in single precision if the model takes no other."""
        try:
            return self._ask(way.ask, values)
        except GraceError:
            if self.inputs != "array" or self._single:
                raise
            self._single = True
            return self._ask(way.ask, values)

    def _infer_outputs(self, way: OutputReader, out: Any) -> OutputReader:
        """The way with what comes back, by the look of it. Rows within 0 and 1 that do not sum to one are scores, of
        which a warning tells."""
        outputs = self._outputs(out)
        values = np.empty(0) if outputs != "logits" else self._numbers(out)
        shares = values.size > 0 and values.shape[1] > 1 and bool(((values >= 0) & (values <= 1)).all())
        return OutputReader(way.ask, outputs, check_sums(values, self.name) if shares else way.unsure)

    def _outputs(self, out: Any) -> str:
        if self.task == "regression":
            return "numbers"
        flat = np.asarray(out.detach().cpu() if isinstance(out, Tensor) else out)
        flat = flat[:, 0] if flat.ndim == 2 and flat.shape[1] == 1 else flat
        if flat.ndim == 1 and (flat.dtype.kind not in "f" or set(flat.tolist()) <= set(self.classes)):
            return "labels"
        if flat.ndim != 1 and flat.ndim != 2:
            raise GraceError(f"{self.name} returned shape {flat.shape}; it must return (rows, classes) or labels")
        inside = bool(((flat >= 0) & (flat <= 1)).all())
        certain = flat.ndim == 1 or bool((np.abs(flat.sum(axis=1) - 1) <= SUM).all())
        return "probabilities" if inside and certain else "logits"

    # -- slopes -------------------------------------------------------------------------------

    def slopes(self, rows: Tensor, margins: Margins, moving: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Estimated: differences over a part of the spread, over more where that shows none; of a category what
        the margin gains with it."""
        from grace.models.finite_differences import estimated

        return estimated(self, self._need_schema(), rows, margins, moving, STEPS)


def tree_ensemble(model: Model) -> TreeEnsemble | None:
    """The trees that were read off a model, or None."""
    return model.trees if isinstance(model, Predictor) else None


def agree(scores: Floats, decided: Floats) -> bool:
    """Whether the class with the best score is the one that was decided; ties agree with either."""
    own = scores[np.arange(len(scores)), decided.astype(int)]
    return bool((own >= scores.max(axis=1) - 1e-9).all())


def plain_numbers(schema: Schema) -> bool:
    """Whether encoded rows are the very numbers that the model knows: no categories, dates or missing cells."""
    return all(isinstance(f, Numeric) and not f.dtype and not f.gaps for f in schema.features)


def checked_classes(classes: Sequence[Value]) -> tuple[Value, ...]:
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray):
        raise GraceError(f"classes={classes!r}: give a list with the name of each class")
    found = tuple(plain(c) for c in classes)
    if len(found) < 2:
        raise GraceError(f"classes={list(found)!r}: a contrast needs at least two classes")
    if len(set(found)) != len(found):
        raise GraceError(f"classes={list(found)!r}: a class is listed twice")
    return found
