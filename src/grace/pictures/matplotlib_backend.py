"""Drawings as matplotlib figures (the extra `plot`)."""

from __future__ import annotations

import io
from collections.abc import Iterable

from matplotlib import font_manager, patches, patheffects, rc_context
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline

from grace.errors import GraceError
from grace.pictures.drawing import COLOURS, Dot, Drawing, Group, Mark, Path, Point, PointCloud, Rect, Text, printable
from grace.pictures.svg import corners

DPI = 100
FONTS = ("Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "Inter", "DejaVu Sans")
DEJAVU_SCALE = 0.9  # DejaVu Sans is wider than the layout estimates


class NotebookFigure(Figure):
    """A figure with a PNG representation for notebooks, without pyplot."""

    def draw(self, renderer: RendererBase) -> None:
        with rc_context({"text.hinting": "none"}):  # hinting changes widths with the size
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=2 * DPI)
        return out.getvalue()


def to_figure(drawing: Drawing, *, theme: str = "light") -> Figure:
    """The drawing as a figure that is not registered with pyplot, and need not be closed."""
    if theme not in COLOURS:
        raise GraceError(f"theme={theme!r} is unknown; use 'light' or 'dark'")
    colours = COLOURS[theme]
    figure = NotebookFigure(figsize=(drawing.width / DPI, drawing.height / DPI), dpi=DPI, facecolor=colours["paper"])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.set_axis_off()
    known = set(font_manager.get_font_names())
    face = next((f for f in FONTS if f in known), "sans-serif")
    AxesWriter(axes, colours, face).marks(drawing.marks, (0.0, 0.0))
    figure.set_label(drawing.title)
    return figure


class AxesWriter:
    """Draws marks on axes, in increasing z-order."""

    def __init__(self, axes: Axes, colours: dict[str, str], face: str) -> None:
        self.axes, self.colours, self.face = axes, colours, face
        self.level = 0

    def marks(self, marks: Iterable[Mark], at: Point) -> None:
        for m in marks:
            if isinstance(m, Group):
                self.marks(m.marks, (at[0] + m.x, at[1] + m.y))
            else:
                self.level += 1
                self.mark(m, at)

    def mark(self, m: Rect | Path | Dot | PointCloud | Text, at: Point) -> None:
        x0, y0 = at
        if isinstance(m, Rect):
            radius = min(m.radius, m.width / 2, m.height / 2)
            patch: patches.Patch = patches.Rectangle((x0 + m.x, y0 + m.y), m.width, m.height)
            if radius > 0:
                style = patches.BoxStyle.Round(pad=0, rounding_size=radius)
                patch = patches.FancyBboxPatch((x0 + m.x, y0 + m.y), m.width, m.height, boxstyle=style)
            patch.set(facecolor=self.colours[m.fill], alpha=m.opacity, linewidth=0, zorder=self.level)
            self.axes.add_patch(patch)
        elif isinstance(m, Path):
            self.path(m, at)
        elif isinstance(m, Dot):
            outline = [(x0 + x, y0 + y) for x, y in corners(m)]
            round_ = m.shape == "circle"
            dot = patches.Circle((x0 + m.x, y0 + m.y), m.size) if round_ else patches.Polygon(outline, closed=True)
            dot.set(
                facecolor=self.colours[m.fill] if m.fill else "none",
                edgecolor=self.colours[m.stroke] if m.stroke else "none",
                linewidth=points(m.width),
                joinstyle="round",
                zorder=self.level,
            )
            self.axes.add_patch(dot)
        elif isinstance(m, PointCloud):
            xs, ys = [x0 + x for x, _ in m.positions], [y0 + y for _, y in m.positions]
            self.axes.plot(
                xs,
                ys,
                linestyle="",
                marker="o",
                markersize=points(m.size),
                markeredgewidth=0,
                color=self.colours[m.fill],
                alpha=m.opacity,
                zorder=self.level,
            )
        else:
            self.text(m, at)

    def path(self, m: Path, at: Point) -> None:
        positions: list[Point] = []
        codes: list[int] = []
        for points_ in m.lines:
            moved = [(at[0] + x, at[1] + y) for x, y in points_]
            positions += moved
            codes += [int(Outline.MOVETO), *[int(Outline.LINETO)] * (len(moved) - 1)]
            if m.fill:
                positions.append(moved[0])
                codes.append(int(Outline.CLOSEPOLY))
        if not positions:
            return
        patch = patches.PathPatch(
            Outline(positions, codes),
            facecolor=self.colours[m.fill] if m.fill else "none",
            edgecolor=self.colours[m.stroke] if m.stroke else "none",
            linewidth=points(m.width) if m.stroke else 0,
            linestyle=(0, (2.5, 2.5)) if m.dashed else "solid",
            alpha=m.opacity,
            zorder=self.level,
            capstyle="butt" if m.dashed else "round",
            joinstyle="round",
        )
        self.axes.add_patch(patch)

    def text(self, m: Text, at: Point) -> None:
        halo = [patheffects.withStroke(linewidth=points(3), foreground=self.colours["paper"])] if m.halo else []
        self.axes.text(
            at[0] + m.x,
            at[1] + m.y,
            printable(m.text),
            fontsize=points(m.size) * (DEJAVU_SCALE if self.face == "DejaVu Sans" else 1),
            fontfamily=[self.face, "DejaVu Sans"],  # fallback for missing glyphs
            fontweight="bold" if m.bold else "normal",
            color=self.colours[m.fill],
            horizontalalignment={"start": "left", "middle": "center", "end": "right"}[m.anchor],
            verticalalignment="baseline",
            path_effects=halo,
            parse_math=False,  # a column may be called "$"
            zorder=self.level,
        )


def points(pixels: float) -> float:
    """Pixels of the drawing in points."""
    return pixels * 72 / DPI
