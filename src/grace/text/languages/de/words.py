"""German words and numbers."""

from __future__ import annotations

from decimal import Decimal

from grace.schema.features import Numeric, Value
from grace.schema.formatting import digits
from grace.text.languages import Words, with_unit
from grace.text.precision import ABOVE_TENFOLD, BELOW_TENTH

WORDS = Words(
    row="die Zeile",
    rows="Zeilen",
    verb="{row} als {class} eingestuft",
    been="gewesen",
    more="höher",
    less="niedriger",
    missing="„keine Angabe“",
    numbered="Klasse {class}",
    there="es",
    tasks={"clustering": "{row} {class} zugeordnet", "regression": "{class} vorhergesagt"},
    cluster="Cluster {class}",
    date={"unit": "Tage", "unit_one": "Tag", "more": "später", "less": "früher"},
)
MARKS = (".", ",")
NAME = "Deutsch"
SCREEN = {
    "feature": "Merkmal",
    "is": "ist",
    "would": "wäre",
    "or": "Oder: ",
    "note": "Hinweis: ",
    "along": "wäre dann",
    "alone": "ändert es allein",
    "points": "Punkte",
    "more": "und {n} weitere Merkmale",
}
PERCENT = {"": "", ">": "mehr als ", "<": "weniger als ", "just >": "etwas mehr als ", "just <": "etwas weniger als "}
AND = "und"
COUNT = ("drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn")
FRACTIONS = (
    "1/10=ein Zehntel; 1/8=ein Achtel; 1/6=ein Sechstel; 1/5=ein Fünftel; 1/4=ein Viertel; 1/3=ein Drittel; "
    "1/2=halb; 2/3=zwei Drittel; 3/4=drei Viertel; 3/2=anderthalbmal; 2=doppelt; 5/2=zweieinhalbmal"
)
TIMES = dict(pair.split("=") for pair in FRACTIONS.split("; "))
TIMES |= {str(n): f"{word}mal" for n, word in enumerate(COUNT, 3)}
TIMES |= {BELOW_TENTH: "weniger als ein Zehntel", ABOVE_TENFOLD: "mehr als zehnmal"}
IRREGULAR = (
    "höher=hoch größer=groß länger=lang kürzer=kurz älter=alt jünger=jung stärker=stark schwächer=schwach "
    "wärmer=warm kälter=kalt ärmer=arm näher=nah mehr=viele weniger=wenige dunkler=dunkel teurer=teuer"
)
REGULAR = (
    "niedrig gering klein dick dünn häufig selten weit spät früh hell schwer leicht schnell langsam tief "
    "breit schmal steil reich billig hart weich neu"
)
POSITIVE = dict(pair.split("=") for pair in IRREGULAR.split()) | {f"{word}er": word for word in REGULAR.split()}
"""Comparatives and their positive forms."""
VALUE_UNITS = {"Prozentpunkte": " %", "Stufen": ""}
"""Units of differences, with the suffix of values."""


def named(name: str) -> str:
    return f"der Wert von „{name}“"


def is_plural(words: str) -> bool:
    """Never: the subject is "der Wert von …"."""
    return False


def label(value: Value) -> str:
    return f"„{value}“"


def quoted(words: str) -> str:
    """The words in quotation marks, which avoids inflection."""
    return words if words.startswith("„") else f"„{words}“"


def figure(low: Decimal | None, high: Decimal | None, *, about: bool) -> str:
    if low is None or high is None:
        return f"höchstens {number(high)}" if high is not None else f"mindestens {number(low or Decimal(0))}"
    return f"{'etwa ' if about else ''}{number(low)}" if low == high else f"zwischen {number(low)} und {number(high)}"


def number(size: Decimal) -> str:
    return digits(size, *MARKS)


def amount(feature: Numeric, size: Decimal) -> str:
    return with_unit(feature, size, number)


def measured(feature: Numeric, size: Decimal) -> str:
    """The value of a share is in per cent, its differences are in percentage points."""
    unit = VALUE_UNITS.get(feature.unit)
    return amount(feature, size) if unit is None else number(size) + unit


def has_ratios(feature: Numeric) -> bool:
    return feature.more in POSITIVE
