"""Whether two commits give the same answers bit for bit, for changes that must not be seen from outside.

    python benchmarks/compare_commits.py BEFORE [AFTER] [--quick] [--only TEXT]

BEFORE and AFTER are git revisions; without AFTER, the working tree is compared with BEFORE. Every commit is asked the
same questions by the files as they are now, those in `comparing`, which use only what is public: networks on all
embedded tables and models of every kind, by all methods and with the settings that people use, misuses, files, the
command and the page. Compared are the values of contrastive rows, classes, sentences in both languages, JSON, tables,
pictures, pages, proofs, warnings and the words of errors. Each side works in one thread, and both at the same time,
so that their CPU times can be compared.

`--quick` asks fewer questions, about fewer tables. `--only TEXT` asks only about models whose name contains TEXT. The
exit status is 1 if anything differs; then the case, the place in it and both values are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOST_SHOWN = 40  # differences that are printed, and of one case:
MOST_OF_CASE = 4
EVERY = 5.0  # seconds between lines of progress
ENDS = ("refused", "left out", "crashed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?", help="a git revision")
    parser.add_argument("after", nargs="?", help="a git revision; the working tree if it is left out")
    parser.add_argument("--quick", action="store_true", help="fewer questions")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models whose name contains this")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the answers of the grace that is imported")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, ended)
    if args.record is not None:
        record(args.record, args.quick, args.only)
        return
    if args.before is None:
        parser.error("say which commit to compare with")
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
        folder = Path(made)
        sides = {"before": stack.enter_context(checked_out(args.before, folder / "before"))}
        sides["after"] = ROOT
        if args.after is not None:
            sides["after"] = stack.enter_context(checked_out(args.after, folder / "after"))
        more = [*(["--quick"] if args.quick else []), "--only", args.only]
        files = recorded(sides, folder, more)
        before, after = (json.loads(path.read_text(encoding="utf-8")) for path in files)
    sys.exit(report(before, after))


def ended(*_: Any) -> None:
    """End as after an error, so that what was made is removed; meanwhile, further signals count for nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


# -- one side --------------------------------------------------------------------------------------


def record(path: Path, quick: bool, only: str) -> None:
    """Ask every question, and write the answers."""
    import torch
    from comparing.answers import record as recorded_case
    from comparing.cases import cases

    import grace

    source = Path(os.environ.get("PYTHONPATH", "nowhere"))
    if not Path(grace.__file__).is_relative_to(source):
        sys.exit(f"grace is imported from {grace.__file__}, not from {source}")
    torch.set_num_threads(1)
    side, last = path.stem, time.monotonic()
    records: list[dict[str, Any]] = []
    for case in cases(quick, only):
        if time.monotonic() - last > EVERY:
            print(f"{side}: {len(records)} cases done; {case.name}", file=sys.stderr, flush=True)
            last = time.monotonic()
        records.append(recorded_case(case))
        if signal.getsignal(signal.SIGTERM) == signal.SIG_IGN:  # the end was taken for that of a command
            sys.exit(143)
    print(f"{side}: {len(records)} cases done", file=sys.stderr, flush=True)
    path.write_text(json.dumps(records, default=lambda v: f"{type(v).__name__} {v!r}"), encoding="utf-8")


@contextlib.contextmanager
def checked_out(revision: str, place: Path) -> Iterator[Path]:
    """A worktree of a revision, removed afterwards."""
    git = ["git", "-C", str(ROOT), "worktree"]
    done = subprocess.run([*git, "add", "--detach", str(place), revision], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{revision}: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run([*git, "remove", "--force", str(place)], check=False)


def recorded(sides: dict[str, Path], folder: Path, more: list[str]) -> list[Path]:
    """The files in which both sides, at the same time, have written their answers."""
    files = [folder / f"{side}.json" for side in sides]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    work = []
    try:
        for place, file in zip(sides.values(), files, strict=True):
            environment = {**os.environ, **one_thread, "PYTHONPATH": str(place / "src"), "PYTHONHASHSEED": "0"}
            command = [sys.executable, str(Path(__file__).resolve()), "--record", str(file), *more]
            work.append(subprocess.Popen(command, env=environment, cwd=folder))
        for side, process in zip(sides, work, strict=True):
            if process.wait():
                sys.exit(f"{side}: no answers, as the process ended with status {process.returncode}")
    finally:
        for process in work:
            if process.poll() is None:
                process.terminate()
        for process in work:
            process.wait()
    return files


# -- both ------------------------------------------------------------------------------------------


def differences(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str, str]]:
    """Where two answers differ, and how; numbers are the same only if every bit is."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in (*one, *(k for k in other if k not in one)):
            yield from differences(one.get(key, "nothing"), other.get(key, "nothing"), (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, (*path, f"[{i}]"))
    elif repr(one) != repr(other):
        yield ", ".join(path), shortened(one), shortened(other)


def shortened(value: Any, most: int = 400) -> str:
    said = str(value)
    return said if len(said) <= most else f"{said[:most]} ... ({len(said)} characters)"


def report(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> int:
    """Print what differs and what was compared; the exit status."""
    ours, theirs = ({case["name"]: case for case in side} for side in (before, after))
    assert len(ours) == len(before), "two cases have the same name"
    found = shown = 0
    for name in (*ours, *(n for n in theirs if n not in ours)):
        if name not in ours or name not in theirs:
            lines = [("the case", *("asked" if name in side else "not asked" for side in (ours, theirs)))]
        else:
            lines = list(differences(ours[name]["answer"], theirs[name]["answer"]))
        found += bool(lines)
        for where, one, other in lines[:MOST_OF_CASE] if shown < MOST_SHOWN else []:
            shown += 1
            print(f"\n{name}\n  {where}\n  before: {one}\n  after:  {other}")
        if len(lines) > MOST_OF_CASE and shown < MOST_SHOWN:
            print(f"  and {len(lines) - MOST_OF_CASE} more of this case")
    answers = sum(len(case["answer"].get("text en", ())) for case in before)
    ends = Counter(end for case in before for end in ENDS if end in case["answer"])
    times = [sum(case["seconds"] for case in side) for side in (before, after)]
    for case in before:
        for end in ENDS[1:]:
            if end in case["answer"]:
                print(f"{end}: {case['name']}: {case['answer'][end]}")
    print(f"\n{len(before)} cases with {answers} answers compared, {ends['refused']} of them refusals", end="; ")
    print(f"{found} differ" if found else "all the same, bit for bit")
    print(f"CPU time: before {times[0]:.1f} s, after {times[1]:.1f} s, ratio {times[1] / times[0]:.2f}")
    return int(found > 0)


if __name__ == "__main__":
    main()
