"""What the program and its pages say about installing names packages that pip finds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from grace.errors import EXTRAS, pip_install

ROOT = Path(__file__).parents[2]
OWN = re.compile(r"grace-xai\[(.*)\]")


def declared() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def packages(extra: str) -> set[str]:
    """The packages of an extra in pyproject.toml, without versions and with those of the extras it refers to."""
    found: set[str] = set()
    for requirement in declared()[extra]:
        own = OWN.fullmatch(requirement)
        if own:
            found = found.union(*(packages(name) for name in own[1].split(",")))
        else:
            found.add(re.split(r"[<>=;!~ ]", requirement)[0])
    return found


def test_the_table_of_extras_is_that_of_the_project() -> None:
    assert {name: sorted(packages(name)) for name in declared() if name not in ("dev", "slow")} == {
        name: list(found) for name, found in EXTRAS.items()
    }


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_a_hint_names_packages_and_not_the_distribution(extra: str) -> None:
    assert pip_install(extra).startswith("pip install ")
    assert "grace" not in pip_install(extra)


def test_names_with_brackets_are_quoted_for_the_shell() -> None:
    assert pip_install("ray") == "pip install pyarrow 'ray[data]'"


def test_every_hint_in_the_program_comes_from_the_table() -> None:
    texts = {p: p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*") if p.suffix in (".py", ".html", ".js")}
    assert [p.name for p, text in texts.items() if re.search(r"pip install|grace-xai\[", text)] == []
    named = {name for text in texts.values() for name in re.findall(r"pip_install\(['\"](\w+)['\"]\)", text)}
    assert {"lime", "onnx", "parquet", "plot", "ray", "reproduce", "web"} <= named <= set(EXTRAS)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_no_page_has_pip_look_for_the_distribution(page: Path) -> None:
    assert not re.search(r"pip install [^\n#]*grace-xai", page.read_text(encoding="utf-8"))


def test_the_readme_lists_every_extra_with_what_it_brings() -> None:
    lines = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: tuple(brings.split(", ")) for name, brings in lines} == EXTRAS
