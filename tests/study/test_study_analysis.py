"""From answers to verdicts: filters, hypotheses, words, tables and the figure."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from grace import GraceError
from grace.cli import main
from grace.study.analysis import analyse, draw
from grace.study.responses import Response, read_csv, to_csv


def rated(method: str, values: list[tuple[int, int]], **parts: object) -> list[Response]:
    return [
        Response(
            participant=f"{method}{i}",
            task="rate",
            method=method,
            minutes=2.0,
            attention=True,
            intuitive=a,
            comprehensible=b,
            **parts,  # type: ignore[arg-type]
        )
        for i, (a, b) in enumerate(values)
    ]


def acted(method: str, right: int, n: int) -> list[Response]:
    return [
        Response(
            participant=f"{method}a{i}", task="adjust", method=method, minutes=4.0, attention=True, correct=i < right
        )
        for i in range(n)
    ]


def spread(counts: dict[int, int]) -> list[int]:
    return [r for r, n in counts.items() for _ in range(n)]


PAPER = (
    rated("grace", list(zip(spread({1: 3, 4: 1, 7: 13, 8: 6}), spread({1: 2, 7: 1, 8: 20}), strict=True)))
    + rated("lime", list(zip(spread({1: 5, 3: 1, 6: 13, 7: 2}), spread({1: 3, 5: 2, 6: 9, 7: 7}), strict=True)))
    + acted("grace", 15, 20)
    + acted("lime", 3, 19)
)
"""Answers of as many people as in the paper, with its means and its t."""


def test_the_papers_table() -> None:
    report = analyse(PAPER)
    found = {h.name: h for h in report.hypotheses}
    assert [(h.name, round(h.student.statistic, 4), h.student.df) for h in found.values() if h.student] == [
        ("H1", 2.3115, 42),
        ("H2", 3.0176, 42),
        ("H3", 4.4875, 37),
    ]
    ps = [h.student.p for h in found.values() if h.student]
    assert [f"{p:.4f}" for p in ps[:2]] == ["0.0129", "0.0022"]
    assert f"{ps[2]:.2e}" == "3.39e-05"
    assert [h.holm for h in found.values()] == pytest.approx([ps[0], 2 * ps[1], 3 * ps[2]])
    assert all(h.verdict.startswith("Supported") for h in found.values())
    assert (report.received, report.exclusions) == (83, [])
    assert round(found["H3"].groups["lime"].mean, 2) == 0.16


def test_filters_count_and_list_what_they_leave_out() -> None:
    fast = [replace(r, participant="fast", minutes=1.49) for r in rated("grace", [(10, 10)])]
    just = [replace(r, participant="just", minutes=1.5) for r in rated("grace", [(10, 10)])]
    blind = [replace(r, participant="blind", attention=False) for r in rated("lime", [(1, 1)])]
    hasty = [replace(r, participant="hasty", minutes=2.9) for r in acted("lime", 0, 1)]
    own = [replace(r, participant="own", minutes=2.9, min_minutes=2.0) for r in acted("lime", 0, 1)]
    unknown = [replace(r, participant="?", minutes=None, attention=None) for r in acted("lime", 0, 1)]
    everybody = PAPER + fast + just + blind + hasty + own + unknown
    report = analyse(everybody)
    assert [(e.participant, e.reason) for e in report.exclusions] == [
        ("fast", "too fast: 1.49 of at least 1.5 minutes"),
        ("blind", "the attention check was answered wrongly"),
        ("hasty", "too fast: 2.90 of at least 3 minutes"),
    ]
    assert report.hypotheses[0].groups["grace"].n == 24
    assert report.hypotheses[2].groups["lime"].n == 21
    loose = analyse(everybody, min_minutes=0, attention=False)
    assert loose.exclusions == []
    assert loose.hypotheses[0].groups["grace"].n == 25


def test_uneven_exclusions_are_pointed_out() -> None:
    lost = [replace(r, minutes=0.1) for r in rated("lime", [(1, 1)] * 20)]
    assert any("Exclusions differ" in note for note in analyse(PAPER + lost).notes)
    assert not any("Exclusions differ" in note for note in analyse(PAPER).notes)


def test_pictures_can_be_told_apart() -> None:
    plain = rated("grace", [(5, 5)] * 3, picture=False) + rated("lime", [(4, 6), (3, 3)], picture=False)
    drawn = rated("grace", [(9, 9), (8, 8)], picture=True) + rated("lime", [(1, 2)], picture=True)
    assert analyse(plain + drawn, picture=True).received == 3
    assert any("taken together" in note for note in analyse(plain + drawn).notes)
    assert not any("taken together" in note for note in analyse(plain).notes)
    assert analyse(plain + drawn, picture=False).hypotheses[0].groups["grace"].mean == 5
    with pytest.raises(GraceError, match="no answers"):
        analyse(plain, picture=True)


@pytest.mark.parametrize(
    ("responses", "words"),
    [
        (rated("grace", [(9, 9)]), "at least two of each"),
        (rated("grace", [(9, 9), (8, 7)] * 6) + rated("lime", [(1, 2), (2, 1)] * 6), "too few"),
        (rated("grace", [(5, 5)] * 20) + rated("lime", [(5, 5)] * 20), "alike"),
        (rated("grace", [(5, 6), (6, 5)] * 10) + rated("lime", [(5, 6), (6, 5)] * 10), "no proof of equality"),
    ],
)
def test_says_so_when_nothing_can_be_concluded(responses: list[Response], words: str) -> None:
    report = analyse(responses)
    assert all(words in h.verdict and not h.verdict.startswith("Supported") for h in report.hypotheses)
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_finding_that_ranks_do_not_share_is_doubted() -> None:
    skewed = rated("grace", [(3, 3)] * 8 + [(10, 10)] * 7) + rated("lime", [(4, 4)] * 15)
    verdicts = [h.verdict for h in analyse(skewed).hypotheses]
    assert all("Supported" in v and "Mann-Whitney U does not agree" in v for v in verdicts)


def test_bad_settings() -> None:
    with pytest.raises(GraceError, match="alpha=2"):
        analyse(PAPER, alpha=2)
    with pytest.raises(GraceError, match="no ratings"):
        analyse([Response(participant="a", task="rate", method="grace")])


# -- tables -----------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), max_size=8)
RESPONSES = st.builds(
    Response,
    participant=WORDS.filter(bool),
    study=WORDS,
    task=st.sampled_from(["rate", "adjust"]),
    method=st.sampled_from(["grace", "lime"]),
    picture=st.none() | st.booleans(),
    item=st.none() | st.integers(0, 99),
    minutes=st.none() | st.floats(0, 1e6),
    min_minutes=st.none() | st.floats(0, 10),
    attention=st.none() | st.booleans(),
    intuitive=st.none() | st.integers(1, 10).map(float),
    comprehensible=st.none() | st.integers(1, 10).map(float),
    correct=st.none() | st.booleans(),
    predicted=WORDS,
    adjusted=WORDS,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(RESPONSES, max_size=4))
def test_csv_brings_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, responses: list[Response]) -> None:
    file = tmp_path_factory.mktemp("csv") / "r.csv"
    file.write_text(to_csv(responses), encoding="utf-8")
    assert read_csv(file) == responses


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", "empty"),
        ("intuitive\n5\n", "no column 'method'"),
        ("method,colour\ngrace,red\n", "unknown column 'colour'"),
        ("method,intuitive\ngrace,5\nshap,5\n", "line 3: method is 'shap'"),
        ("method,intuitive\ngrace,11\n", "line 2: intuitive is '11'"),
        ("method,intuitive\ngrace,five\n", "line 2: intuitive is 'five'"),
        ("method,correct\ngrace,maybe\n", "line 2: correct is 'maybe'"),
        ("method,minutes\ngrace,nan\n", "line 2: minutes is 'nan'"),
        ("method,task\ngrace,sing\n", "line 2: task is 'sing'"),
        ("method,correct\ngrace\n", "line 2: 1 cells"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, table: str, words: str) -> None:
    (tmp_path / "r.csv").write_text(table)
    with pytest.raises(GraceError, match=words):
        read_csv(tmp_path / "r.csv")


def test_a_table_may_be_small(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("method,correct\nGRACE,1\nlime,0\n\n")
    assert [(r.task, r.method, r.correct) for r in read_csv(tmp_path / "r.csv")] == [
        ("adjust", "grace", True),
        ("adjust", "lime", False),
    ]


# -- the command and the figure ---------------------------------------------------------------


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["study", *map(str, args)], env={"COLUMNS": "100"})


def test_command_analyses_a_table(tmp_path: Path) -> None:
    file = tmp_path / "responses.csv"
    file.write_text(to_csv([*PAPER, replace(PAPER[0], participant="hare", minutes=0.5)]))
    said = run("analyse", file, "--figure", tmp_path / "f.svg")
    assert said.exit_code == 0, said.output
    for words in (
        "84 answers, 83 of them valid.",
        "left out: hare (grace, rate): too fast: 0.50 of at least 1.5 minutes",
        "Student's t: t = 2.3115, df = 42, one-tailed p = 0.0129",
        "Student's t: t = 4.4875, df = 37, one-tailed p = 3.39e-05",
        "Welch's t: t = 4.5075, df = 36.5",
        "Fisher's exact: odds ratio = 16, one-tailed p = 0.0003",
        "risk difference: 0.59 (95 % interval 0.28 to 0.76)",
        "Supported: p = 0.0129 after Holm's correction, below 0.05.",
    ):
        assert words in said.output
    printed = json.loads(run("analyse", file, "--json").output)
    assert printed["hypotheses"][2]["student"]["statistic"] == pytest.approx(4.487525)
    assert "t = 2.31, p = 0.0129" in (tmp_path / "f.svg").read_text()


def test_figure_is_the_same_every_time(tmp_path: Path) -> None:
    report = analyse(PAPER)
    for name in ("a.svg", "b.svg", "c.png", "d.pdf"):
        draw(report, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    draw(analyse(rated("grace", [(9, 9)])), tmp_path / "one.svg")
    with pytest.raises(GraceError, match="must end in"):
        draw(report, tmp_path / "f.xyz")


def test_figure_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(GraceError, match=r"pip install matplotlib"):
        draw(analyse(PAPER), tmp_path / "f.svg")


def test_command_plans() -> None:
    assert "51 valid answers a group" in run("power", "--d", 0.5).output
    assert json.loads(run("power", "--p1", 0.75, "--p2", 0.16, "--json").output)["valid"] == 11
    assert run("power", "--d", 0.5, "--p1", 0.7, "--p2", 0.1).exit_code == 2
    assert run("power").exit_code == 2
    assert run("power", "--p1", 0.7).exit_code == 2
    wrong = run("power", "--d", -1)
    assert (wrong.exit_code, wrong.output.count("\n")) == (1, 1)
