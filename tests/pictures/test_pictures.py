"""Pictures: what lies behind them agrees with the model and the data, and what they show can be read."""

from __future__ import annotations

import io
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import grace
from grace.pictures import KINDS, Backdrop, batch_picture, picture, svg, svg_columns, to_svg
from grace.pictures.batch import Overview
from grace.pictures.drawing import (
    Drawing,
    Group,
    Mark,
    Rect,
    Text,
    fit,
    percent,
    round_to_span,
    text_width,
    thinned,
    tick,
    ticks,
    wrap,
)
from grace.pictures.plane import blocks, border, region
from grace.text.vocabulary import class_caption
from problems import CASES, two_class, wrapped

EVIL = "<script>alert('1')</script> & \x00"


@pytest.fixture(scope="module")
def network() -> grace.Explainer:
    """A network on whole numbers, decimals and categories, three classes."""
    rng = np.random.default_rng(1)
    n = 400
    frame = pd.DataFrame(
        {
            "points": rng.integers(1, 11, n),
            "income": np.round(rng.gamma(2, 20, n), 1),
            "years": rng.integers(0, 90, n),
            "kind": rng.choice(["bolt", "nut", "screw"], n),
        }
    )
    score = frame.points + frame.income / 20 + 2 * (frame.kind == "nut") - frame.years / 12
    frame["class"] = np.select([score < 2, score < 6], ["low", "middle"], "high")
    model = grace.training.fit(frame, "class", max_epochs=60)
    return grace.Explainer(model, frame, target="class", gamma=1.0)


@pytest.fixture(scope="module")
def batch(network: grace.Explainer) -> grace.Explanations:
    rows = network.schema.decode(network.background_rows[:80])
    return network.explain(rows, confidence=0.95)


def everything() -> list[tuple[str, grace.Explanation]]:
    found = []
    for case in CASES:
        for i, e in enumerate(case.explainer().explain(case.rows.head(3))):
            found.append((f"{case.name} {i}", e))
    return found


EVERYTHING = everything()
every = pytest.mark.parametrize("e", [e for _, e in EVERYTHING], ids=[name for name, _ in EVERYTHING])


def changes(batch: grace.Explanations, count: int) -> list[grace.Explanation]:
    return [e for e in batch if len(e.changes) == count]


# -- what lies behind -------------------------------------------------------------------------


def test_histograms_count_every_training_row_of_both_classes(
    network: grace.Explainer, batch: grace.Explanations
) -> None:
    train = network.schema.decode(network.background_rows)
    given = pd.Series(network.model.predict(train))
    seen = set()
    for e in batch:
        back = e.backdrop()
        assert back is not None
        assert back.rows == ((given == e.original_class).sum(), (given == e.contrast_class).sum())
        for change in e.changes:
            found = back.histograms[change.name]
            for counts, label in ((found.original, e.original_class), (found.contrast, e.contrast_class)):
                values = train[change.name][(given == label).to_numpy()]
                assert sum(counts) == len(values)
                if change.name == "kind":
                    assert list(counts) == [(values == c).sum() for c in ("bolt", "nut", "screw")]
                elif change.name == "points":
                    assert list(counts) == [(values == v).sum() for v in range(1, 11)]
                else:
                    edges = np.array(found.edges)
                    inner = np.histogram(values, edges)[0][1:-1]
                    assert list(counts[1:-1]) == list(inner)
                seen.add(change.name)
    assert seen == {"points", "income", "years", "kind"}


def test_the_model_changes_its_mind_where_the_curve_says(network: grace.Explainer, batch: grace.Explanations) -> None:
    """Inside each stretch the model says what the curve says, right up to its ends."""
    for e in batch:
        named = {e.original_class: "original", e.contrast_class: "contrast"}
        for change in e.changes:
            curve = e.backdrop().curves[change.name]
            cells, sides = [], []
            for start, stop, side in curve.stretches:
                values = start + (stop - start) * np.array([0.02, 0.3, 0.5, 0.7, 0.98])
                if change.name != "income":
                    values = np.arange(np.ceil(start), np.floor(stop) + 1)
                cells += (
                    values.tolist() if change.name != "kind" else [change.feature.categories[int(v)] for v in values]
                )
                sides += [side] * len(values)
            said = network.model.predict(pd.DataFrame([{**e.contrast, change.name: cell} for cell in cells]))
            assert [named.get(label, "other") for label in said] == sides
            if change.name != "kind":
                asked = pd.DataFrame([{**e.contrast, change.name: v} for v in curve.values])
                shares = network.model.predict_proba(asked)
                np.testing.assert_allclose(curve.original, shares[e.original_class])
                np.testing.assert_allclose(curve.contrast, shares[e.contrast_class])


