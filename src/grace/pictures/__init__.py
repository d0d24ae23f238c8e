"""Pictures of explanations, as SVG text or matplotlib figures.

    svg(e)           one explanation as SVG, made in milliseconds without any plotting library
    svg_panels(e)    its parts one by one, for a page that arranges them itself
    figure(e)        the same as a matplotlib figure (the extra `plot`)
    batch_picture(overview, kind)   a batch; `draw` or `to_svg` it

Every picture is laid out once as a `Drawing` and drawn by either. They are pure functions of what they are given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grace.errors import GraceError
from grace.explanation import Explanation
from grace.pictures.backdrop import Backdrop
from grace.pictures.drawing import Drawing
from grace.pictures.many import KINDS, Overview, batch_picture
from grace.pictures.one import panels, picture
from grace.pictures.svg import STYLE, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    "svg",
    "svg_panels",
    "to_svg",
]


def svg(
    e: Explanation, backdrop: Backdrop | None = None, *, width: float = 760.0, theme: str = "auto", style: bool = True
) -> str:
    """One explanation as an `<svg>` element; without a backdrop, only what the explanation itself knows."""
    return to_svg(picture(e, backdrop, width=width), theme=theme, style=style)


def svg_panels(
    e: Explanation, backdrop: Backdrop | None = None, *, width: float = 340.0, theme: str = "auto", style: bool = False
) -> list[str]:
    """The parts of the picture, each an `<svg>` of this width; the page has to hold `STYLE`."""
    return [to_svg(part, theme=theme, style=style) for part, _ in panels(e, backdrop, [width])]


def figure(e: Explanation, backdrop: Backdrop | None = None, *, width: float = 760.0, theme: str = "light") -> Figure:
    """One explanation as a matplotlib figure."""
    return draw(picture(e, backdrop, width=width), theme=theme)


def draw(drawing: Drawing, *, theme: str = "light") -> Figure:
    """A drawing as a matplotlib figure."""
    try:
        from grace.pictures.canvas import to_figure
    except ImportError as missing:
        raise GraceError(
            "plot() needs matplotlib: pip install 'grace-xai[plot]'; to_svg() and to_html() do without"
        ) from missing
    return to_figure(drawing, theme=theme)
