"""The state of a page, encoded as the query of its URL.

    model     name of the model
    row       number of an example row, from 0
    of        browse only examples of this predicted class
    is.NAME   cells of the user's own row, instead of `row`
    fill      features whose missing cell is imputed
    now.NAME  a changed cell, for a prediction of the changed row
    freeze, up, down       features that must not change, may only increase, may only decrease
    low.NAME, high.NAME    range of new values
    never.NAME             an excluded category
    against, k, n          contrast class or target of a number, maximum number of changes, number of answers
    style, template, language    of the sentence
    more      with proof and further answers at once

Forms send further fields (`from`, `step`, `explain`, `aim`, and unchanged cells); `State.query` is the canonical form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from grace.errors import GraceError
from grace.problem.target_range import target_range_of
from grace.schema.features import STYLES, Categorical, Feature, Numeric, Value
from grace.schema.frames import cell_reprs
from grace.schema.schema import Schema
from grace.text import languages
from grace.text.sentence import TextOptions
from grace.web.aims import DEFAULT_AIM, aim_of, read_aim
from grace.web.rows import Cells, format_cell, format_value, is_missing, parse_cell, read_row
from grace.web.service import BUDGET, RowQuestion, Served, find_model

T = TypeVar("T")
Pairs = Sequence[tuple[str, str]]
MAX_ANSWERS = 5
DEFAULT_ANSWERS = 3
ALL_STYLES = (*STYLES, "auto")
INTEGER_ERRORS = {
    "row": "row={said!r}: give a whole number from {low} to {high}",
    "k": "k={said!r}: give a whole number from {low} to {high}",
    "n": "n={said!r}: give a whole number from {low} to {high}",
}


@dataclass(frozen=True, kw_only=True)
class State:
    """The parsed query, see above. `row` is complete, `example` its number if it is an example, `filled` names its
    imputed cells, `moved` holds the changed cells. If an example does not fit the model, `unfit` is the reason and
    `row` is empty."""

    model: str
    row: Mapping[str, Value | None]
    filled: tuple[str, ...] = ()
    example: int | None = None
    of: Value | None = None
    moved: Mapping[str, Value] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()
    up: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    low: Mapping[str, Value] = field(default_factory=dict)
    high: Mapping[str, Value] = field(default_factory=dict)
    never: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    against: Value | None = None
    max_features: int | None = None
    answers: int = DEFAULT_ANSWERS
    style: str = ""
    template: str = ""
    language: str = ""
    more: bool = False
    unfit: GraceError | None = field(default=None, compare=False)

    @property
    def now(self) -> Cells:
        """The row with the changed cells."""
        return {**self.row, **self.moved}

    @property
    def saying(self) -> TextOptions:
        return {"style": self.style or None, "language": self.language or None, "template": self.template or None}

    def question(self, served: Served, *, full: bool = False, prove: bool = True) -> RowQuestion:
        """The question to the explainer; `full` asks for further answers and a proof too."""
        schema = served.schema
        ranges: dict[str, Any] = {
            name: (self.low.get(name), self.high.get(name)) for name in schema.names if name in {*self.low, *self.high}
        }
        for name, excluded in self.never.items():
            feature = schema[name]
            assert isinstance(feature, Categorical)
            ranges[name] = tuple(c for c in feature.selectable if c not in excluded)
        limits: dict[str, Any] = {
            "frozen": self.frozen,
            "increase_only": self.up,
            "decrease_only": self.down,
            "ranges": ranges or None,
            "against": target_range_of(str(self.against or DEFAULT_AIM)) if served.is_regression else self.against,
        }
        if self.max_features is not None:
            limits["max_features"] = self.max_features
        if full:
            limits |= {"prove": prove and not served.is_regression, "budget": BUDGET, "n": self.answers}
        return RowQuestion(self.row, limits, self.filled)

    def pairs(self, schema: Schema, several: bool) -> list[tuple[str, str]]:
        """The canonical query; the model is named if there are several."""
        out: list[tuple[str, str]] = [("model", self.model)] if several else []
        if self.example is not None:
            out += [("row", str(self.example)), *(("fill", name) for name in self.filled)]
        else:
            out += self.row_pairs(schema)
        if self.of is not None:
            out.append(("of", str(self.of)))
        out += [(f"now.{name}", format_cell(schema[name], value)) for name, value in self.moved.items()]
        for key, names in (("freeze", self.frozen), ("up", self.up), ("down", self.down)):
            out += [(key, name) for name in names]
        for key, ends in (("low", self.low), ("high", self.high)):
            out += [(f"{key}.{name}", format_cell(schema[name], end)) for name, end in ends.items()]
        out += [(f"never.{name}", format_value(c)) for name, excluded in self.never.items() for c in excluded]
        if self.against is not None:
            out.append(("against", str(self.against)))
        if self.max_features is not None:
            out.append(("k", str(self.max_features)))
        if self.answers != DEFAULT_ANSWERS:
            out.append(("n", str(self.answers)))
        words = (("style", self.style), ("template", self.template), ("language", self.language))
        out += [(key, text) for key, text in words if text]
        return [*out, ("more", "yes")] if self.more else out

    def row_pairs(self, schema: Schema) -> list[tuple[str, str]]:
        """The fields of the user's own row: its cells, and the imputed ones."""
        given = [(f"is.{n}", format_cell(schema[n], value)) for n, value in self.row.items() if n not in self.filled]
        return [*given, *(("fill", name) for name in self.filled)]

    def query(self, schema: Schema, several: bool) -> str:
        return urlencode(self.pairs(schema, several))