def test_the_flip_of_a_known_model() -> None:
    e = CASES[0].explainer().explain(CASES[0].rows)[0]  # a from -1, b = c = 0: the score is a
    curve = e.backdrop().curves["a"]
    assert curve.flips == (pytest.approx(0, abs=1e-9),)
    assert [side for *_, side in curve.stretches] == ["original", "contrast"]
    assert len(curve.values) == 61


def test_the_map_agrees_with_the_model_at_every_node(network: grace.Explainer, batch: grace.Explanations) -> None:
    found = [e for e in changes(batch, 2) if all(isinstance(c.feature, grace.Numeric) for c in e.changes)]
    assert found
    for e in found[:3]:
        plane = e.backdrop().map
        assert plane is not None
        places = [(x, y) for y in plane.y for x in plane.x]
        asked = pd.DataFrame([{**e.contrast, plane.features[0]: x, plane.features[1]: y} for x, y in places])
        said = network.model.predict(asked)
        assert ((np.array(plane.original).ravel() > 0) == (said == e.original_class)).all()
        assert ((np.array(plane.contrast).ravel() > 0) == (said == e.contrast_class)).all()
        assert {side for *_, side in plane.points} <= {"original", "contrast"}
        assert 0 < len(plane.points) <= 300


def test_the_model_is_asked_once(
    network: grace.Explainer, batch: grace.Explanations, monkeypatch: pytest.MonkeyPatch
) -> None:
    e = changes(batch, 2)[0]
    network.background_classes()
    asked = []
    scores = type(network.model).scores
    monkeypatch.setattr(type(network.model), "scores", lambda self, rows: asked.append(len(rows)) or scores(self, rows))
    e.backdrop()
    e.backdrop()
    svg(e, e.backdrop())
    assert len(asked) <= 1


def test_background_classes_follow_the_model() -> None:
    module = nn.Linear(3, 2, dtype=torch.float64)
    module.weight.data = torch.tensor([[0.0, 0, 0], [1, 1, 1]], dtype=torch.float64)
    module.bias.data.zero_()
    explainer = grace.Explainer(grace.wrap(module, classes=["no", "yes"], outputs="logits"), CASES[0].train)
    before = explainer.background_classes().copy()
    assert set(before) == {0, 1}
    module.bias.data[1] += 1000
    explainer.model.refresh()
    assert set(explainer.background_classes()) == {1}


def test_without_training_rows_there_is_a_curve_but_no_histogram() -> None:
    schema = CASES[0].explainer().schema
    explainer = grace.Explainer(CASES[0].model(), schema=schema, gamma=1.0)
    e = explainer.explain(CASES[0].rows)[2]
    back = e.backdrop()
    assert back.rows is None
    assert not back.histograms
    assert set(back.curves) == {c.name for c in e.changes}
    assert back.map.points == ()
    ET.fromstring(svg(e, back))


def test_a_backdrop_travels_through_json(batch: grace.Explanations) -> None:
    for e in (changes(batch, 1)[0], changes(batch, 2)[0]):
        bare = grace.Explanation.from_json(e.to_json())
        assert bare == e
        assert bare.backdrop() is None
        assert "changes its mind" not in bare.to_svg()
        ET.fromstring(bare.to_svg())
        again = grace.Explanation.from_json(e.to_json(backdrop=True))
        assert again == e
        back = again.backdrop()
        assert back.rows == e.backdrop().rows
        assert back.histograms[e.changes[0].name].original == e.backdrop().histograms[e.changes[0].name].original
        for name, curve in e.backdrop().curves.items():
            np.testing.assert_allclose(back.curves[name].flips, curve.flips, rtol=1e-4)
        assert Backdrop.from_dict(back.to_dict()) == back
    with pytest.raises(grace.GraceError, match="backdrop is damaged"):
        Backdrop.from_dict({"rows": None})


def test_a_copy_that_leaves_the_process_leaves_the_explainer_behind(batch: grace.Explanations) -> None:
    assert batch[0].__getstate__()["make_backdrop"] is None


# -- regions ----------------------------------------------------------------------------------


def area(shape: tuple[tuple[float, float], ...]) -> float:
    x, y = np.array(shape).T
    return 0.5 * abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))


