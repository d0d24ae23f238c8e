"""Answers as a table: one line for each, with its rank, old and new values, and what stood beside the features."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from rich.console import Console
from torch import nn

import grace
from grace import Categorical, Explainer, Numeric, Schema
from grace.cli import main
from grace.cli.terminal import FIRST_SHOWN, MAX_SHOWN, print_batch
from grace.explain.explanation import Explanation

SCHEMA = Schema(
    features=(
        Numeric(name="income", low=0, high=100, integer=True, spread=20),
        Numeric(name="debt", low=0, high=10, integer=False, spread=2),
        Categorical(name="home", categories=("own", "rent")),
        Numeric(name="age", low=18, high=90, integer=True, spread=10, frozen=True),
    ),
    target="risk",
)
FIXED = ["rank", "success", "original_class", "contrast_class", "features", "changes", "distance"]
FIXED += ["probability_before", "probability_after", "text", "notes"]
ROWS = pd.DataFrame(
    {"income": [20, 80, 30], "debt": [5.0, 1.0, 4.5], "home": ["rent", "own", "rent"], "age": [30, 40, 50]},
)


def network() -> nn.Module:
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.1, -1.0, -1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
        layer.bias.copy_(torch.tensor([0.0, 0.0]))
    return nn.Sequential(layer)


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer(grace.wrap(network(), classes=["good", "bad"]), schema=SCHEMA, gamma=1)


def test_one_line_per_answer_with_its_rank(explainer: Explainer) -> None:
    batch = explainer.explain(ROWS, n=3)
    frame = batch.to_frame()
    answers = [(i, rank, e) for i, first in enumerate(batch) for rank, e in enumerate((first, *first.alternatives), 1)]
    assert len(answers) > len(ROWS)
    assert frame.index.tolist() == [i for i, _, _ in answers]
    assert frame.index.name == "row"
    assert frame["rank"].tolist() == [rank for _, rank, _ in answers]
    assert frame["text"].tolist() == [e.text() for _, _, e in answers]
    assert list(frame.columns[: len(FIXED)]) == FIXED
    for line, (_, _, e) in zip(frame.to_dict("records"), answers, strict=True):
        changed = {c.name: c for c in e.changes}
        for name in ("income", "debt", "home"):
            if f"old.{name}" not in frame.columns:
                assert name not in changed
            elif name in changed:
                assert (line[f"old.{name}"], line[f"new.{name}"]) == (changed[name].old, changed[name].new)
            else:
                assert pd.isna(line[f"old.{name}"])
                assert pd.isna(line[f"new.{name}"])
        assert line["probability_after"] == e.probability(e.contrast_class, after=True)


def test_only_features_that_change_have_columns(explainer: Explainer) -> None:
    frame = explainer.explain(ROWS, frozen=["debt", "home"]).to_frame()
    assert list(frame.columns) == [*FIXED, "old.income", "new.income"]
    assert str(frame["new.income"].dtype) == "Int64"
    assert "age" not in "".join(frame.columns)


def test_a_row_without_an_answer_has_one_line(explainer: Explainer) -> None:
    batch = explainer.explain(ROWS, n=3, frozen=["income", "debt", "home"])
    frame = batch.to_frame()
    assert not batch.success.any()
    assert frame["rank"].tolist() == [1, 1, 1]
    assert list(frame.columns) == FIXED
    assert frame["notes"].tolist() == ["", "", ""]


def test_notes_are_one_cell(explainer: Explainer) -> None:
    batch = explainer.explain(ROWS.assign(age=[10, 12, 50]))
    assert batch.to_frame()["notes"].tolist() == ["; ".join(e.notes) for e in batch]
    assert "age" in batch.to_frame()["notes"].iloc[0]


def test_columns_that_are_no_features_travel(explainer: Explainer) -> None:
    rows = ROWS.assign(customer=["k1", "k2", "k3"], rank=[7, 8, 9], risk="?")[["customer", "rank", *ROWS, "risk"]]
    batch = explainer.explain(rows, n=2)
    pd.testing.assert_frame_equal(batch.extra, rows[["customer", "rank"]])
    frame = batch.to_frame()
    assert list(frame.columns[:3]) == ["customer", "input.rank", "rank"]
    assert frame["customer"].tolist() == [rows["customer"][i] for i in frame.index]
    assert frame["input.rank"].tolist() == [rows["rank"][i] for i in frame.index]
    lines = list(batch.to_dicts())
    assert [line["extra"] for line in lines] == rows[["customer", "rank"]].to_dict("records")
    assert Explanation.from_dict(lines[0]) == batch[0]
    plain = explainer.explain(ROWS, n=2)
    assert plain.extra.shape == (3, 0)
    assert "extra" not in next(plain.to_dicts())
    pd.testing.assert_frame_equal(frame.drop(columns=["customer", "input.rank"]), plain.to_frame())


def test_columns_that_are_no_features_do_not_disturb_a_model(explainer: Explainer) -> None:
    rows = ROWS.assign(customer="k")
    assert explainer.model.predict(rows).tolist() == explainer.model.predict(ROWS).tolist()
    assert explainer.model.impute(rows)["customer"].tolist() == ["k"] * 3
    json.dumps(list(explainer.explain(rows.assign(day=pd.Timestamp("2024-12-31"), gone=np.nan)).to_dicts()))


def test_arrays_are_taken_in_the_order_of_the_columns(explainer: Explainer) -> None:
    expected = explainer.explain(ROWS).to_frame()
    cells = ROWS.to_numpy()
    pd.testing.assert_frame_equal(explainer.explain(cells).to_frame(), expected)
    assert explainer.explain(cells[0])[0].text() == expected["text"].iloc[0]
    assert explainer.model.predict(cells).tolist() == explainer.model.predict(ROWS).tolist()
    numbers = SCHEMA.replace("home", categories=(0, 1))
    plain = Explainer(grace.wrap(network(), classes=["good", "bad"]), schema=numbers, gamma=1)
    floats = cells.copy()
    floats[:, 2] = [1, 0, 1]
    assert plain.explain(floats.astype(np.float64)).success.tolist() == explainer.explain(ROWS).success.tolist()


# -- the command -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(explainer: Explainer) -> Explainer:
    random = np.random.default_rng(0)
    train = pd.DataFrame(
        {
            "income": random.integers(0, 100, 200),
            "debt": random.uniform(0, 10, 200).round(1),
            "home": random.choice(["own", "rent"], 200),
            "age": random.integers(18, 90, 200),
        }
    )
    train["risk"] = explainer.model.predict(train)
    return Explainer(grace.training.fit(train, "risk", hidden=(4,)), train)


@pytest.fixture(scope="module")
def saved(trained: Explainer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    trained.save(str(folder / "model"))
    rows = ROWS.assign(customer=["k1", "k2", "k3"], branch=["01", "02", "03"])
    rows.assign(debt=rows["debt"].map("{:.1f}".format).str.replace(".", ",")).to_csv(
        folder / "rows.csv", index=False, sep=";", encoding="latin-1"
    )
    return folder


def explain(saved: Path, *args: str) -> Any:
    result = CliRunner().invoke(main, ["explain", str(saved / "model"), str(saved / "rows.csv"), *args])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_keeps_columns_beside_the_answers(saved: Path, trained: Explainer, suffix: str) -> None:
    out = saved / f"why.{suffix}"
    result = explain(saved, "--out", str(out), "-n", "2")
    assert "Kept beside the answers: customer, branch\n" in result.stderr
    frame = pd.read_csv(out, dtype={"branch": str}) if suffix == "csv" else pd.read_parquet(out).reset_index()
    assert list(frame.columns[:4]) == ["row", "customer", "branch", "rank"]
    assert set(zip(frame["row"], frame["customer"], frame["branch"], strict=True)) == {
        (0, "k1", "01"),
        (1, "k2", "02"),
        (2, "k3", "03"),
    }
    assert frame["text"].tolist() == trained.explain(ROWS, n=2).to_frame()["text"].tolist()


def test_ids_are_kept_alone_and_name_rows(saved: Path) -> None:
    out = saved / "why.jsonl"
    explain(saved, "--out", str(out), "--id", "branch")
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["extra"] for line in lines] == [{"branch": "01"}, {"branch": "02"}, {"branch": "03"}]
    said = explain(saved, "--id", "branch,customer").stdout
    assert "branch 01, customer k1 (row 0)" in said
    assert "branch 02, customer k2 (row 1)" in explain(saved, "--row", "1", "--id", "branch", "--id", "customer").stdout
    wrong = CliRunner().invoke(main, ["explain", str(saved / "model"), str(saved / "rows.csv"), "--id", "nobody"])
    assert wrong.exit_code == 1
    assert "--id nobody" in wrong.stderr
    assert "'customer', 'branch'" in wrong.stderr


def test_a_terminal_shows_the_first_of_many_rows(explainer: Explainer) -> None:
    batch = explainer.explain(pd.concat([ROWS] * 8, ignore_index=True))
    assert len(batch) > MAX_SHOWN
    for terminal, shown in ((True, FIRST_SHOWN), (False, len(batch))):
        screen = io.StringIO()
        print_batch(Console(force_terminal=terminal, width=100, color_system=None, file=screen), batch)
        said = screen.getvalue()
        assert len(re.findall(r"^row \d+$", said, re.MULTILINE)) == shown
        assert ("5 of 24 rows" in said and "--out FILE.csv" in said and "--row" in said) == terminal
