"""The picture of a profile: it shows what the profile says, and nothing is cut off."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import grace
from grace.explain.decisions.profile import CANNOT, FIXED, FLIPS, NONE_FOUND, FeatureProfile, Profile
from grace.explain.decisions.row_context import RowContext
from grace.pictures import profile_picture, profile_strips
from grace.pictures.drawing import Axis, Dot, Drawing, Group, Mark, Path, Rect, Text, text_width
from grace.pictures.profile import HIGHEST, MAX_CATEGORIES, curve
from grace.schema.features import Categorical, Numeric
from grace.schema.schema import Schema
from problems import CASES

EVIL = "<b>purpose</b>"
AGE = Numeric(name="age", observed=(0.0, 100.0), integer=True)
KINDS = tuple(f"kind {k}" for k in range(30))
PURPOSE = Categorical(name=EVIL, categories=KINDS)


def profile_of(*features: FeatureProfile) -> Profile:
    schema = Schema(features=tuple(f.feature for f in features), classes=("no", "yes"))
    about = RowContext(
        row={f.name: f.value for f in features},
        original_class="no",
        contrast_class="yes",
        classes=("no", "yes"),
        task="classification",
        asked=None,
        wanted=None,
        domain="central",
        own_ranges=False,
        success=True,
        already=False,
        words=schema,
    )
    return Profile(about, features)


AGED = FeatureProfile(
    AGE, 20, "line", (0.0, 20.0, 60.0, 100.0), (-30.0, 0.0, 100.0, 250.0), spans=((60.0, 100.0),), verdict=FLIPS
)
CHOSEN = FeatureProfile(
    PURPOSE, KINDS[3], "categories", (KINDS[0], *KINDS[4:]), (120.0, *range(26)), categories=(KINDS[0],), verdict=FLIPS
)


def all_marks(marks: tuple[Mark, ...], x: float = 0.0, y: float = 0.0) -> list[tuple[Mark, float, float]]:
    out: list[tuple[Mark, float, float]] = []
    for mark in marks:
        if isinstance(mark, Group):
            out += all_marks(tuple(mark.marks), x + mark.x, y + mark.y)
        else:
            out.append((mark, x, y))
    return out


def texts(drawing: Drawing) -> list[str]:
    return [m.text for m, _, _ in all_marks(drawing.marks) if isinstance(m, Text)]


def rects(drawing: Drawing, fill: str, opacity: float) -> list[tuple[float, float]]:
    """Left and right end of the bars of a colour, without the legend, which comes first."""
    found = [(m, x) for m, x, _ in all_marks(drawing.marks) if isinstance(m, Rect) and m.fill == fill]
    return [(x + m.x, x + m.x + m.width) for m, x in found if m.opacity == opacity]


def check_inside(drawing: Drawing) -> None:
    for m, x, y in all_marks(drawing.marks):
        if isinstance(m, Text):
            wide = text_width(m.text, m.size, m.bold)
            left = x + m.x - {"start": 0, "middle": wide / 2, "end": wide}[m.anchor]
            assert left >= -1, m
            assert left + wide <= drawing.width + 1, m
            assert 0 < y + m.y <= drawing.height, m
        elif isinstance(m, Rect):
            assert -1 <= x + m.x <= x + m.x + m.width <= drawing.width + 1, m
        elif isinstance(m, Path):
            assert all(-1 <= x + px <= drawing.width + 1 for part in m.lines for px, _ in part), m


def test_the_span_that_flips_and_the_value_lie_where_they_are() -> None:
    drawing = profile_strips(profile_of(AGED), width=712)
    (rail,) = rects(drawing, "line", 1)
    _, span = rects(drawing, "new", 0.85)
    scale = (rail[1] - rail[0]) / 100
    assert span == pytest.approx((rail[0] + 60 * scale, rail[1]))
    own = [x + m.x for m, x, _ in all_marks(drawing.marks) if isinstance(m, Dot)][-1]
    assert own == pytest.approx(rail[0] + 20 * scale)
    assert {"age", "20", "60", "100", "250 points", "enough alone"} <= set(texts(drawing))
    assert "100 points are the whole way from no to yes" in " ".join(texts(drawing))
    assert "age, 20: up to 250 points, enough alone" in drawing.description


def test_the_curve_is_cut_at_the_edge_and_steps_are_steps() -> None:
    up = Axis(-25, HIGHEST, 150, 0)
    assert [y for _, y in curve((0, 1), (0, 1000), up, steps=False)] == [125, 0]
    assert curve((0, 10, 12, 20), (0, 0, 50, 50), up, steps=True) == [
        *((0, 125), (10, 125), (11, 125), (11, 75), (12, 75), (20, 75)),
    ]


def test_many_categories_keep_the_own_one_and_those_that_flip() -> None:
    said = texts(profile_strips(profile_of(CHOSEN), width=900))
    kinds = [t for t in said if t.startswith("kind")]
    assert KINDS[0] in kinds
    assert KINDS[3] in kinds
    assert KINDS[29] in kinds  # most points of the others
    assert len(kinds) == MAX_CATEGORIES + 1  # with the row's value beside the name
    assert f"and {28 - MAX_CATEGORIES} more" in said


@pytest.mark.parametrize("width", [340, 712])
def test_points_that_do_not_forecast_are_not_shown(width: float) -> None:
    profile = replace(profile_of(AGED), forecasts=True)
    said = texts(profile_strips(profile, width=width))
    assert "60" in said
    assert not any(t.endswith("points") for t in said)


def test_a_flip_to_a_third_class_is_said() -> None:
    profile = profile_of(replace(AGED, points=(0, 0, 90.2, 80.0)))
    about = replace(profile.about, classes=("no", "yes", "perhaps"))
    assert {"90 points", "to another class"} <= set(texts(profile_strips(replace(profile, about=about))))


def test_long_names_that_differ_at_the_end_stay_apart() -> None:
    names = [f"the variation in contrast of {way} adjacent pixels of the region" for way in ("vertically", "sidewards")]
    drawing = profile_strips(profile_of(*(replace(AGED, feature=replace(AGE, name=name)) for name in names)))
    assert {"vertically", "sidewards"} <= {word for text in texts(drawing) for word in text.split()}


@pytest.mark.parametrize(("verdict", "word"), [(CANNOT, "cannot alone"), (NONE_FOUND, "none found")])
def test_what_does_not_flip_is_grey_and_says_why(verdict: str, word: str) -> None:
    drawing = profile_strips(profile_of(replace(AGED, spans=(), points=(0, 0, 40.4, 99.7), verdict=verdict)))
    assert len(rects(drawing, "new", 0.85)) == 1  # the legend
    assert {"99 points", word} <= set(texts(drawing))  # never rounded to what would reach the boundary
    fixed = profile_strips(profile_of(FeatureProfile(AGE, 20, "line", verdict=FIXED)))
    assert "fixed" in texts(fixed)
    assert not any(t.endswith("points") for t in texts(fixed))


@pytest.mark.parametrize("width", [340, 760, 1200])
def test_nothing_is_cut_off_and_names_are_escaped(width: float) -> None:
    long = replace(AGE, name="a name that is so long that no strip has room for all of it " * 2)
    profile = profile_of(
        AGED, CHOSEN, replace(AGED, feature=long), FeatureProfile(replace(AGE, name="other"), None, "line")
    )
    for shown in (profile, profile.in_language("de")):
        check_inside(profile_picture(shown, width=width))
        for theme in ("auto", "light", "dark"):
            assert ET.fromstring(shown.to_svg(width=width, theme=theme)) is not None
    assert "<b>" not in profile.to_svg()
    assert "bis zu 250 Punkte, genügt allein" in profile.in_language("de").to_svg()


def test_only_the_first_of_many_features() -> None:
    many = profile_of(*(replace(AGED, feature=replace(AGE, name=f"age {k}")) for k in range(57)))
    drawing = profile_strips(many, most=30)
    said = texts(drawing)
    assert "age 29" in said
    assert "age 30" not in said
    assert "and 27 more" in said
    assert drawing.height < 30 * 70 + 100


def test_all_problems_can_be_drawn() -> None:
    for case in CASES[:6]:
        for profile in case.explainer().profile(case.rows.head(2)):
            check_inside(profile_picture(profile))


def test_dates_and_predicted_numbers() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.uniform(1, 9, 80).round(1)})
    frame["built"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 80), unit="D")
    frame["price"] = 3 * frame["size"] + rng.normal(0, 0.1, 80)
    model = grace.training.fit(frame, "price", task="regression", max_epochs=15)
    explainer = grace.Explainer(model, frame, target="price")
    profile = explainer.profile(frame.head(1), against=grace.by("+50 %"))[0]
    drawing = profile_picture(profile)
    check_inside(drawing)
    assert any(t.startswith("2020-0") and len(t) == 10 for t in texts(drawing))
    assert "the whole way from about" in " ".join(texts(drawing))


def test_as_a_figure() -> None:
    pytest.importorskip("matplotlib")
    drawn = profile_of(AGED, CHOSEN).plot(theme="dark")
    assert {"age", "250 points"} <= {t.get_text() for ax in drawn.axes for t in ax.texts}
