"""One thread per worker, as the tests run side by side; and what several files need."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))


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
