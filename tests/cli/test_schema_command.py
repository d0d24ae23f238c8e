"""`grace schema`, `grace train --schema` and limits of `grace explain`: what a person edits or types counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import grace
from commands import TO, error_of, loans, succeed


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A table, its schema file, and a network that was trained with `sex` protected and the middle 90 % as ranges."""
    here = tmp_path_factory.mktemp("schema")
    frame = loans()
    frame.insert(0, "customer", [f"c{i}" for i in range(len(frame))])
    frame.insert(1, "sex", ["m", "f"] * (len(frame) // 2) + ["m"] * (len(frame) % 2))
    data = here / "loans.csv"
    frame.to_csv(data, index=False)
    frame.drop(columns="customer").to_csv(here / "plain.csv", index=False)
    said = succeed("schema", data, "--target", "risk", "-o", here / "loans.json", "--drop", "customer")
    out = SimpleNamespace(
        here=here, frame=frame, csv=data, plain=here / "plain.csv", file=here / "loans.json", said=said
    )
    edited(out, here / "edited.json", {"domain": 0.9}, sex={"protected": True}, income={"low": 1000})
    args = ("--schema", here / "edited.json", "--hidden", "8", "--drop", "customer")
    succeed("train", data, *TO, here / "model", *args)
    out.model = here / "model"
    return out


def edited(world: SimpleNamespace, path: Path, top: dict[str, Any], **features: dict[str, Any]) -> Path:
    file = json.loads(world.file.read_text(encoding="utf-8")) | top
    for feature in file["features"]:
        feature |= features.get(feature["name"], {})
    path.write_text(json.dumps(file), encoding="utf-8")
    return path


def explained(world: SimpleNamespace, *args: object) -> list[dict[str, Any]]:
    return list(json.loads(succeed("explain", world.model, world.plain, "--json", *args).stdout))


def test_columns_that_look_protected_are_named_and_not_set(world: SimpleNamespace) -> None:
    assert "protected attributes: sex." in world.said.stderr
    assert '"protected": true' in world.said.stderr
    file = json.loads(world.file.read_text(encoding="utf-8"))
    assert not any(f["protected"] for f in file["features"])
    assert "customer" not in [f["name"] for f in file["features"]]
    assert "help" in file


def test_what_was_edited_holds_in_the_trained_model(world: SimpleNamespace) -> None:
    schema = grace.load(world.model).schema
    assert (schema.domain, schema["sex"].protected, schema["income"].low) == (0.9, True, 1000)
    for e in explained(world):
        assert e["protected"] == ["sex"]
        assert "sex" not in [c["feature"] for c in e["changes"]]


@pytest.mark.parametrize(
    ("top", "features", "said"),
    [
        ({}, {"income": {"observed": [0, 1]}}, "observed is what the data show.*low and high"),
        ({}, {"income": {"data": {"observed": [0, 1]}}}, "cannot be edited"),
        ({"target": "home"}, {}, "its target is 'home', but --target is 'risk'"),
        ({}, {"income": {"name": "wealth"}}, "'wealth' of the schema is missing from the table"),
        (
            {"features": [{"kind": "numeric", "name": "income"}]},
            {},
            "'sex' of the table is missing from the schema.*drop",
        ),
        ({"colour": "red"}, {}, "unknown part 'colour'"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(
    world: SimpleNamespace, tmp_path: Path, top: dict[str, Any], features: dict[str, Any], said: str
) -> None:
    path = edited(world, tmp_path / "mine.json", top, **features)
    message = error_of("train", world.plain, *TO, tmp_path / "model", "--schema", path)
    assert re.search(said, message)
    assert "mine.json" in message
    assert "Training" not in message
    assert not (tmp_path / "model").exists()


def test_training_in_python_wants_every_column_in_the_schema(world: SimpleNamespace) -> None:
    schema = grace.Schema.infer(world.frame[["income", "risk"]], "risk")
    with pytest.raises(grace.GraceError, match="'customer' of the table is missing from the schema"):
        grace.training.fit(world.frame, "risk", schema=schema)
    own = grace.Schema.infer(world.frame[["income", "risk"]])
    with pytest.raises(grace.GraceError, match="'risk' is the target, and a feature"):
        grace.training.fit(world.frame[["income", "risk"]], "risk", schema=own)


def test_a_saved_model_is_overwritten_by_force_only(world: SimpleNamespace, tmp_path: Path) -> None:
    args = ("train", world.plain, *TO, tmp_path / "model", "--hidden", "2")
    succeed(*args)
    before = (tmp_path / "model" / "weights.safetensors").read_bytes()
    assert "--force" in error_of(*args, "--seed", 5)
    assert (tmp_path / "model" / "weights.safetensors").read_bytes() == before
    succeed(*args, "--seed", 5, "--force")
    assert (tmp_path / "model" / "weights.safetensors").read_bytes() != before
    grace.load(tmp_path / "model").save(str(tmp_path / "model"))  # in Python, save overwrites what it saved


def test_an_unknown_column_to_drop_is_named(world: SimpleNamespace, tmp_path: Path) -> None:
    assert "'nobody'" in error_of("schema", world.csv, "--target", "risk", "-o", tmp_path / "s", "--drop", "nobody")


def test_an_empty_table_has_no_rows(world: SimpleNamespace, tmp_path: Path) -> None:
    world.frame.drop(columns="customer").head(0).to_csv(tmp_path / "none.csv", index=False)
    for more in ((), ("--row", 0)):
        message = error_of("explain", world.model, tmp_path / "none.csv", *more)
        assert "has no rows: there is only a header" in message
        assert "0 to" not in message


# -- limits on the command line ----------------------------------------------------------------------


def changed(explanations: list[dict[str, Any]]) -> set[str]:
    return {c["feature"] for e in explanations for c in e["changes"]}


def test_limits_on_the_command_line(world: SimpleNamespace) -> None:
    assert changed(explained(world, "--only", "income,debt_ratio")) <= {"income", "debt_ratio"}
    assert changed(explained(world, "--frozen", "income,home", "--frozen", "sex")) == {"debt_ratio"}
    protected = explained(world, "--protected", "income")
    assert "income" not in changed(protected)
    assert protected[0]["protected"] == ["sex", "income"]
    assert changed(explained(world, "--only", "sex")) <= {"sex"}
    for e in explained(world, "--range", "income=:4000", "--only", "income"):
        assert all(c["new"] <= 4000 for c in e["changes"])
    usual, dear = (explained(world, *args) for args in ((), ("--cost", "income=9,debt_ratio=9")))
    assert [e["distance"] for e in usual] != [e["distance"] for e in dear]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--only", "nobody"), "no feature 'nobody'; features: 'sex'"),
        (("--only", "income", "--frozen", "income"), "'income' is in only and in frozen"),
        (("--range", "income=low"), "income=low:high"),
        (("--cost", "income"), "--cost 'income'"),
    ],
)
def test_wrong_limits_are_one_line(world: SimpleNamespace, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    assert said in error_of("explain", world.model, world.plain, *args)
    assert said in error_of("explain", world.model, world.plain, "--out", tmp_path / "job", "--workers", 1, *args)


def test_a_job_keeps_the_same_limits(world: SimpleNamespace, tmp_path: Path) -> None:
    args = ("--only", "income,debt_ratio", "--range", "income=1500:9000", "--cost", "income=2")
    world_frame = pd.read_csv(world.plain).head(12)
    world_frame.to_csv(tmp_path / "some.csv", index=False)
    succeed("explain", world.model, tmp_path / "some.csv", "--out", tmp_path / "job", "--workers", 1, *args)
    answers = grace.scale.read(tmp_path / "job")
    asked = json.loads((tmp_path / "job" / "manifest.json").read_text(encoding="utf-8"))["question"]["settings"]
    assert asked["only"] == ["income", "debt_ratio"]
    assert asked["ranges"] == {"income": [1500, 9000]}
    direct = json.loads(succeed("explain", world.model, tmp_path / "some.csv", "--json", *args).stdout)
    assert answers["distance"].tolist() == pytest.approx([e["distance"] for e in direct])
    with pytest.raises(grace.GraceError, match=r"only=.. leaves no feature"):
        grace.scale.run(world.model, tmp_path / "some.csv", tmp_path / "none", workers=0, only=[])


def test_a_schema_whose_categories_or_features_stand_elsewhere_is_refused(world: SimpleNamespace) -> None:
    """A network knows them by their places: another order would silently give wrong answers."""
    explainer = grace.load(world.model)
    rows, schema = pd.read_csv(world.plain), explainer.schema
    turned = schema.replace("home", categories=schema["home"].categories[::-1])
    with pytest.raises(grace.GraceError, match=r"categories of 'home' are 'rented', 'owned' in the schema"):
        grace.Explainer(explainer.model, rows, target="risk", schema=turned)
    other = grace.Schema(features=schema.features[::-1], target="risk")
    with pytest.raises(grace.GraceError, match=r"features are 'home', .* but 'sex'"):
        grace.Explainer(explainer.model, rows, target="risk", schema=other)
