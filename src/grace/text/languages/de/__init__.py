"""German: `words` and numbers, `sentences`, `remarks` that accompany them, and strings of the user `interface`."""

from grace.text.languages.de.decisions import alone, forecast, sets, sufficient, values
from grace.text.languages.de.errors import ERRORS
from grace.text.languages.de.interface import PAGE, PICTURES
from grace.text.languages.de.remarks import cutoff, failed, minimum, note, one_change, reason, room, sure
from grace.text.languages.de.sentences import TEMPLATES
from grace.text.languages.de.words import (
    MARKS,
    NAME,
    SCREEN,
    WORDS,
    amount,
    figure,
    has_ratios,
    is_plural,
    label,
    measured,
    named,
    number,
)

__all__ = [
    "ERRORS",
    "MARKS",
    "NAME",
    "PAGE",
    "PICTURES",
    "SCREEN",
    "TEMPLATES",
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
    "reason",
    "room",
    "sets",
    "sufficient",
    "sure",
    "values",
]
