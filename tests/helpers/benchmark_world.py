"""A small table with numbers, whole numbers, a category and three classes, and a fake peer that misbehaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from grace import Schema
from grace.datasets import Table
from grace.experiments.peers import RUNNERS


def loans(n: int = 240) -> Table:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.normal(50, 20, n).round(1),
            "debts": rng.integers(0, 9, n),
            "home": rng.choice(["none", "owned", "rented"], n),
            "age": rng.uniform(18, 90, n).round(),
        }
    )
    score = frame["income"] / 30 - frame["debts"] / 3 + (frame["home"] == "owned")
    frame["risk"] = np.select([score < 0, score < 1.2], ["high", "medium"], "low")
    return Table("loans", frame, Schema(features=(), target="risk"))


FAKE = f"""
import atexit, os, signal, sys, time
sys.path.insert(0, {str(RUNNERS)!r})
from protocol import main

def prepare(task, variant):
    if variant == "setup":
        raise RuntimeError("no such backend")

    def ask(i):
        bad = i == 1 or variant.startswith("always")
        kind = variant.removeprefix("always-")
        if bad and kind == "hang":
            time.sleep(60)
        if bad and kind == "deaf":
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(60)
        if bad and kind == "crash":
            print("out of luck", flush=True)
            os._exit(3)
        if bad and kind == "raise":
            raise ValueError("not today")
        if variant == "exit" and i == 6:
            atexit.register(os._exit, 5)
        if variant == "linger" and i == 6:
            atexit.register(time.sleep, 60)
        row = list(task.rows[i])
        row[0] += 1000.0
        if bad and kind == "nan":
            row[0] = float("nan")
        if bad and kind == "shape":
            row = row[:-1]
        if bad and kind == "category":
            row[2] = 7.0
        if bad and kind == "nothing":
            return None
        if bad and kind == "text":
            return "abcd"
        return row

    if variant == "lazy":
        with open(sys.argv[2], "a") as events:
            events.write('{{"ready": 0}}\\n{{"begin": 99}}\\n{{"row": 99, "values": [1]}}\\n')
        os._exit(0)
    if variant == "noise":
        with open(sys.argv[2], "a") as events:
            events.write("this is no JSON\\n[1, 2]\\n" + '{{"row": 2, "values": [1]}}\\n')
    return ask

main(prepare)
"""


def fake(folder: Path) -> Path:
    script = folder / "run_fake.py"
    script.write_text(FAKE, encoding="utf-8")
    return script
