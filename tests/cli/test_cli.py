"""The `grace` command: what it prints, what it writes, and one-line errors."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from commands import TO, error_of, loans, run, succeed
from grace import Explanation, datasets, training

COMMANDS = ("demo", "datasets", "train", "explain", "profile", "reasons", "benchmark")


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> SimpleNamespace:
    """A table with ranges wider than its middle, a network trained on it by the command, and what it said."""
    here = tmp_path_factory.mktemp("cli")
    frame = loans()
    frame.to_csv(here / "loans.csv", index=False)
    said = succeed("train", here / "loans.csv", *TO, here / "model", "--hidden", "12")
    return SimpleNamespace(here=here, frame=frame, model=here / "model", csv=here / "loans.csv", said=said)


def explained(world, *args: object) -> list[dict]:
    """Explanations of the table's rows as `--json` prints them."""
    return json.loads(succeed("explain", world.model, world.csv, "--json", *args).stdout)


def written(world, name: str, **columns) -> Path:
    """The table with other columns (None: without), as a file."""
    frame = world.frame.head(30).assign(**columns)
    frame.drop(columns=[k for k, v in columns.items() if v is None]).to_csv(world.here / name, index=False)
    return world.here / name


# -- help ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), *((c,) for c in COMMANDS)], ids=" ".join)
def test_help_has_an_example(command):
    for flag in ("--help", "-h"):
        said = succeed(*command, flag).stdout
        assert "Example" in said
        assert " ".join(("grace", *command)) in said.partition("Example")[2]


def test_version():
    assert re.fullmatch(r"grace, version \d+\.\d+\.\d+\n", succeed("--version").stdout)


