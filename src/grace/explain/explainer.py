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
from grace.explain.batching import answer_within, asked_so_far, rows_at_once
from grace.explain.explanations import Explanations
from grace.explain.solve import answer
from grace.methods import METHODS, check_protected
from grace.models import wrap
from grace.models.base import checked_scores, device_of, fill_value
from grace.models.checking import LayersDifferError
from grace.models.grouped import grouped
from grace.models.predictor import Predictor
from grace.problem import background as learning
from grace.problem.answers import Answers
from grace.problem.contrast import goal_of
from grace.problem.goal import Flip, Goal
from grace.problem.problem import Background, Problem
from grace.problem.requirements.combined import requirements
from grace.problem.requirements.consequences import deciding
from grace.problem.requirements.dependence import Dependence, Follow, Learner, learnt
from grace.problem.requirements.plausible import Typicality
from grace.problem.settings import Settings, settings_of
from grace.problem.space import Space
from grace.problem.target_range import TargetRange
from grace.schema.features import Domain, Floats, Value, plain, tail_of
from grace.schema.frames import as_frame, some
from grace.schema.groups import extra_of
from grace.schema.information import raw_symbols, su_matrix
from grace.schema.parsing import MOST_SEED, whole_number
from grace.schema.rules import Ruling, rules_of
from grace.schema.rules.keeping import completed, incomplete
from grace.schema.schema import Schema
from grace.schema.sources import Source, complete, schemas, source_of

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
        keep: int = learning.MOST_BACKGROUND,
        rules: Sequence[Ruling] = (),
        **settings: Any,
    ) -> None:
        whole_number("keep", plain(keep), 1, MOST_KEPT)
        whole_number("seed", plain(seed), 0, MOST_SEED)
        known = wrap(model)
        self.model = known if device is None else known.on(device_of(device))
        self.settings = settings_of(Settings(), settings)
        like = known.schema if schema is None else schema
        if len(rules):
            like = (Schema(features=(), target=target) if like is None else like).with_rules(*rules_of(rules))
        self.model = self.model if like is None else grouped(self.model, like)
        self.su: Floats | None = None
        self.background_rows: Floats | None = None
        self.training_rows = self.su_rows = 0
        self.folder: str | None = None  # where it was loaded from
        self._train: Source | None = None
        self._view = learning.ModelView()
        if train is None:
            self.schema = learning.complete_schema(like, domain)
            self.schemas = {self.schema.domain: self.schema}
            self.model = learning.met(self.model, self.schema, learning.random_rows(self.schema, seed), seed)
        else:
            source = source_of(train, () if like is None else like.columns)
            self.training_rows = len(source)
            chosen = domain if domain is not None else "central" if like is None else like.domain
            gaps = learning.takes_missing(self.model, source, target, like)
            wide = ("central", "minmax", chosen)
            self.schemas = schemas(source, target, domains=wide, like=like, gaps=gaps)
            self.schema = self.schemas[chosen]
            self._train = source
            learnt = learning.learn(self.model, self.schema, source, seed, keep)
            self.model = learnt.model
            self.su, self.su_rows, self.background_rows = learnt.su, learnt.su_rows, learnt.rows
            self._view.medians, self._view.spread, self._view.scores = learnt.medians, learnt.spread, learnt.scores
        self._su_raw: Floats | None = None
        self._redundant: tuple[Floats | None, float, Tensor] | None = None
        self._learner: Learner | None = None

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
            encoded = np.where(filled, [fill_value(f) for f in schema.features], encoded)
        begun = asked_so_far(self.model)
        x = self.tensor(encoded)
        own = checked_scores(self.model, x) if chosen.max_calls and isinstance(self.model, Predictor) else None
        goal = goal_of(self, x, against, chosen, own)
        demand = requirements(self, schema, robust, chosen)

        def solve(here: Tensor) -> Answers:
            asked_now = demand.problem(self._problem(x[here], goal.select(here), schema, chosen))
            at_hand = None if x.is_cpu or demand.realism else encoded[int(here[0]) : int(here[-1]) + 1]
            return demand.to_row_answers(answer(asked_now, chosen, at_hand))

        known = self._background(schema) if METHODS[chosen.method].wants_background else None
        step = rows_at_once(self.model, self._space(schema), 0 if known is None else len(known.rows), chosen)
        try:
            found, spent = answer_within(self.model, solve, x, step, chosen.max_calls, begun, own)
        except LayersDifferError as difference:
            sample = encoded if self.background_rows is None else self.background_rows
            self.model, self._view = (
                learning.dropped(self.model, self.schema, sample[: learning.SAMPLE], difference),
                learning.ModelView(),
            )
            return self.explain(rows, against=against, domain=domain, robust=robust, rules=rules, **limits, **settings)
        call = {**vars(chosen), "against": against, "domain": schema.domain, "robust": robust, **limits}
        call["rules"] = rules
        extra = extra_of(schema, frame)
        return Explanations(self, found, schema, frame.index, call, spent, filled, demand.realism, extra)

    def _ruled(self, schema: Schema, rules: Sequence[Ruling] | None) -> Schema:
        """The schema with the rules of a call."""
        schema = schema if rules is None else replace(schema, rules=rules_of(rules))
        if not incomplete(schema):
            return schema
        if self.background_rows is None:
            raise GraceError("what follows a category is learnt from training rows; give train=, or the rule's values")
        return completed(schema, self.background_rows) if self._train is None else complete(schema, self._train)

    def _problem(self, rows: Tensor, goal: Goal | None, schema: Schema, settings: Settings) -> Problem:
        space = self._space(schema, settings.distance)
        if goal is None:
            goal = Flip(checked_scores(self.model, rows).argmax(dim=1), settings.confidence, self.model.shift)
        low, high, free = space.limits(rows)
        background = self._background(schema) if METHODS[settings.method].wants_background else None
        return Problem(
            model=self.model,
            space=space,
            goal=goal,
            rows=rows,
            low=low,
            high=high,
            free=free,
            conflict=self._conflict(settings.gamma),
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
                raise GraceError(f"domain={domain!r} needs training rows; this explainer has {some(self.schemas)}")
            seen = self._train or source_of(self.schema.decode(self.background_rows))
            self.schemas |= schemas(seen, domains=(domain,), like=self.schema)
        return self.schemas[domain]

    def su_raw(self) -> Floats:
        """SU on raw values, where every float is its own symbol: the reading behind the paper's figures."""
        if self._su_raw is None:
            if self.background_rows is None:
                raise GraceError("raw SU needs training rows; give train= to Explainer")
            self._su_raw = su_matrix(raw_symbols(self.background_rows))
        return self._su_raw

    def usual(self, found: Answers) -> Floats:
        """What is typical of the class of each contrastive row, its median among training rows of that class (by
        the model), in the changed numbers; NaN elsewhere, and in rows that with it are not of that class."""
        if self.background_rows is None or self.model.task == "regression":
            return np.full_like(found.contrast, np.nan)
        if self._view.medians is None:
            self._view.medians = learning.medians(self.background_rows, self._scores(self.background_rows))
        return learning.usual(self.model, self.schema, self._view.medians, found)

    def spread(self) -> float:
        """The unit of a model that predicts a number; without training rows, 1."""
        if self._view.spread is None:
            rows = self.background_rows
            self._view.spread = 1.0 if rows is None else learning.spread_of(self.model, self._scores(rows))
        return self._view.spread

    def _space(self, schema: Schema, norm: str = "l1") -> Space:
        """The space of a schema; those of whole domains are kept."""
        if schema is not self.schemas.get(schema.domain):
            return Space(schema, self.model.vectors(), self.model.device, norm)
        if (schema.domain, norm) not in self._view.spaces:
            self._view.spaces[schema.domain, norm] = Space(schema, self.model.vectors(), self.model.device, norm)
        return self._view.spaces[schema.domain, norm]

    def _background(self, schema: Schema) -> Background | None:
        if self.background_rows is None:
            return None
        if self._view.known is None:
            rows = self.tensor(self.background_rows)
            scores = None if self._view.scores is None or not self.model.black_box else self.tensor(self._view.scores)
            self._view.known = Background.of(self.model, self._space(schema), rows, scores)
        return self._view.known

    def background_scores(self) -> Floats | None:
        """What the model says of each background row; None if there are none."""
        if self.background_rows is None:
            return None
        weights = self.model.fingerprint()
        if self._view.given is None or self._view.given[0] != weights:
            known = self._view.scores if self.model.black_box else None
            self._view.given = weights, self._scores(self.background_rows) if known is None else known
        return self._view.given[1]

    def typicality(self) -> Typicality:
        """What the training rows of each class look like."""
        scores = self.background_scores()
        if scores is None or self.background_rows is None:
            raise GraceError("what is typical is known from training rows; give train=, or save with background rows")
        if self.model.task == "regression":
            raise GraceError("what is typical is known of classes; this model predicts a number")
        if self._view.typical is None or self._view.typical[0] is not scores:  # the model may have been trained on
            rows, codes = self.tensor(self.background_rows), self.tensor(scores).argmax(dim=1)
            self._view.typical = scores, Typicality.of(self._space(self.schema), rows, codes, len(self.model.classes))
        return self._view.typical[1]

    def learner(self) -> Learner:
        """What features depend on others is learnt with."""
        if self.background_rows is None:
            raise GraceError("what follows is learnt from training rows; give train=, or save with background rows")
        if self._learner is None:
            self._learner = Learner(self.schema, self.background_rows)
        return self._learner

    def dependence(self, follow: Follow = True) -> list[Dependence]:
        """What would follow by association in training rows, and how well it is explained."""
        taken = [self.schema.names[d.column] for d in deciding(self.schema, self.schema.rules)]
        return learnt(self.learner(), self.schema, follow, taken)

    def background_classes(self) -> Codes | None:
        """The class that the model gives each background row, as positions; None if there are none."""
        scores = self.background_scores()
        return None if scores is None else scores.argmax(axis=1)

    def _conflict(self, gamma: float) -> Tensor:
        """Which two features say too much the same (d, d); the last asked for is kept."""
        if self._redundant is None or self._redundant[0] is not self.su or self._redundant[1] != gamma:
            self._redundant = self.su, gamma, learning.conflicts(self.su, gamma, len(self.schema)).to(self.model.device)
        return self._redundant[2]

    def tensor(self, rows: Floats) -> Tensor:
        return torch.as_tensor(rows, dtype=torch.float64, device=self.model.device)

    def _scores(self, rows: Floats) -> Floats:
        return learning.asked(self.model, rows)

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
