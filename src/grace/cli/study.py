"""`grace study`: make, serve, analyse and export the user studies, and plan their size."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from grace.cli.serve import allow_host, proxy
from grace.cli.terminal import read_table
from grace.errors import GraceError, pip_install
from grace.schema.files import write_text

if TYPE_CHECKING:
    from grace.study.analysis import Hypothesis, Report

FOLDER = click.Path(exists=True, file_okay=False)


@click.group()
def study() -> None:
    """Run the paper's user studies: do people find GRACE's explanations clearer than LIME's, and act better on them?

    \b
    Example:
      grace study power --d 0.8
      grace study new clear/ --task rate
      grace study serve clear/
      grace study analyse clear/ --figure clear.svg
    """


@study.command()
@click.argument("directory", type=click.Path())
@click.option(
    "--task", type=click.Choice(("rate", "adjust")), required=True, help="Study 1 (rate) or study 2 (adjust)."
)
@click.option("--data", default=None, help="An embedded table; cancer95, the paper's, unless --model is given.")
@click.option("--model", type=FOLDER, help="An explainer saved by grace train, instead of --data.")
@click.option(
    "--rows", type=click.Path(exists=True, dir_okay=False), help="With --model: a table with rows to explain."
)
@click.option("--row", type=int, multiple=True, help="With --rows: take this row (0 is the first); may be repeated.")
@click.option("--items", type=click.IntRange(min=1), help="How many rows, each participant seeing one. Default: 1.")
@click.option("--pictures", type=click.Choice(("no", "yes", "both")), default="no", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides rows and assignment.")
@click.option("--min-minutes", type=float, help="Faster answers are left out. Default: 1.5 (rate) or 3 (adjust).")
@click.option("--title", default="", help="What participants read at the top.")
@click.option("--contact", default="", help="Whom participants can ask.")
@click.option("--consent", type=click.Path(exists=True, dir_okay=False), help="A text file with your own information.")
def new(
    directory: str,
    task: str,
    data: str | None,
    model: str | None,
    rows: str | None,
    row: tuple[int, ...],
    items: int | None,
    consent: str | None,
    **settings: Any,
) -> None:
    """Make a study: choose rows, explain them by both methods, and fix it all in a directory.

    \b
    Examples:
      grace study new clear/ --task rate --pictures both --contact "study@example.org"
      grace study new act/ --task adjust --model model/ --rows loans.csv --row 7
    """
    from grace.explain import store
    from grace.study import making

    if (model is None) == (rows is not None) or (row and rows is None) or (data is not None and model is not None):
        raise click.UsageError("give --data NAME, or --model DIRECTORY with --rows FILE (and --row NUMBER)")
    if consent is not None:
        settings["consent"] = _read_text(consent)
    if model is not None and rows is not None:
        explainer = store.load(model)
        frame = explainer.model.impute(read_table(rows, explainer.schema))[explainer.schema.names]
        source = f"rows of {Path(rows).name} with the model {Path(model).name}"
        if row:
            frame, items = making.named_rows(frame, row, rows), items or len(row)
    else:
        data = data or "cancer95"
        explainer, frame = making.embedded(data, settings["seed"])
        source = f"embedded table {data}"
    created = making.make(explainer, frame, task=task, source=source, items=items or 1, **settings)
    making.write(created, explainer, directory)
    arms = ", ".join(f"{arm.method} {'with' if arm.picture else 'without'} picture" for arm in created.arms)
    click.echo(f"Made a study of {len(created.items)} row(s) from {source}: {arms}.", err=True)
    click.echo(f"Now: grace study serve {shlex.quote(directory)}", err=True)


@study.command()
@click.argument("directory", type=FOLDER)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 lets other machines in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any free one.")
@allow_host
@proxy
def serve(directory: str, host: str, port: int, allow_host: tuple[str, ...], proxy: tuple[str, ...]) -> None:
    """Serve a study to participants. Answers survive whatever happens to this process; stop it with Ctrl-C.

    \b
    Example:
      grace study serve clear/ --port 8001
      grace study serve clear/ --allow-host study.example.org --proxy 127.0.0.1
    """
    try:
        from grace.study.pages import create_app
        from grace.web.hosts import hosts_of
        from grace.web.server import proxies_of, run
    except ImportError as reason:
        raise GraceError(f"the studies' pages need more packages ({reason.name}): {pip_install('web')}") from reason
    hosts, proxies = hosts_of(host, allow_host), proxies_of(proxy)
    app = create_app(directory, hosts)
    run(app, host, port, lambda address: click.echo(f"The study is at {address} (Ctrl-C to stop).", err=True), proxies)


@study.command()
@click.argument("directory", type=FOLDER)
@click.option("-o", "--out", type=click.Path(), help="Write to this file instead of the screen.")
def export(directory: str, out: str | None) -> None:
    """Write the answers as CSV, without anything that leads back to a participant's page.

    \b
    Example:
      grace study export clear/ -o responses.csv
    """
    from grace.study.responses import responses_of, to_csv

    table = to_csv(responses_of(directory))
    if out is None:
        click.echo(table, nl=False)
    else:
        write_text(Path(out), table)
        click.echo(f"{table.count(chr(10)) - 1} answers written to {out}", err=True)


@study.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--alpha", type=float, default=0.05, show_default=True, help="The most false findings allowed for.")
@click.option("--min-minutes", type=float, help="Leave out answers faster than this, instead of the study's own limit.")
@click.option("--attention/--no-attention", default=True, help="Leave out answers that failed the attention check.")
@click.option("--picture/--no-picture", default=None, help="Only answers with (or without) a picture.")
@click.option("--figure", type=click.Path(), help="Draw the answers to FILE.svg, .png or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def analyse(
    sources: tuple[str, ...],
    alpha: float,
    min_minutes: float | None,
    attention: bool,
    picture: bool | None,
    figure: str | None,
    as_json: bool,
) -> None:
    """Test the paper's hypotheses H1, H2 and H3 on studies' directories or CSV tables of answers.

    \b
    Examples:
      grace study analyse clear/ act/ --figure studies.svg
      grace study analyse responses.csv --json
    """
    from grace.study.analysis import analyse as report_on
    from grace.study.analysis import draw
    from grace.study.responses import read_csv, responses_of

    responses = [r for s in sources for r in (responses_of(s) if Path(s).is_dir() else read_csv(s))]
    report = report_on(responses, alpha=alpha, min_minutes=min_minutes, attention=attention, picture=picture)
    if figure is not None:
        draw(report, figure)
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=1, ensure_ascii=False))
    else:
        _print_report(report)


@study.command()
@click.option("--d", type=float, help="For ratings: the difference to find, in standard deviations.")
@click.option("--p1", type=float, help="For right and wrong answers: the larger share expected, such as 0.75.")
@click.option("--p2", type=float, help="The smaller share.")
@click.option("--n", type=click.IntRange(min=2), help="Say the power of this many valid answers a group instead.")
@click.option("--alpha", type=float, default=0.05, show_default=True)
@click.option("--power", type=float, default=0.8, show_default=True)
@click.option("--two-sided", is_flag=True, help="Two-tailed tests; the paper's are one-tailed.")
@click.option("--lost", type=float, default=0.0, show_default=True, help="Share of answers expected to be left out.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def power(
    d: float | None, p1: float | None, p2: float | None, n: int | None, lost: float, as_json: bool, **test: Any
) -> None:
    """How many participants a study needs: for ratings by the t-test, for right and wrong answers by Fisher's.

    \b
    Examples:
      grace study power --d 0.5
      grace study power --p1 0.75 --p2 0.16 --lost 0.2
      grace study power --d 0.8 --n 23
    """
    from grace.study.power import plan

    if (d is None) == (p1 is None and p2 is None) or (p1 is None) != (p2 is None):
        raise click.UsageError("give --d for ratings, or --p1 and --p2 for right and wrong answers")
    result = plan(d=d, p1=p1, p2=p2, n=n, lost=lost, **test)
    click.echo(json.dumps(result.to_dict(), indent=1) if as_json else str(result))


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        raise GraceError(f"{path} cannot be read as text: {reason}") from reason


def _print_report(report: Report) -> None:
    console = Console()
    valid = report.received - len(report.exclusions)
    console.print(f"{report.received} answers, {valid} of them valid.", highlight=False)
    for e in report.exclusions:
        line = f"  left out: {e.participant} ({e.method}, {e.task}): {e.reason}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for h in report.hypotheses:
        console.print()
        console.print(f"{h.name}: {h.claim}", style="bold", highlight=False)
        console.print(_group_table(h))
        for line in _test_lines(h):
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
        console.print(f"  {h.verdict}", style="bold", highlight=False, markup=False, soft_wrap=True)
    for note in report.notes:
        console.print(f"\n{note}", style="dim", highlight=False, markup=False, soft_wrap=True)


def _group_table(h: Hypothesis) -> Table:
    table = Table(box=None, header_style="dim")
    table.add_column("")
    for head in ("n", "mean", "sd", "95 % interval"):
        table.add_column(head, justify="right", no_wrap=True)
    for method, g in h.groups.items():
        span = f"{g.low:.2f} to {g.high:.2f}"
        table.add_row(method.upper(), str(g.n), f"{g.mean:.2f}", f"{g.sd:.2f}", span)
    return table


def _test_lines(h: Hypothesis) -> list[str]:
    from grace.study.analysis import format_p

    lines = []
    for test in (h.student, h.welch, h.robust):
        if test is not None:
            kind = "odds ratio" if h.measure == "correct" else "U"
            what = (
                f"{kind} = {test.statistic:g}" if test.df is None else f"t = {test.statistic:.4f}, df = {test.df:.4g}"
            )
            lines.append(f"{test.name}: {what}, one-tailed p = {format_p(test.p)}")
    for effect in h.effects:
        if effect.value is not None:
            low, high = ("…" if end is None else f"{end:.2f}" for end in (effect.low, effect.high))
            span = "" if effect.low is None and effect.high is None else f" (95 % interval {low} to {high})"
            lines.append(f"{effect.name}: {effect.value:.2f}{span}")
    return lines
