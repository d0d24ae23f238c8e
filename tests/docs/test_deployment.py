"""The container file, the workflow and the citation name what there is: files, targets, options and versions."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import grace
from deployment import ROOT, parsed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, each on one line, without comments."""
    text = "\n".join(line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def of(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def test_what_the_container_copies_exists_and_is_not_ignored() -> None:
    copied = [part for rest in of("COPY") if not rest.startswith("--from") for part in shlex.split(rest)[:-1]]
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(let_in)
    assert all((ROOT / name).exists() for name in copied)
    needed = {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "src"}  # to build the wheel
    assert needed <= set(copied)


def test_the_container_runs_grace_serve_as_nobody_in_particular(tmp_path: Path) -> None:
    [entry], [default] = of("ENTRYPOINT"), of("CMD")
    assert json.loads(default) == ["/model"]
    asked = parsed([*json.loads(entry), str(tmp_path)]).params
    assert (asked["host"], asked["port"], asked["directories"]) == ("0.0.0.0", 8000, (str(tmp_path),))
    assert of("EXPOSE") == [str(asked["port"])]
    assert of("USER") == ["10001"]
    [check] = of("HEALTHCHECK")
    assert f"http://127.0.0.1:{asked['port']}/health" in check
    compile(json.loads(check.partition("CMD")[2])[2], "HEALTHCHECK", "exec")


def test_the_container_installs_the_pinned_torch_and_extras_that_exist() -> None:
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    [extras] = [rest.partition("=")[2] for rest in of("ARG") if rest.startswith("EXTRAS")]
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    installs = [rest for rest in of("RUN") if rest.startswith("pip install")]
    assert "https://download.pytorch.org/whl/cpu" in installs[0]
    assert "torch==" in installs[0]


@pytest.mark.skipif(find_spec("hatchling") is None, reason="building a wheel needs hatchling, of the extra dev")
def test_the_wheel_builds_and_holds_all_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    built = subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-2000:]
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = (p for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    assert {p.relative_to(ROOT / "src").as_posix() for p in tracked} <= names
    assert wheel.name.startswith(f"grace_xai-{grace.__version__}-py3")


def workflow() -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]


def test_the_workflow_runs_targets_that_exist_on_the_versions_that_are_supported() -> None:
    jobs = workflow()
    supported = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert jobs["test"]["strategy"]["matrix"]["python"] == supported
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    ran = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    made = [line.split()[1] for line in ran if line.startswith("make ")]
    assert made == ["test"]
    assert set(made) <= targets
    for line in ran:
        if line.startswith("grace "):
            parsed(shlex.split(line))
    steps = [step.get("with", {}) for job in jobs.values() for step in job["steps"]]
    cached = [step["cache-dependency-path"].split() for step in steps if "cache" in step]
    assert all((ROOT / name).exists() for names in cached for name in names)


def test_the_citation_is_of_this_version_and_of_the_paper() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)  # what the format requires
    assert str(cited["version"]) == grace.__version__
    assert cited["license"] == PROJECT["license"]
    paper = cited["preferred-citation"]
    assert paper["doi"] == "10.1145/3394486.3403066"
    assert [a["family-names"] for a in paper["authors"]] == ["Le", "Wang", "Lee"]
    assert paper["title"].replace("\n", " ") in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_example_on_the_page_about_mlflow_is_the_one_that_is_tested() -> None:
    blocks = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "mlflow.md").read_text(encoding="utf-8"), re.DOTALL)
    example = (ROOT / "examples" / "mlflow_model.py").read_text(encoding="utf-8")
    assert len(blocks) == 4
    assert [block for block in blocks if block not in example] == []
