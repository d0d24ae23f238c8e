"""`grace explain --out FOLDER`, which runs as a job: options, progress bar, summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from grace.cli.terminal import domain_of, grouped_options, label_of
from grace.explain.saved_header import head_of

FORMATS = (".csv", ".parquet", ".jsonl")


@dataclass(frozen=True)
class JobOptions:
    """The options of jobs; None where not given."""

    workers: int | None
    part_rows: int | None
    engine: str | None
    device: str | None
    text: bool | None
    repair: bool | None

    def given(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if v}


job_options = grouped_options(
    "job",
    [f.name for f in fields(JobOptions)],
    JobOptions,
    click.option("--workers", type=click.IntRange(min=1), help="Of a job: processes, by default one per core."),
    click.option(
        "--part-rows", type=click.IntRange(min=1), help="Of a job: rows per file of answers [10000; fewer if wide]."
    ),
    click.option("--text", is_flag=True, default=None, help="Of a job: add the sentence to each answer."),
    click.option("--engine", type=click.Choice(("local", "ray")), help="Of a job: this machine, or a Ray cluster."),
    click.option("--device", help="Of a job: such as cuda, where the model works."),
    click.option(
        "--repair", is_flag=True, default=None, help="Of a job: do damaged parts again, and remove files not its own."
    ),
)


def is_job(out: str | None, options: JobOptions) -> bool:
    """Whether the output is a folder; raises an error for unknown suffixes, or job options without a folder."""
    if out is not None and (Path(out).is_dir() or not Path(out).suffix):
        return True
    if out is not None and Path(out).suffix not in FORMATS:
        raise click.BadParameter(f"--out {out}: the name must end in .csv, .parquet or .jsonl, or be that of a folder")
    for name in options.given():
        raise click.BadParameter(f"--{name.replace('_', '-')} is for a job: give --out FOLDER")
    return False


def explain_job(
    model: str,
    rows: str,
    out: str,
    options: JobOptions,
    wording: Mapping[str, Any],
    *,
    against: str | None,
    domain: str | None,
    **settings: Any,
) -> None:
    """Run the job, and print a summary."""
    from grace.scale.jobs import run

    head = head_of(Path(model))
    label = None if against is None else label_of(against, head.get("task", "classification"), tuple(head["classes"]))
    given = {**options.given(), "against": label, "domain": None if domain is None else domain_of(domain)}
    if options.text:
        given["text"] = wording
    console = Console(stderr=True)
    with job_bar(console) as progress:
        job = run(model, rows, out, progress=progress, **given, **settings)
    if job.carried:
        click.echo(f"Kept beside the answers: {', '.join(job.carried)}", err=True)
    for repair in job.repaired:
        click.echo(f"Repaired: {repair}", err=True)
    total = job.explained + job.not_explained + job.set_aside
    aside = f", {job.set_aside} set aside" if job.set_aside else ""
    click.echo(f"{job.explained} of {total} rows explained{aside}; written to {out}", err=True)
    if job.set_aside:
        first = job.rejects().head(1).reset_index().iloc[0]
        where = f", column {first['column']!r}" if first["column"] else ""
        click.echo(f"Set aside, with reasons: {Path(out) / 'rejects.csv'}", err=True)
        click.echo(f"The first is row {first['row']}{where}: {first['reason']}", err=True)


@contextmanager
def job_bar(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the rate and remaining time of this run; rows of earlier runs count as completed, but not
    towards the rate."""
    columns = (
        TextColumn("Explaining"),
        BarColumn(20),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    period = 600.0  # seconds over which the rate is averaged; a part may take minutes
    hidden = not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, speed_estimate_period=period) as bar:
        task, first = bar.add_task("", total=0, rate=""), -1

        def progress(done: int, total: int) -> None:
            nonlocal first
            if first < 0:
                first = done
                bar.reset(task, total=total, completed=done)
            bar.update(task, total=total, completed=done)
            speed = bar.tasks[0].speed if done > first else None
            bar.update(task, rate=f"{speed:,.0f} rows/s" if speed else "")

        yield progress