def read_state(pairs: Pairs, models: Mapping[str, Served]) -> tuple[State, list[GraceError]]:
    """The state of a query, and the errors of parts that were ignored."""
    reader = Reader(pairs)
    served = reader.try_read(find_model, models, reader.last("model") or None) or find_model(models)
    return reader.state(served), reader.errors


class Reader:
    """Parses a query; invalid parts are recorded as errors and ignored."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.errors: list[GraceError] = []

    def last(self, key: str) -> str:
        return next((value for k, value in reversed(self.pairs) if k == key), "").strip()

    def with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        return [(k[len(prefix) :], v) for k, v in self.pairs if k.startswith(prefix)]

    def try_read(self, read: Callable[..., T], *given: Any) -> T | None:
        try:
            return read(*given)
        except GraceError as reason:
            self.errors.append(reason)
            return None

    def state(self, served: Served) -> State:
        schema = served.schema
        new_row, example, row, filled, unfit = self.row(served)
        moved: dict[str, Value] = {}
        if not new_row and unfit is None:
            for name, value in self.cells("now.", schema):
                if value != row[name]:
                    moved[name] = value
        if self.last("explain") == "moved" and moved:
            filled = tuple(n for n in filled if n not in moved)
            row, moved, example = {**row, **moved}, {}, None
        frozen = self.features("freeze", schema)
        state = State(
            model=served.name,
            row=row,
            filled=filled,
            example=example,
            moved=moved,
            frozen=frozen,
            low=self.ends("low.", schema),
            high=self.ends("high.", schema),
            up=tuple(n for n in self.features("up", schema, Numeric) if n not in frozen),
            down=tuple(n for n in self.features("down", schema, Numeric) if n not in frozen),
            never=self.never(schema),
            against=self.aim() if served.is_regression else self.label("against", served),
            of=self.label("of", served),
            max_features=self.integer("k", 1, len(schema)),
            answers=self.integer("n", 1, MAX_ANSWERS) or DEFAULT_ANSWERS,
            style=self.choice("style", ALL_STYLES, default_style(schema)),
            template=self.choice("template", languages.FORMS, languages.FORMS[0]),
            language=self.choice("language", languages.names(), schema.language),
            more=self.last("more") == "yes",
            unfit=unfit,
        )
        if state.max_features == served.max_features:
            state = replace(state, max_features=None)
        reversed_ranges = [n for n in state.low if n in state.high and float(state.low[n]) > float(state.high[n])]
        for name in reversed_ranges:
            message = "column {column!r}: the range begins above its end; swap the two"
            self.errors.append(GraceError(message, column=name))
        low = {n: v for n, v in state.low.items() if n not in reversed_ranges}
        return replace(state, low=low, up=tuple(n for n in state.up if n not in state.down))

    def row(self, served: Served) -> tuple[bool, int | None, Cells, tuple[str, ...], GraceError | None]:
        """Whether the row differs from the one of the submitted form, its number, the row, the imputed cells, and the
        error of an example that does not fit the model."""
        asked, previous = self.last("row"), self.last("from")
        row_pairs = self.with_prefix("is.")
        number = self.integer("row", 0, len(served.examples) - 1) if asked else None
        step = self.last("step")
        if step in ("next", "previous"):
            by = 1 if step == "next" else -1
            here = number if number is not None else (-1 if step == "next" else 0)
            return True, *self.example(served, served.after(here, self.label("of", served), by), ())
        new_row = any(k == "from" for k, _ in self.pairs) and asked != previous
        fill = self.features("fill", served.schema)
        if (row_pairs or (fill and number is None)) and not (new_row and number is not None):
            found = self.try_read(read_row, served.schema, dict(row_pairs), fill)
            if found is not None:
                return False, None, *found, None
        return new_row, *self.example(served, number or 0, () if new_row else fill)

    def example(
        self, served: Served, number: int, fill: tuple[str, ...]
    ) -> tuple[int, Cells, tuple[str, ...], GraceError | None]:
        try:
            return number, *served.read_example(number, fill), None
        except GraceError as reason:
            return number, {}, (), reason

    def cells(self, prefix: str, schema: Schema) -> list[tuple[str, Value]]:
        out: dict[str, Value] = {}
        for name, sent in self.with_prefix(prefix):
            feature = self.try_read(schema.__getitem__, name)
            if feature is not None and not is_missing(feature, sent):
                value = self.try_read(parse_cell, feature, sent)
                if value is not None:
                    out[name] = value
        return [(name, out[name]) for name in schema.names if name in out]

    def features(self, key: str, schema: Schema, kind: type[Feature] | None = None) -> tuple[str, ...]:
        asked = {v for k, v in self.pairs if k == key}
        for name in sorted(asked.difference(schema.names)):
            message = "there is no feature {name!r}; features: {known}"
            self.errors.append(GraceError(message, name=name, known=cell_reprs(schema.names)))
        return tuple(f.name for f in schema.features if f.name in asked and (kind is None or isinstance(f, kind)))

    def ends(self, prefix: str, schema: Schema) -> dict[str, Value]:
        return {n: v for n, v in self.cells(prefix, schema) if isinstance(schema[n], Numeric)}

    def never(self, schema: Schema) -> dict[str, tuple[Value, ...]]:
        asked: dict[str, list[Value]] = {}
        for name, sent in self.with_prefix("never."):
            feature = self.try_read(schema.__getitem__, name)
            if isinstance(feature, Categorical):
                value = self.try_read(parse_cell, feature, sent)
                if value is not None:
                    asked.setdefault(name, []).append(value)
        out: dict[str, tuple[Value, ...]] = {}
        for feature in schema.features:
            if isinstance(feature, Categorical) and feature.name in asked:
                excluded = tuple(c for c in feature.selectable if c in asked[feature.name])
                if len(excluded) == len(feature.selectable):
                    message = "column {column!r}: every category is ruled out; leave one, or freeze it"
                    self.errors.append(GraceError(message, column=feature.name))
                elif excluded:
                    out[feature.name] = excluded
        return out

    def label(self, key: str, served: Served) -> Value | None:
        """A class label."""
        text = self.last(key)
        found = next((c for c in served.classes if str(c) == text), None)
        if text and found is None:
            message = "unknown class {label!r}; the classes are {known}"
            self.errors.append(GraceError(message, label=text, known=cell_reprs(served.classes)))
        return found

    def integer(self, key: str, low: int, high: int) -> int | None:
        text = self.last(key)
        if not text:
            return None
        if text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high:
            return int(text)
        self.errors.append(GraceError(INTEGER_ERRORS[key], said=text, low=low, high=high))
        return None

    def aim(self) -> str | None:
        """The target of a predicted number, from the URL or from the form's inputs."""
        kind, text = self.last("aim"), self.last("against")
        if kind:
            found = self.try_read(aim_of, kind, self.last("aim.number"), self.last("aim.upper"))
        else:
            found = self.try_read(read_aim, text) if text else None
        return None if found is None or found.text == DEFAULT_AIM else found.text

    def choice(self, key: str, known: Sequence[str], default: str) -> str:
        """One of the known words; empty for the default."""
        text = self.last(key)
        if text and text not in known:
            message = "{key}={said!r} is unknown; use one of {known}"
            self.errors.append(GraceError(message, key=key, said=text, known=tuple(known)))
            return ""
        return "" if text == default else text


def default_style(schema: Schema) -> str:
    """The default style of differences; empty if features declare their own."""
    return "" if any(isinstance(f, Numeric) and f.style for f in schema.features) else STYLES[0]