def test_regions_of_a_plane_are_exact() -> None:
    x, y = np.linspace(0, 2, 9), np.linspace(0, 1, 7)
    values = x[None, :] + y[:, None] - 1.3
    inside = sum(map(area, region(values, x, y)))
    outside = sum(map(area, region(-values, x, y)))
    assert inside + outside == pytest.approx(2)
    assert outside == pytest.approx(1.3 - 0.5)  # of 0 <= x <= 1.3 - y over 0 <= y <= 1
    for point in chain.from_iterable(border(values, x, y)):
        assert sum(point) == pytest.approx(1.3)


def test_the_border_of_a_saddle_bounds_its_region() -> None:
    for sign in (1, -1):
        values = sign * np.array([[1.0, -1.0], [-1.0, 1.0]])
        nodes = np.array([0.0, 1.0])
        (shape,) = region(values, nodes, nodes)
        edges = {frozenset(e) for e in zip(shape, shape[1:] + shape[:1], strict=True)}
        lines = border(values, nodes, nodes)
        assert len(lines) == 2
        assert all(frozenset(found) in edges for found in lines)


def test_regions_have_holes_and_hold_zero_and_infinity() -> None:
    nodes = np.array([0.0, 1.0, 2.0, 3.0])
    values = np.pad([[-1.0, -1.0], [-1.0, -1.0]], 1, constant_values=1.0)
    outline, hole = sorted(region(values, nodes, nodes), key=area, reverse=True)
    assert (area(outline), area(hole)) == pytest.approx((9, 4 - 4 * 0.5**3))
    assert len(border(values, nodes, nodes)) == 1
    for value in (0.0, np.inf):
        (shape,) = region(np.full((4, 4), value), nodes, nodes)
        assert area(shape) == pytest.approx(9)
    assert region(np.full((4, 4), -np.inf), nodes, nodes) == []


def test_whole_numbers_are_blocks() -> None:
    nodes = np.array([1.0, 2.0, 3.0])
    ends, values = blocks(nodes, np.array([[1.0, -5.0, 1.0], [1.0, -5.0, 1.0]]), 1)
    assert ends.tolist() == [0.5, 1.5, 1.5, 2.5, 2.5, 3.5]
    assert sum(map(area, region(values, ends, np.array([0.0, 1.0])))) == pytest.approx(2)


# -- words and numbers ------------------------------------------------------------------------


def test_percentages_never_round_to_certainty() -> None:
    assert [percent(p) for p in (0, 0.001, 0.5, 0.996, 1)] == ["0 %", "< 1 %", "50 %", "> 99 %", "1" + "00 %"]


@pytest.mark.parametrize(
    ("ends", "whole", "found"),
    [((0, 1), False, ["0", "0.2", "0.4", "0.6", "0.8", "1"]), ((0.5, 3.5), True, ["1", "2", "3"])],
)
def test_ticks(ends: tuple[float, float], whole: bool, found: list[str]) -> None:
    assert [said for _, said in ticks(*ends, 5, whole)] == found


def test_short_numbers_are_exact() -> None:
    shown = [tick(v) for v in (0.25, 9999, 20_000, 1_500_000, 1_000_000.2, -12_345, 3e9)]
    assert shown == ["0.25", "9999", "20k", "1.5M", "1,000,000.2", "\N{MINUS SIGN}12,345", "3G"]
    assert [round_to_span(v, span) for v, span in ((181.6789, 150), (1e6 + 0.512345, 1), (0.67342, 8.5))] == [
        181.7,
        1_000_000.512,
        0.67,
    ]


@pytest.mark.parametrize("size", [1e-9, 0.003, 1.0, 77.0, 12345.0, 4.2e12])
def test_ticks_lie_inside_and_are_few(size: float) -> None:
    for low in (-size, 0.0, size / 3):
        found = ticks(low, low + size)
        assert 2 <= len(found) <= 6
        assert all(low - 1e-9 * size <= v <= low + size * (1 + 1e-9) for v, _ in found)


def test_fitting_and_wrapping() -> None:
    assert fit("short", 100, 12) == "short"
    assert text_width(fit("a very long name indeed", 60, 12), 12) <= 60
    lines = wrap("one two three four five six seven", 80, 12)
    assert " ".join(lines) == "one two three four five six seven"
    assert all(text_width(s, 12) <= 80 for s in lines)
    assert thinned(range(10), 5) == [0, 2, 4, 6, 8]


# -- the picture ------------------------------------------------------------------------------


def marks_of(marks: tuple[Mark, ...], x: float = 0.0, y: float = 0.0) -> Iterator[tuple[Mark, float, float]]:
    for m in marks:
        if isinstance(m, Group):
            yield from marks_of(tuple(m.marks), x + m.x, y + m.y)
        else:
            yield m, x, y


