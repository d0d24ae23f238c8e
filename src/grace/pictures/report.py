"""Self-contained HTML pages about one explanation or a batch, and their notebook representations.

No external assets; light and dark themes, print styles, accessible. CSS classes start with "grace", to avoid clashes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from grace.pictures import KINDS, STYLE, batch_picture, profile_strips, svg_columns, to_svg
from grace.pictures.drawing import printable
from grace.pictures.numeric import label, value
from grace.pictures.single import picture_words, question, reading, remaining
from grace.schema.features import Value
from grace.schema.words import DEFAULT
from grace.text import decisions, languages, sentence
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.decisions.profile import Profile
    from grace.explain.decisions.reasons import Reasons
    from grace.explain.explanation import Change, Explanation
    from grace.explain.explanations import Explanations

NOTEBOOK_SENTENCES = 5
WIDE, PHONE = 760.0, 350.0  # widths of a profile's strips


def environment(*packages: str, **options: Any) -> Environment:
    """A Jinja environment that looks for templates in the folder `templates` of each package, in this order. Values
    are escaped; undefined names are errors."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )


def report_environment(*packages: str) -> Environment:
    """The environment of self-contained pages, which extend `document.html` of this package. Characters that XML
    forbids are replaced in all values."""
    out = environment(*packages, "grace.pictures", finalize=_printable)
    out.globals |= {"style": STYLE, "language": DEFAULT}
    return out


def _printable(value: Any) -> Any:
    return printable(value) if type(value) is str else value  # not Markup, which is a subclass


TEMPLATES = report_environment()


def page(e: Explanation, profile: Profile | None = None, reasons: Reasons | None = None) -> str:
    """The page of one explanation: sentence, pictures, tables of changed and unchanged features, checks; with the
    profile and the reasons of its row if they are given."""
    words, code = picture_words(e), e.words.language
    changed = {c.name for c in (*e.changes, *e.follow_on)}
    return TEMPLATES.get_template("explanation_page.html").render(
        **_parts(e),
        **({} if profile is None else profile_parts(profile.in_language(code))),
        **({} if reasons is None else reasons_parts(reasons.in_language(code))),
        language=code,
        title=question(e),
        changed=_values(e, e.changes),
        following=_values(e, e.follow_on),
        unchanged=[(name, cell_text(cell, code)) for name, cell in e.row.items() if name not in changed],
        found_by=words["found_by"].format(method=e.settings.get("method"), k=e.settings.get("max_features")),
        checked=words["checked"].format(checks=checks(e)),
    )


def fragment(e: Explanation) -> str:
    """One explanation for a notebook."""
    return TEMPLATES.get_template("fragment.html").render(**_parts(e))


def profile_fragment(profile: Profile) -> str:
    """A profile for a notebook."""
    return TEMPLATES.get_template("profile_fragment.html").render(**profile_parts(profile))


def reasons_fragment(reasons: Reasons) -> str:
    """Reasons for a notebook."""
    return TEMPLATES.get_template("reasons_fragment.html").render(**reasons_parts(reasons))


def profile_parts(profile: Profile) -> dict[str, Any]:
    """The values of `profile.html`: the text, and the strips for wide and narrow pages."""
    words = languages.load(profile.about.words.language).PICTURES
    strips = [to_svg(profile_strips(profile, width=width), inline=True) for width in (WIDE, PHONE)]
    return {"profile": {"title": words["alone_title"], "text": profile.text(), "strips": strips}}


def reasons_parts(reasons: Reasons) -> dict[str, Any]:
    """The values of `reasons.html`: the text, and a line for each set that has values."""
    words = languages.load(reasons.about.words.language).PICTURES
    return {
        "reasons": {"title": words["reasons_title"], "text": reasons.text(), "lines": decisions.reason_lines(reasons)}
    }


def _parts(e: Explanation) -> dict[str, Any]:
    """The values of `explanation.html`, common to page and notebook."""
    backdrop, words = e.backdrop(), picture_words(e)
    noted = [words["note"].format(note=note) for note in e.notes]
    notes = [*noted, remaining(e), words["marks"] if e.success else "", reading(e, backdrop)]
    columns = [parts for parts in svg_columns(e, backdrop) if parts]
    return {"e": e, "words": words, "columns": columns, "notes": " ".join(n for n in notes if n)}


def _values(e: Explanation, changes: Iterable[Change]) -> list[tuple[str, str, str]]:
    """Name, old and new value of each change."""
    return [(label(e, c), value(e, c, c.old), value(e, c, c.new)) for c in changes]


def batch_page(batch: Explanations, *, most: int = 1000) -> str:
    """The page of a batch: metrics, three pictures, and the sentences of the first rows, with a search field."""
    overview = batch.overview()
    sizes = [[to_svg(batch_picture(overview, kind, width=w), inline=True) for w in (860, 390)] for kind in KINDS]
    return TEMPLATES.get_template("batch_page.html").render(
        title=f"{int(batch.success.sum())} of {len(batch)} predictions explained",
        numbers=numbers(batch),
        pictures=sizes,
        count=len(batch),
        lines=sentences(batch, most),
    )


def batch_fragment(batch: Explanations) -> str:
    """A batch for a notebook."""
    return TEMPLATES.get_template("batch_fragment.html").render(
        explained=int(batch.success.sum()),
        picture=to_svg(batch_picture(batch.overview(), "features", width=640), inline=True),
        count=len(batch),
        lines=sentences(batch, NOTEBOOK_SENTENCES),
    )


def sentences(batch: Explanations, max_n: int) -> list[tuple[str, str, str, str]]:
    """Label, sentence, class and contrast class of each of the first rows."""
    lines = []
    for i in range(min(max_n, len(batch))):
        e = batch[i]
        contrast = "none found" if e.contrast_class is None else class_caption(e.words, e.contrast_class)
        lines.append((str(batch.index[i]), e.text(), class_caption(e.words, e.original_class), contrast))
    return lines


def numbers(batch: Explanations) -> list[tuple[str, str]]:
    """Metrics of the batch, as pairs of name and text."""
    m = batch.metrics()
    pairs = [("rows", f"{len(batch):,}"), ("explained", f"{m.fidelity:.0%}")]
    if batch.success.any():
        pairs += [("features changed on average", f"{m.features:.2f}"), ("distance in spreads", f"{m.distance:.2f}")]
        pairs += [("inside the domain", f"{m.domain:.0%}")]
    return pairs


def checks(e: Explanation) -> str:
    """The checks that passed, as text."""
    words = picture_words(e)
    named = {"flip": "check_flip" if e.wanted is None else "check_number"}
    passed = [named.get(k, f"check_{k}") for k, ok in e.checks.items() if ok]
    return ", ".join(words[k] for k in passed if k in words) or words["check_none"]


def cell_text(cell: Value | None, code: str) -> str:
    if cell is None:
        return languages.load(code).PICTURES["missing"]
    number = isinstance(cell, int | float) and not isinstance(cell, bool)
    return sentence.number(sentence.decimal(cell), code) if number else str(cell)
