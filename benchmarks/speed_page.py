"""The page docs/speed.md, from the figures that `speed.py` writes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def page(out: Path) -> str:
    """The page, from the figures that are there."""

    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(out / f"speed-{name}.csv")

    def table(name: str, heads: dict[str, str]) -> str:
        lines = read(name)
        if "us" in lines:
            lines["rate"] = 1e6 / lines["us"]
        body = [
            "| " + " | ".join(number(v) if isinstance(v, float) else str(v) for v in r) + " |"
            for r in lines[list(heads)].itertuples(index=False)
        ]
        return "\n".join(["| " + " | ".join(heads.values()) + " |", "|" + "---|" * len(heads), *body])

    parts = {
        "floor": (
            "Beside the floor",
            "Rows like spam's. The floor is one forward and backward pass per row and step taken. *explain* is the "
            "whole call, from a DataFrame to answers that are polished and checked; the other columns are of the "
            "method alone. The authors' released code, which takes rows one by one, takes 9 ms a row on a machine of "
            "this kind; the last column is a batch against that loop.",
            {
                "method": "method",
                "rows": "rows",
                "us": "µs a row",
                "explain_us": "explain, µs a row",
                "steps": "steps a row",
                "bare_us": "a pass, µs",
                "times_floor": "times the floor",
                "times_authors": "times faster than the authors' code",
            },
        ),
        "gpu": (
            "On a GPU",
            "The same on a GPU ({gpu}), by `--only floor --device cuda`: by kernels for ReLU networks, and in plain "
            "operations. `explain` as a whole does up to {explained}; *rows a second* is the method alone, without "
            "the way from a DataFrame and back and without the final checks.",
            {
                "method": "method",
                "how": "by",
                "rows": "rows",
                "us": "µs a row",
                "rate": "rows a second",
                "explain_us": "explain, µs a row",
                "steps": "steps a row",
                "bare_us": "a pass, µs",
                "times_floor": "times the floor",
            },
        ),
        "tables": (
            "The search on the paper's tables",
            "In one batch.",
            {"data": "data", "rows": "rows", "ms": "ms a row"},
        ),
        "one": (
            "A single row",
            "Warm, from a DataFrame to an answer.",
            {"data": "data", "method": "method", "rows": "rows", "median_ms": "median ms"},
        ),
        "output": (
            "Sentences, tables and JSON",
            "Answers a second, on one core: test rows drawn again, by the search with default settings. The ranges in "
            "which answers stay the same, for which the model is asked, are computed before.",
            {"data": "data", "rows": "rows", "texts": "`texts()`", "frame": "`to_frame()`", "json": "`to_json()`"},
        ),
        "peers": (
            "Beside other libraries",
            "The same test rows, up to 100, of the same networks, 1–99 % ranges. The others take rows one by one; the "
            "search is asked about one row, about all of these rows, and about 4,000 like them (mfeat, musk: 400). "
            "*alone* is from a DataFrame of one row; the others are given encoded rows, and *encoded* is from those to "
            "verified values. *times* is how much longer a row takes than with the search among 4,000: a loop against "
            "a batch. For an encoded row alone, {alone}.",
            {
                "data": "data",
                "method": "method",
                "valid": "valid",
                "features": "features",
                "distance": "distance",
                "ms": "ms alone",
                "encoded_ms": "encoded",
                "batch_ms": "ms among all",
                "large_ms": "ms among 4,000",
                "times": "times",
            },
        ),
        "growth": (
            "Growth",
            "Random networks on 50 features, 2 classes and two layers of 50, 1,000 rows, unless said otherwise (100 "
            "rows of the widest).",
            {"what": "grows", "value": "to", "method": "method", "rows": "rows", "ms": "ms a row", "mb": "peak, MB"},
        ),
    }
    text = (
        f"# Speed\n\nMade by `python benchmarks/speed.py --peers`. {(out / 'speed-machine.txt').read_text().strip()}\n"
    )
    for name, (title, words, heads) in parts.items():
        if (out / f"speed-{name}.csv").exists():
            said = words
            if name == "gpu":
                said = words.format(gpu=read(name)["gpu"][0], explained=explained(read(name)))
            elif name == "peers":
                said = words.format(alone=alone(read(name)))
            text += f"\n## {title}\n\n{said}\n\n{table(name, heads)}\n"
    return text + "\nMemory over many rows: see [scale.md](scale.md).\n"


def explained(lines: pd.DataFrame) -> str:
    """How many rows a second `explain` does as a whole by kernels, at best, by each method."""
    best = lines[lines.how == "kernels"].groupby("method", sort=False)["explain_us"].min()
    return ", ".join(f"{round(1e6 / us, -3):,.0f} rows a second by {method}" for method, us in best.items())


def alone(lines: pd.DataFrame) -> str:
    """How long others take for a row asked alone, beside the search."""
    times = lines.pivot_table(index="data", columns="method", values="encoded_ms")
    said = []
    for method in (m for m in lines.method.unique() if m != "search"):
        ratio = (times[method] / times["search"]).dropna()
        by, words = (1 / ratio, "faster than") if (ratio < 1).all() else (ratio, "the time of")
        said.append(f"{method}: {by.min():.3g} to {by.max():.3g} times {words} the search")
    return "; ".join(said)


def number(value: float) -> str:
    """Three digits, and large numbers whole."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
