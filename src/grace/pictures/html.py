"""HTML by Jinja templates, which lie in the folder `templates` of each package."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from grace.pictures.drawing import printable
from grace.pictures.svg import STYLE
from grace.schema.words import DEFAULT


def environment(*packages: str, **options: Any) -> Environment:
    """The templates of the packages; the first that has a name wins. All values are escaped, and names without a
    value are errors."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )


def report_environment(*packages: str) -> Environment:
    """Templates of self-contained pages, which extend `document.html` of this package. Characters that XML forbids
    are replaced in all values."""
    found = environment(*packages, "grace.pictures", finalize=_printable)
    found.globals |= {"style": STYLE, "language": DEFAULT}
    return found


def _printable(value: Any) -> Any:
    return printable(value) if type(value) is str else value  # not Markup, which is a subclass
