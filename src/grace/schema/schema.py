"""The schema of a table, dom(X).

An encoded row has one float64 per feature: a number, or the position of a category among its categories.
`Schema.encode` and `Schema.decode` convert between DataFrames and encoded rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.errors import GraceError
from grace.schema.columns import OBJECT, decode_column, encode_column, plain_array, plain_cells
from grace.schema.domains import Domain, tail_of
from grace.schema.features import Bools, Categorical, Feature, Floats, Numeric, Value, columns_of
from grace.schema.formatting import schema_lines
from grace.schema.frames import as_frame, cell_repr, cell_reprs, no_duplicates
from grace.schema.groups import cells_of, columns_from, group_feature, layout_of
from grace.schema.limits import constrained
from grace.schema.parsing import record
from grace.schema.rules import Rule, Ruling, rule_to_json, rules_from, rules_of
from grace.schema.rules.keeping import check_rules
from grace.schema.schema_file import check_edits, feature_to_dict, features_from, from_text, to_text
from grace.schema.words import DEFAULT, check_words, translated


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The features in order, the target, and the words in `language` for a row, several rows, the classes and the verb;
    `translations` holds them in other languages. `rules` constrain contrastive rows, see `grace.schema.rules`."""

    features: tuple[Feature, ...]
    target: str | None = None
    classes: tuple[Value, ...] = ()
    domain: Domain = "central"
    row: str = "the row"
    verb: str = "classified {row} as {class}"
    class_words: Mapping[str, str] = field(default_factory=dict)
    rows: str = "rows"
    language: str = DEFAULT
    translations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        no_duplicates([f.name for f in self.features], "feature")
        tail_of(self.domain)
        check_words(self)
        object.__setattr__(self, "rules", rules_of(self.rules))
        if self.features and all(f.complete for f in self.features):
            check_rules(self)

    # -- construction -------------------------------------------------------------------------

    @classmethod
    def infer(
        cls,
        frame: pd.DataFrame,
        target: str | None = None,
        *,
        domain: Domain | None = None,
        like: Schema | None = None,
        gaps: bool = False,
    ) -> Schema:
        """dom(X) from data. What `like` declares (types, ranges, words, categories) takes precedence. With `gaps`,
        missing cells are a value of their own in columns that have any."""
        from grace.schema.sources import schemas, source_of

        base = cls(features=()) if like is None else like
        chosen = base.domain if domain is None else domain
        return schemas(source_of(as_frame(frame)), target, domains=(chosen,), like=base, gaps=gaps)[chosen]

    def replace(self, name: str, **parts: Any) -> Schema:
        """A copy with attributes of one feature set: `schema.replace("age", low=18)`."""
        index = self.index(name)
        allowed = {f.name for f in fields(self.features[index])}
        for part in parts:
            if part not in allowed:
                raise GraceError(f"feature {name!r} has no {part!r}; it has {', '.join(sorted(allowed))}")
        new = replace(self.features[index], **parts)
        return replace(self, features=(*self.features[:index], new, *self.features[index + 1 :]))

    def constrain(
        self,
        *,
        frozen: Sequence[str] = (),
        only: Sequence[str] | None = None,
        protected: Sequence[str] = (),
        increase_only: Sequence[str] = (),
        decrease_only: Sequence[str] = (),
        ranges: Mapping[str, Sequence[Any]] | None = None,
        costs: Mapping[str, float] | None = None,
    ) -> Schema:
        """A copy with limits on what may change. With `only`, no other feature changes. A range is (low, high), None to
        keep a bound; for a category, the selectable values. A protected feature changes only if it is named in `only`,
        `increase_only`, `decrease_only`, `ranges` or `costs`; `protected` protects further ones."""
        named = {"frozen": frozen, "only": only, "protected": protected, "increase_only": increase_only}
        return constrained(self, {**named, "decrease_only": decrease_only, "ranges": ranges, "costs": costs})

    def group(self, name: str, columns: Sequence[str]) -> Schema:
        """A copy in which one-hot columns are a single categorical feature that changes as a whole:
        `schema.group("housing", ["housing_own", "housing_rent"])`."""
        for column in columns:
            self.index(column)
        first = self.index(columns[0]) if len(columns) > 1 else -1
        feature = group_feature(name, columns)
        features = [feature if j == first else f for j, f in enumerate(self.features)]
        return replace(self, features=tuple(f for f in features if f.name not in columns or f is feature))

    def with_rules(self, *rules: Ruling) -> Schema:
        """A copy with more rules: `schema.with_rules("a <= b", "total = a + c")`."""
        return replace(self, rules=(*self.rules, *rules_of(rules)))

    def translate(self, language: str, words: Mapping[str, Any]) -> Schema:
        """A copy with words in another language: row, rows, verb, class_words, and by name features."""
        return translated(self, language, words)

    # -- access -------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [f.name for f in self.features]

    @property
    def columns(self) -> list[str]:
        """The columns of the table: those of a group, else the feature's name."""
        return list(self._columns)

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        return tuple(c for f in self.features for c in columns_of(f))

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return schema_lines(self)

    def __getitem__(self, name: str) -> Feature:
        return self.features[self.index(name)]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {f.name: i for i, f in enumerate(self.features)}

    def index(self, name: str) -> int:
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            message = "there is no feature {name!r}; features: {known}"
            raise GraceError(message, name=name, known=cell_reprs(self.names)) from None

    # -- frames and rows ----------------------------------------------------------------------

    def encode(self, rows: Any, *, missing: bool = False) -> Floats:
        """Encoded rows (n, d), float64, from a DataFrame, Series, dict, list of dicts, or array with the columns in
        order; NaN only if `missing`. Columns that are not features are ignored."""
        known = plain_array(rows, self.features) if isinstance(rows, np.ndarray) and len(rows) else None
        if known is not None:
            return known
        frame = as_frame(rows, self.columns)
        if len(frame) == 0:
            raise GraceError("there are no rows: the table is empty")
        positions = layout_of(self, frame).positions  # selection by name would take milliseconds
        plain_rows = plain_cells(frame, positions, self.features)
        if plain_rows is not None:
            return plain_rows
        frame = frame.iloc[:, positions]
        out = np.empty((len(frame), len(self.features)))
        for j, feature in enumerate(self.features):
            cells = cells_of(frame, feature, feature.name)
            out[:, j] = encode_column(cells, feature)
            if not missing and np.isnan(out[:, j]).any():
                i = int(np.isnan(out[:, j]).argmax())
                raise GraceError(
                    f"column {feature.name!r}, row {cell_repr(frame.index[i])}: the cell is missing; "
                    "fill it in, or as in training by model.impute(rows); explain can do so with "
                    'missing="fill", the command with --impute'
                )
        return out

    def decode(self, rows: Floats, index: pd.Index[Any] | None = None, *, narrow: bool = False) -> pd.DataFrame:
        """The DataFrame of encoded rows; NaN becomes a missing cell. With `narrow`, numbers are rounded to the dtype of
        their training column."""
        columns: dict[str, Any] = {}
        for j, f in enumerate(self.features):
            if isinstance(f, Categorical) and f.columns:
                columns |= columns_from(rows[:, j], f)
            else:
                cells = decode_column(rows[:, j], f, narrow)
                columns[f.name] = pd.Series(cells, index=index, dtype=object) if f.dtype == OBJECT else cells
        return pd.DataFrame(columns, index=index, columns=self.columns)

    # -- the domain and its projection P ------------------------------------------------------

    def bounds(self) -> tuple[Floats, Floats]:
        """The lowest and highest new value of each feature, two arrays (d,); for a category, of its positions."""
        pairs = [f.bounds if isinstance(f, Numeric) else (0.0, len(f.categories) - 1.0) for f in self.features]
        low, high = zip(*pairs, strict=True)
        return np.array(low), np.array(high)

    def box(self, row: Floats) -> dict[str, list[Value]]:
        """What each feature that may change can become in this row: [low, high], or the selectable categories."""
        low, high = self.bounds()
        out: dict[str, list[Value]] = {}
        for j, f in enumerate(self.features):
            if f.fixed:
                continue
            if isinstance(f, Categorical):
                least, most = row[j] if f.increase_only else -np.inf, row[j] if f.decrease_only else np.inf
                out[f.name] = [c for k, c in enumerate(f.categories) if c in f.selectable and least <= k <= most]
            else:
                out[f.name] = [
                    float(max(low[j], row[j])) if f.increase_only else float(low[j]),
                    float(min(high[j], row[j])) if f.decrease_only else float(high[j]),
                ]
        return out

    def selectable_codes(self, index: int) -> npt.NDArray[np.int64]:
        """The positions of the selectable categories of feature `index`."""
        feature = self.features[index]
        assert isinstance(feature, Categorical)
        return np.flatnonzero([c in feature.selectable for c in feature.categories])

    def contains(self, rows: Any) -> Bools:
        """Whether each cell lies in the domain of its feature, bool (n, d)."""
        x = rows if isinstance(rows, np.ndarray) else self.encode(rows, missing=True)
        low, high = self.bounds()
        inside = (x >= low) & (x <= high)
        for j, feature in enumerate(self.features):
            if isinstance(feature, Categorical):
                inside[:, j] = np.isin(x[:, j], self.selectable_codes(j))
            elif feature.integer:
                inside[:, j] &= x[:, j] == np.round(x[:, j])
        return inside

    def project(self, rows: Any) -> Any:
        """P: the nearest row in dom(X). Arrays give arrays, frames give frames."""
        x = rows if isinstance(rows, np.ndarray) else self.encode(rows)
        low, high = self.bounds()
        out = np.clip(x, low, high)
        for j, feature in enumerate(self.features):
            if isinstance(feature, Categorical):
                codes = self.selectable_codes(j)
                out[:, j] = codes[np.abs(x[:, [j]] - codes).argmin(axis=1)]
            elif feature.integer:
                out[:, j] = np.round(out[:, j])
        return out if isinstance(rows, np.ndarray) else self.decode(out, as_frame(rows).index)

    # -- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        for part in ("class_words", "translations"):
            out[part] = dict(getattr(self, part))
        out["classes"] = list(self.classes)
        out["rules"] = [rule_to_json(r) for r in self.rules]
        out["features"] = [feature_to_dict(f) for f in self.features]
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        if not isinstance(data, Mapping) or not isinstance(data.get("features"), list | tuple):
            raise GraceError('a schema must be a JSON object with a list "features"')
        read = {"features": features_from(data["features"]), "rules": rules_from(data.get("rules", ()))}
        plain_parts = {k: v for k, v in data.items() if k not in read}
        return cls(**record(cls, {"features": (), **plain_parts}, "schema") | read)

    def to_json(self) -> str:
        """The schema as a file to edit, with help; see `grace.schema.schema_file`."""
        return to_text(self)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """The schema in a file; unknown parts, and parts without effect, are errors."""
        return check_edits(cls.from_dict(from_text(text)))
