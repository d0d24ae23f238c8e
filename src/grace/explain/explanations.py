"""A batch of explanations as arrays, and tables and pictures of the whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from grace.explain.answer_parts import (
    cell_of,
    changes_of,
    mentioned,
    miss_record,
    proof_record,
    protected_in,
    remarks,
)
from grace.explain.answer_table import answer_table, extra_cells
from grace.explain.batching import QueryCount
from grace.explain.details import Details
from grace.explain.explanation import Explanation
from grace.explain.metrics import Metrics, measure
from grace.pictures import Overview, batch_picture, draw, to_svg
from grace.pictures.backdrop import MAX_CHANGES_SHOWN, Backdrop
from grace.pictures.compute_backdrop import compute_backdrop
from grace.problem.answers import Answers
from grace.problem.requirements.consequences import Consequences
from grace.problem.requirements.plausible import plausibility
from grace.problem.requirements.robust import validity
from grace.schema.features import Bools, Floats, plain
from grace.schema.schema import Schema
from grace.text.sentence import TextOptions
from grace.text.vocabulary import class_caption, ranges, with_class_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from grace.explain.explainer import Explainer


class Explanations:
    """A batch of explanations: a sequence of `Explanation`, and tables of the whole."""

    def __init__(
        self,
        explainer: Explainer,
        answers: Answers,
        schema: Schema,
        index: pd.Index[Any],
        call: Mapping[str, Any],
        spent: QueryCount | None = None,
        filled: Bools | None = None,
        consequences: Consequences | None = None,
        extra: pd.DataFrame | None = None,
    ) -> None:
        self.answers = answers
        self._filled = np.zeros(answers.rows.shape, dtype=bool) if filled is None else filled
        self.spent = spent
        self.consequences = consequences
        self.schema = schema
        self.index = index
        self._extra = extra
        self.call = call
        self.settings = {k: v for k, v in call.items() if isinstance(v, str | int | float | bool)}
        self.explainer = explainer
        self._classes = np.array(explainer.model.classes, dtype=object)
        self.task = explainer.model.task
        number = self.task == "regression"
        self.target_ranges = ranges(call["against"], answers.before[:, 0], explainer.spread()) if number else None
        self.details = Details(self)

    @cached_property
    def _words(self) -> Schema:
        return replace(self.schema, features=(), rules=())

    @cached_property
    def against_each(self) -> list[Any] | None:
        """The argument `against` of each row; None if it is the same for all."""
        against = self.call["against"]
        return list(against) if pd.api.types.is_list_like(against) else None

    @property
    def calls(self) -> int | None:
        """The number of rows for which a black box was queried, so far, for these answers, the diagnosis of misses,
        spans and typical values; None for other models."""
        return None if self.spent is None else self.spent.rows + self.details.queries

    @property
    def calls_left(self) -> int | None:
        """The number of rows for which it may still be queried; None without a limit."""
        return None if self.calls is None or not self.call["max_calls"] else max(0, self.call["max_calls"] - self.calls)

    @property
    def success(self) -> Bools:
        return self.answers.success

    @property
    def contrast(self) -> pd.DataFrame:
        """The contrastive rows; the original row where there is none."""
        return self.schema.decode(self.answers.contrast, self.index, narrow=self.explainer.model.black_box)

    @property
    def changed(self) -> pd.DataFrame:
        """Which features of each row are changed."""
        return pd.DataFrame(self.answers.changed, columns=self.schema.names, index=self.index)

    @property
    def followed(self) -> pd.DataFrame:
        """Which features of each row follow the changed ones."""
        return pd.DataFrame(self.answers.followed, columns=self.schema.names, index=self.index)

    @property
    def filled(self) -> pd.DataFrame:
        """Which cells were missing and imputed, with `missing="fill"`."""
        return pd.DataFrame(self._filled, columns=self.schema.names, index=self.index)

    @property
    def extra(self) -> pd.DataFrame:
        """The columns of the rows that are neither features nor the target, such as an id."""
        return pd.DataFrame(index=self.index) if self._extra is None else self._extra

    @property
    def original_class(self) -> np.ndarray[Any, np.dtype[Any]]:
        """X: the predicted class or number of each row."""
        if self.task == "regression":
            return self.answers.before[:, 0].copy()
        return np.asarray(self._classes[self.answers.before.argmax(axis=1)])

    @property
    def contrast_class(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Y: the predicted class or number of each contrastive row; None where there is none."""
        if self.task == "regression":
            out = self.answers.after[:, 0].astype(object)
        else:
            out = self._classes[self.answers.after.argmax(axis=1)].copy()
        out[~self.success] = None
        return np.asarray(out)

    def __len__(self) -> int:
        return len(self.answers.rows)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Explanation:
        """The explanation of row i. Makes no model calls: the fields that need some are computed when one of them is
        first read, for all answers to the row together."""
        i = range(len(self))[i]
        every = enumerate((self.answers, *self.answers.alternatives))
        fields = [self._fields(i, rank, a) for rank, a in every if rank == 0 or a.success[i]]
        deferred = cache(lambda: [compute() for _, compute in fields])

        def explanation(k: int, *alternatives: Explanation) -> Explanation:
            return Explanation.deferred(lambda: deferred()[k], **fields[k][0], alternatives=alternatives)

        return explanation(0, *(explanation(k) for k in range(1, len(fields))))

    def _fields(self, i: int, rank: int, a: Answers) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        """The fields of the explanation of row i by the answers of a rank, and a function that computes the deferred
        ones."""
        old, new = a.rows[i], a.contrast[i]
        moved = np.where(a.followed[i], old, new)  # the intervention alone
        success = bool(a.success[i])
        best = int(a.before[i].argmax()), int(a.after[i].argmax())
        target_range = None if self.target_ranges is None else self.target_ranges[i]
        model = self.explainer.model
        scores = a.before[[i]], a.after[[i]]
        if not target_range and model.has_probabilities:
            scores = model.probabilities(scores[0]), model.probabilities(scores[1])
        before, after = (tuple(values[0].tolist()) if model.has_probabilities else () for values in scores)
        ends = before + after if target_range else (self._classes[best[0]], self._classes[best[1]])
        proof = proof_record(self, i, a)

        def make_backdrop() -> Backdrop:
            shown = [self.schema.index(c.name) for c in changes_of(self.schema, old, moved)[:MAX_CHANGES_SHOWN]]
            follow = self.consequences
            leads_to = None if follow is None else lambda rows: follow.retraced(rows, old)
            return compute_backdrop(self.explainer, self.schema, old, moved, best, shown, target_range, leads_to)

        def deferred() -> dict[str, Any]:
            spans, brittle = self.details.spans(i, rank, a)
            miss = None if success else self._miss(i)
            medians = self.details.class_medians(rank, a)[i]
            noted = tuple(remarks(self.schema, old, self._filled[i], brittle))
            words = with_class_words(self._words, self.task, self._classes, ends, target_range)
            return {
                "changes": tuple(changes_of(self.schema, old, moved, spans)),
                "miss": miss,
                "remarks": noted,
                "typical": {self.schema.names[j]: float(medians[j]) for j in np.flatnonzero(~np.isnan(medians))},
                "words": replace(words, features=mentioned(self.schema, miss, proof, *noted)),
            }

        known = {
            "row": {f.name: cell_of(f, old[j]) for j, f in enumerate(self.schema.features)},
            "follow_on": tuple(changes_of(self.schema, old, np.where(a.followed[i], new, old))),
            "classes": tuple(self._classes),
            "original_class": ends[0],
            "contrast_class": ends[1] if success else None,
            "before": before,
            "after": after,
            "success": success,
            "proof": proof,
            "checks": {k: bool(v[i]) for k, v in a.checks.items()},
            "distance": float(a.distance[i]),
            "settings": self.settings,
            "task": self.task,
            "sure": model.has_probabilities,
            "cutoffs": () if model.cutoffs is None else model.cutoffs.named,
            "wanted": target_range,
            "protected": tuple(protected_in(self.schema)),
            "make_backdrop": make_backdrop,
        }
        return known, deferred

    def _miss(self, i: int) -> Mapping[str, Any]:
        if self.answers.trivial[i]:
            return {"why": "already"}
        if self.spent is not None and self.spent.left_out[i]:
            return {"why": "calls", "most": self.call["max_calls"]}
        return miss_record(self, i, self.details.diagnosis.get(i, []))

    def explain_again(self, rows: list[int], **changes: Any) -> Explanations:
        """Explain some of the rows again, with other settings or limits."""
        call = {**self.call, **changes}
        if pd.api.types.is_list_like(call["against"]):
            against = list(call["against"])
            call["against"] = [against[i] for i in rows]
        if self.calls_left is not None:
            call["max_calls"] = self.calls_left
        again = self.explainer.explain(self.schema.decode(self.answers.rows[rows]), **call)
        self.details.queries += again.calls or 0
        return again

    def validity(self, models: Sequence[Any]) -> Floats:
        """The share of other models, such as retrained ones, that predict the same class for each contrastive row; NaN
        where there is none."""
        return validity(self.explainer._view, models, self.answers)

    def plausibility(self) -> Floats:
        """How typical each contrastive row is of its class: the share of training rows of the class that are less
        typical; NaN where there is none."""
        return plausibility(self.explainer._view, self.answers)

    def to_frame(self, **how: Unpack[TextOptions]) -> pd.DataFrame:
        """One line per answer, see `answer_table`; `how` are arguments of `Explanation.text`."""
        return answer_table(self, **how)

    def to_dicts(self, **how: Unpack[TextOptions]) -> Iterator[dict[str, Any]]:
        """Each explanation as a dict, with the label of its row as "index" and any extra columns as "extra"; `how` are
        arguments of `Explanation.text`."""
        for i, e in enumerate(self):
            extra = {"extra": extra_cells(self, i)} if len(self.extra.columns) else {}
            text = {"text": e.text(**how)} if how else {}
            yield {"index": plain(self.index[i]), **extra, **e.to_dict(), **text}

    def to_json(self, **how: Unpack[TextOptions]) -> str:
        return json.dumps(list(self.to_dicts(**how)), ensure_ascii=False, indent=1)

    # -- pictures -----------------------------------------------------------------------------

    def overview(self) -> Overview:
        """The data of pictures of the batch."""
        a = self.answers
        named = with_class_words(self._words, self.task, self._classes, (), None)
        words = [class_caption(named, c) for c in self._classes] or ["as predicted", "as asked for"]
        best = np.stack([a.before.argmax(axis=1), a.after.argmax(axis=1)], axis=1)
        if self.task == "regression":
            best[:, 1] = 1
        return Overview.of(self.schema, words, a.rows, np.where(a.followed, a.rows, a.contrast), a.success, best)

    def plot(self, kind: str = "features", *, width: float = 760, theme: str = "light") -> Figure:
        """The batch as a matplotlib figure: how often "features" change, typical "changes", or a "heatmap" of rows."""
        return draw(batch_picture(self.overview(), kind, width=width), theme=theme)

    def to_svg(self, kind: str = "features", *, width: float = 760, theme: str = "auto") -> str:
        """The same picture as SVG, which needs no matplotlib."""
        return to_svg(batch_picture(self.overview(), kind, width=width), theme=theme)

    def to_html(self, *, most: int = 1000) -> str:
        """A self-contained page about the batch, with the sentences of the first rows."""
        from grace.pictures.report import batch_page

        return batch_page(self, most=most)

    def _repr_html_(self) -> str:
        from grace.pictures.report import batch_fragment

        return batch_fragment(self)

    def metrics(self, *, raw: bool = False) -> Metrics:
        """The paper's measures; `raw` adds those with SU on raw values."""
        a, su = self.answers, self.explainer.su
        d = a.rows.shape[1]
        return measure(
            a.changed,
            a.success,
            self.schema.contains(a.contrast),
            a.distance,
            su=np.broadcast_to(np.nan, (d, d)) if su is None else su,
            su_raw=self.explainer.su_raw() if raw else None,
            max_features=self.call["max_features"],
        )

    def __repr__(self) -> str:
        done = int(self.success.sum())
        mean = self.answers.changed[self.success].sum(axis=1).mean() if done else 0
        lines = [f"<Explanations: {done} of {len(self)} rows explained, {mean:.2f} features changed on average"]
        lines += [f"  {self.index[i]}: {self[i].text()}" for i in range(min(3, len(self)))]
        return "\n".join(lines + (["  ..."] if len(self) > 3 else [])) + ">"
