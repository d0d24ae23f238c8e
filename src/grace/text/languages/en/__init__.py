"""English: `words` and numbers, `sentences`, `remarks` that accompany them, and strings of the user `interface`."""

from grace.text.languages.en.decisions import alone, forecast, sets, sufficient, values
from grace.text.languages.en.interface import PAGE, PICTURES
from grace.text.languages.en.remarks import cutoff, failed, minimum, note, one_change, reason, room, sure
from grace.text.languages.en.sentences import TEMPLATES
from grace.text.languages.en.words import (
    MARKS,
    NAME,
    SCREEN,
    TIMES,
    WORDS,
    amount,
    figure,
    has_ratios,
    is_plural,
    label,
    measured,
    named,
    number,
    positive,
)

__all__ = [
    "ERRORS",
    "MARKS",
    "NAME",
    "PAGE",
    "PICTURES",
    "SCREEN",
    "TEMPLATES",
    "TIMES",
    "WORDS",
    "alone",
    "amount",
    "cutoff",
    "failed",
    "figure",
    "forecast",
    "has_ratios",
    "is_plural",
    "label",
    "measured",
    "minimum",
    "named",
    "note",
    "number",
    "one_change",
    "positive",
    "reason",
    "room",
    "sets",
    "sufficient",
    "sure",
    "values",
]

ERRORS: dict[str, str] = {}
"""Messages of GraceError are English already."""
