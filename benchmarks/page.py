"""How fast the page answers: one visitor alone, then many at once on the JSON API.

    python benchmarks/page.py --data cancer95 --clients 50 --seconds 60

A server is started for it. Every question is new: a row of the table in which one cell is that of another row, so
that no answer is remembered. The client is part of the load: on a small machine it takes its share of the cores.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import click
import numpy as np

from grace import datasets

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from server_process import serving

PATHS = {"predict": "/api/predict", "explain": "/api/explain"}
Times = dict[str, list[float]]


class Client:
    """One connection that is kept open."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        """The status of one request; the answer is read to the end."""
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"content-length: (\d+)", lines)
        await self.reader.readexactly(int(length[1]) if length else 0)
        return int(lines.split(" ", 2)[1])

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class Rows:
    """New rows without end."""

    def __init__(self, data: str, seed: int = 0) -> None:
        table = datasets.load(data)
        self.rows = table.frame.drop(columns=table.target).dropna().to_dict("records")
        self.draw = random.Random(seed)

    def next(self) -> dict[str, Any]:
        row = dict(self.draw.choice(self.rows))
        name = self.draw.choice(list(row))
        return {**row, name: self.draw.choice(self.rows)[name]}


async def alone(place: tuple[str, int], rows: Rows, count: int) -> Times:
    """One visitor: the answer and the moved row of the page, one after another; the first ten warm up."""
    times: Times = {"page: answer": [], "page: moved": []}
    client = Client(*place)
    for i in range(count + 10):
        own = [(f"is.{k}", str(v)) for k, v in rows.next().items()]
        for name, path in (("page: answer", "/answer"), ("page: moved", "/moved")):
            start = time.perf_counter()
            if await client.ask("GET", f"{path}?{urlencode(own)}") != 200:
                raise SystemExit(f"{path} failed")
            if i >= 10:
                times[name].append(time.perf_counter() - start)
    client.close()
    return times


async def crowd(place: tuple[str, int], rows: Rows, clients: int, seconds: float, share: float) -> tuple[Times, int]:
    """Many clients at once, each asking again as soon as it has an answer."""
    times: Times = {name: [] for name in PATHS}
    errors, end = 0, time.perf_counter() + seconds

    async def one() -> None:
        nonlocal errors
        client = Client(*place)
        while time.perf_counter() < end:
            name = "explain" if rows.draw.random() < share else "predict"
            start = time.perf_counter()
            try:
                ok = await client.ask("POST", PATHS[name], {"row": rows.next()}) == 200
            except (OSError, asyncio.IncompleteReadError):
                client, ok = Client(*place), False
            times[name].append(time.perf_counter() - start)
            errors += not ok
        client.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return times, errors


def show(times: Times) -> None:
    print(f"{'':14}{'requests':>10}{'p50':>9}{'p95':>9}{'p99':>9}   ms")
    for name, taken in times.items():
        if taken:
            marks = np.percentile(taken, [50, 95, 99]) * 1000
            print(f"{name:14}{len(taken):>10}" + "".join(f"{m:>9.1f}" for m in marks))


@click.command()
@click.option("--data", default="cancer95", show_default=True, help="An embedded table.")
@click.option("--clients", default=50, show_default=True)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--share", default=0.2, show_default=True, help="The share of questions that ask for an explanation.")
@click.option("--count", default=100, show_default=True, help="Questions of the visitor alone.")
def main(data: str, clients: int, seconds: float, share: float, count: int) -> None:
    """Measure the page and its API."""
    with serving("serve", "--demo", "--data", data) as (_, address):
        split = urlsplit(address)
        place = (str(split.hostname), int(split.port or 80))
        rows = Rows(data)
        print(f"{data}: one visitor alone")
        show(asyncio.run(alone(place, rows, count)))
        if seconds > 0:
            print(f"\n{data}: {clients} clients for {seconds:g} s, {share:.0%} of the questions ask for an explanation")
            times, errors = asyncio.run(crowd(place, rows, clients, seconds, share))
            total = sum(map(len, times.values()))
            show({**times, "all": [t for taken in times.values() for t in taken]})
            print(f"{total} requests, {errors} errors, {total / seconds:.0f} a second")


if __name__ == "__main__":
    main()
