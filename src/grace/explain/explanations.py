"""A batch of explanations as arrays, and tables and pictures of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from grace.explain.answer_table import answer_table, extra_cells
from grace.explain.batch_json import is_by_column, records_by_column
from grace.explain.batch_texts import texts
from grace.explain.batching import QueryCount
from grace.explain.details import Details
from grace.explain.explanation import Explanation
from grace.explain.json_text import Shared, indented, unshared
from grace.explain.metrics import Metrics, measure
from grace.explain.ranked import Ranked
from grace.explain.shared_parts import SharedParts, without_features
from grace.pictures import Overview, batch_picture, draw, to_svg
from grace.problem.answers import Answers
from grace.problem.requirements.consequences import Consequences
from grace.problem.requirements.plausible import plausibility
from grace.problem.requirements.robust import validity
from grace.schema.features import Bools, Floats, plain
from grace.schema.parsing import whole_number
from grace.schema.schema import Schema
from grace.text.sentence import TextOptions
from grace.text.vocabulary import class_caption, ranges, with_class_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from grace.explain.decisions.profile import Profile
    from grace.explain.decisions.reasons import Reasons
    from grace.explain.decisions.row_results import RowResults
    from grace.explain.decisions.sufficient import SufficientReason
    from grace.explain.explainer import Explainer

SCALARS = str, int, float, bool
MOST_TOGETHER = 5  # features of a set that may be asked for
MOST_SHOWN = 1000  # sets of a row whose values may be asked for


def _nth(compute: Callable[[], Sequence[Mapping[str, Any]]], k: int) -> Callable[[], Mapping[str, Any]]:
    return lambda: compute()[k]


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
        self.explainer = explainer
        self._classes = np.array(explainer.model.classes, dtype=object)
        self.task = explainer.model.task
        number = self.task == "regression"
        self.target_ranges = ranges(call["against"], answers.before[:, 0], explainer.spread()) if number else None
        self.details = Details(self)

    @cached_property
    def settings(self) -> Shared:
        """The settings of the call, as records have them."""
        return Shared({k: v for k, v in self.call.items() if isinstance(v, SCALARS)})

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
        return pd.DataFrame(self.answers.followed.copy(), columns=self.schema.names, index=self.index)

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
        first, *others = self.ranked
        fields, read_row = first.fields(i), partial(first.shared.reader.row, self.answers.rows[i])
        if not others:
            return Explanation.deferred(partial(first.deferred, i, fields["proof"]), read_row, fields)
        every = [(first, fields), *((r, r.fields(i)) for r in others if r.success[i])]
        deferred = cache(lambda: [r.deferred(i, known["proof"]) for r, known in every])
        several = [Explanation.deferred(_nth(deferred, k), read_row, known) for k, (_, known) in enumerate(every)]
        several[0].__dict__["alternatives"] = tuple(several[1:])
        return several[0]

    @cached_property
    def ranked(self) -> list[Ranked]:
        """The first answers, then the alternatives."""
        shared = SharedParts(self)
        return [Ranked(self, shared, rank, a) for rank, a in enumerate((self.answers, *self.answers.alternatives))]

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

    def profile(self, *, forecasts: bool = False) -> RowResults[Profile]:
        """What each feature of each row would do alone, over its whole domain: see `Profile`. With `forecasts`, also
        how well adding that up forecasts the model on other changes, which takes some tenths of a second a row."""
        from grace.explain.decisions.profiling import profile_batch

        return profile_batch(self, forecasts)

    def reasons(self, max_features: int = 2, *, seconds: float = 1.0, shown: int = 10) -> RowResults[Reasons]:
        """All minimal sets of at most so many features that can flip each row, with the nearest values of the best: see
        `Reasons`. A row gets so many seconds of work; gamma is not asked for, but noted."""
        from grace.explain.decisions.reasoning import reasons_of_batch

        whole_number("max_features", max_features, 1, MOST_TOGETHER)
        whole_number("shown", shown, 0, MOST_SHOWN)
        return reasons_of_batch(self, max_features, seconds, shown)

    def because(self, *, smallest: bool = False, seconds: float = 1.0) -> RowResults[SufficientReason]:
        """Features that entail the class of each row, whatever the others are, with proof: see `SufficientReason`. None
        can be left out, or, with `smallest`, no fewer do, as far as that is found within so many seconds a row."""
        from grace.explain.decisions.sufficient import sufficient_of_batch

        return sufficient_of_batch(self, seconds, smallest)

    def texts(self, **how: Unpack[TextOptions]) -> list[str]:
        """The sentence of each row; `how` are arguments of `Explanation.text`."""
        return texts(self.ranked[0], range(len(self)), how)

    def to_frame(self, **how: Unpack[TextOptions]) -> pd.DataFrame:
        """One line per answer, see `answer_table`; `how` are arguments of `Explanation.text`."""
        return answer_table(self, **how)

    def to_dicts(self, *, region: bool = False, **how: Unpack[TextOptions]) -> Iterator[dict[str, Any]]:
        """Each explanation as a dict, with the label of its row as "index" and any extra columns as "extra"; `how` are
        arguments of `Explanation.text`. With `region`, also the regions, which take some milliseconds a row."""
        return (
            unshared({**label, **e.record(region=region, how=how)})
            for label, e in zip(self._labels(), self, strict=True)
        )

    def to_json(self, *, region: bool = False, **how: Unpack[TextOptions]) -> str:
        written, labels = {}, self._labels()
        done = np.flatnonzero(np.diff(self.ranked[0].changes.starts) * self.success).tolist()
        if done and not region and is_by_column(self.ranked):
            own = [{name: indented(part, 2) for name, part in labels[i].items()} for i in done]
            example = {**labels[done[0]], **self[done[0]].record(how=how)}
            written = records_by_column(self.ranked[0], done, example, own, how)
        records = [
            written[i] if i in written else indented({**labels[i], **self[i].record(region=region, how=how)}, 1)
            for i in range(len(self))
        ]
        joined = ",\n ".join(records)
        return f"[\n {joined}\n]"

    def _labels(self) -> list[dict[str, Any]]:
        """The parts of the record of each row that come from its input."""
        index = self.index.tolist() if self.index.nlevels == 1 else [self.index[i] for i in range(len(self))]
        pairs = zip(index, extra_cells(self), strict=True)
        return [{"index": plain(label), **({"extra": cells} if cells else {})} for label, cells in pairs]

    # -- pictures -----------------------------------------------------------------------------

    def overview(self) -> Overview:
        """The data of pictures of the batch."""
        a = self.answers
        named = with_class_words(without_features(self.schema), self.task, self._classes, (), None)
        words = [class_caption(named, c) for c in self._classes] or ["as predicted", "as asked for"]
        best = np.stack([a.before.argmax(axis=1), a.after.argmax(axis=1)], axis=1)
        if self.task == "regression":
            best[:, 1] = 1
        return Overview.of(self.schema, words, a.rows, a.moved, a.success, best)

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
