"""Drawings as SVG text, made without any plotting library: well-formed XML, the same bytes every time.

Colours are CSS variables (`--grace-old` and so on) with values for light and dark paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as _escape

from grace.errors import GraceError
from grace.pictures.drawing import COLOURS, Dot, Drawing, Group, Mark, Path, Point, PointCloud, Rect, Text, printable

# faces of like widths, since the layout reckons with them
FACES = "'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif"
THEMES = ("auto", "light", "dark")

# Pages that know better than the operating system whether they are dark: JupyterLab, VS Code, and any that say so
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


def escape(said: str) -> str:
    """Text that is safe in XML and HTML: no markup, and no characters that XML forbids."""
    return _escape(printable(said))


def to_svg(drawing: Drawing, *, theme: str = "auto", inline: bool = False) -> str:
    """The drawing as one `<svg>` element. `inline` is for HTML that holds `STYLE` already, with the colours'
    values, and paper of its own; `theme` "light" or "dark" writes plain colours, for programs that know no CSS."""
    if theme not in THEMES:
        raise GraceError(f"theme={theme!r} is unknown; use one of {', '.join(THEMES)}")
    pen = Pen(theme)
    values = f"<style>{STYLE}</style>" if theme == "auto" and not inline else ""
    space = "" if inline else ' xmlns="http://www.w3.org/2000/svg"'
    ground = "" if inline else pen.mark(Rect(0, 0, drawing.width, drawing.height, "paper"))
    w, h = n(drawing.width), n(drawing.height)
    said = escape(drawing.title)
    return (
        f'<svg{space} class="grace" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
        f'role="img" aria-label="{said}" font-family="{FACES}">'
        f"<title>{said}</title><desc>{escape(drawing.description)}</desc>{values}{ground}"
        f"{pen.marks(drawing.marks)}</svg>"
    )


class Pen:
    """Writes marks."""

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
            places = "".join(f"M{n(x)} {n(y)}h0" for x, y in m.places)
            return (
                f'<path d="{places}" fill="none" stroke="{self.colour[m.fill]}" stroke-width="{n(m.size)}" '
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
        place = f'x="{n(m.x)}" y="{n(m.y)}" font-size="{n(m.size)}" fill="{self.colour[m.fill]}"'
        return f"<text {place}{anchor}{bold}{halo}>{escape(m.said)}</text>"


def corners(m: Dot) -> list[Point]:
    """The outline of a dot that is not round."""
    x, y, s = m.x, m.y, m.size
    if m.shape == "diamond":
        return [(x, y - s), (x + s, y), (x, y + s), (x - s, y)]
    up = -1 if m.shape == "up" else 1
    return [(x, y + up * s), (x + s, y - up * s * 0.75), (x - s, y - up * s * 0.75)]


def trace(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{n(x)} {n(y)}" for x, y in points)


def opacity(share: float) -> str:
    return "" if share == 1 else f' opacity="{share:.2g}"'


def n(size: float) -> str:
    """A length in four digits."""
    return f"{size:.4g}"
