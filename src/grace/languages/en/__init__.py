"""English: `words` and numbers, `sentences`, and `remarks` that go with them."""

from grace.languages.en.errors import ERRORS
from grace.languages.en.page import PAGE
from grace.languages.en.pictures import PICTURES
from grace.languages.en.remarks import cutoff, failed, minimum, note, one_change, reason, sure
from grace.languages.en.sentences import TEMPLATES
from grace.languages.en.words import (
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
    "NAME",
    "PAGE",
    "PICTURES",
    "SCREEN",
    "TEMPLATES",
    "TIMES",
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
    "positive",
    "reason",
    "sure",
]
