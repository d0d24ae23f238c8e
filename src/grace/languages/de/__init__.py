"""German: `words` and numbers, `sentences`, and `remarks` that go with them."""

from grace.languages.de.errors import ERRORS
from grace.languages.de.page import PAGE
from grace.languages.de.pictures import PICTURES
from grace.languages.de.remarks import cutoff, failed, minimum, note, one_change, reason, sure
from grace.languages.de.sentences import TEMPLATES
from grace.languages.de.words import (
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
    "NAME",
    "PAGE",
    "PICTURES",
    "SCREEN",
    "TEMPLATES",
    "WORDS",
    "amount",
    "cutoff",
    "failed",
    "figure",
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
    "sure",
]
