"""The benchmark of tree ensembles: its tables of figures, its cells and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


NUMBERS = """fit_s read_s trees leaves features_all rows fidelity features distance alone_ms alone_p90_ms batch_ms
asked decided except_ties impossible certified_minimum search_there search_worse gap_median gap_mean proof_ms
box_rows box_fidelity box_features box_distance box_alone_ms box_batch_ms features_there distance_there times"""


def model_line(data: str, model: str, **more: Any) -> dict[str, Any]:
    return {"data": data, "model": model, **dict.fromkeys(NUMBERS.split(), 1), "failed": "", **more}


def test_a_cell_replaces_its_lines_and_is_known_later(tmp_path) -> None:
    from trees import Figures

    path = tmp_path / "trees-models.csv"
    figures = Figures(path, ["data", "model"])
    assert not figures.has(("spam", "forest"))
    figures.put(("spam", "forest"), [model_line("spam", "forest")])
    figures.put(("spam", "XGBoost"), [model_line("spam", "XGBoost")])
    figures.put(("spam", "forest"), [{"data": "spam", "model": "forest", "failed": "longer than 1 s"}])
    again = Figures(path, ["data", "model"])
    assert again.has(("spam", "forest"))
    assert again.lines["model"].tolist() == ["XGBoost", "forest"]
    assert again.lines["failed"].isna().tolist() == [True, False]


def test_the_page_is_made_of_what_is_there(tmp_path) -> None:
    from trees_page import page

    (tmp_path / "trees-machine.txt").write_text("python benchmarks/trees.py --rows 3\nA machine.\n", encoding="utf-8")
    lines = [model_line("spam", "forest", leaves=1234, decided=0.5), model_line("adult", "XGBoost", box_rows=0)]
    missing = dict.fromkeys(("box_fidelity", "box_features", "times"), np.nan)
    lines[1] |= missing
    lines.append({"data": "mfeat", "model": "forest", "failed": "longer than 300 s"})
    pd.DataFrame(lines).to_csv(tmp_path / "trees-models.csv", index=False)
    grown = [
        {"grows": what, "value": n, "leaves": 10 * n, "rows": n, "seconds": n * 1e-3, "alone_ms": 1.0, "failed": ""}
        for what in ("trees", "depth", "rows")
        for n in (1, 10, 100)
    ]
    pd.DataFrame(grown).to_csv(tmp_path / "trees-growth.csv", index=False)
    head = {"data": "spam", "model": "forest", "rows": 2, "valid": 1.0, "in_domain": 1.0, "features": 1.0}
    head |= {"distance": 1.0, "search_fewer": 0.0, "search_more": 0.0, "median_ms": 2.0, "mean_ms": 2.0, "times": 4.0}
    peers = [{**head, "method": m, "failed": ""} for m in ("search", "nice-sparsity")]
    peers += [
        {**head, "model": "XGBoost", "method": m, "failed": "", "times": 1.0} for m in ("search", "nice-sparsity")
    ]
    why = "treecf knows two classes only"
    peers.append({"data": "spam", "model": "XGBoost", "method": "treecf-exact", "failed": why})
    peers.append({"data": "mfeat", "model": "forest", "failed": "longer than 9 s"})
    pd.DataFrame(peers).to_csv(tmp_path / "trees-peers.csv", index=False)
    page(tmp_path)
    text = (tmp_path / "trees.md").read_text(encoding="utf-8")
    assert "| forest | spam | 1,234 |" in text
    assert "Not measured: longer than 300 s (mfeat, forest)." in text
    forest, boosted, both = (f"- NICE sparsity: {n} times the time of the search" for n in (4, 1, 2))
    assert text.index("**XGBoost**") < text.index(boosted) < text.index("**forest**") < text.index(forest)
    assert text.index("**All models:**") < text.index(both)
    assert "| XGBoost | spam | treecf exact | – |" in text
    assert "Dashes: treecf exact: treecf knows two classes only (spam)." in text
    assert "Not measured: longer than 9 s (mfeat, forest)." in text
    assert "Made by `python benchmarks/trees.py --rows 3`, which" in text
    assert "1.00 in rows of a batch" in text
    assert "on all but 2 rows (1 of XGBoost, adult, 1 of forest, spam)" in text
    assert "nan" not in text
    assert (tmp_path / "pictures" / "trees-growth.svg").stat().st_size > 1000


def test_names_are_plain_and_different() -> None:
    from tree_models import plain_names

    found = plain_names(["J_Dz(e)", "F01[N-N]", "a b", "a-b", "%"])
    assert list(found.values()) == ["J_Dz_e", "F01_N_N", "a_b", "a_b_3", "column"]


def slow(job: int) -> list[dict[str, Any]]:
    """What a cell does; in a process of its own."""
    import time

    time.sleep(60 if job == 1 else 0)
    if job == 2:
        raise ValueError("not today")
    return [{"job": job}]


@pytest.mark.slow
def test_a_cell_that_takes_too_long_does_not_end_the_others() -> None:
    from trees import measured

    found: dict[int, Any] = {}
    measured(slow, [(job,) for job in range(4)], 20.0, lambda job, lines: found.update({job[0]: lines}))
    assert found == {0: [{"job": 0}], 1: "longer than 20 s", 2: "ValueError: not today", 3: [{"job": 3}]}