def check_inside(drawing: Drawing) -> None:
    """No text and no bar is cut off by the edge of the picture."""
    for m, x, y in marks_of(drawing.marks):
        if isinstance(m, Text):
            wide = text_width(m.text, m.size, m.bold)
            left = x + m.x - {"start": 0, "middle": wide / 2, "end": wide}[m.anchor]
            assert left >= -1, m
            assert left + wide <= drawing.width + 1, m
            assert m.size <= y + m.y + 1, m
            assert y + m.y <= drawing.height, m
        if isinstance(m, Rect):
            assert m.width >= 0, m
            assert m.height >= 0, m
            assert x + m.x >= -1, m
            assert x + m.x + m.width <= drawing.width + 1, m


@every
@pytest.mark.parametrize("width", [340, 760])
def test_a_picture_is_wellformed_and_says_what_it_shows(e: grace.Explanation, width: int) -> None:
    drawing = picture(e, e.backdrop(), width=width)
    check_inside(drawing)
    written = to_svg(drawing)
    root = ET.fromstring(written)
    assert root.attrib["role"] == "img"
    title, description = list(root)[:2]
    assert title.text == root.attrib["aria-label"]
    assert e.text() in description.text
    said = " ".join(t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text"))
    assert class_caption(e.words, e.original_class) in said
    for change in e.changes:
        for value in (change.old, change.new):
            assert grace.text.sentence.value(change.feature, value) in said + description.text
    assert written == to_svg(picture(e, e.backdrop(), width=width))
    assert written == e.to_svg(width=width)


@every
def test_parts_are_pictures_too(e: grace.Explanation) -> None:
    parts = [part for column in svg_columns(e, e.backdrop()) for part in column]
    assert len(parts) == 1 + len(e.changes) + (1 if e.backdrop() is not None and e.backdrop().map else 0)
    for part in parts:
        assert ET.fromstring(part).attrib["role"] == "img"
        assert "http" not in part


@every
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_matplotlib_draws_the_same(e: grace.Explanation, theme: str) -> None:
    figure = e.plot(theme=theme)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    assert out.getvalue().startswith(b"\x89PNG")
    shown = [t.get_text() for t in figure.axes[0].texts]
    assert shown == [m.text for m, *_ in marks_of(picture(e, e.backdrop()).marks) if isinstance(m, Text)]


def test_more_than_two_classes_and_every_kind_of_feature(batch: grace.Explanations) -> None:
    for e in batch:
        for width in (340, 760):
            check_inside(picture(e, e.backdrop(), width=width))


def test_a_theme_without_css_has_no_variables() -> None:
    e = EVERYTHING[0][1]
    assert "var(" in e.to_svg()
    for theme in ("light", "dark"):
        assert "var(" not in e.to_svg(theme=theme)
        assert "<style" not in e.to_svg(theme=theme)
    with pytest.raises(grace.GraceError, match="auto, light, dark"):
        e.to_svg(theme="pink")
    with pytest.raises(grace.GraceError, match="light"):
        e.plot(theme="pink")


def test_names_are_escaped_and_do_not_break_the_picture() -> None:
    long = "a name that goes on and on and on and on, and then some more and more and more $x_1$"
    train = CASES[0].train.set_axis([EVIL, long, "c"], axis=1)
    model = wrapped(two_class, [EVIL, long])()
    batch = grace.Explainer(model, train, gamma=1.0).explain(train.head(6))
    for e in batch:
        for written in (e.to_svg(), *(p for c in svg_columns(e, e.backdrop()) for p in c)):
            assert "<script" not in written
            ET.fromstring(written)
        for width in (340, 760):
            check_inside(picture(e, e.backdrop(), width=width))
    for kind in KINDS:
        assert "<script" not in batch.to_svg(kind)
        ET.fromstring(batch.to_svg(kind))
    batch[0].plot().savefig(io.BytesIO(), format="svg")


def test_a_value_outside_the_range_is_drawn() -> None:
    e = CASES[0].explainer().explain(pd.DataFrame([[-90.0, 0, 0]], columns=list("abc")))[0]
    assert e.changes[0].name == "a"
    check_inside(picture(e, e.backdrop()))


# -- batches ----------------------------------------------------------------------------------


def test_an_overview_holds_what_changed(batch: grace.Explanations) -> None:
    o = batch.overview()
    assert sum(count for *_, count in o.pairs) == len(o.pair) == batch.success.sum()
    assert [count for *_, count in o.pairs] == sorted((count for *_, count in o.pairs), reverse=True)
    spread = batch.schema["income"].spread
    expected = [
        next(((c.new - c.old) / spread for c in e.changes if c.name == "income"), 0.0) for e in batch if e.success
    ]
    assert sorted(o.moves[:, 1]) == pytest.approx(sorted(expected))
    assert o.top()[0] == int(batch.changed[batch.success].sum().to_numpy().argmax())
    for k, (original, contrast, count) in enumerate(o.pairs):
        pairs = (batch.original_class == original) & (batch.contrast_class == contrast)
        assert pairs.sum() == count == (o.pair == k).sum()


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("width", [340, 760])
def test_pictures_of_a_batch(batch: grace.Explanations, kind: str, width: int) -> None:
    drawing = batch_picture(batch.overview(), kind, width=width)
    check_inside(drawing)
    written = batch.to_svg(kind, width=width)
    ET.fromstring(written)
    assert written == batch.to_svg(kind, width=width)
    batch.plot(kind, width=width).savefig(io.BytesIO(), format="png")


def test_bars_say_how_often(batch: grace.Explanations) -> None:
    said = {m.text for m, *_ in marks_of(batch_picture(batch.overview(), "features").marks) if isinstance(m, Text)}
    overview = batch.overview()
    for k in range(min(3, len(overview.pairs))):
        for j in overview.top():
            count = int(overview.changed[overview.pair == k, j].sum())
            assert count == 0 or str(count) in said


def test_a_batch_without_answers_has_pictures() -> None:
    case = next(c for c in CASES if c.name == "plateau")
    batch = case.explainer().explain(case.rows)
    for kind in KINDS:
        assert "No row of this batch" in batch.to_svg(kind)
    assert "none found" in batch.to_html()
    assert isinstance(batch.overview(), Overview)
    with pytest.raises(grace.GraceError, match="features, changes, heatmap"):
        batch.plot("pie")


# -- extremes ---------------------------------------------------------------------------------


def test_a_method_that_changes_everything_shows_the_largest_changes() -> None:
    rng = np.random.default_rng(0)
    train = pd.DataFrame(rng.normal(size=(60, 12)), columns=[f"f{i}" for i in range(12)])
    module = nn.Linear(12, 2, dtype=torch.float64)
    model = grace.wrap(module, classes=["no", "yes"], outputs="logits")
    e = grace.Explainer(model, train).explain(train.head(1), method="nearest")[0]
    assert len(e.changes) == 12
    assert set(e.backdrop().curves) == {c.name for c in e.changes[:8]}
    assert e.backdrop().map is None
    check_inside(picture(e, e.backdrop()))
    assert "4 smaller changes are not shown" in e.to_svg()


def test_more_categories_than_points_on_a_curve() -> None:
    names = [f"c{i:03}" for i in range(90)]
    train = pd.DataFrame({"kind": names * 2, "size": np.linspace(0, 1, 180)})
    model = wrapped(lambda x: torch.stack([0 * x[:, 0], x[:, 0] - 77.5], dim=1), ["no", "yes"])()
    explainer = grace.Explainer(model, train, gamma=1.0)
    e = explainer.explain({"kind": "c003", "size": 0.5}, frozen=["size"])[0]
    assert e.changes[0].name == "kind"
    assert e.backdrop().curves["kind"].flips == (77.5,)
    root = ET.fromstring(e.to_svg())
    said = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "c003" in said
    assert "and 82 more" in said


def test_json_keeps_a_narrow_range_far_from_zero() -> None:
    train = pd.DataFrame({"t": np.linspace(1e6, 1e6 + 1, 50), "b": np.arange(50) % 2})
    model = wrapped(lambda x: torch.stack([0 * x[:, 0], (x[:, 0] - 1e6) * 10 - 5], dim=1), ["no", "yes"])()
    e = grace.Explainer(model, train, gamma=1.0).explain({"t": 1e6 + 0.2, "b": 0})[0]
    again = grace.Explanation.from_json(e.to_json(backdrop=True))
    assert again.backdrop().curves["t"].flips == pytest.approx(e.backdrop().curves["t"].flips, rel=1e-15)
    assert again.backdrop().histograms == e.backdrop().histograms
    check_inside(picture(again, again.backdrop()))


def test_without_matplotlib_there_is_svg_and_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    e = EVERYTHING[0][1]
    monkeypatch.delitem(sys.modules, "grace.pictures.matplotlib_backend", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(grace.GraceError, match=r"pip install matplotlib"):
        e.plot()
    assert e.to_svg().startswith("<svg")
    assert e.to_html().startswith("<!doctype")
