"""What README and docs say in words is what the stored figures say, and pages are what their scripts write."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from grace.experiments.reproduction import page as reproduction
from grace.experiments.results import over_tasks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DEFAULT = "1–99 %"


def words(name: str) -> str:
    """A page with all white space as single blanks."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers that a sentence states, which has to be there once."""
    found = re.findall(pattern, text)
    assert len(found) == 1, (pattern, found)
    parts = found[0] if isinstance(found[0], tuple) else found
    return [float(part.replace(",", "")) for part in parts]


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module(name)


def tables(name: str) -> list[pd.DataFrame]:
    """The tables of a page, as they are printed."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE):
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.strip().splitlines()]
        found.append(pd.DataFrame(lines[2:], columns=lines[0]))
    return found


def as_numbers(frame: pd.DataFrame, but: tuple[str, ...]) -> pd.DataFrame:
    return frame.apply(lambda column: column if column.name in but else pd.to_numeric(column))


def test_distances_beside_peers_are_geometric_means() -> None:
    figures = pd.read_csv(DOCS / "peers-figures.csv")
    every = over_tasks(figures).set_index("method")["distance"].round(2)
    usual = over_tasks(figures[figures["domain"] == "central"]).set_index("method")["distance"].round(2)
    said = numbers(r"distance is ([\d.]+) times the search's for DiCE and ([\d.]+) times for NICE", words("README.md"))
    assert said == [every["dice-random"], every["nice-sparsity"]]
    text = words("docs/benchmark.md")
    names = (
        ("DiCE random", "NICE sparsity", "NICE proximity", "NICE plausibility", "SparseFool", "JSMA and"),
        ("dice-random", "nice-sparsity", "nice-proximity", "nice-plausibility", "sparsefool", "jsma"),
    )
    whole = text.partition("geometric mean over the ten tasks is")[2].partition("over the five")[0]
    for name, method in zip(*names, strict=True):
        assert numbers(rf"([\d.]+) for {name}", whole) == [every[method]], method
    said = numbers(r"\(central\) it is ([\d.]+) for DiCE random and ([\d.]+) for NICE sparsity", text)
    assert said == [usual["dice-random"], usual["nice-sparsity"]]


def test_a_row_alone_is_said_beside_the_batch() -> None:
    ms = pd.read_csv(DOCS / "speed-peers.csv").pivot_table("encoded_ms", "data", "method")
    ratio, text = ms["nice-sparsity"] / ms["search"], words("README.md")
    said = numbers(r"NICE takes ([\d.]+) to ([\d.]+) times the time of the search", text)
    assert said == [round(ratio.min(), 1), round(ratio.max(), 1)]
    assert numbers(r"it is slower on (\d+) of (\d+) tables", text) == [(ratio > 1).sum(), len(ratio)]
    said = numbers(r"the search takes ([\d.]+) to ([\d.]+) ms a row alone", text)
    assert said == [round(ms["search"].min(), 1), round(ms["search"].max(), 1)]
    within = pd.read_csv(DOCS / "peers-figures.csv").pivot_table("ms", ["data", "domain"], "method")
    ratio = within["search"] / within["nice-sparsity"]
    said = numbers(r"alone NICE sparsity is (\d+) to (\d+) times faster", words("docs/benchmark.md"))
    assert said == [round(ratio.min()), round(ratio.max())]


def test_the_whole_call_on_a_gpu_is_said_before_the_kernel() -> None:
    lines = pd.read_csv(DOCS / "speed-gpu.csv").query("how == 'kernels'")
    whole, alone = (1e6 / lines.groupby("method")[column].min() for column in ("explain_us", "us"))
    million = r"([\d.]+) million"
    said = numbers(
        rf"`explain` as a whole does up to {million} rows a second by the walk and {million} by the search; "
        rf"the kernels alone do {million} and {million}",
        words("README.md"),
    )
    expected = [whole["gradient"], whole["search"], alone["gradient"], alone["search"]]
    assert said == [float(f"{v / 1e6:.2g}") for v in expected]
    for name in ("docs/scale.md", "CHANGELOG.md"):
        pattern = rf"does up to {million} (?:rows like spam's )?a second by `gradient` and {million} by the search"
        assert numbers(pattern, words(name)) == said[:2], name


def test_how_many_proofs_are_decided_is_said() -> None:
    results = pd.read_csv(DOCS / "search.csv").query("asked > 0 and ranges == @DEFAULT")
    results["done"] = results["decided"] * results["asked"]
    by = results.groupby("data")[["done", "asked"]].sum()
    share = by["done"] / by["asked"]
    text = words("README.md")
    said = numbers(r"(\d+) % were decided within a second each, (\d+) % or more on nine of ten tables", text)
    assert said == [round(100 * by["done"].sum() / by["asked"].sum()), 95]
    assert (len(share), (share >= 0.95).sum()) == (10, 9)
    assert numbers(r"ms\) and (\d+) % on mfeat", text) == [round(100 * share["mfeat"])]
    median = results.groupby("data")["proof_median_ms"].mean()[share >= 0.95]
    assert numbers(r"a median of (\d+) to (\d+) ms", text) == [round(median.min()), round(median.max())]


def test_robust_answers_are_said_beside_the_rows_that_have_one() -> None:
    lines = as_numbers(tables("robustness.md")[0], ("data", "answers"))
    sure = lines[lines["answers"] == "robust, confidence 0.8"].set_index("data")
    rest = sure["fidelity"].drop("biodeg")
    text = words("README.md")
    assert numbers(r"hold on ([\d.]+) and more of networks never seen", text) == [sure["kept"].min()]
    said = numbers(r"([\d.]+) to ([\d.]+) of all on five tables and ([\d.]+) on biodeg", text)
    assert said == [rest.min(), rest.max(), sure.loc["biodeg", "fidelity"]]


def test_following_is_said_to_break_rules() -> None:
    lines = tables("realism.md")[1].set_index(["data", "asked for"])["break a rule"]
    before, after = (int(lines["segment", asked].rstrip("%")) for asked in ("nothing", "follow"))
    assert before < after
    assert numbers(r"association, not causation.*?on segment from (\d+) to (\d+) %", words("README.md")) == [
        before,
        after,
    ]
    assert numbers(r"segment: (\d+) % of the answers instead of (\d+) %", words("docs/rules.md")) == [after, before]


def test_forecasts_are_said_as_measured() -> None:
    means = pd.read_csv(DOCS / "forecast.csv").groupby("reader")["right"].mean()
    said = numbers(
        r"right in ([\d.]+) of cases, where SHAP reaches ([\d.]+), LIME ([\d.]+) and no explanation ([\d.]+) ",
        words("README.md"),
    )
    assert said == pytest.approx([means[name] for name in ("scorecard", "SHAP", "LIME", "none")], abs=5.1e-4)


def test_pages_are_what_their_scripts_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script("speed_page", monkeypatch).page(DOCS) == (DOCS / "speed.md").read_text(encoding="utf-8")
    for name in ("search.csv", "proofs.csv", "search-machine.txt"):
        (tmp_path / name).write_bytes((DOCS / name).read_bytes())
    script("minimal", monkeypatch).write(tmp_path)
    script("robust", monkeypatch).write(as_numbers(tables("robustness.md")[0], ("data", "answers")), tmp_path)
    typical, ruled = tables("realism.md")
    typical = typical.rename(columns={"plausible": "asked"}).replace({"–": "0"})
    heads = {"asked for": "asked", "moving along": "along", "break a rule": "breaks", "ms a row": "ms"}
    ruled = ruled.rename(columns=heads)
    ruled["breaks"] = ruled["breaks"].str.rstrip("%").astype(float) / 100
    script("realism", monkeypatch).write(as_numbers(pd.concat([typical, ruled]), ("data", "asked")), tmp_path)
    for name in ("search.md", "robustness.md", "realism.md"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (DOCS / name).read_text(encoding="utf-8"), name


def test_readers_are_said_to_be_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "reproduction-tables.md").read_text(encoding="utf-8")
    assert f"## {reproduction.TITLES['reader']}\n\n{reproduction.NOTES['reader']}\n" in text
    for name in ("reproduction-tables.md", "reproduction.md", "results.md", "studies.md"):
        assert "simulated readers (programs" in (DOCS / name).read_text(encoding="utf-8"), name


def test_the_grid_of_the_exhaustive_search_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    values = script("exhaustive", monkeypatch).VALUES
    assert f"up to {values} values that occur in training" in words("docs/mixed.md")
