"""Both studies in a real browser, by keyboard and on a phone, and their analysis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grace.study import design
from grace.study.analysis import analyse
from grace.study.responses import responses_of
from server_process import serving
from studies import EVIL, explainer, people, written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


class Visit:
    """A participant's browser; whatever it complains about or fetches from elsewhere is kept."""

    def __init__(self, browser: Browser, address: str, **settings: object) -> None:
        self.address, self.complaints = address, list[str]()
        self.context: BrowserContext = browser.new_context(**settings)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", self._request)

    def _request(self, request: object) -> None:
        url = request.url  # type: ignore[attr-defined]
        if not url.startswith((self.address, "data:")):
            self.complaints.append(f"outside: {url}")

    def consent(self) -> None:
        self.page.goto(self.address)
        self.page.get_by_label("I am at least 18").check()
        self.page.get_by_role("button", name="Begin").click()
        self.page.get_by_role("heading", name="What the computer was told").wait_for()

    def send(self) -> None:
        self.page.get_by_role("button", name="Send my answer").click()

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []


def attend(page: Page, made: design.Study, item: int) -> None:
    page.get_by_role("radio", name=str(made.items[item].predicted), exact=True).check()


def test_ratings_to_the_end(browser: Browser, tmp_path: Path) -> None:
    made = written(tmp_path / "s", "rate", pictures="both", min_minutes=0)
    with serving("study", "serve", str(tmp_path / "s")) as (_, address):
        for number in range(4):
            phone = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "color_scheme": "dark"}
            visit = Visit(browser, address, **(phone if number % 2 else {"java_script_enabled": False}))
            visit.consent()
            page = visit.page
            page.wait_for_load_state()  # with its pictures
            for image in page.get_by_role("img").all():
                assert page.locator("img").count() == 1
                box = image.bounding_box()
                assert box is not None
                assert box["width"] > 100  # the picture is really drawn
            if number % 2:  # a page that fits a phone does not scroll sideways
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            visit.send()  # too early: the browser itself points at what is missing
            assert page.get_by_role("heading", name="What the computer was told").is_visible()
            good = "GRACE" if page.get_by_text("on average").count() == 0 else "LIME"
            value = 9 if good == "GRACE" else 3
            for group in ("How intuitive", "How easy"):
                page.get_by_role("radiogroup", name=group).get_by_role("radio", name=str(value), exact=True).check()
            attend(page, made, 0)
            visit.send()
            page.get_by_text("Your answer has been saved").wait_for()
            assert page.get_by_text(f"yours, called {good}").is_visible()
            page.go_back()
            page.get_by_text("Your answer has been saved").wait_for()
            page.reload()
            page.get_by_text("Your answer has been saved").wait_for()
            visit.close()
    report = analyse(responses_of(tmp_path / "s"))
    assert report.received == 4
    assert {m: g.mean for m, g in report.hypotheses[0].groups.items()} == {"grace": 9, "lime": 3}
    assert "too few" in report.hypotheses[0].verdict


@pytest.mark.slow
def test_adjusting_by_keyboard_to_the_end(browser: Browser, tmp_path: Path) -> None:
    made = written(tmp_path / "s", "adjust", min_minutes=0)
    row = dict(made.items[0].row)
    e = explainer().explain(people().drop(columns="verdict").head(20))
    answer = next(x for x in e if dict(x.row) == row)
    with serving("study", "serve", str(tmp_path / "s")) as (_, address):
        for good in (True, False):
            visit = Visit(browser, address)
            visit.consent()
            page = visit.page
            number = page.get_by_label(EVIL.replace("_", " "), exact=True)
            assert number.get_attribute("type") == "number"
            changed = {c.name: c.new for c in answer.changes} if good else {"age": row["age"] + 1}  # type: ignore[operator]
            for name, value in changed.items():
                control = page.get_by_label(name.replace("_", " "), exact=True)
                if name == "home":
                    control.select_option(label=str(value))
                else:
                    control.focus()
                    page.keyboard.press("Control+a")
                    page.keyboard.type(str(value))
            attend(page, made, 0)
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")  # the button comes right after the last question
            page.get_by_text("Your answer has been saved").wait_for()
            words = "you have changed its mind" if good else "it has not changed its mind"
            assert page.get_by_text(words).is_visible()
            visit.close()
    report = analyse(responses_of(tmp_path / "s"))
    assert [h.name for h in report.hypotheses] == ["H3"]
    assert sum(sum(v) for v in report.hypotheses[0].values.values()) == 1
