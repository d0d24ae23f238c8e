"""The words of a schema, per language, and the placeholders in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.schema.features import Value
from grace.schema.parsing import fitted

if TYPE_CHECKING:
    from grace.schema.schema import Schema

DEFAULT = "en"
LANGUAGES = [str(Path(__file__).parents[1] / "text" / "languages")]
PLACEHOLDERS = re.compile(r"\{(?:row|class)\}")
ROW_WORDS = ("row", "rows", "verb", "class_words")


def languages() -> tuple[str, ...]:
    """The codes of the available languages: the packages in `grace.text.languages`."""
    return tuple(sorted(m.name for m in iter_modules(LANGUAGES)))


def check_words(schema: Schema) -> None:
    """Raises an error that names a word of the schema or its translations that is unknown, of the wrong type, or has
    placeholders other than {row} and {class}."""
    check_template(schema.verb, "the schema's verb")
    hints = {"row": str, "rows": str, "verb": str, "class_words": Mapping[str, str]}
    for code, words in fitted(
        schema.translations, Mapping[str, Mapping[str, Any]], "the schema's translations"
    ).items():
        for part, word in words.items():
            what = f"translations[{code!r}]: {part}"
            if part not in ROW_WORDS:
                raise GraceError(f"{what} cannot be translated; what can is {', '.join(ROW_WORDS)}")
            fitted(word, hints[part], what)
        check_template(words.get("verb", ""), f"translations[{code!r}]: verb")


def translated(schema: Schema, code: str, words: Mapping[str, Any]) -> Schema:
    """The schema with its words in another language: ROW_WORDS, and those of features under "features"."""
    for part in words:
        if part not in (*ROW_WORDS, "features"):
            raise GraceError(f"{part!r} cannot be translated; what can is {', '.join(ROW_WORDS)}, features")
    of_features = fitted(words.get("features", {}), Mapping[str, Mapping[str, Any]], f"words in {code!r}: features")
    for name in of_features:
        schema.index(name)
    features = tuple(
        replace(f, translations={**f.translations, code: dict(of_features[f.name])}) if f.name in of_features else f
        for f in schema.features
    )
    row = {k: v for k, v in words.items() if k != "features"}
    return replace(schema, features=features, translations={**schema.translations, code: row})


def with_spaces(name: object) -> str:
    """The name of a column, class or category with spaces for underscores."""
    return str(name).replace("_", " ").strip()


def label_words(label: Value, among: Sequence[Value]) -> str:
    """A class or category with spaces for underscores, unless another one would then have the same label."""
    words = with_spaces(label)
    others = [with_spaces(c) for c in among if c != label]
    return words if words and words not in others else str(label)


def fill(template: str, label: Value, row: str = "") -> str:
    """The template with {row} and {class} filled in; not a format string."""
    return _fill(template, str(label), row)


@lru_cache(maxsize=1024)
def _fill(template: str, label: str, row: str) -> str:
    words = {"{row}": row, "{class}": label}
    return PLACEHOLDERS.sub(lambda match: words[match[0]], template)


def check_template(template: str, what: str) -> None:
    """Raises an error if the template has placeholders other than {row} and {class}."""
    if not isinstance(template, str) or re.search(r"[{}]", PLACEHOLDERS.sub("", template)):
        raise GraceError(f"{what} is {template!r}; beside {{row}} and {{class}} it must be plain text without braces")
