"""The page about deploying describes the server that there is: its options, its health check and its limits."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

import grace
from deployment import ROOT, parsed
from grace.web import middleware, server
from grace.web.pages import create_app
from grace.web.service import Served
from kinds import NUMBERS, YES

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line, comments=True) for line in re.findall(r"^    (grace .*)$", PAGE, re.MULTILINE)]


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: " ".join(line)[:40])
def test_commands_of_the_page_parse(line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "served" / "credit").mkdir(parents=True)
    for name in ("loans.csv", "model.json"):
        (tmp_path / name).touch()
    parsed(line)


def test_the_container_is_given_options_that_the_server_has() -> None:
    [given] = re.findall(r"^      grace /credit (.*)$", PAGE, re.MULTILINE)
    asked = parsed(["grace", "serve", ".", *shlex.split(given)]).params
    assert (asked["allow_host"], asked["proxy"]) == (("explain.example.org",), ("172.17.0.1",))


def test_there_is_a_health_check() -> None:
    explainer = grace.Explainer(LogisticRegression().fit(NUMBERS, YES), NUMBERS)
    assert "/health" in {getattr(route, "path", None) for route in create_app([Served("credit", explainer)]).routes}


def test_the_limits_of_the_proxy_are_those_of_the_server() -> None:
    assert f"client_header_timeout {server.HEADER_SECONDS:.0f}s;" in PAGE
    assert f"client_body_timeout   {middleware.BODY_SECONDS:.0f}s;" in PAGE
    assert f"client_max_body_size  {middleware.MAX_BYTES >> 20}m;" in PAGE
