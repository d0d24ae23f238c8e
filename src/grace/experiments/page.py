"""The results of a benchmark as a self-contained page."""

from __future__ import annotations

from grace.pictures.html import report_environment


def page(
    legend: str,
    tasks: list[tuple[str, list[str], list[list[str]], list[str]]],
    sections: list[tuple[str, str, list[str], list[list[str]]]],
    ours: frozenset[str] = frozenset(),
) -> str:
    """One table per task with what there is to say about it, then further sections: title, words and table."""
    lines = legend.splitlines()
    template = report_environment("grace.experiments").get_template("benchmark.html")
    return template.render(
        title="Benchmark",
        tasks=tasks,
        sections=sections,
        ours=ours,
        meanings=[line.split("**")[1:] for line in lines if line.startswith("- ")],
        rest=" ".join(line for line in lines if not line.startswith("- ")).strip(),
    )
