"""Errors in the language of the page."""

from __future__ import annotations

from dataclasses import dataclass

from grace.errors import GraceError
from grace.schema.words import DEFAULT
from grace.text.languages import load


@dataclass(frozen=True)
class Message:
    """A text and its language; `lead` announces a language other than the page's."""

    text: str
    code: str
    lead: str = ""


def message(reason: GraceError, code: str) -> Message:
    """An error in a language; in English if it has no translation."""
    language = load(code)
    found = reason.translated(language.ERRORS)
    if found is not None or code == DEFAULT:
        return Message(found or str(reason), code)
    return Message(str(reason), DEFAULT, language.PAGE["in_english"])
