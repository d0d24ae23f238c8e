"""Two processes that need the same compiled part do not compile it at the same time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from grace.models.compile_lock import alone

WAITING = """
import sys
from grace.models.compile_lock import alone
print("begun", flush=True)
with alone(sys.argv[1]):
    print("inside", flush=True)
"""


def test_another_process_waits_until_the_part_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    part = "some part"
    with alone(part):
        other = subprocess.Popen([sys.executable, "-c", WAITING, part], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "begun\n"
        try:
            other.wait(0.5)
        except subprocess.TimeoutExpired:
            waited = True
        else:
            waited = False
    rest, _ = other.communicate(timeout=60)
    assert waited
    assert rest == "inside\n"


def test_different_parts_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with alone("some part"), alone("another part"):
        assert len(list(tmp_path.iterdir())) == 2
