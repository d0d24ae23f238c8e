"""Pictures of explanations, as SVG text or matplotlib predicted_texts.

    svg(e)           one explanation as SVG, made in milliseconds without any plotting library
    svg_columns(e)   its parts one by one, for a page that arranges them itself
    figure(e)        the same as a matplotlib figure (the extra `plot`)
    batch_picture(overview, kind)   a batch; `draw` or `to_svg` it
    profile_svg(p), profile_figure(p)   what each feature of a row does alone

A picture is laid out as a `Drawing` (drawing) and rendered by svg or matplotlib_backend, all pure functions. single
arranges the panels of one explanation: numeric, category, plane (two numbers) and probabilities; batch draws many,
profile what each feature does alone.
compute_backdrop queries the model for the curves and histograms behind the changes (backdrop). report renders the HTML
pages, with the Jinja environments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grace.errors import GraceError, pip_install
from grace.pictures.backdrop import Backdrop
from grace.pictures.batch import KINDS, Overview, batch_picture
from grace.pictures.drawing import Drawing
from grace.pictures.profile import profile_picture, profile_strips
from grace.pictures.single import panels, picture
from grace.pictures.svg import STYLE, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from grace.explain.decisions.profile import Profile
    from grace.explain.explanation import Explanation

__all__ = [
    "KINDS",
    "STYLE",
    "Backdrop",
    "Drawing",
    "Overview",
    "batch_picture",
    "draw",
    "figure",
    "panels",
    "picture",
    "profile_figure",
    "profile_picture",
    "profile_strips",
    "profile_svg",
    "svg",
    "svg_columns",
    "to_svg",
]


def svg(
    e: Explanation, backdrop: Backdrop | None = None, *, width: float = 760.0, theme: str = "auto", inline: bool = False
) -> str:
    """One explanation as an `<svg>` element; histograms and curves need the backdrop."""
    return to_svg(picture(e, backdrop, width=width), theme=theme, inline=inline)


def svg_columns(
    e: Explanation, backdrop: Backdrop | None = None, *, columns: int = 2, width: float = 360.0, theme: str = "auto"
) -> list[list[str]]:
    """The panels of the picture by column, each an inline `<svg>` of this width. The page has to include `STYLE`."""
    out: list[list[str]] = [[] for _ in range(columns)]
    for part, at in panels(e, backdrop, [width] * columns):
        out[at].append(to_svg(part, theme=theme, inline=True))
    return out


def figure(e: Explanation, backdrop: Backdrop | None = None, *, width: float = 760.0, theme: str = "light") -> Figure:
    """One explanation as a matplotlib figure."""
    return draw(picture(e, backdrop, width=width), theme=theme)


def profile_svg(profile: Profile, *, width: float = 760.0, theme: str = "auto", most: int = 30) -> str:
    """What each feature of a row does alone, as an `<svg>` element; at most so many features."""
    return to_svg(profile_picture(profile, width=width, most=most), theme=theme)


def profile_figure(profile: Profile, *, width: float = 760.0, theme: str = "light", most: int = 30) -> Figure:
    """The same as a matplotlib figure."""
    return draw(profile_picture(profile, width=width, most=most), theme=theme)


def draw(drawing: Drawing, *, theme: str = "light") -> Figure:
    """A drawing as a matplotlib figure."""
    try:
        from grace.pictures.matplotlib_backend import to_figure
    except ImportError as missing:
        raise GraceError(
            f"plot() needs matplotlib: {pip_install('plot')}; to_svg() and to_html() do without"
        ) from missing
    return to_figure(drawing, theme=theme)