@pytest.mark.parametrize("args", [["--help"], ["explain", "--help"], ["profile", "--help"]])
def test_help_does_not_wait_for_heavy_imports(args):
    program = (
        "import sys; from grace.cli import main; main(sys.argv[1:], standalone_mode=False); "
        "sys.exit(str([m for m in ('torch', 'pandas', 'sklearn', 'scipy') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)
    assert "Usage:" in done.stdout
    assert done.stderr.strip() == "[]"


# -- demo and datasets --------------------------------------------------------------------------------


def test_demo_explains_the_patient_and_writes_a_page(tmp_path):
    said = succeed("demo", "--out", tmp_path / "patient.html").stdout
    sentence = re.search(
        r"^Had .+, the model would have classified the patient as benign rather than malignant\."
        r" Within these ranges, no single change could have done it\.$",
        said,
        re.M,
    )
    assert sentence
    page = (tmp_path / "patient.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert sentence[0] in page
    assert str(tmp_path / "patient.html") in said
    assert [p.name for p in tmp_path.iterdir()] == ["patient.html"]


def test_demo_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(training.RECIPES, "cancer95", training.Recipe((15, 15), max_epochs=40))
    e = Explanation.from_json(succeed("demo", "--json", "--method", "local").stdout)
    assert e.row == datasets.CASE_STUDY
    assert (e.original_class, e.contrast_class, e.settings["method"]) == ("malignant", "benign", "local")


def test_demo_that_cannot_write_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(training.RECIPES, "cancer95", training.Recipe((15, 15), max_epochs=40))
    result = run("demo", "--out", tmp_path / "nowhere" / "page.html")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr.splitlines()[-1]


def test_datasets_are_listed_on_a_narrow_terminal():
    lines = [line.split() for line in succeed("datasets", columns=80).stdout.splitlines()]
    first = {line[0]: line[1:3] for line in lines if line[0] in datasets.names()}
    assert list(first) == list(datasets.names())
    assert first["german_credit"] == ["1000", "20"]


def test_datasets_as_json():
    listed = json.loads(succeed("datasets", "--json").stdout)
    assert [entry["name"] for entry in listed] == list(datasets.names())
    assert listed[-1]["classes"] == []
    assert listed[-2] == {
        "name": "german_credit",
        "rows": 1000,
        "features": 20,
        "categorical": 13,
        "classes": ["good", "bad"],
        "row": "the loan applicant",
    }


# -- train --------------------------------------------------------------------------------------------


def test_training_reports_and_keeps_stdout_clean(world):
    assert world.said.stdout == ""
    assert float(re.search(r"([\d.]+)% of 16 held-out rows", world.said.stderr)[1]) > 70
    assert {p.suffix for p in world.model.iterdir()} == {".json", ".safetensors"}


@pytest.mark.parametrize("missing", [False, True])
def test_the_command_that_training_suggests_works(world, missing):
    frame = world.frame.copy()
    if missing:
        frame.loc[::5, "home"] = None
    data = world.here / "suggested.csv"
    frame.to_csv(data, index=False)
    said = succeed("train", data, *TO, world.here / f"suggested {missing}", "--hidden", "6").stderr
    command = shlex.split(said.strip().splitlines()[-1].removeprefix("Now: "))
    assert command[0] == "grace"
    assert "the model would have" in succeed(*command[1:]).stdout


def test_training_takes_a_schema_a_domain_and_parquet(world):
    schema = {
        "target": "risk",
        "row": "the borrower",
        "features": [
            {"kind": "numeric", "name": "income", "phrase": "the income", "unit": "crowns", "high": 9500},
            {"kind": "numeric", "name": "debt_ratio", "phrase": "the debt"},
            {"kind": "categorical", "name": "home", "phrase": "the home"},
        ],
    }
    (world.here / "words.json").write_text(json.dumps(schema))
    world.frame.to_parquet(world.here / "loans.parquet")
    args = ("--target", "risk", "--schema", world.here / "words.json", "--domain", "minmax", "--hidden", "8,4")
    succeed("train", world.here / "loans.parquet", *args, "-o", world.here / "worded", "--seed", "3")
    e = json.loads(succeed("explain", world.here / "worded", world.here / "loans.parquet", "--json").stdout)[0]
    assert e["settings"]["domain"] == "minmax"
    assert re.match(r"Had the (income|debt|home) ", e["text"])
    assert "classified the borrower as" in e["text"]


def test_the_seed_makes_training_repeatable(world):
    saved = []
    for seed in (1, 1, 2):
        succeed("train", world.csv, *TO, world.here / "seeded", "--hidden", "12", "--seed", seed, "--force")
        saved.append((world.here / "seeded" / "weights.safetensors").read_bytes())
    assert saved[0] == saved[1] != saved[2]


# -- explain ------------------------------------------------------------------------------------------


def test_one_row_is_a_table_and_a_sentence(world):
    said = succeed("explain", world.model, world.csv, "--row", 7).stdout
    e = explained(world, "--row", 7)[0]
    assert e["row"] == world.frame.drop(columns="risk").iloc[7].to_dict()
    assert said.splitlines()[0].split() == ["feature", "is", "would", "be"]
    assert said.splitlines()[-1] == e["text"]
    assert "row 7" not in said


def test_every_row_is_explained_under_its_number(world):
    said = succeed("explain", world.model, written(world, "some.csv")).stdout
    assert re.findall(r"^row (\d+)$", said, re.MULTILINE) == [str(i) for i in range(30)]
    assert [e["text"] for e in explained(world)[:30]] == re.findall(r"^(?:Had|The model) .*$", said, re.MULTILINE)


def test_the_target_column_is_not_needed(world):
    bare = written(world, "bare.csv", risk=None)
    assert (
        succeed("explain", world.model, bare).stdout == succeed("explain", world.model, written(world, "b.csv")).stdout
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_files_hold_one_line_for_each_row(world, suffix):
    out = world.here / f"why{suffix}"
    result = succeed("explain", world.model, world.csv, "--out", out)
    listed = explained(world)
    assert result.stdout == ""
    assert result.stderr == f"{sum(e['success'] for e in listed)} of {len(listed)} rows explained; written to {out}\n"
    if suffix == ".jsonl":
        lines = out.read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in lines] == listed
        assert Explanation.from_json(lines[0]).text() == listed[0]["text"]
        return
    frame = pd.read_csv(out, index_col="row") if suffix == ".csv" else pd.read_parquet(out)
    assert frame.index.tolist() == world.frame.index.tolist()
    assert frame["text"].tolist() == [e["text"] for e in listed]
    assert frame["success"].tolist() == [e["success"] for e in listed]


def test_how_it_is_said(world):
    """Style, template, language and hedge reach the screen, JSON and files."""
    how = ("--style", "relative", "--template", "because", "--language", "de", "--hedge")
    texts = [e["text"] for e in explained(world, *how)]
    assert all(t.startswith("Das Modell hat die Zeile als ") for t in texts)
    done = [t for t, e in zip(texts, explained(world), strict=True) if e["success"]]
    assert all(re.search(r", weil .* war \(das Modell war sich zu .* % sicher\)\.$", t) for t in done)
    said = succeed("explain", world.model, world.csv, "--row", 7, *how, columns=200).stdout
    assert texts[7] in said
    assert "Merkmal" in said
    for suffix in (".csv", ".jsonl"):
        out = world.here / f"how{suffix}"
        succeed("explain", world.model, world.csv, "--out", out, *how)
        lines = pd.read_csv(out) if suffix == ".csv" else pd.read_json(out, lines=True)
        assert lines["text"].tolist() == texts
    drawn = [e["text"] for e in explained(world, "--seed", 3)]
    assert len({t.split()[0] for t in drawn}) > 1
    assert "'xx'" in error_of("explain", world.model, world.csv, "--language", "xx")
    assert "poem" in error_of("explain", world.model, world.csv, "--style", "poem", code=2)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_about_one_row_says_which(world, suffix):
    out = world.here / f"seven{suffix}"
    succeed("explain", world.model, world.csv, "--row", 7, "--out", out)
    frame = pd.read_csv(out, index_col="row") if suffix == ".csv" else pd.read_parquet(out)
    assert frame.index.tolist() == [7]


@pytest.mark.parametrize("method", ["gradient", "local", "nearest", "deepfool"])
def test_method(world, method):
    listed = explained(world, "--method", method)
    assert {e["settings"]["method"] for e in listed} == {method}
    assert np.mean([e["success"] for e in listed]) > 0.5
    assert all(e["contrast_class"] != e["original_class"] for e in listed if e["success"])


def test_max_features(world):
    counts = {
        most: [len(e["changes"]) for e in explained(world, "--against", "high", "--max-features", most)]
        for most in (1, 3)
    }
    assert set(counts[1]) <= {0, 1}
    assert max(counts[3]) > 1


def test_gamma(world):
    assert {e["settings"]["gamma"] for e in explained(world, "--gamma", "0.25")} == {0.25}


@pytest.mark.parametrize("label", ["low", "high"])
def test_against(world, label):
    listed = explained(world, "--against", label)
    assert {e["contrast_class"] for e in listed if e["success"]} == {label}
    own = [e for e in listed if e["original_class"] == label]
    assert own
    assert not any(e["success"] for e in own)


def test_against_a_class_that_is_a_number(world):
    data = written(world, "numbered.csv", risk=(world.frame["risk"].head(30) == "low").astype(int))
    succeed("train", data, *TO, world.here / "numbered", "--hidden", "3")
    listed = json.loads(succeed("explain", world.here / "numbered", data, "--against", 1, "--json").stdout)
    assert {e["contrast_class"] for e in listed} <= {1, None}


@pytest.mark.parametrize(("said", "domain"), [("minmax", "minmax"), ("0.5", 0.5)])
def test_domain(world, said, domain):
    listed = explained(world, "--domain", said)
    assert {e["settings"]["domain"] for e in listed} == {domain}
    new = [c["new"] for e in listed for c in e["changes"] if c["feature"] == "income"]
    edge = 0 if domain == "minmax" else (1 - domain) / 2
    low, high = world.frame["income"].quantile([edge, 1 - edge])
    assert new
    assert low - 500 <= min(new)  # the ranges are those of the training part: about a quarter off
    assert max(new) <= high + 500


def test_impute(world):
    gaps = written(world, "gaps.csv", income=[np.nan, *world.frame["income"].head(30)[1:]])
    message = error_of("explain", world.model, gaps)
    assert "'income', row 0" in message
    assert "impute" in message
    assert error_of("explain", world.model, gaps, "--row", 0) == message
    filled = json.loads(succeed("explain", world.model, gaps, "--impute", "--json").stdout)
    assert filled[0]["row"]["income"] == pytest.approx(world.frame["income"].median(), abs=500)
    assert [e["text"] for e in filled[1:]] == [e["text"] for e in explained(world)[1:30]]


def test_brackets_in_names_and_categories_are_shown_as_they_are(world):
    kinds = np.array(["[/open]", "[bold]shut"])[(world.frame.index % 2 == 0).astype(int)]
    frame = pd.DataFrame({"door[state]": kinds, "size": 1, "risk": kinds == "[/open]"})
    frame.to_csv(world.here / "doors.csv", index=False)
    succeed("train", world.here / "doors.csv", *TO, world.here / "doors", "--hidden", "3")
    said = succeed("explain", world.here / "doors", world.here / "doors.csv", "--row", 0).stdout
    assert said.splitlines()[1].split() == ["door[state]", "[bold]shut", "[/open]"]


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "culprit"),
    [
        (["--against", "dire"], 1, "'dire'"),
        (["--max-features", 0], 1, "max_features=0"),
        (["--gamma", 2], 1, "gamma=2.0"),
        (["--domain", "narrow"], 1, "'narrow'"),
        (["--domain", 2], 1, "domain=2"),
        (["--row", 160], 1, "rows 0 to 159"),
        (["--row", -1], 1, "rows 0 to 159"),
        (["--row", "first"], 2, "'first'"),
        (["--method", "magic"], 2, "'magic'"),
        (["--max-features", "few"], 2, "'few'"),
        (["--out", "why.txt"], 2, "why.txt"),
        (["--out", "/nowhere/why.csv"], 1, "/nowhere/why.csv"),
        (["--out", "/nowhere/why.jsonl"], 1, "/nowhere/why.jsonl"),
        (["--depth", 3], 2, "--depth"),
    ],
    ids=str,
)
def test_a_wrong_option_is_one_line(world, args, code, culprit):
    assert culprit in error_of("explain", world.model, world.csv, *args, code=code)


