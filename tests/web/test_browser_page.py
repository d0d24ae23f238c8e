"""The page in a real browser: live, by keyboard, without scripts and on a phone."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import server_process
from studies import EVIL, explainer
from visitors import cancer_model

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no test in a real browser")
expect = api.expect
expect.set_options(timeout=10_000)


@contextmanager
def serving(*args: str) -> Iterator[str]:
    """A server of the page; stopped by Ctrl-C, which has to be clean."""
    with server_process.serving("serve", *args) as (server, address):
        yield address
        server.send_signal(signal.SIGINT)
        assert server.stderr is not None
        rest = server.stderr.read()
        assert server.wait(10) == 0
        assert rest == "Stopped.\n"


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    with serving("--demo") as address:
        yield address


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served") / "model"
    explainer().save(str(folder))
    with serving(str(folder)) as address:
        yield address


@contextmanager
def visit(browser: Browser, address: str, **settings: object) -> Iterator[Page]:
    """A browser that keeps what it complains about or fetches from elsewhere."""
    context = browser.new_context(**settings)  # type: ignore[arg-type]
    context.set_default_timeout(10_000)
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    page.on("request", lambda r: r.url.startswith((address, "data:")) or complaints.append(f"outside: {r.url}"))
    page.goto(address)
    yield page
    context.close()
    assert complaints == []


def test_move_a_slider_until_the_class_flips(browser: Browser, demo: str) -> None:
    with visit(browser, demo) as page:
        sentence = page.locator("#says")
        expect(sentence).to_contain_text("Had bare nuclei been 8 points lower and clump thickness 2 points lower")
        expect(sentence).to_contain_text("no single change could have done it")  # loaded afterwards
        assert page.get_by_role("heading", name="It could also have been otherwise").is_visible()
        status = page.locator("#moved")
        assert "The model says malignant" in status.inner_text()
        page.get_by_label("clump thickness", exact=True).fill("6")
        status.get_by_text("Still malignant").wait_for()
        slider = page.get_by_label("bare nuclei, slider")
        slider.focus()
        values = []
        for _ in range(9):
            page.keyboard.press("ArrowLeft")
            values.append(page.get_by_label("bare nuclei", exact=True).input_value())
        assert values == [str(v) for v in range(9, 0, -1)]
        status.get_by_text("Now the model says benign").wait_for()
        assert page.evaluate("document.activeElement.className") == "slide"
        page.wait_for_url("**/?row=0&now.clump_thickness=6&now.bare_nuclei=1")
        page.reload()
        assert "Now the model says benign" in status.inner_text()
        page.get_by_role("link", name="Put all 2 values back").click()
        status.get_by_text("The model says malignant").wait_for()
        page.wait_for_url("**/?row=0")
        page.get_by_role("link", name="Try it: move the row there").click()
        status.get_by_text("Now the model says benign").wait_for()
        page.get_by_role("button", name="Explain the row as moved").click()
        page.get_by_role("heading", name="Why benign rather than malignant?").wait_for()
        page.go_back()
        page.get_by_role("heading", name="Why malignant rather than benign?").wait_for()


def test_points_move_with_the_sliders_and_reasons_load_their_answers(browser: Browser, demo: str) -> None:
    with visit(browser, demo) as page:
        expect(page.locator("#alone-head")).to_have_text("What each feature does alone")
        expect(page.locator("#alone svg:visible")).to_have_count(1)
        curves = page.evaluate("JSON.parse(document.getElementById('points').dataset.points).features")
        card = page.locator(".card", has=page.get_by_label("bare nuclei, slider"))
        expect(card.locator(".points")).to_be_empty()
        expect(page.locator("#total")).to_be_hidden()
        curve = curves[card.get_attribute("data-key")]
        page.get_by_label("bare nuclei, slider").focus()
        for value in (9, 8, 7):
            page.keyboard.press("ArrowLeft")
            points = round(float(np.interp(value, curve["values"], curve["points"])))
            expect(card.locator(".points")).to_have_text(f"+{points} points")
        expect(page.locator("#total")).to_contain_text(f"Points together: +{points}; 100 reach benign")
        reason = page.locator(".reasons a").nth(1)
        moves = json.loads(reason.get_attribute("data-move") or "")
        reason.focus()
        page.keyboard.press("Enter")
        page.locator("#moved").get_by_text("Now the model says benign").wait_for()
        assert {key: page.locator(f"#{key}").input_value() for key in moves} == moves
        assert page.locator(".points:not(:empty)").count() == len(moves) == 2
        assert page.evaluate("document.activeElement.id") == "try-head"
        explainer, row = cancer_model().quick.explainer, cancer_model().example(0)
        card = explainer.profile(row, forecasts=True)[0].scorecard
        assert card is not None
        edit = card.row.copy()
        for key, cell in moves.items():
            edit[int(key[1:])] = float(cell)
        said = re.search(r"together: ([+\N{MINUS SIGN}]\d+);", page.locator("#total").inner_text())
        assert said is not None
        assert abs(int(said[1].replace("\N{MINUS SIGN}", "-")) - card.total(edit[None])[0]) <= 1
        page.get_by_label("keep bare nuclei as it is").check()  # another question: other points
        expect(page.locator("#alone")).to_contain_text("of the eight features that may change")
        page.get_by_label("Language").select_option("de")
        expect(page.locator("#alone-head")).to_have_text("Was jedes Merkmal allein bewirkt")
        expect(page.locator("#total")).to_contain_text("Punkte zusammen")


def test_freeze_language_and_the_way_back(browser: Browser, demo: str) -> None:
    with visit(browser, demo) as page:
        sentence = page.locator("#says")
        keep = page.get_by_label("keep bare nuclei as it is")
        keep.check()
        expect(sentence).not_to_contain_text("Had bare nuclei")
        assert sentence.inner_text().startswith("Had ")
        expect(page.locator("#spoken")).to_contain_text("Had ")  # read aloud
        assert page.get_by_label("bare nuclei", exact=True).input_value() == "10"
        assert keep.is_visible()  # a limited feature stays at the top, and the keyboard where it was
        assert page.evaluate("document.activeElement.name") == "freeze"
        expect(page.locator(".card", has=keep)).not_to_contain_text("would be")
        changed = page.locator("#first .card", has_text="would be")
        assert changed.count() >= 1
        page.get_by_label("Language").select_option("de")
        page.wait_for_url("**/?row=0&freeze=bare_nuclei&language=de")
        expect(sentence).to_contain_text("Wäre")
        assert page.evaluate("document.documentElement.lang") == "de"
        assert page.get_by_role("heading", name="Ausprobieren").is_visible()
        page.go_back()
        page.wait_for_url("**/?row=0&freeze=bare_nuclei")
        expect(sentence).to_contain_text("Had")
        assert page.get_by_label("keep bare nuclei as it is").is_checked()
        page.get_by_label("Most changes").fill("1")
        page.keyboard.press("Tab")
        page.get_by_role("heading", name="Why malignant?").wait_for()
        page.get_by_role("link", name=re.compile("Allow . changes")).click()
        page.get_by_role("heading", name="Why malignant rather than benign?").wait_for()
        with page.expect_download() as got:
            page.get_by_role("link", name="SVG").click()
        assert got.value.suggested_filename == "why.svg"


def test_by_keyboard_alone(browser: Browser, demo: str) -> None:
    """From the top of the page to another row, its answer, and a moved value, with keys only."""
    with visit(browser, demo) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        order = []
        for _ in range(16):
            page.keyboard.press("Tab")
            order.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
            if order[-1] == "row":
                break
        page.keyboard.press("Control+a")
        page.keyboard.type("1")
        page.keyboard.press("Enter")
        page.wait_for_url("**/?row=1")
        page.locator("#proof-head").wait_for()
        page.locator("#find").wait_for(state="hidden")
        page.locator("#rest > summary").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "find"
        page.keyboard.type("mitoses")
        assert page.locator("#others .card:visible").count() == 1
        page.keyboard.press("Tab")  # keep
        page.keyboard.press("Tab")  # slider
        page.keyboard.press("End")
        page.wait_for_url("**/?row=1&now.mitoses=10")
        assert page.locator("#others .card:visible").count() == 1  # stays where it is while it is moved
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"


def test_on_a_phone_and_in_the_dark(browser: Browser, demo: str, evil: str) -> None:
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "color_scheme": "dark"}
    for address in (demo, evil):
        with visit(browser, address, **phone) as page:
            for part in ("proof", "alone", "reasons", "because"):
                page.locator(f"#{part}-head").wait_for()
            for summary in page.locator("summary:visible").all():
                summary.click()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            small = page.evaluate(
                "[...document.querySelectorAll('button, select, input[type=number]')].filter(e => e.offsetParent "
                "&& e.getBoundingClientRect().height < 40).map(e => e.outerHTML)"
            )
            assert small == []
            colours = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
            assert colours == ["rgb(230, 237, 243)", "rgb(13, 17, 23)"]


def test_without_scripts(browser: Browser, demo: str) -> None:
    with visit(browser, demo, java_script_enabled=False) as page:
        page.get_by_label("bare nuclei", exact=True).fill("1")
        page.get_by_label("clump thickness", exact=True).fill("6")
        page.get_by_label("Language").select_option("de")
        page.get_by_role("button", name="Update").click()
        assert "Nun sagt das Modell gutartig" in page.locator("#moved").inner_text()
        assert page.locator("#says").inner_text().startswith("Wäre")
        page.get_by_role("link", name="Beweis und andere Antworten ansehen").click()
        assert "Bewiesen" in page.locator("#more").inner_text()
        assert page.get_by_role("heading", name="Was jedes Merkmal allein bewirkt").is_visible()
        assert page.locator(".reasons a").count() > 1
        page.get_by_role("button", name="Nächste Zeile").click()
        assert page.url.startswith(f"{demo}?row=1")


def test_a_row_of_ones_own_with_hostile_names(browser: Browser, evil: str, tmp_path: Path) -> None:
    file = tmp_path / "row.csv"
    file.write_text(f'"{EVIL}",age,home\n1.5,30,rented\n', encoding="utf-8")
    with visit(browser, evil) as page:
        page.get_by_text("Your own row").click()
        page.get_by_label("or choose a file").set_input_files(file)
        page.get_by_role("button", name="Explain it").click()
        page.get_by_text("A row of your own.").wait_for()
        assert page.get_by_label("age", exact=True).input_value() == "30"
        page.locator("#proof-head").wait_for()
        assert EVIL in page.locator("#answer").inner_text() + page.locator("#first").inner_text()
        page.get_by_text("Your own row", exact=True).click()
        page.get_by_label("Paste a row").fill('{"age": "old"}')


def test_a_cell_that_is_filled_in_is_said_until_it_is_given(browser: Browser, evil: str) -> None:
    with visit(browser, evil) as page:
        page.get_by_text("Your own row").click()
        page.get_by_label("Paste a row").fill(f'"{EVIL}",age,home\n1.5,,rented\n')
        page.get_by_label("fill in missing cells").check()
        page.get_by_role("button", name="Explain it").click()
        note = page.locator("#picture").get_by_text("no value was given for age, and")
        note.wait_for()
        page.wait_for_load_state()  # the scripts too
        number = page.get_by_label("age", exact=True)
        expect(page.locator(".card", has=number).locator(".is")).to_contain_text("filled in")
        page.get_by_label("Language").select_option("de")
        expect(page.locator("#picture")).to_contain_text("fehlte; 48 wurde eingesetzt")
        page.wait_for_load_state()
        if not number.is_visible():
            page.locator("#rest > summary").click()
        number.fill("41")
        page.get_by_role("button", name="Die geänderte Zeile erklären").click()
        page.wait_for_url(re.compile("is.age=41"))
        page.locator("#proof-head").wait_for()
        assert "fehlte" not in page.locator("#answer").inner_text()


def test_a_bad_row_is_said_beside_the_form(browser: Browser, demo: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(demo)
    page.get_by_text("Your own row").click()
    page.get_by_label("Paste a row").fill('{"mitoses": "many"}')
    page.get_by_role("button", name="Explain it").click()
    alert = page.get_by_role("alert").filter(has_text="clump_thickness")
    alert.wait_for()
    assert page.get_by_label("Paste a row").input_value() == '{"mitoses": "many"}'
    context.close()
