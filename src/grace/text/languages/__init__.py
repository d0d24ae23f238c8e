"""The languages of the sentences: one package each, named by its language code and discovered by its presence.

A package has what `Language` declares: all grammar, but no decision about the content, which is given as `Facts`.
Nothing outside the packages names a language, except `words.DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from grace.errors import GraceError
from grace.schema import words
from grace.schema.features import Categorical, Feature, Numeric, Value
from grace.schema.formatting import decimal
from grace.text.decision_facts import AloneFacts, ForecastFacts, SetFacts, SufficientFacts, Values
from grace.text.precision import Difference, NewCategory, Replacement

FORMS = ("had", "because", "typical")
MAX_NAMED = 3  # a condition with more features gives their number instead


@dataclass(frozen=True)
class Words:
    """The default words of a language, where the schema has none. {row} and {class} are filled into `verb`, `cluster`
    and `tasks`, the verbs of other tasks than classification. `missing` is the label of a missing cell, `numbered` that
    of a class known by a number only, `there` the phrase of counts ("there were 3 nuclei"), and `date` has the unit and
    the comparatives of dates."""

    row: str
    rows: str
    verb: str
    been: str
    more: str
    less: str
    missing: str
    numbered: str
    there: str
    tasks: Mapping[str, str]
    cluster: str
    date: Mapping[str, str]


@dataclass(frozen=True)
class ChangedFeature:
    """A changed feature, with its words in the language, and the difference as it is stated."""

    feature: Feature
    difference: Difference


@dataclass(frozen=True)
class Facts:
    """The content of a sentence. `before` and `after` are the words for the classes X and Y; `follow_on` are the
    features that change as a consequence of the `changes`."""

    row: str
    rows: str
    verb: str
    before: str
    after: str
    changes: tuple[ChangedFeature, ...]
    follow_on: tuple[ChangedFeature, ...] = ()


@dataclass(frozen=True)
class RegionValues:
    """The values of a feature in a region, in words: the two ends of an interval, one value, or categories."""

    feature: Feature
    words: tuple[str, ...]
    is_interval: bool


@dataclass(frozen=True)
class Limits:
    """The conditions of a proof. `count` is the number of changes that it covers; `fixed`, `rising` and `falling` are
    the features that may not change, only increase or only decrease; `categories`: some categories may not be chosen;
    `distinct`: redundant features may not change together; `confidence`: the required probability; `towards`: the words
    for the required class or, with `is_number`, for the range of the predicted number, empty for any other class;
    `protected`: features that no lifted limit releases; `except_ties`: ties are left out, which the model may decide as
    was asked for."""

    count: int
    fixed: tuple[Feature, ...] = ()
    rising: tuple[Feature, ...] = ()
    falling: tuple[Feature, ...] = ()
    categories: bool = False
    distinct: bool = False
    confidence: float = 0.0
    towards: str = ""
    is_number: bool = False
    protected: tuple[Feature, ...] = ()
    except_ties: bool = False

    @property
    def between_classes(self) -> bool:
        """Whether a tie is one between classes, and not with a required probability or number."""
        return self.confidence <= 0 and not self.is_number


class Language(Protocol):
    """The names that the package of a language defines."""

    WORDS: Words
    TEMPLATES: Mapping[str, Sequence[Callable[[Facts], str]]]
    """For each of FORMS, the templates of sentences without full stop, the default first. "had": what would have had to
    be different. "because": what was the case instead. "typical": how the row differs from the medians of class Y;
    there, a difference is that of the row's value from the median."""
    MARKS: tuple[str, str]
    """The marks between groups of three digits and before decimals, as `number` writes them."""
    NAME: str
    """The name of the language in the language."""
    SCREEN: Mapping[str, str]
    """Headings of terminal output: feature, is, would, or, note, along, alone, points; and `more` features."""
    PICTURES: Mapping[str, str]
    """Strings of pictures and reports, as format strings."""
    PAGE: Mapping[str, str]
    """Strings of the web page, as format strings."""
    ERRORS: Mapping[str, str]
    """Translations of error messages that the web page shows, by the format string of the GraceError."""

    def named(self, name: str) -> str:
        """The words for a feature of which only the name is known."""

    def label(self, value: Value) -> str:
        """The words for a class or category of which only the value is known."""

    def number(self, size: Decimal) -> str: ...

    def figure(self, low: Decimal | None, high: Decimal | None, *, about: bool) -> str:
        """A number known by its limits: "at most 3"; the number itself where both are equal."""

    def amount(self, feature: Numeric, size: Decimal) -> str:
        """A difference with its unit."""

    def measured(self, feature: Numeric, size: Decimal) -> str:
        """A value with its unit."""

    def is_plural(self, words: str) -> bool:
        """Whether the words of `named` take a verb in the plural."""

    def has_ratios(self, feature: Numeric) -> bool:
        """Whether "twice as high" can be expressed with the feature's comparatives."""

    def sure(self, probability: float, *, then: bool) -> str:
        """A clause to append: the probability of class X, or (`then`) that of Y after the changes."""

    def cutoff(self, share: str, named: str, *, reached: bool, then: bool) -> str:
        """A clause to append: whether the probability of a class reaches its threshold, before or (`then`) after the
        changes. Without a class: that each class has a threshold."""

    def one_change(self, limits: Limits, feature: Feature, size: str) -> str:
        """A note that a proven answer with a single change is minimal; with a `size`, that no smaller change of the
        feature is an answer."""

    def minimum(self, limits: Limits, form: str) -> str:
        """A sentence: no change of so few features would have sufficed under these limits."""

    def room(self, facts: Facts, values: Sequence[RegionValues], points: int) -> str:
        """A sentence: with any of these values of the changed features, the model would have decided for class Y. It is
        proven, or was checked at so many points."""

    def failed(self, facts: Facts, reason: str) -> str:
        """The sentence for a row without an answer, without full stop."""

    def reason(self, miss: Mapping[str, Any], limits: Limits) -> str:
        """Why there is no answer, see `diagnosis`; features and classes in its remedies are words. `limits` are those
        of a proof, else those of the call."""

    def note(self, remark: Mapping[str, Any], feature: Feature | None) -> str:
        """A remark about the row or one of its features; see `Explanation.remarks`."""

    def values(self, part: Values) -> str:
        """Values of a feature: "at most 3 or at least 8"."""

    def alone(self, facts: AloneFacts) -> str:
        """Which features could have changed the prediction alone, and which could not."""

    def forecast(self, facts: ForecastFacts) -> str:
        """How well adding up points forecasts the model, and which pairs add more or less than their sum."""

    def sets(self, facts: SetFacts) -> str:
        """How many sets of features could have changed the prediction."""

    def sufficient(self, facts: SufficientFacts) -> str:
        """Which features entail the prediction, whatever the others are."""


