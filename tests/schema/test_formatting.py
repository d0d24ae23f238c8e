"""Long names are cut in the middle, and what is large describes itself shortly."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import grace
from grace import Categorical, Explainer, Numeric, Schema
from grace.cli.terminal import print_explanation
from grace.pictures.drawing import Group, Path, Text, fit, text_width
from grace.pictures.numeric import lines_cross_text, numeric_panel, text_box
from grace.pictures.report import batch_fragment
from grace.schema.formatting import ELLIPSIS, feature_line, shortened

LONG = "very_long_name_of_a_column_of_income_2024_q3"


def test_names_are_cut_in_the_middle() -> None:
    assert shortened("very_long_name_of_income_2024_q3", 21) == "very_long_na…_2024_q3"
    assert shortened("short", 5) == "short"


@given(st.text(), st.integers(1, 30))
def test_what_is_cut_fits_and_keeps_its_ends(said: str, most: int) -> None:
    short = shortened(said, most)
    assert len(short) <= most or said == short == ""
    if short != said:
        start, end = short.split(ELLIPSIS, 1) if ELLIPSIS not in said else ("", "")
        assert said.startswith(start)
        assert said.endswith(end)


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.floats(20, 200))
def test_what_is_cut_fits_a_picture(said: str, width: float) -> None:
    assert text_width(fit(said, width, 12), 12) <= width


def test_a_schema_is_a_line_for_each_of_its_first_features() -> None:
    features = [Numeric(name=f"f{i}", low=0, high=1.5, frozen=i == 0) for i in range(11)]
    schema = Schema(features=(*features, Categorical(name="c", categories=tuple("abcdefgh"))), target="y")
    lines = repr(schema).splitlines()
    assert lines[0] == "<Schema: 12 features, target 'y', domain 'central'"
    assert lines[1] == "  f0: number 0 to 1.5, frozen"
    assert lines[12] == "  c: categories a, b, c, d, e, ... (8)>"
    assert len(repr(Schema(features=(*features, *(Numeric(name=f"g{i}") for i in range(500))))).splitlines()) == 14
    assert repr(Schema(features=())) == "<Schema: 0 features, domain 'central'>"


# -- a model whose answer goes up and down along its only feature ----------------------------------------


def jagged() -> Explainer:
    def chances(frame: pd.DataFrame) -> np.ndarray:
        bad = 0.5 + 0.45 * np.sin(frame[LONG].to_numpy(dtype=float) * 2.1)
        return np.stack([1 - bad, bad], axis=1)

    train = pd.DataFrame({LONG: np.linspace(0, 20, 201).round(1), "other": 1.0})
    return Explainer(grace.wrap(chances, classes=["good", "expected to default"]), train)


def test_words_are_not_crossed_by_curves() -> None:
    batch = jagged().explain(pd.DataFrame({LONG: np.linspace(0.5, 19.5, 12).round(1), "other": 1.0}))
    assert batch.success.all()
    for width in (300, 420):
        for e in batch:
            panel = numeric_panel(e, e.changes[0], e.backdrop(), width)
            words = [m for m in panel.marks if isinstance(m, Text) and (m.bold or "mind" in m.text)]
            assert any("mind" in w.text for w in words)
            assert not lines_cross_text(words, panel.marks)
            boxes = [text_box(w) for w in words if w.size == 12]
            assert len(boxes) == 2
            (a, b), room = boxes, 0.01
            assert a[1] <= b[0] + room or b[1] <= a[0] + room or a[3] <= b[2] + room or b[3] <= a[2] + room
            assert all(box[0] >= 0 and box[1] <= width + 1 for box in map(text_box, words))


def test_a_line_through_words_is_found() -> None:
    word = Text(10, 20, "word", 12)
    assert lines_cross_text([word], [Path((((0.0, 0.0), (30.0, 40.0)),), stroke="old")])
    assert lines_cross_text([word], [Path((((0.0, 16.0), (100.0, 16.0)),), stroke="new")])
    assert not lines_cross_text([word], [Path((((0.0, 30.0), (100.0, 30.0)),), stroke="new")])
    assert not lines_cross_text([word], [Path((((0.0, 0.0), (9.0, 40.0)),), stroke="new")])
    assert not lines_cross_text([word], [Path((((0.0, 16.0), (100.0, 16.0)),), stroke="line")])
    assert not lines_cross_text([word], [Group(0, 0, ())])


def test_changes_and_overviews_are_short() -> None:
    explainer = jagged()
    batch = explainer.explain(pd.DataFrame({LONG: [3.0, 9.0], "other": 1.0}))
    assert repr(batch[0].changes[0]) == f"<Change: {batch[0].changes[0]}>"
    assert repr(batch.overview()).startswith("<Overview: 2 of 2 rows explained; ")
    assert len(repr(batch.overview())) < 300
    screen = io.StringIO()
    print_explanation(Console(file=screen, width=100), batch[0])
    assert ELLIPSIS in screen.getvalue().splitlines()[1]
    html = batch_fragment(batch)
    assert html.count('<td class="grace-why">') == 2
    assert ".grace.grace th,.grace.grace td{text-align:left" in html  # as specific as the rules of a notebook


def test_minus_zero_is_zero() -> None:
    assert feature_line(Numeric(name="a", low=-1.0, high=-0.0, spread=1.0)) == "a: number -1 to 0"
