"""An environment of its own for a peer, made by `python -m venv` and pip with pinned versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from grace.errors import GraceError

STAMP = "grace-peer.json"
INSTALL_LIMIT = 900.0  # seconds
COMPILED = "numpy,pandas,scipy,scikit-learn,scikit-image,matplotlib"  # never built here: that takes an hour or fails


def environment(name: str, requirements: tuple[str, ...], root: Path, *, torch_too: bool = False) -> Path:
    """The Python of the environment `root/name`, made if it is not there or was made for other versions.

    The requirements are all that is installed: they name every package with its version. With `torch_too`
    the torch of this environment is seen from the new one, after whatever is installed there.
    """
    home = root / name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = {"requirements": list(requirements), "python": sys.version, "torch": torch.__file__ if torch_too else ""}
    if _stamp(home) == wanted and python.exists():
        return python.absolute()
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", f"--only-binary={COMPILED}"]
        _run([str(python), "-m", "pip", "install", *options, *requirements])
        if torch_too:
            place = subprocess.check_output(
                [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
            )
            (Path(place.strip()) / "torch-from-parent.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    except (OSError, subprocess.SubprocessError) as reason:
        raise GraceError(f"the environment {home} cannot be made: {reason}") from reason
    (home / STAMP).write_text(json.dumps(wanted), encoding="utf-8")
    return python.absolute()


def _stamp(home: Path) -> object:
    try:
        return json.loads((home / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT, env=clean())
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise GraceError(f"{' '.join(command[1:4])} failed: {lines[-1] if lines else done.returncode}")


def clean() -> dict[str, str]:
    """The variables of a child: no paths of this Python, one thread, no pictures."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**kept, **threads, "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"}
