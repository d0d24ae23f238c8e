"""The page about the architecture, the package's docstring and the contract of import-linter name what there is."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import grace
from grace.methods import METHODS
from grace.problem import METHOD_NAMES
from grace.problem.budget import COSTS

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = (ROOT / "docs" / "pictures" / "architecture.svg").read_text(encoding="utf-8")
SOURCE = Path(grace.__file__).parent
MODULES = [p for p in (*SOURCE.glob("*.py"), *SOURCE.glob("*/__init__.py")) if p != SOURCE / "__init__.py"]
ENTRIES = sorted(p.parent.name if p.stem == "__init__" else p.stem for p in MODULES)
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]


def modules() -> set[str]:
    entries = "|".join(ENTRIES)
    named = set(re.findall(rf"`((?:{entries})(?:\.[a-z_]+)*)`", PAGE))
    return named | set(re.findall(r">([a-z]+(?:\.[a-z_]+)*)<", PICTURE))


def test_there_are_at_most_sixteen_entries() -> None:
    assert len(ENTRIES) <= 16
    assert sorted(LAYERS) == ENTRIES


def test_the_docstring_is_the_list_of_layers() -> None:
    assert grace.__doc__ is not None
    assert re.findall(r"^([a-z]+)  +[A-Za-z]", grace.__doc__, re.MULTILINE) == LAYERS


@pytest.mark.parametrize("module", sorted(modules()))
def test_modules_on_the_page_exist(module: str) -> None:
    assert find_spec(f"grace.{module}") is not None


def test_the_page_names_modules() -> None:
    assert len(modules()) > 40


EARLIER = ("audit_record", "languages", "lime", "rules", "study.figure", "study.planning", "web.served")


@pytest.mark.parametrize("name", EARLIER)
def test_documented_modules_keep_their_earlier_names(name: str) -> None:
    module = import_module(f"grace.{name}")
    assert module is import_module(module.__name__)
    assert module.__name__ != f"grace.{name}"


def test_every_method_is_known_by_name_and_by_its_memory() -> None:
    assert tuple(METHODS) == METHOD_NAMES
    assert set(COSTS) == set(METHODS)


FOLDERS = [p.parent for p in SOURCE.rglob("__init__.py") if p.parent != SOURCE]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_docstring_of_a_folder_names_its_modules(folder: Path) -> None:
    documented = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"\w+", documented))
    there = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
    missing = {name for name in there if name not in named and not name.startswith("_")}
    languages = SOURCE / "text" / "languages"
    assert not missing or folder == languages or languages in folder.parents
