"""The explainer: schema, model, method, polish, verification, explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.explain.batching import answer_within, queries_so_far, rows_at_once
from grace.explain.explanations import Explanations
from grace.explain.solve import answer
from grace.methods import METHODS, check_protected
from grace.models import Model, wrap
from grace.models.base import checked_scores, device_of
from grace.models.checking import LayersDifferError
from grace.models.grouped import grouped
from grace.models.predictor import Predictor
from grace.problem.answers import Answers
from grace.problem.background import MOST_BACKGROUND, Background
from grace.problem.binding import SAMPLE, bind, complete_schema, query, random_rows, takes_missing, without_layers
from grace.problem.contrast import goal_of
from grace.problem.goal import Flip, Goal
from grace.problem.model_view import ModelView
from grace.problem.problem import Problem
from grace.problem.requirements.combined import requirements
from grace.problem.requirements.consequences import deciding
from grace.problem.requirements.dependence import Dependence, Follow, learnt
from grace.problem.requirements.plausible import Typicality
from grace.problem.settings import Settings, settings_of
from grace.problem.space import Space
from grace.problem.target_range import TargetRange
from grace.schema.columns import imputed
from grace.schema.features import Domain, Floats, Value, plain, tail_of
from grace.schema.frames import as_frame, join_first
from grace.schema.groups import extra_of
from grace.schema.parsing import MOST_SEED, whole_number
from grace.schema.rules import Ruling, rules_of
from grace.schema.rules.keeping import completed, incomplete
from grace.schema.schema import Schema
from grace.schema.sources import complete, schemas, source_of

MOST_KEPT = 10**9  # training rows
Codes = npt.NDArray[np.int64]
Contrast = Value | TargetRange


class Explainer:
    """Answers "why this class rather than that one?" for rows of a table.

        explainer = grace.Explainer(model, train, target="class")
        print(explainer.explain(row)[0])

    `model` is a network trained here, or anything that `grace.wrap` takes.
    `train` (a frame, or the path of a Parquet table of any size) gives the ranges, SU and the background rows: of more
    than `keep` training rows, as many drawn by `seed` are kept for `nearest`, `local` and what is typical (see
    `training_rows` and `background_rows`), and SU is that of as many as `su_rows`. Without it, pass a
    complete `schema`; then the methods that need training rows are not available, and gamma must be 1. `rules` are
    added to those of the schema.
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
        whole_number("keep", plain(keep), 1, MOST_KEPT)
        whole_number("seed", plain(seed), 0, MOST_SEED)
        known = wrap(model)
        chosen = settings_of(Settings(), settings)
        like = known.schema if schema is None else schema
        known = known if device is None else known.on(device_of(device))
        if len(rules):
            like = (Schema(features=(), target=target) if like is None else like).with_rules(*rules_of(rules))
        known = known if like is None else grouped(known, like)
        background = Background()
        if train is None:
            one = complete_schema(like, domain)
            every = {one.domain: one}
            known = bind(known, one, random_rows(one, seed), seed)
        else:
            source = source_of(train, () if like is None else like.columns)
            own = domain if domain is not None else "central" if like is None else like.domain
            gaps = takes_missing(known, source, target, like)
            every = schemas(source, target, domains=("central", "minmax", own), like=like, gaps=gaps)
            one = every[own]
            known, background = Background.from_source(known, one, source, seed, keep)
        self._assemble(known, one, every, background, chosen)

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
        """The explainer of a model with what was saved of it in a folder; see `grace.load`."""
        one = complete_schema(schema, schema.domain)
        known = bind(grouped(wrap(model), one), one, random_rows(one, 0))
        explainer = cls.__new__(cls)
        explainer._assemble(known, one, schemas, background, settings, folder)
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
        self.use(model, background)

    def use(self, model: Model, background: Background | None = None) -> None:
        """Go on with another form of the model, such as on another device, or another background."""
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
        """The training rows that are kept, encoded."""
        return self.background.rows

    @property
    def training_rows(self) -> int:
        """How many training rows there were."""
        return self.background.training_rows

    @property
    def su_rows(self) -> int:
        """How many of them SU was computed from."""
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
        """Contrastive rows for a DataFrame, Series, dict, list of dicts, or array with the model's columns in order.
        Further columns, such as an id, are kept beside the answers.

        `against` names the class to contrast with, or for a model that predicts a number what it should have been
        (`grace.above`, `below`, `within`, `by`), one for all rows or one per row. `frozen`, `only`,
        `protected`, `increase_only`, `decrease_only`, `ranges` and `costs` limit what may change (see
        `Schema.constrain`). Answers hold for the models in `robust` too, and keep `rules`: by default those of the
        schema, see `grace.rules`. Settings given here hold for this call only; with `missing="fill"`, missing cells
        that the model does not take are filled in as in training, and noted.
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
        frame = as_frame(rows, schema.columns)
        encoded = schema.encode(frame, missing=chosen.missing == "fill")
        filled = np.isnan(encoded)
        if filled.any():
            encoded = imputed(schema.features, encoded)
        begun = queries_so_far(self.model)
        x = self.tensor(encoded)
        own = checked_scores(self.model, x) if chosen.max_calls and isinstance(self.model, Predictor) else None
        goal = goal_of(self._view, x, against, chosen, own)
        required = requirements(self._view, schema, robust, chosen)

        def solve(here: Tensor) -> Answers:
            problem = required.problem(self._problem(x[here], goal.select(here), schema, chosen))
            host_rows = None if x.is_cpu or required.realism else encoded[int(here[0]) : int(here[-1]) + 1]
            return required.to_row_answers(answer(problem, chosen, host_rows))

        known = self._view.background_rows if METHODS[chosen.method].wants_background else None
        step = rows_at_once(self.model, self._space(schema), 0 if known is None else len(known.rows), chosen)
        try:
            found, spent = answer_within(self.model, solve, x, step, chosen.max_calls, begun, own)
        except LayersDifferError as difference:
            sample = encoded if self.background_rows is None else self.background_rows
            model = without_layers(self.model, self.schema, sample[:SAMPLE], difference)
            self.use(model, replace(self.background, scores=None))
            return self.explain(rows, against=against, domain=domain, robust=robust, rules=rules, **limits, **settings)
        call = {**vars(chosen), "against": against, "domain": schema.domain, "robust": robust, **limits}
        call["rules"] = rules
        extra = extra_of(schema, frame)
        return Explanations(self, found, schema, frame.index, call, spent, filled, required.realism, extra)

    def _ruled(self, schema: Schema, rules: Sequence[Ruling] | None) -> Schema:
        """The schema with the rules of a call."""
        schema = schema if rules is None else replace(schema, rules=rules_of(rules))
        if not incomplete(schema):
            return schema
        if self.background_rows is None:
            raise GraceError("what follows a category is learnt from training rows; give train=, or the rule's values")
        source = self.background.source
        return completed(schema, self.background_rows) if source is None else complete(schema, source)

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
            among=settings.among,
            steps=settings.steps,
            neighbours=settings.neighbours,
            local_model=settings.local_model,
            as_printed=settings.as_printed,
            background=background,
        )

    def explain_file(self, path: Any, out: Any, **how: Any) -> Any:
        """Explain a Parquet or CSV file of any size into a folder, as a job that survives; see `grace.scale.run`."""
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
            seen = self.background.source or source_of(self.schema.decode(self.background_rows))
            self.schemas |= schemas(seen, domains=(domain,), like=self.schema)
        return self.schemas[domain]

    def su_raw(self) -> Floats:
        """SU on raw values, where every float is its own symbol: the reading behind the paper's figures."""
        return self.background.su_raw

    def class_medians(self, answers: Answers) -> Floats:
        """The median of the class of each contrastive row, see `ModelView.class_medians`."""
        return self._view.class_medians(answers)

    def spread(self) -> float:
        """The unit of a model that predicts a number; without training rows, 1."""
        return self._view.spread

    def background_scores(self) -> Floats | None:
        """The scores of the background rows; None if there are none."""
        return self._view.background_scores()

    def background_classes(self) -> Codes | None:
        """The class that the model gives each background row, as positions; None if there are none."""
        scores = self.background_scores()
        return None if scores is None else scores.argmax(axis=1)

    def typicality(self) -> Typicality:
        """The distribution of the training rows of each class."""
        return self._view.typicality()

    def dependence(self, follow: Follow = True) -> list[Dependence]:
        """What would follow by association in training rows, and how well it is explained."""
        taken = [self.schema.names[d.column] for d in deciding(self.schema, self.schema.rules)]
        return learnt(self._view.learner, self.schema, follow, taken)

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
        s, kept = self.settings, ""
        if self.background_rows is not None and len(self.background_rows) < self.training_rows:
            kept = f", {len(self.background_rows):,} of {self.training_rows:,} training rows kept"
        kept += f", SU from {self.su_rows:,}" if 0 < self.su_rows < self.training_rows else ""
        return (
            f"<Explainer: {len(self.schema)} features, {len(self.model.classes) or 'no'} classes, method={s.method!r}, "
            f"max_features={s.max_features}, gamma={s.gamma}, domain={self.schema.domain!r}{kept}>"
        )