def test_rows_that_do_not_fit_are_named(world):
    assert "'debt_ratio'" in error_of("explain", world.model, written(world, "narrow.csv", debt_ratio=None))
    assert "'a castle'" in error_of("explain", world.model, written(world, "castle.csv", home="a castle"))
    assert "'plenty'" in error_of("explain", world.model, written(world, "plenty.csv", income="plenty"))


@pytest.mark.parametrize("command", ["train", "explain"])
@pytest.mark.parametrize(
    ("data", "culprit"),
    [
        (b"", "data.csv"),
        (b"income,debt_ratio,home,risk\n", "has no rows"),
        (b"\xff\xfe\x00", "data.csv"),
        (b'a\n"', "data.csv"),
    ],
    ids=["empty", "only a header", "not text", "open quote"],
)
def test_a_file_that_is_no_table_is_one_line(world, tmp_path, command, data, culprit):
    (tmp_path / "data.csv").write_bytes(data)
    args = {"explain": (world.model, tmp_path / "data.csv"), "train": (tmp_path / "data.csv", *TO, tmp_path / "model")}
    assert culprit in error_of(command, *args[command])


def test_a_directory_that_is_no_model_is_one_line(world, tmp_path):
    assert "not a saved explainer" in error_of("explain", tmp_path, world.csv)
    assert "nowhere" in error_of("explain", tmp_path / "nowhere", world.csv, code=2)


