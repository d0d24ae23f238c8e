"""A small study with hostile names, and people who take part in it."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pandas as pd

import grace
from grace.study import making
from grace.study.design import Study

EVIL = "<script>alert('x')</script>"


def people(n: int = 200) -> pd.DataFrame:
    """A number with markup for a name, a whole number and a category with markup; the first decides most."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            EVIL: rng.uniform(0, 9, n).round(1),
            "age": rng.integers(18, 80, n),
            "home": rng.choice(["<b>owned</b>", "rented"], n),
        }
    )
    score = frame[EVIL] - 5 + (frame["home"] == "rented") + (frame["age"] - 50) / 40
    return frame.assign(verdict=np.where(score > 0, "<i>yes</i>", "no & never"))


@cache
def explainer() -> grace.Explainer:
    frame = people()
    model = grace.training.fit(frame, "verdict", hidden=(8,), learning_rate=0.03, max_epochs=60)
    schema = grace.Schema.infer(frame, "verdict", like=model.schema)
    return grace.Explainer(model, frame, schema=schema)


def study(task: str, **parts: object) -> Study:
    rows = people().drop(columns="verdict").head(20)
    return making.make(explainer(), rows, task=task, source=f"test {EVIL}", contact=EVIL, **parts)  # type: ignore[arg-type]


def written(directory: Path, task: str, **parts: object) -> Study:
    made = study(task, **parts)
    making.write(made, explainer(), directory)
    return made


def begin(client: httpx.Client) -> str:
    """Consent, as a browser would; the path of the participant's page."""
    page = client.get("/")
    assert page.status_code == 200, page.text
    token = re.search(r'name="token" value="([^"]+)"', page.text)
    assert token is not None
    answer = client.post("/start", data={"token": token[1], "agree": "yes"}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def form(html: str) -> dict[str, str]:
    """The fields of a page's form with the values they have, as a browser would send them."""
    fields = {}
    for tag in re.findall(r"<input [^>]*>", html):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        assert name is not None
        if 'type="number"' in tag or 'type="hidden"' in tag or " checked" in tag:
            fields[name[1]] = unescape(value[1]) if value else ""
    for name_, options in re.findall(r'<select id="[^"]*" name="([^"]*)".*?>(.*?)</select>', html, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)" selected', options)
        assert chosen is not None
        fields[name_] = chosen[1]
    return fields
