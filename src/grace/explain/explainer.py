"""Explainer: a model with schemas, background rows and settings, and its method `explain`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.explain.batching import answer_within, queries_so_far, rows_at_once
from grace.explain.decisions.profile import Profile
from grace.explain.decisions.reasons import Reasons
from grace.explain.decisions.row_results import RowResults
from grace.explain.decisions.sufficient import SufficientReason
from grace.explain.explanations import Explanations
from grace.explain.solve import answer
from grace.methods import METHODS, check_protected
from grace.models import Model, wrap
from grace.models.base import checked_scores, device_of
from grace.models.checking import LayersDifferError
from grace.models.grouped import grouped
from grace.models.predictor import Predictor, tree_ensemble
from grace.problem.answers import Answers
from grace.problem.background import MOST_BACKGROUND, Background
from grace.problem.binding import (
    SAMPLE,
    as_black_box,
    bind,
    complete_schema,
    query,
    random_rows,
    takes_missing,
    without_layers,
)
from grace.problem.contrast import goal_of
from grace.problem.goal import Flip, Goal
from grace.problem.model_view import ModelView
from grace.problem.problem import Problem
from grace.problem.requirements.combined import requirements
from grace.problem.requirements.consequences import determined_by_rules
from grace.problem.requirements.dependence import Dependence, Follow, learnt
from grace.problem.requirements.plausible import Typicality
from grace.problem.settings import Settings, settings_of
from grace.problem.space import Space
from grace.problem.target_range import TargetRange
from grace.schema.columns import imputed
from grace.schema.domains import Domain, tail_of
from grace.schema.features import Floats, Value, plain
from grace.schema.frames import as_frame, join_first
from grace.schema.groups import extra_of
from grace.schema.parsing import MAX_SEED, whole_number
from grace.schema.rules import Ruling, rules_of
from grace.schema.rules.keeping import has_unlearnt_values, under_rules, with_learnt_values
from grace.schema.schema import Schema
from grace.schema.sources import complete, schemas, source_of

MAX_KEEP = 10**9  # training rows
Codes = npt.NDArray[np.int64]
Contrast = Value | TargetRange


class Explainer:
    """Answers "why this class rather than that one?" for rows of a table.

        explainer = grace.Explainer(model, train, target="class")
        print(explainer.explain(row)[0])

    model   a model of `grace.training.fit`, or anything that `grace.wrap` accepts
    train   a frame, or the path of a Parquet table of any size: for ranges, SU and background rows. Without it, pass a
            complete `schema`; methods that need training rows are then not available, and gamma must be 1
    keep    maximal number of background rows, drawn with `seed` from the training rows: for `nearest`, `local` and
            typical values (see `training_rows` and `background_rows`). SU is computed from `su_rows` of them
    rules   added to those of the schema
    """

    def __init__(
        self,
        model: Any,
        train: Any = None,
        *,
        target: str | None = None,
        schema: Schema | None = None,
        domain: Domain | None = None,
        device: str | torch.device | None = None,
        seed: int = 0,
        keep: int = MOST_BACKGROUND,
        rules: Sequence[Ruling] = (),
        **settings: Any,
    ) -> None:
        whole_number("keep", plain(keep), 1, MAX_KEEP)
        whole_number("seed", plain(seed), 0, MAX_SEED)
        wrapped = wrap(model)
        chosen = settings_of(Settings(), settings)
        like = wrapped.schema if schema is None else schema
        wrapped = wrapped if device is None else wrapped.on(device_of(device))
        if len(rules):
            like = (Schema(features=(), target=target) if like is None else like).with_rules(*rules_of(rules))
        wrapped = wrapped if like is None else grouped(wrapped, like)
        background = Background()
        if train is None:
            full = complete_schema(like, domain)
            every = {full.domain: full}
            wrapped = bind(wrapped, full, random_rows(full, seed), seed)
        else:
            source = source_of(train, () if like is None else like.columns)
            default = domain if domain is not None else "central" if like is None else like.domain
            gaps = takes_missing(wrapped, source, target, like)
            every = schemas(source, target, domains=("central", "minmax", default), like=like, gaps=gaps)
            full = every[default]
            wrapped, background = Background.from_source(wrapped, full, source, seed, keep)
        self._assemble(wrapped, full, every, background, chosen)

    @classmethod
    def from_saved(
        cls,
        model: Model,
        schema: Schema,
        schemas: dict[Domain, Schema],
        background: Background,
        settings: Settings,
        folder: str,
    ) -> Explainer:
        """The explainer of a model with the parts that were saved in a folder; see `grace.load`."""
        full = complete_schema(schema, schema.domain)
        bound = bind(grouped(wrap(model), full), full, random_rows(full, 0))
        explainer = cls.__new__(cls)
        explainer._assemble(bound, full, schemas, background, settings, folder)
        return explainer

    def _assemble(
        self,
        model: Model,
        schema: Schema,
        schemas: dict[Domain, Schema],
        background: Background,
        settings: Settings,
        folder: str | None = None,
    ) -> None:
        self.schema, self.schemas, self.settings = schema, schemas, settings
        self.folder = folder  # where it was loaded from
        self._unread: tuple[ModelView, Explainer] | None = None
        self.use(model, background)

    def use(self, model: Model, background: Background | None = None) -> None:
        """Replace the model, for instance by itself on another device, or the background."""
        background = self.background if background is None else background
        self._view = ModelView(model, self.schema, self.schemas, background)

    @property
    def model(self) -> Model:
        """The wrapped model; replaced by `use`."""
        return self._view.model

    @property
    def background(self) -> Background:
        """SU and the background rows; replaced by `use`."""
        return self._view.background

    @property
    def su(self) -> Floats | None:
        """Symmetrical uncertainty (d, d) of the features."""
        return self.background.su

    @property
    def background_rows(self) -> Floats | None:
        """The background rows, encoded: a sample of the training rows."""
        return self.background.rows

    @property
    def training_rows(self) -> int:
        """The number of training rows."""
        return self.background.training_rows

    @property
    def su_rows(self) -> int:
        """The number of training rows from which SU was computed."""
        return self.background.su_rows

    # -- explaining ---------------------------------------------------------------------------

    def explain(
        self,
        rows: Any,
        *,
        against: Contrast | Sequence[Contrast] | None = None,
        domain: Domain | None = None,
        frozen: Sequence[str] = (),
        only: Sequence[str] | None = None,
        protected: Sequence[str] = (),
        increase_only: Sequence[str] = (),
        decrease_only: Sequence[str] = (),
        ranges: Mapping[str, Sequence[Any]] | None = None,
        costs: Mapping[str, float] | None = None,
        robust: Sequence[Any] = (),
        rules: Sequence[Ruling] | None = None,
        **settings: Any,
    ) -> Explanations:
        """Explain rows: a DataFrame, Series, dict, list of dicts, or array with the model's columns in order. Further
        columns, such as an id, are copied to the tables of the answers.

        `against` is the class to contrast with, or for a regression the target range (`grace.above`, `below`, `within`,
        `by`), one for all rows or one per row. `frozen`, `only`, `protected`, `increase_only`, `decrease_only`,
        `ranges` and `costs` limit the changes (see `Schema.constrain`). Answers also hold for the models in `robust`,
        and satisfy `rules`: by default those of the schema, see `grace.rules`. `settings` apply to this call only; with
        `missing="fill"`, missing cells that the model does not accept are imputed as in training, and noted.
        """
        chosen = settings_of(self.settings, settings)
        self.model.refresh()
        limits: dict[str, Any] = {
            "frozen": frozen,
            "only": only,
            "protected": protected,
            "increase_only": increase_only,
            "decrease_only": decrease_only,
            "ranges": ranges,
            "costs": costs,
        }
        schema = self.schema_for(self.schema.domain if domain is None else domain).constrain(**limits)
        schema = self._ruled(schema, rules)
        check_protected(schema, chosen.method)
        table = rows if isinstance(rows, np.ndarray) else as_frame(rows, schema.columns)
        encoded = schema.encode(table, missing=chosen.missing == "fill")
        filled = np.isnan(encoded) if chosen.missing == "fill" else None
        if filled is not None and filled.any():
            encoded = imputed(schema.features, encoded)
        read = tree_ensemble(self.model)
        if unread := self.model.unread(encoded, schema):
            if chosen.prove:
                raise GraceError(unread)
            asked = self._as_black_box()
            return asked.explain(rows, against=against, domain=domain, robust=robust, rules=rules, **limits, **settings)
        queries = queries_so_far(self.model)
        x = self._view.own_rows(encoded)
        host_rows = x.numpy() if x.is_cpu else encoded
        step = 1
        if len(x) > 1:
            background = self._view.background_rows if METHODS[chosen.method].wants_background else None
            known = 0 if background is None else len(background.rows)
            step = rows_at_once(self.model, self._space(schema), known, chosen)
        black_box = isinstance(self.model, Predictor) and read is None
        once = read is not None or (len(x) <= step and not black_box)  # all in one chunk, which is then scored once
        scores = checked_scores(self.model, x, decisive=True) if once or (chosen.max_calls and black_box) else None
        goal = goal_of(self._view, x, against, chosen, scores)
        required = requirements(self._view, schema, robust, chosen)

        def solve(start: int, stop: int) -> Answers:
            part, known = (x, goal), scores if once else None
            if stop - start < len(x):  # copies: where rows stand in memory may decide the last bit of their scores
                here = torch.arange(start, stop, device=x.device)
                part, known = (x[start:stop].clone(), goal.select(here)), None if known is None else known[here]
            problem = required.problem(self._problem(*part, schema, chosen))
            known = known if problem.model is self.model else None
            return required.to_row_answers(answer(problem, chosen, host_rows[start:stop], known))

        try:
            answers, query_count = answer_within(
                self.model, solve, x, host_rows, step, chosen.max_calls, queries, scores
            )
        except LayersDifferError as difference:
            model = without_layers(self.model, self.schema, self._sample(encoded), difference)
            self.use(model, replace(self.background, scores=None))
            return self.explain(rows, against=against, domain=domain, robust=robust, rules=rules, **limits, **settings)
        call = {**vars(chosen), "against": against, "domain": schema.domain, "robust": robust, **limits}
        call["rules"] = rules
        index: pd.Index[Any] = pd.RangeIndex(len(encoded)) if isinstance(table, np.ndarray) else table.index
        extra = None if isinstance(table, np.ndarray) else extra_of(schema, table)
        return Explanations(self, answers, schema, index, call, query_count, filled, required.consequences, extra)

    def _sample(self, rows: Floats) -> Floats:
        """Rows to bind a model with: of the background, or else these."""
        return (rows if self.background_rows is None else self.background_rows)[:SAMPLE]

    def _as_black_box(self) -> Explainer:
        """The same explainer with the model as a black box, for what was not read of it."""
        if self._unread is None or self._unread[0] is not self._view:
            other = copy.copy(self)
            model = as_black_box(self.model, self.schema, self._sample(random_rows(self.schema, 0)))
            other.use(model, replace(self.background, scores=None))
            self._unread = self._view, other
        return self._unread[1]

    def profile(self, rows: Any, *, forecasts: bool = False, **call: Any) -> RowResults[Profile]:
        """What each feature of each row would do alone, and on request how well adding that up forecasts the model;
        further arguments as for `explain`."""
        return self.explain(rows, **call).profile(forecasts=forecasts)

    def reasons(
        self, rows: Any, max_features: int = 2, *, seconds: float = 1.0, shown: int = 10, **call: Any
    ) -> RowResults[Reasons]:
        """All minimal sets of at most so many features that can flip each row; further arguments as for `explain`."""
        return self.explain(rows, **call).reasons(max_features, seconds=seconds, shown=shown)

    def because(
        self, rows: Any, *, smallest: bool = False, seconds: float = 1.0, **call: Any
    ) -> RowResults[SufficientReason]:
        """Features that entail the class of each row, whatever the others are; further arguments as for `explain`."""
        return self.explain(rows, **call).because(smallest=smallest, seconds=seconds)

    def _ruled(self, schema: Schema, rules: Sequence[Ruling] | None) -> Schema:
        """The schema with the rules of a call."""
        schema = schema if rules is None else under_rules(schema, rules_of(rules))
        if not has_unlearnt_values(schema):
            return schema
        if self.background_rows is None:
            raise GraceError("what follows a category is learnt from training rows; give train=, or the rule's values")
        source = self.background.source
        return with_learnt_values(schema, self.background_rows) if source is None else complete(schema, source)

    def _problem(self, rows: Tensor, goal: Goal | None, schema: Schema, settings: Settings) -> Problem:
        space = self._space(schema, settings.distance)
        if goal is None:
            goal = Flip(checked_scores(self.model, rows).argmax(dim=1), settings.confidence, self.model.shift)
        low, high, free = space.limits(rows)
        background = self._view.background_rows if METHODS[settings.method].wants_background else None
        return Problem(
            model=self.model,
            space=space,
            goal=goal,
            rows=rows,
            low=low,
            high=high,
            free=free,
            conflict=self._view.conflict(settings.gamma),
            max_features=min(settings.max_features, len(schema)),
            prefer=settings.prefer,
            among=settings.chosen_among,
            steps=settings.steps,
            neighbours=settings.neighbours,
            local_model=settings.local_model,
            as_printed=settings.as_printed,
            background=background,
        )

    def explain_file(self, path: Any, out: Any, **how: Any) -> Any:
        """Explain a Parquet or CSV file of any size into a folder, as a resumable job; see `grace.scale.run`."""
        from grace.scale import run

        return run(self, path, out, **how)

    def explain_dataset(self, dataset: Any, **how: Any) -> Any:
        """Explain a Ray dataset on a cluster; see `grace.scale.explain_dataset`."""
        from grace.scale import explain_dataset

        return explain_dataset(self, dataset, **how)

    # -- parts --------------------------------------------------------------------------------

    def schema_for(self, domain: Domain) -> Schema:
        """The schema with the ranges of another domain."""
        tail_of(domain)
        if domain not in self.schemas:
            if self.background_rows is None:
                raise GraceError(
                    f"domain={domain!r} needs training rows; this explainer has {join_first(self.schemas)}"
                )
            source = self.background.source or source_of(self.schema.decode(self.background_rows))
            self.schemas |= schemas(source, domains=(domain,), like=self.schema)
        return self.schemas[domain]

    def su_raw(self) -> Floats:
        """SU (d, d) on raw values, each distinct number being a symbol, as in the paper's tables."""
        return self.background.su_raw

    def class_medians(self, answers: Answers) -> Floats:
        """Medians (n, d) of the class of each contrastive row, see `ModelView.class_medians`."""
        return self._view.class_medians(answers)

    def spread(self) -> float:
        """The spread of the predictions of a regression; 1 without training rows."""
        return self._view.spread

    def background_scores(self) -> Floats | None:
        """The scores (m, k) of the background rows; None if there are none."""
        return self._view.background_scores()

    def background_classes(self) -> Codes | None:
        """The predicted class (m,) of each background row, as a position; None if there are none."""
        scores = self.background_scores()
        return None if scores is None else scores.argmax(axis=1)

    def typicality(self) -> Typicality:
        """The distribution of the training rows of each class."""
        return self._view.typicality()

    def dependence(self, follow: Follow = True) -> list[Dependence]:
        """The regressions of features that follow others in the training rows, with their quality of fit."""
        determined = [self.schema.names[d.column] for d in determined_by_rules(self.schema, self.schema.rules)]
        return learnt(self._view.learner, self.schema, follow, determined)

    def tensor(self, rows: Floats) -> Tensor:
        return self._view.tensor(rows)

    def _space(self, schema: Schema, norm: str = "l1") -> Space:
        return self._view.space(schema, norm)

    def _scores(self, rows: Floats) -> Floats:
        return query(self.model, rows)

    def save(self, directory: str, *, background: bool = True) -> None:
        """Write the explainer to a directory; see `grace.load`."""
        from grace.explain.store import save

        save(self, directory, background=background)

    def __repr__(self) -> str:
        s, rows = self.settings, ""
        if self.background_rows is not None and len(self.background_rows) < self.training_rows:
            rows = f", {len(self.background_rows):,} of {self.training_rows:,} training rows kept"
        rows += f", SU from {self.su_rows:,}" if 0 < self.su_rows < self.training_rows else ""
        return (
            f"<Explainer: {len(self.schema)} features, {len(self.model.classes) or 'no'} classes, method={s.method!r}, "
            f"max_features={s.max_features}, gamma={s.gamma}, domain={self.schema.domain!r}{rows}>"
        )