@pytest.mark.parametrize(
    ("args", "code", "culprit"),
    [
        (["--target", "worth"], 1, "'worth'"),
        (["--target", "income", "--task", "classification"], 1, "'income' has one row"),
        (["--target", "home", "--task", "regression"], 1, "'home' holds no numbers"),
        (["--hidden", "a,b"], 2, "--hidden"),
        (["--hidden", "-3"], 2, "--hidden"),
        (["--hidden", "0"], 2, "--hidden"),
        (["--domain", "narrow"], 1, "'narrow'"),
        (["--seed", "-1"], 2, "--seed"),
        (["--schema", __file__], 1, "test_cli.py"),
    ],
    ids=str,
)
def test_what_cannot_be_trained_is_one_line_at_once(world, tmp_path, args, code, culprit):
    target = () if "--target" in args else ("--target", "risk")
    message = error_of("train", world.csv, "-o", tmp_path / "model", *target, *args, code=code)
    assert culprit in message
    assert "np." not in message
    assert not list(tmp_path.iterdir())


def test_a_table_too_small_to_split_is_one_line(world, tmp_path):
    few = world.frame.groupby("risk").head(2)
    few.to_csv(tmp_path / "few.csv", index=False)
    assert "few.csv" in error_of("train", tmp_path / "few.csv", *TO, tmp_path / "model")


