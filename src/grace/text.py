"""The sentence: what would have had to be different, in exact terms and literally true."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from grace.features import Categorical, Feature, Numeric, Value

if TYPE_CHECKING:
    from grace.explanation import Change, Explanation

THOUSANDS = 10_000  # numbers from here on get a comma every three digits


def sentence(e: Explanation) -> str:
    """ "Had bare nuclei been 7 points lower, the model would have classified the patient as benign rather
    than malignant." """
    before = e.words.class_word(e.original_class)
    if not e.success or e.contrast_class is None:
        said = e.words.verb.format(**{"row": e.words.row, "class": before})
        return f"The model {said}; {e.reason}."
    said = e.words.verb.format(**{"row": e.words.row, "class": e.words.class_word(e.contrast_class)})
    return f"Had {listed(clauses(e.changes))}, the model would have {said} rather than {before}.{minimal(e)}"


def minimal(e: Explanation) -> str:
    """What a proof adds: that nothing smaller could have done it."""
    if e.proof is None or e.proof["verdict"] != "minimal" or len(e.changes) < 2:
        return ""
    if len(e.changes) == 2:
        return " Within these ranges, no single change could have done it."
    fewer = {2: "two", 3: "three", 4: "four"}.get(len(e.changes) - 1, str(len(e.changes) - 1))
    return f" Within these ranges, no {fewer} changes could have done it."


def clauses(changes: Sequence[Change]) -> list[str]:
    """One clause per change; a verb is not said twice in a row."""
    out = []
    previous = None
    for change in changes:
        said = (change.feature.been, type(change.feature))
        verb = "" if said == previous else f"{change.feature.been} "
        out.append(f"{phrase(change.feature)} {verb}{amount(change)}")
        previous = said
    return out


def phrase(feature: Feature) -> str:
    """What a person calls the feature."""
    return feature.phrase or feature.name.replace("_", " ")


def amount(change: Change) -> str:
    """ "7 points lower", "0.35 instead of 0.2777779", or the new category."""
    feature = change.feature
    if isinstance(feature, Categorical):
        return feature.label(change.new)
    old, new = decimal(change.old), decimal(change.new)
    apart = abs(new - old)
    if places(apart) > max(places(new), feature.digits, 0):
        return f"{number(new)}{unit(feature, new)} instead of {number(old)}"
    return f"{number(apart)}{unit(feature, apart)} {feature.more if new > old else feature.less}"


def unit(feature: Numeric, size: Decimal) -> str:
    word = feature.unit_one if abs(size) == 1 and feature.unit_one else feature.unit
    return f" {word}" if word else ""


def value(feature: Feature, cell: Value) -> str:
    """A cell as a person reads it."""
    if isinstance(feature, Categorical):
        return feature.label(cell)
    return f"{number(decimal(cell))}{unit(feature, decimal(cell))}"


def decimal(cell: Value) -> Decimal:
    """The shortest decimal number that stands for the cell."""
    return Decimal(repr(float(cell))).normalize()


def places(size: Decimal) -> int:
    """Decimals needed to write the number."""
    exponent = size.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def number(size: Decimal) -> str:
    """In plain digits, never 1e-05; a comma every three from ten thousand on."""
    plain = f"{size.normalize():,f}" if abs(size) >= THOUSANDS else f"{size.normalize():f}"
    return plain.replace("-", "\N{MINUS SIGN}")


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
