"""The explainer: schema, model, method, polish, verification, explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from grace.answers import Answers, answer
from grace.batch import Explanations
from grace.errors import GraceError
from grace.features import Domain, Floats, Numeric, Value, tail_of
from grace.frames import as_frame, some
from grace.goal import Against, Flip, Goal
from grace.information import discretise, raw_symbols, su_matrix
from grace.methods import METHODS
from grace.models.base import Model, checked_scores, class_codes, fill_value
from grace.models.torch import warn_if_permuted
from grace.problem import Background, Problem
from grace.schema import Schema
from grace.settings import Settings, settings_of
from grace.space import Space

Codes = npt.NDArray[np.int64]

MOST_BACKGROUND = 20_000
SAMPLE = 256  # rows on which a new model is tried
CHUNK_BYTES = 1 << 24  # of rows worked on at a time


class Explainer:
    """Answers "why this class rather than that one?" for rows of a table.

        explainer = grace.Explainer(model, train, target="class")
        print(explainer.explain(row)[0])

    `train` gives the ranges, SU and the background rows. Without it, pass a complete `schema`; then the
    methods that need training rows are not available, and gamma must be 1.
    """

    def __init__(
        self,
        model: Model,
        train: pd.DataFrame | None = None,
        *,
        target: str | None = None,
        schema: Schema | None = None,
        domain: Domain | None = None,
        device: str | torch.device | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        if not isinstance(model, Model):
            raise GraceError(f"model is {type(model).__name__}; wrap a torch module with grace.wrap first")
        self.model = model if device is None else model.on(_device(device))
        self.settings = settings_of(Settings(), settings)
        like = model.schema if schema is None else schema
        self.su: Floats | None = None
        self.background_rows: Floats | None = None
        self._train: pd.DataFrame | None = None
        self._medians: Floats | None = None
        if train is None:
            if like is None:
                raise GraceError("give train= (a DataFrame), or a complete schema=")
            for feature in like.features:
                if not feature.complete:
                    raise GraceError(f"feature {feature.name!r} of the schema has no range or categories; give train=")
            if domain is not None and domain != like.domain:
                raise GraceError(f"domain={domain!r} needs train=; the schema was made for {like.domain!r}")
            self.schemas = {like.domain: like}
            self.schema = like
            self.model.bind(like, self._tensor(_anywhere(like, seed)))
        else:
            train = as_frame(train)
            chosen = domain if domain is not None else "central" if like is None else like.domain
            ranges = {d: Schema.infer(train, target, domain=d, like=like) for d in ("central", "minmax", chosen)}
            self.schemas, self.schema = dict(ranges), ranges[chosen]
            self._train = train
            self._learn(train, seed)
        self._spaces: dict[tuple[Domain, str], Space] = {}
        self._known: Background | None = None
        self._su_raw: Floats | None = None
        self._classes: tuple[str, Codes] | None = None

    def _learn(self, train: pd.DataFrame, seed: int) -> None:
        """SU and background rows from training data, and a first look at the model."""
        schema = self.schema
        rows = schema.encode(train, missing=True)
        rows = np.where(np.isnan(rows), [fill_value(f) for f in schema.features], rows)
        self.model.bind(schema, self._tensor(rows[:SAMPLE]))
        scores = self._scores(rows)
        predicted = scores.argmax(axis=1)
        labels = predicted
        if schema.target is not None and schema.target in train.columns and train[schema.target].notna().all():
            labels = class_codes(train[schema.target], self.model.classes, f"target column {schema.target!r}")
            warn_if_permuted(predicted, labels, self.model.classes)
        self.su = su_matrix(discretise(rows, labels, schema))
        if len(rows) > MOST_BACKGROUND:
            keep = np.random.default_rng(seed).choice(len(rows), MOST_BACKGROUND, replace=False)
            rows, scores = rows[np.sort(keep)], scores[np.sort(keep)]
        self.background_rows = rows
        self._medians = _medians(rows, scores)

    # -- explaining ---------------------------------------------------------------------------

    def explain(
        self,
        rows: Any,
        *,
        against: Value | Sequence[Value] | None = None,
        domain: Domain | None = None,
        frozen: Sequence[str] = (),
        increase_only: Sequence[str] = (),
        decrease_only: Sequence[str] = (),
        ranges: Mapping[str, Sequence[Any]] | None = None,
        costs: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> Explanations:
        """Contrastive rows for a DataFrame, Series, dict or list of dicts.

        `against` names the class to contrast with, one for all rows or one per row. `frozen`,
        `increase_only`, `decrease_only`, `ranges` and `costs` limit what may change (see
        `Schema.constrain`). Settings given here hold for this call only.
        """
        chosen = settings_of(self.settings, settings)
        self.model.refresh()
        schema = self.schema_for(self.schema.domain if domain is None else domain).constrain(
            frozen=frozen, increase_only=increase_only, decrease_only=decrease_only, ranges=ranges, costs=costs
        )
        encoded = schema.encode(rows)
        goals = None if against is None else self._wanted(against, len(encoded))
        parts = []
        step = max(1, CHUNK_BYTES // (8 * encoded.shape[1]))
        for start in range(0, len(encoded), step):
            here = slice(start, start + step)
            wanted = None if goals is None else goals[here]
            parts.append(answer(self._problem(self._tensor(encoded[here]), wanted, schema, chosen), chosen))
        limits = {
            "frozen": frozen,
            "increase_only": increase_only,
            "decrease_only": decrease_only,
            "ranges": ranges,
            "costs": costs,
        }
        call = {**asdict(chosen), "against": against, "domain": schema.domain, **limits}
        return Explanations(self, Answers.join(parts), schema, as_frame(rows).index, call)

    def _problem(self, rows: Tensor, wanted: Tensor | None, schema: Schema, settings: Settings) -> Problem:
        space = self._space(schema, settings.distance)
        low, high, free = space.limits(rows)
        goal: Goal
        if wanted is None:
            goal = Flip(checked_scores(self.model, rows).argmax(dim=1), settings.confidence)
        else:
            goal = Against(wanted, settings.confidence)
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
            max_features=settings.max_features,
            prefer=settings.prefer,
            steps=settings.steps,
            neighbours=settings.neighbours,
            local_model=settings.local_model,
            as_printed=settings.as_printed,
            background=background,
        )

    # -- parts --------------------------------------------------------------------------------

    def schema_for(self, domain: Domain) -> Schema:
        """The schema with the ranges of another domain."""
        tail_of(domain)
        if domain not in self.schemas:
            if self.background_rows is None:
                raise GraceError(f"domain={domain!r} needs training rows; this explainer has {some(self.schemas)}")
            frame = self.schema.decode(self.background_rows) if self._train is None else self._train
            self.schemas[domain] = Schema.infer(frame, domain=domain, like=self.schema)
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
        out = np.full_like(found.contrast, np.nan)
        if self.background_rows is None:
            return out
        if self._medians is None:
            self._medians = _medians(self.background_rows, self._scores(self.background_rows))
        numeric = [isinstance(f, Numeric) for f in self.schema.features]
        changed = (found.contrast != found.rows) & numeric
        wanted = found.after.argmax(axis=1)
        medians = self._medians[wanted]
        ask = np.flatnonzero(found.success & ~np.isnan(medians[:, 0]) & changed.any(axis=1))
        if len(ask):
            tried = np.where(changed, medians, found.contrast)[ask]
            kept = ask[self._scores(tried).argmax(axis=1) == wanted[ask]]
            out[kept] = np.where(changed, medians, np.nan)[kept]
        return out

    def _space(self, schema: Schema, norm: str = "l1") -> Space:
        """The space of a schema; those of whole domains are kept."""
        if schema is not self.schemas.get(schema.domain):
            return Space(schema, self.model.vectors(), self.model.device, norm)
        if (schema.domain, norm) not in self._spaces:
            self._spaces[schema.domain, norm] = Space(schema, self.model.vectors(), self.model.device, norm)
        return self._spaces[schema.domain, norm]

    def _background(self, schema: Schema) -> Background | None:
        if self.background_rows is None:
            return None
        if self._known is None:
            self._known = Background.of(self.model, self._space(schema), self._tensor(self.background_rows))
        return self._known

    def background_classes(self) -> Codes | None:
        """The class that the model gives each background row, as positions; None if there are none."""
        if self.background_rows is None:
            return None
        weights = self.model.fingerprint()
        if self._classes is None or self._classes[0] != weights:
            self._classes = weights, self._scores(self.background_rows).argmax(axis=1)
        return self._classes[1]

    def _conflict(self, gamma: float) -> Tensor:
        d = len(self.schema)
        if gamma >= 1:
            return torch.zeros(d, d, dtype=torch.bool, device=self.model.device)
        if self.su is None:
            raise GraceError(f"gamma={gamma} needs SU, which needs train=; give train, or gamma=1")
        conflict = torch.as_tensor(self.su > gamma + 1e-12, device=self.model.device)
        return conflict.fill_diagonal_(False)

    def _wanted(self, against: Value | Sequence[Value], n: int) -> Tensor:
        asked: Any = against
        many = list(asked) if pd.api.types.is_list_like(asked) else [asked] * n
        if len(many) != n:
            raise GraceError(f"against has {len(many)} classes for {n} rows; give one, or one per row")
        return torch.as_tensor(class_codes(many, self.model.classes, "against"), device=self.model.device)

    def _tensor(self, rows: Floats) -> Tensor:
        return torch.as_tensor(rows, dtype=torch.float64, device=self.model.device)

    def _scores(self, rows: Floats) -> Floats:
        return np.asarray(checked_scores(self.model, self._tensor(rows)).cpu().numpy())

    def save(self, directory: str, *, background: bool = True) -> None:
        """Write the explainer to a directory; see `grace.load`."""
        from grace.store import save

        save(self, directory, background=background)

    def __repr__(self) -> str:
        s = self.settings
        return (
            f"<Explainer: {len(self.schema)} features, {len(self.model.classes)} classes, method={s.method!r}, "
            f"max_features={s.max_features}, gamma={s.gamma}, domain={self.schema.domain!r}>"
        )


def _anywhere(schema: Schema, seed: int) -> Floats:
    """Sample rows from the whole domain, to try a model on when there are no training rows."""
    low, high = schema.bounds()
    low, high = np.clip(low, -1e6, 1e6), np.clip(high, -1e6, 1e6)
    rows = low + np.random.default_rng(seed).random((SAMPLE, len(schema))) * (high - low)
    return np.asarray(schema.project(rows))


def _medians(rows: Floats, scores: Floats) -> Floats:
    """The median row of each class (k, d), with values that occur; NaN for a class that the model never says."""
    classes = scores.argmax(axis=1)
    out = np.full((scores.shape[1], rows.shape[1]), np.nan)
    for label in np.unique(classes):
        out[label] = np.quantile(rows[classes == label], 0.5, axis=0, method="lower")
    return out


def _device(said: str | torch.device) -> torch.device:
    try:
        device = torch.device(said)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as reason:
        raise GraceError(f"device={str(said)!r} cannot be used here: {str(reason).splitlines()[0]}") from reason
    return device
