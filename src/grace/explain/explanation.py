"""One explanation: the row x, the contrastive row x̃, and what is derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.explain.explanation_json import change_parts, explanation_parts
from grace.explain.json_text import Shared, indented, unshared
from grace.schema.caching import cached_on_first
from grace.schema.features import Feature, Numeric, Value
from grace.schema.parsing import read_json
from grace.schema.schema import Schema
from grace.schema.schema_file import feature_to_dict
from grace.text import sentence
from grace.text.vocabulary import feature_words, schema_words, with_class_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from grace.explain.decisions.profile import Profile
    from grace.explain.decisions.reasons import Reasons
    from grace.explain.region import Region
    from grace.pictures.backdrop import Backdrop


Fields = Callable[[], Mapping[str, Any]]
DEFERRED = ("changes", "miss", "remarks", "typical", "words")
"""Fields that may need model calls; `Explanation.deferred` computes them on first access."""
COMPUTED = ("make_backdrop", "make_region")
"""Fields that compute what is derived, from the explainer."""


@cached_on_first
def shared_feature(feature: Feature) -> Shared:
    return Shared(feature_to_dict(feature))


@cached_on_first
def shared_words(words: Schema) -> Shared:
    return Shared(words.to_dict())


@dataclass(frozen=True)
class Change:
    """A changed feature with its old and new value. `span` is the interval of a number in which the prediction stays
    the same, given the other changes; None if it is unknown."""

    feature: Feature
    old: Value
    new: Value
    span: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        return self.feature.name

    @property
    def difference(self) -> float | None:
        """new - old in exact decimal arithmetic; None for a category."""
        if not isinstance(self.feature, Numeric):
            return None
        return float(Decimal(repr(float(self.new))) - Decimal(repr(float(self.old))))

    @property
    def to_the_end(self) -> bool:
        """Whether the prediction stays the same from the new value to the end of the range in the same direction."""
        if self.span is None or not isinstance(self.feature, Numeric):
            return False
        low, high = self.feature.bounds
        return self.span[1] >= high if float(self.new) > float(self.old) else self.span[0] <= low

    def __repr__(self) -> str:
        return f"<Change: {self}>"

    def __str__(self) -> str:
        old, new = sentence.value(self.feature, self.old), sentence.value(self.feature, self.new)
        return f"{sentence.phrase(self.feature)}: {old} → {new}"

    def in_language(self, current: str, code: str) -> Change:
        """The change with the words of the feature in the language `code` instead of `current`."""
        return replace(self, feature=feature_words(self.feature, current, code))

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = unshared(self.record())
        return out

    def record(self) -> dict[str, Any]:
        """The same, with parts that other records share."""
        return {
            "feature": self.name,
            "old": self.old,
            "new": self.new,
            "difference": self.difference,
            "span": None if self.span is None else list(self.span),
            "schema": shared_feature(self.feature),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        return cls(*change_parts(data))


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why X rather than Y, for one row.

    `miss` is the record of why there is no answer, and `remarks` are records about the row; `reason` and `notes` are
    their texts. `typical` has the medians of the changed numbers among training rows of class Y, if the model predicts
    Y for them, too. For a regression, `original_class` and `contrast_class` are predicted numbers, and `wanted` is the
    target range. `sure` is whether the model has probabilities; otherwise `before` and `after` are empty. `cutoffs` are
    the probabilities above which classes are predicted, if it is not the most probable class that is predicted.
    """

    row: Mapping[str, Any]  # None where a cell is missing
    changes: tuple[Change, ...]  # the intervention
    classes: tuple[Value, ...]
    original_class: Value
    contrast_class: Value | None
    before: tuple[float, ...]  # the probability of each class, or the number predicted
    after: tuple[float, ...]
    success: bool
    miss: Mapping[str, Any] | None
    proof: Mapping[str, Any] | None
    checks: Mapping[str, bool]
    distance: float
    remarks: tuple[Mapping[str, Any], ...]
    settings: Mapping[str, Any]
    words: Schema = field(repr=False)
    typical: Mapping[str, float] = field(default_factory=dict)
    task: str = "classification"
    sure: bool = True
    cutoffs: tuple[tuple[Value, float], ...] = ()
    wanted: Mapping[str, float | None] | None = None
    alternatives: tuple[Explanation, ...] = ()
    follow_on: tuple[Change, ...] = ()  # consequences of the changes, see `grace.problem.requirements.consequences`
    protected: tuple[str, ...] = ()  # features that were protected in this call
    make_backdrop: Callable[[], Backdrop] | None = field(default=None, repr=False, compare=False)
    make_region: Callable[[], Region | None] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def deferred(
        cls,
        compute: Callable[[], Mapping[str, Any]],
        read_row: Callable[[], Mapping[str, Any]],
        known: Mapping[str, Any],
    ) -> Explanation:
        """An explanation with the fields `known`; `compute` returns the `DEFERRED` ones when one of them is read, and
        `read_row` the field `row`."""
        out = cls.__new__(cls)
        out.__dict__.update(known)  # the generated __init__ would take several times longer
        out.__dict__["_compute"], out.__dict__["_read_row"] = compute, read_row
        return out

    def computed(self) -> Explanation:
        """This explanation, with its deferred fields and regions computed now, as in a thread that may call the
        model."""
        _ = self.words
        for e in (self, *self.alternatives):
            _ = e.region
        return self

    if not TYPE_CHECKING:  # mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            if name == "row" and "_read_row" in self.__dict__:
                self.__dict__["row"] = self.__dict__["_read_row"]()
            elif name in DEFERRED and "_compute" in self.__dict__:
                self.__dict__.update(self.__dict__["_compute"]())
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self.__dict__[name]

    @property
    def contrast(self) -> dict[str, Any]:
        """The contrastive row x̃; the original row if there is none."""
        return {**self.row, **{c.name: c.new for c in (*self.changes, *self.follow_on)}}

    @property
    def predicate(self) -> str:
        """The changed features with their new values (Definition 1)."""
        return " and ".join(f"{c.name} = {c.new}" for c in self.changes)

    def influence(self, tolerance: float = 1.0) -> float:
        """infl_λ = 1[Y ≠ X] / |S|^λ (Definition 2)."""
        return 1.0 / len(self.changes) ** tolerance if self.success else 0.0

    def probability(self, label: Value, *, after: bool = False) -> float:
        """The model's probability of a class, before or after the changes."""
        if self.task == "regression":
            raise GraceError(
                "the model predicts a number, which has no probability; see original_class and contrast_class"
            )
        if not self.sure:
            raise GraceError(
                "the model gives no probability of its classes: its scores are labels, distances or margins; "
                "look at sure before asking"
            )
        if label not in self.classes:
            raise GraceError(f"unknown class {label!r}; the classes are {', '.join(map(repr, self.classes))}")
        return (self.after if after else self.before)[self.classes.index(label)]

    @property
    def region(self) -> Region | None:
        """The box around the answer in which the model decides the same, computed on first use. None without an answer,
        where other features follow the changed ones, where the answer is outside its limits, where a black box may not
        be asked any more, or for an explanation that was read from JSON without it."""
        if self.make_region is None:
            return None
        region = self.make_region()
        object.__setattr__(self, "make_region", lambda: region)
        return region

    def text(
        self,
        style: str | None = None,
        *,
        language: str | None = None,
        template: str | None = None,
        seed: int = 0,
        hedge: bool = False,
        room: bool = False,
    ) -> str:
        """The explanation as a sentence.

        style     "exact", "magnitude" or "relative"; "auto" by the kind of each number; "range": all values of the
                  `region` where it is proven, else "exact"; None for the `style` in the schema, else "exact"
        language  a code among `grace.languages.names()`; None for that of the schema
        template  "had": what would have had to be different; "because": what made the difference;
                  "typical": the same beside what is typical of the other class, where that is true
        seed      0 for the first sentence of the template (None: "had"), else one drawn for each row
        hedge     add the probabilities
        room      add a sentence about the `region`, if it is known
        """
        return sentence.sentence(self, style, language, template, seed, hedge, room)

    @property
    def reason(self) -> str:
        """Why there is no answer; empty if there is one."""
        return sentence.reason(self, self.words.language)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the row."""
        return sentence.notes(self, self.words.language)

    def in_language(self, code: str) -> Explanation:
        """The explanation with all words in another language: sentence, reason, notes, pictures and page."""
        current = self.words.language
        if code == current:
            return self
        predictions = [self.original_class, *([] if self.contrast_class is None else [self.contrast_class])]
        words = schema_words(self.words, code)
        return replace(
            self,
            words=with_class_words(words, self.task, self.classes, predictions, self.wanted),
            changes=tuple(c.in_language(current, code) for c in self.changes),
            follow_on=tuple(c.in_language(current, code) for c in self.follow_on),
            alternatives=tuple(e.in_language(code) for e in self.alternatives),
        )

    # -- pictures -----------------------------------------------------------------------------

    def backdrop(self) -> Backdrop | None:
        """What pictures show behind the changes: training rows and predictions along the changed features. Computed on
        first use; None without changes, or for an explanation that was read from JSON without it."""
        if self.make_backdrop is None or not self.changes:
            return None
        backdrop = self.make_backdrop()
        object.__setattr__(self, "make_backdrop", lambda: backdrop)
        return backdrop

    def plot(self, *, width: float = 760, theme: str = "light") -> Figure:
        """The explanation as a matplotlib figure (requires the extra `plot`)."""
        from grace.pictures import figure

        return figure(self, self.backdrop(), width=width, theme=theme)

    def to_svg(self, *, width: float = 760, theme: str = "auto") -> str:
        """The same picture as SVG, which needs no matplotlib and adapts to light and dark."""
        from grace.pictures import svg

        return svg(self, self.backdrop(), width=width, theme=theme)

    def to_html(self, *, profile: Profile | None = None, reasons: Reasons | None = None) -> str:
        """A self-contained page about this explanation, with a profile and the reasons of its row if given."""
        from grace.pictures.report import page

        return page(self, profile, reasons)

    def _repr_html_(self) -> str:
        from grace.pictures.report import fragment

        return fragment(self)

    def __getstate__(self) -> dict[str, Any]:
        """All fields except those that refer to the explainer, and so to training rows."""
        return {**{f.name: getattr(self, f.name) for f in fields(self)}, **dict.fromkeys(COMPUTED)}

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        if not self.success:
            return f"<Explanation: no contrast to {self.original_class!r}: {self.reason}>"
        lines = [f"<Explanation: {self.contrast_class!r} rather than {self.original_class!r}"]
        lines += [f"  {c}" for c in self.changes]
        lines += [f"  following: {c}" for c in self.follow_on]
        return "\n".join([*lines, f"  {self.text()}>"])

    # -- JSON ---------------------------------------------------------------------------------

    def to_dict(self, *, backdrop: bool = False, region: bool = True) -> dict[str, Any]:
        """All fields and texts as JSON; without `region`, nothing about it; with `backdrop`, also what pictures need,
        which includes values of training rows if two numbers change."""
        out: dict[str, Any] = unshared(self.record(backdrop=backdrop, region=region))
        return out

    def record(
        self, *, backdrop: bool = False, region: bool = False, how: sentence.TextOptions | None = None
    ) -> dict[str, Any]:
        """The same, with parts that other records share; `how` are arguments of `text`."""
        drawn, room = self.backdrop() if backdrop else None, self.region if region else None
        return {
            "text": self.text(**(how or {})),
            "success": self.success,
            "reason": self.reason,
            "miss": None if self.miss is None else dict(self.miss),
            "proof": None if self.proof is None else dict(self.proof),
            "original_class": self.original_class,
            "contrast_class": self.contrast_class,
            "changes": [c.record() for c in self.changes],
            "follow_on": [c.record() for c in self.follow_on],
            "predicate": self.predicate,
            "influence": self.influence(),
            "distance": self.distance,
            "classes": list(self.classes),
            "before": list(self.before),
            "after": list(self.after),
            "checks": dict(self.checks),
            "notes": list(self.notes),
            "remarks": [dict(r) for r in self.remarks],
            "typical": dict(self.typical),
            "task": self.task,
            "sure": self.sure,
            "cutoffs": [list(pair) for pair in self.cutoffs],
            "wanted": None if self.wanted is None else dict(self.wanted),
            "row": dict(self.row),
            "protected": list(self.protected),
            "settings": self.settings if isinstance(self.settings, Shared) else dict(self.settings),
            "words": shared_words(self.words),
            "alternatives": [e.record(backdrop=backdrop, region=region) for e in self.alternatives],
            **({} if not region else {"region": None if room is None else room.to_dict()}),
            **({} if drawn is None else {"backdrop": drawn.to_dict()}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """The inverse of `to_dict`."""
        names = {f.name for f in fields(cls)} - {*COMPUTED}
        parts = {k: v for k, v in explanation_parts(data).items() if k in names}
        if data.get("backdrop") is not None:
            from grace.pictures.backdrop import Backdrop

            drawn = Backdrop.from_dict(data["backdrop"])
            parts["make_backdrop"] = lambda: drawn
        if data.get("region") is not None:
            from grace.explain.region import Region

            region = Region.from_dict(data["region"])
            parts["make_region"] = lambda: region
        for name in ("changes", "follow_on"):
            parts[name] = tuple(Change.from_dict(c) for c in parts.get(name, ()))
        parts["alternatives"] = tuple(cls.from_dict(e) for e in parts.get("alternatives", ()))
        parts["words"] = Schema.from_dict(parts["words"])
        if not parts.get("sure", True):
            parts["before"] = parts["after"] = ()  # older files have scores that are no probabilities
        return cls(**parts)

    def to_json(self, *, backdrop: bool = False, region: bool = True) -> str:
        return indented(self.record(backdrop=backdrop, region=region))

    @classmethod
    def from_json(cls, written: str) -> Explanation:
        return cls.from_dict(read_json(written, "the explanation"))
