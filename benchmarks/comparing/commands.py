"""The command `grace` and its page: what they print, write and answer."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pandas as pd
from click.testing import CliRunner

import grace
from comparing.models import World

Named = tuple[str, Callable[[], dict[str, Any]]]
COMMANDS = (
    "datasets",
    "datasets --json",
    "schema rows.csv --target class -o schema.json",
    "train rows.csv --target class -o trained --schema schema.json --hidden 8 --seed 3",
    "train rows.csv --target class -o cut --hidden 8 --threshold tested_positive=0.3 --domain minmax --drop age",
    "train rows.csv --target class -o trained",
    "train rows.csv --target klass -o other",
    "save rows.csv --target class --model model.json --classes tested_negative,tested_positive -o own",
    "save rows.csv --target class --model model.json -o other",
    "explain trained rows.csv --row 3",
    "explain trained rows.csv --row 3 -n 3 --language de --style magnitude --hedge",
    "explain trained rows.csv --row 3 --frozen age --only plasma_glucose,body_mass_index --json",
    "explain trained rows.csv --row 3 --range plasma_glucose=:120 --cost age=2 --template because",
    "explain trained rows.csv --row 3 --rule 'age >= pregnancies' --against tested_positive",
    "explain trained rows.csv --row 3 --html one.html --plot one.svg",
    "explain trained rows.csv --row 3 --record record.json",
    "replay record.json",
    "explain trained rows.csv --row 999",
    "explain trained rows.csv --row 3 --frozen height",
    "explain trained ids.csv --out why.csv --id customer",
    "explain trained rows.csv --out why.jsonl --method gradient --gamma 0.3",
    "explain trained rows.csv --out why.parquet --max-features 2",
    "explain trained rows.csv --html all.html",
    "explain trained rows.csv --out job --workers 1 --part-rows 100 --text",
    "explain cut rows.csv --row 5",
    "explain own rows.csv --row 5",
    "explain own rows.csv --out own.csv --confidence 0.6",
    "explain nowhere rows.csv",
    "rules rows.csv --target class",
    "rules rows.csv --target class --take 1 -o ruled.json",
)
REQUESTS: tuple[tuple[str, dict[str, Any] | None], ...] = (
    ("/health", None),
    ("/", None),
    ("/?language=de", None),
    ("/?max_features=1&language=en", None),
    ("/api", None),
    ("/openapi.json", None),
    ("/api/schema", None),
    ("/api/predict", {}),
    ("/api/explain", {}),
    ("/api/explain", {"max_features": 2, "n": 2, "frozen": ["age"], "style": "magnitude", "language": "de"}),
    ("/api/explain", {"max_features": 0}),
    ("/api/explain", {"against": "healthy"}),
    ("/look.css", None),
    ("/nowhere", None),
)


def entry() -> str:
    """The function behind the command, "MODULE:NAME", as the commit that is imported declares it."""
    declared = Path(grace.__file__).parents[2] / "pyproject.toml"
    return str(tomllib.loads(declared.read_text(encoding="utf-8"))["project"]["scripts"]["grace"])


def command() -> click.Group:
    module, _, name = entry().partition(":")
    found = getattr(import_module(module), name)
    assert isinstance(found, click.Group)
    return found


def prepare(world: World, folder: Path) -> None:
    """A table as CSV, another with a customer number, and the file of a model."""
    known = grace.datasets.load("diabetes")
    frame = known.frame.head(300)
    frame.to_csv(folder / "rows.csv", index=False)
    frame.assign(customer=range(1000, 1300)).to_csv(folder / "ids.csv", index=False)
    world.explainer.save(str(folder / "network"))
    with contextlib.suppress(ImportError):
        from xgboost import XGBClassifier

        codes = (frame[known.target] == "tested_positive").astype(int)
        model = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)
        model.fit(frame.drop(columns=known.target), codes).save_model(folder / "model.json")


def without_place(said: str, folder: Path) -> str:
    """Text without what differs from run to run: the folder that it was made in, and times."""
    return re.sub(r"\d:\d\d:\d\d", "TIME", said.replace(str(folder.resolve()), "FOLDER").replace(str(folder), "FOLDER"))


def content(path: Path, folder: Path) -> Any:
    """A file as it is compared: lines of text, the cells of a Parquet table, a hash of anything else."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path).to_csv().split("\n")
    if path.suffix in (".csv", ".json", ".jsonl"):
        lines = without_place(path.read_text(encoding="utf-8"), folder).split("\n")
        return [line for line in lines if not line.startswith(' "sha256"')]  # of a record, with the folder in it
    return hashlib.sha256(path.read_bytes()).hexdigest()


def commands(world: World) -> Iterator[Named]:
    """Help of every command, and commands that are given one after another in a folder."""
    for name, known in [("", command()), *sorted(command().commands.items())]:
        yield f"{name} --help", partial(explained, known)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepare(world, folder)
        for line in COMMANDS:
            if "model.json" not in line or (folder / "model.json").exists():
                yield line, partial(invoked, line, folder)


def explained(known: click.Command) -> dict[str, Any]:
    return {"help": CliRunner().invoke(known, ["--help"]).output.split("\n")}


def invoked(line: str, folder: Path) -> dict[str, Any]:
    """What a command printed, how it ended, and the files that it wrote."""
    words = [a or b for a, b in re.findall(r"'([^']*)'|(\S+)", line)]
    there = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    with contextlib.chdir(folder):
        result = CliRunner().invoke(command(), words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    fresh = [p for p in sorted(folder.rglob("*")) if p.is_file() and there.get(p) != p.stat().st_mtime_ns]
    return {
        "exit code": result.exit_code,
        "stdout": without_place(result.stdout, folder).split("\n"),
        "stderr": without_place(result.stderr, folder).split("\n"),
        "files": {str(p.relative_to(folder)): content(p, folder) for p in fresh},
    }


def pages(world: World) -> Iterator[Named]:
    """The page and the API of a server that is started here, asked without proofs, which take as long as they may."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepare(world, folder)
        module, _, name = entry().partition(":")
        start = f"import {module} as m; m.{name}()"
        run = [sys.executable, "-c", start, "serve", "network", "--rows", "rows.csv", "--port", "0"]
        server = subprocess.Popen(run, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            address = listened(server)
            row = json.loads(world.rows.head(1).to_json(orient="records"))[0]
            for path, more in REQUESTS:
                body = None if more is None else {"row": row, **more}
                yield f"{path} {more or ''}", partial(reply, address, path, body)
        finally:
            server.terminate()
            server.wait()


def listened(server: subprocess.Popen[str]) -> str:
    """The address that a server says when it is ready."""
    assert server.stderr is not None
    said = ""
    for line in server.stderr:
        said += line
        if found := re.search(r"http://\S+(?=/ )", line):
            return found[0]
    raise RuntimeError(f"grace serve ended: {said}")


def reply(address: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """Status and content of an answer, without the address of the server."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            status, kind, said = answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        status, kind, said = error.code, error.headers["content-type"], error.read()
    lines = said.decode().replace(address, "ADDRESS").split("\n")
    return {"status": status, "type": kind, "content": lines}
