"""Columns whose names suggest attributes that law often protects, in English and German. A name proves nothing: this is
for a hint, and the choice is the user's."""

from __future__ import annotations

import re
from collections.abc import Iterable

WORDS = (
    "age sex gender race racial ethnicity ethnic nationality citizenship religion religious faith denomination "
    "disability disabled handicap marital married pregnant pregnancy pregnancies dob birthdate birthday birthplace "
    "immigrant foreigner transgender "
    "alter geschlecht rasse ethnie ethnisch herkunft hautfarbe nationalität nationalitaet staatsangehörigkeit "
    "staatsangehoerigkeit staatsbürgerschaft staatsbuergerschaft religionszugehörigkeit konfession glaube behinderung "
    "behindert familienstand verheiratet schwanger schwangerschaft schwangerschaften geburtsdatum geburtsjahr "
    "geburtsort migrationshintergrund"
)
PHRASES = (
    "date of birth, year of birth, birth date, birth year, country of birth, place of birth, national origin, "
    "native country, foreign worker, skin color, skin colour, sexual orientation, sexuelle orientierung, civil status"
)
KNOWN = [(word,) for word in WORDS.split()] + [tuple(phrase.split()) for phrase in PHRASES.split(", ")]
PART = re.compile(r"[A-ZÄÖÜ]+(?![a-zäöüß])|[A-ZÄÖÜ]?[a-zäöüß]+")


def looks_protected(names: Iterable[str]) -> list[str]:
    """The names that hold one of the words as a whole: "Applicant_Age" and "ageYears", not "page" or "average"."""
    return [name for name in names if _matches([part.lower() for part in PART.findall(name)])]


def _matches(parts: list[str]) -> bool:
    return any(tuple(parts[i : i + len(words)]) == words for words in KNOWN for i in range(len(parts)))
