"""One thread per worker, as the tests run side by side; and what several files need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from fastapi.testclient import TestClient
    from playwright.sync_api import Browser

    from grace.web.service import Served

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything reads Triton: its kernels then run without a GPU
settings.register_profile("shared", deadline=None)  # a slow moment of a shared machine is no defect
settings.load_profile("shared")
MANY = 1000  # tests, before which everything is compiled
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before a run of many tests, compile all that they need: each worker begins with other parts, and finds those of
    the others in the cache."""
    worker = getattr(session.config, "workerinput", {}).get("workerid", "gw0")
    if len(session.items) < MANY:
        return
    from grace.methods import compiled, trees
    from grace.proofs import compiled as proofs
    from grace.proofs.compiled import boxes

    parts = [*(partial(compiled.ready, part) for part in compiled.PARTS), proofs.ready, boxes.ready]
    parts += [trees.ready, trees.ready_steady]
    for ready in parts[:: 1 if int(worker[2:]) % 2 == 0 else -1]:
        ready()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no test in a real browser")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no browser at {CHROMIUM} (set CHROMIUM): no test in a real browser")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def evil() -> Served:
    from visitors import evil_model

    return evil_model()


@pytest.fixture(scope="module")
def cancer() -> Served:
    from visitors import cancer_model

    return cancer_model()


@pytest.fixture(scope="module")
def client(cancer: Served, evil: Served) -> TestClient:
    return client_of(cancer, evil)


@pytest.fixture(scope="module")
def alone(evil: Served) -> TestClient:
    return client_of(evil)


def client_of(*served: Served) -> TestClient:
    from fastapi.testclient import TestClient

    from grace.web.pages import create_app

    return TestClient(create_app(list(served)), raise_server_exceptions=False)