def names() -> tuple[str, ...]:
    """The codes of the available languages."""
    return words.languages()


@cache
def load(code: str) -> Language:
    """The language with this code."""
    if code not in names():
        raise GraceError(f"there is no language {code!r}; there are {', '.join(names())}")
    return cast(Language, import_module(f"{__name__}.{code}"))


def listed(parts: Sequence[str], last: str) -> str:
    """ "a", "a and b", "a, b and c"; separated by semicolons if a part contains a comma."""
    if len(parts) == 1:
        return parts[0]
    comma, before = ("; ", ";") if any(", " in p for p in parts) else (", ", "")
    return f"{comma.join(parts[:-1])}{before} {last} {parts[-1]}"


def grouped(
    parts: Sequence[ChangedFeature], key: Callable[[ChangedFeature], str]
) -> list[tuple[str, list[ChangedFeature]]]:
    """The changes grouped by a key, in the order of first occurrence."""
    groups: dict[str, list[ChangedFeature]] = {}
    for part in parts:
        groups.setdefault(key(part), []).append(part)
    return list(groups.items())


def if_few(names: Sequence[str]) -> Sequence[str]:
    """The names, or none if there are more than MAX_NAMED."""
    return names if len(names) <= MAX_NAMED else ()


def with_unit(feature: Numeric, size: Decimal, number: Callable[[Decimal], str]) -> str:
    """A number with its unit."""
    word = feature.unit_one if abs(size) == 1 and feature.unit_one else feature.unit
    return f"{number(size)} {word}" if word else number(size)


def percent(share: float) -> tuple[str, int]:
    """A probability as a sign and whole per cent. The sign keeps the number on the correct side of 0, 50 and 100: "<",
    ">", "just <" or "just >"."""
    whole = int(share * 100 + 0.5)
    if whole in (0, 100):
        return (">", 99) if whole else ("<", 1)
    if whole == 50 and share != 0.5:
        return "just >" if share > 0.5 else "just <", 50
    return "", whole


def shown(number: Callable[[Decimal], str], value: Value) -> str:
    """A number in the digits of a language; a date, which is text, unchanged."""
    return value if isinstance(value, str) else number(decimal(value))


def category(feature: Feature, value: Value) -> str:
    """The label of a category; a date, which is text, unchanged."""
    return feature.label(value) if isinstance(feature, Categorical) else str(value)


def upper(sentence: str) -> str:
    """The sentence with a capital first letter."""
    return sentence[:1].upper() + sentence[1:]


def value_words(change: ChangedFeature, measured: Callable[[Numeric, Decimal], str], about: str) -> tuple[str, str]:
    """The new and the old value of a feature; `about` precedes an old value that is rounded."""
    feature, diff = change.feature, change.difference
    if isinstance(diff, NewCategory):
        return category(feature, diff.new), category(feature, diff.old)
    assert isinstance(feature, Numeric)
    assert isinstance(diff, Replacement)
    return measured(feature, diff.new), f"{about if diff.about_old else ''}{measured(feature, diff.old)}"
