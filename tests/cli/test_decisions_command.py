"""`grace profile` and `grace reasons`: what they print agrees with the library."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pandas as pd
import pytest

import grace
from commands import TO, error_of, loans, succeed


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    here = tmp_path_factory.mktemp("decisions")
    frame = loans().assign(customer=[f"c{i}" for i in range(160)])
    frame.to_csv(here / "loans.csv", index=False)
    succeed("train", here / "loans.csv", *TO, here / "model", "--hidden", "8", "--drop", "customer")
    return SimpleNamespace(
        here=here, model=here / "model", csv=here / "loans.csv", explainer=grace.load(here / "model")
    )


def rows(world: SimpleNamespace, *numbers: int) -> pd.DataFrame:
    return pd.read_csv(world.csv).iloc[list(numbers)]


def test_a_profile_is_a_line_per_feature(world: SimpleNamespace) -> None:
    profile = world.explainer.profile(rows(world, 7), frozen=["home"])[0]
    said = succeed("profile", world.model, world.csv, "--row", 7, "--frozen", "home", columns=120).stdout
    assert said.startswith(profile.text())
    table = said.split("\n\n")[1].splitlines()
    assert table[0].split() == ["feature", "is", "changes", "it", "alone", "points"]
    assert [line.split("  ")[0] for line in table[1:]] == [f.name.replace("_", " ") for f in profile.features]
    assert table[-1].split() == ["home", str(profile["home"].value), "fixed"]
    for known, line in zip(profile.features[:-1], table[1:], strict=False):
        assert abs(float(line.split()[-1].replace("\N{MINUS SIGN}", "-")) - known.most_points) <= 1
        assert ("cannot alone" in line) == (known.verdict == "cannot")


def test_a_profile_in_german_and_only_its_first_features(world: SimpleNamespace) -> None:
    profile = world.explainer.profile(rows(world, 7))[0]
    said = succeed("profile", world.model, world.csv, "--row", 7, "--language", "de", "--most", 1, columns=200).stdout
    assert said.startswith(profile.text(language="de"))
    assert "Punkte" in said
    assert said.rstrip().endswith("und 2 weitere Merkmale")


def test_profiles_as_json_and_as_a_picture(world: SimpleNamespace) -> None:
    found = json.loads(succeed("profile", world.model, world.csv, "--json").stdout)
    assert [one["index"] for one in found] == list(range(160))
    again = world.explainer.profile(rows(world, 3))[0]
    assert found[3] == {"index": 3, **json.loads(again.to_json())}
    path = world.here / "profile.svg"
    assert succeed("profile", world.model, world.csv, "--row", 3, "--plot", path).stdout == ""
    assert ET.fromstring(path.read_text(encoding="utf-8"))[1].text.startswith(again.text())  # type: ignore[union-attr]
    german = json.loads(succeed("reasons", world.model, world.csv, "--row", 3, "--json", "--language", "de").stdout)
    assert german[0]["text"].startswith("Das Modell hat")


def test_reasons_are_a_line_per_set(world: SimpleNamespace) -> None:
    asked = ("--row", 7, "--max-features", 3, "--seconds", 5, "--shown", 2)
    reasons = world.explainer.reasons(rows(world, 7), 3, seconds=5, shown=2)[0]
    text, *lines = succeed("reasons", world.model, world.csv, *asked).stdout.splitlines()
    assert text == reasons.text()
    assert len(lines) == len(reasons.shown) == 2
    for line, reason in zip(lines, reasons.shown, strict=True):
        assert reason.explanation is not None
        assert line.count("→") == len(reason.features)
        assert line.endswith(f"({reason.explanation.contrast_class})")
        assert all(name.replace("_", " ") in line for name in reason.features)


def test_many_rows_stand_under_their_numbers(world: SimpleNamespace) -> None:
    said = succeed("reasons", world.model, world.csv, "--shown", 0, "--max-features", 1).stdout.splitlines()
    assert [line for line in said if line.startswith("row ")] == [f"row {i}" for i in range(160)]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("profile", "--row", 999), "rows 0 to 159"),
        (("reasons", "--row", 0, "--frozen", "nose"), "nose"),
        (("reasons", "--row", 0, "--max-features", 9), "max_features"),
        (("profile", "--row", 0, "--language", "xx"), "no language 'xx'"),
    ],
)
def test_errors_are_one_line(world: SimpleNamespace, args: tuple[object, ...], words: str) -> None:
    command, *options = args
    assert words in error_of(command, world.model, world.csv, *options)


def test_a_picture_is_of_one_row(world: SimpleNamespace) -> None:
    assert "give --row" in error_of("profile", world.model, world.csv, "--plot", "x.svg", code=2)
    assert "ends in" in error_of("profile", world.model, world.csv, "--row", 0, "--plot", "x.txt", code=2)