@pytest.mark.parametrize("out", ["", "notes.txt", "notes.txt/model"])
def test_an_occupied_place_is_refused_before_training(world, tmp_path, out):
    (tmp_path / "notes.txt").write_text("mine")
    assert str(tmp_path / out) in error_of("train", world.csv, *TO, tmp_path / out)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_category_that_only_held_out_rows_have_is_no_obstacle(world):
    homes = world.frame["home"].where(world.frame.index >= 40, "home " + world.frame.index.astype(str))
    data = world.here / "homes.csv"
    world.frame.assign(home=homes).to_csv(data, index=False)
    succeed("train", data, *TO, world.here / "homes", "--hidden", "3")


# -- pictures -----------------------------------------------------------------------------------------


def test_a_page_about_one_row_and_about_all(world, tmp_path):
    one = succeed("explain", world.model, world.csv, "--row", 3, "--html", tmp_path / "one.html")
    assert "the model would have" in one.stdout
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert explained(world, "--row", 3)[0]["text"] in page
    every = succeed("explain", world.model, world.csv, "--html", tmp_path / "all.html")
    assert every.stdout == ""
    assert "all.html" in every.stderr
    assert f"of {len(world.frame)} predictions explained" in (tmp_path / "all.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "start"), [("why.png", b"\x89PNG"), ("why.pdf", b"%PDF"), ("why.svg", b"<svg")])
def test_a_picture_of_one_row(world, tmp_path, name, start):
    succeed("explain", world.model, world.csv, "--row", 3, "--plot", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("args", [["--plot", "why.png"], ["--plot", "why.gif", "--row", 0]])
def test_a_picture_needs_a_row_and_a_format(world, args):
    assert "--row" in error_of("explain", world.model, world.csv, *args, code=2)


def test_a_picture_that_cannot_be_written_is_one_line(world):
    for name in ("why.png", "why.svg"):
        assert "/nowhere" in error_of("explain", world.model, world.csv, "--row", 0, "--plot", f"/nowhere/{name}")


def test_rare_categories_go_together(world, tmp_path):
    home = world.frame["home"].where(world.frame.index >= 4, "castle")
    world.frame.assign(home=home).to_csv(tmp_path / "loans.csv", index=False)
    succeed("train", tmp_path / "loans.csv", *TO, tmp_path / "model", "--hidden", "4", "--rare", "other")
    row = world.frame.head(1).assign(home="tent").drop(columns="risk")
    row.to_csv(tmp_path / "row.csv", index=False)
    said = json.loads(succeed("explain", tmp_path / "model", tmp_path / "row.csv", "--json").stdout)
    assert said[0]["row"]["home"] == "other"
