"""Drawings as SVG text without a plotting library: well-formed XML, byte-identical for equal drawings.

Colours are CSS variables (`--grace-old`, ...) with values for light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as _escape

from grace.errors import GraceError
from grace.pictures.drawing import COLOURS, Dot, Drawing, Group, Mark, Path, Point, PointCloud, Rect, Text, printable

# fonts of similar widths, as the layout estimates them
FONTS = "'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif"
THEMES = ("auto", "light", "dark")

# Pages that set a theme regardless of prefers-color-scheme: JupyterLab, VS Code, and those with data-theme
DARK = (
    '[data-jp-theme-light="false"] .grace',
    ".vscode-dark .grace",
    '[data-theme="dark"] .grace',
    ".grace.grace-dark",
)
LIGHT = (
    '[data-jp-theme-light="true"] .grace',
    ".vscode-light .grace",
    '[data-theme="light"] .grace',
    ".grace.grace-light",
)


def variables(theme: str) -> str:
    return ";".join(f"--grace-{role}:{colour}" for role, colour in COLOURS[theme].items())


STYLE = (
    f".grace{{{variables('light')}}}"
    f"@media(prefers-color-scheme:dark){{.grace{{{variables('dark')}}}}}"
    f"@media print{{.grace{{{variables('light')}}}}}"
    f"{','.join(LIGHT)}{{{variables('light')}}}{','.join(DARK)}{{{variables('dark')}}}"
)


def escape(text: str) -> str:
    """Text escaped for XML and HTML."""
    return _escape(printable(text))


def to_svg(drawing: Drawing, *, theme: str = "auto", inline: bool = False) -> str:
    """The drawing as one `<svg>` element. `inline` omits style and background, for HTML that holds `STYLE`; theme
    "light" or "dark" writes plain colours instead of CSS variables."""
    if theme not in THEMES:
        raise GraceError(f"theme={theme!r} is unknown; use one of {', '.join(THEMES)}")
    writer = SvgWriter(theme)
    style = f"<style>{STYLE}</style>" if theme == "auto" and not inline else ""
    namespace = "" if inline else ' xmlns="http://www.w3.org/2000/svg"'
    background = "" if inline else writer.mark(Rect(0, 0, drawing.width, drawing.height, "paper"))
    w, h = n(drawing.width), n(drawing.height)
    title = escape(drawing.title)
    return (
        f'<svg{namespace} class="grace" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
        f'role="img" aria-label="{title}" font-family="{FONTS}">'
        f"<title>{title}</title><desc>{escape(drawing.description)}</desc>{style}{background}"
        f"{writer.marks(drawing.marks)}</svg>"
    )


class SvgWriter:
    """Renders marks as SVG elements."""

    def __init__(self, theme: str) -> None:
        roles = COLOURS["light"]
        self.colour = {r: f"var(--grace-{r})" for r in roles} if theme == "auto" else COLOURS[theme]

    def marks(self, marks: Iterable[Mark]) -> str:
        return "".join(map(self.mark, marks))

    def mark(self, m: Mark) -> str:
        if isinstance(m, Group):
            return f'<g transform="translate({n(m.x)} {n(m.y)})">{self.marks(m.marks)}</g>'
        if isinstance(m, Rect):
            size = f'x="{n(m.x)}" y="{n(m.y)}" width="{n(m.width)}" height="{n(m.height)}"'
            radius = f' rx="{n(m.radius)}"' if m.radius else ""
            return f'<rect {size}{radius} fill="{self.colour[m.fill]}"{opacity(m.opacity)}/>'
        if isinstance(m, Path):
            return self.path(m)
        if isinstance(m, Dot):
            return self.dot(m)
        if isinstance(m, PointCloud):
            positions = "".join(f"M{n(x)} {n(y)}h0" for x, y in m.positions)
            return (
                f'<path d="{positions}" fill="none" stroke="{self.colour[m.fill]}" stroke-width="{n(m.size)}" '
                f'stroke-linecap="round"{opacity(m.opacity)}/>'
            )
        return self.text(m)

    def path(self, m: Path) -> str:
        end = "Z" if m.fill else ""
        d = "".join(trace(points) + end for points in m.lines)
        fill = f'fill="{self.colour[m.fill]}"' if m.fill else 'fill="none"'
        return f'<path d="{d}" {fill}{self.stroke(m.stroke, m.width, m.dashed)}{opacity(m.opacity)}/>'

    def stroke(self, role: str, width: float, dashed: bool = False) -> str:
        if not role:
            return ""
        dash = ' stroke-dasharray="3 3"' if dashed else ' stroke-linecap="round" stroke-linejoin="round"'
        return f' stroke="{self.colour[role]}" stroke-width="{n(width)}"{dash}'

    def dot(self, m: Dot) -> str:
        fill = f'fill="{self.colour[m.fill]}"' if m.fill else 'fill="none"'
        edge = self.stroke(m.stroke, m.width)
        if m.shape == "circle":
            return f'<circle cx="{n(m.x)}" cy="{n(m.y)}" r="{n(m.size)}" {fill}{edge}/>'
        return f'<path d="{trace(corners(m))}Z" {fill}{edge}/>'

    def text(self, m: Text) -> str:
        anchor = f' text-anchor="{m.anchor}"' if m.anchor != "start" else ""
        bold = ' font-weight="600"' if m.bold else ""
        paper = self.colour["paper"]
        halo = f' stroke="{paper}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"' if m.halo else ""
        attributes = f'x="{n(m.x)}" y="{n(m.y)}" font-size="{n(m.size)}" fill="{self.colour[m.fill]}"'
        return f"<text {attributes}{anchor}{bold}{halo}>{escape(m.text)}</text>"


def corners(m: Dot) -> list[Point]:
    """The corners of a diamond or triangle."""
    x, y, s = m.x, m.y, m.size
    if m.shape == "diamond":
        return [(x, y - s), (x + s, y), (x, y + s), (x - s, y)]
    up = -1 if m.shape == "up" else 1
    return [(x, y + up * s), (x + s, y - up * s * 0.75), (x - s, y - up * s * 0.75)]


def trace(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{n(x)} {n(y)}" for x, y in points)


def opacity(value: float) -> str:
    return "" if value == 1 else f' opacity="{value:.2g}"'


def n(size: float) -> str:
    """A length with four significant digits."""
    return f"{size:.4g}"
