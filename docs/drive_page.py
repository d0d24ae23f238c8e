"""Drive `grace serve` in a real browser and keep pictures to look at:  python docs/drive_page.py [FOLDER]

A model of one's own (XGBoost, saved as model.json) with a table of one's own (CSV with a customer number, a missing
cell and a row that does not fit), and one that predicts a number; in English and German, on a desktop and on a phone.
Needs the extra `dev` and a Chromium (set CHROMIUM if it is not /usr/bin/chromium).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import Browser, Page, sync_playwright
from xgboost import XGBClassifier

import grace

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from server_process import serving

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
GERMAN = {
    "row": "den Kredit",
    "rows": "Kredite",
    "class_words": {"0": "zurückgezahlt", "1": "ausgefallen"},
    "features": {
        "income": {"phrase": "das Einkommen", "unit": "Euro", "unit_one": "Euro"},
        "amount": {"phrase": "der Betrag", "unit": "Euro", "unit_one": "Euro"},
        "years": {"phrase": "die Laufzeit", "unit": "Jahre", "unit_one": "Jahr", "more": "länger", "less": "kürzer"},
        "purpose": {"phrase": "der Zweck", "labels": {"car": "Auto", "home": "Haus", "travel": "Reise"}},
    },
}


def loans(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.integers(15, 90, n) * 1000,
            "amount": rng.integers(2, 60, n) * 500,
            "years": rng.integers(1, 11, n),
            "purpose": rng.choice(["car", "home", "travel"], n),
        }
    )
    burden = frame["amount"] / frame["years"] / frame["income"] + 0.05 * (frame["purpose"] == "travel")
    frame["outcome"] = (burden + rng.normal(0, 0.03, n) > 0.13).astype(int)
    frame["rate"] = (2 + 40 * burden + rng.normal(0, 0.3, n)).round(2)
    return frame


def own_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows as a bank has them."""
    table = frame.head(40).drop(columns=["outcome", "rate"]).astype(object)
    table.insert(0, "customer", [f"C-{1000 + i}" for i in range(len(table))])
    table.loc[2, "income"] = None
    table.loc[3, "years"] = "many"
    return table


def served(frame: pd.DataFrame, folder: Path) -> list[str]:
    """Arguments of `grace serve`: the folder that `grace save` makes for an XGBoost file and a table, and a network
    that predicts a number."""
    rows = frame.drop(columns="rate")
    trees = XGBClassifier(n_estimators=60, max_depth=3, enable_categorical=True, n_jobs=1)
    trees.fit(rows.drop(columns="outcome").astype({"purpose": "category"}), rows["outcome"])
    trees.save_model(folder / "model.json")
    rows.to_csv(folder / "loans.csv", index=False)
    (folder / "loans.json").write_text(worded(rows, "outcome").to_json(), encoding="utf-8")
    files = [str(folder / name) for name in ("loans.csv", "model.json", "loans.json", "loans")]
    options = ["--target", "outcome", "--model", files[1], "--schema", files[2], "-o", files[3], "--force"]
    subprocess.run([sys.executable, "-m", "grace.cli", "save", files[0], *options], check=True)
    numbers = frame.drop(columns="outcome")
    network = grace.training.fit(numbers, "rate", seed=0)
    grace.Explainer(network, numbers, schema=worded(numbers, "rate")).save(str(folder / "rates"))
    return [files[3], str(folder / "rates")]


def worded(rows: pd.DataFrame, target: str) -> grace.Schema:
    """The schema of the loans in words of both languages."""
    found = grace.Schema.infer(rows, target)
    words = {"0": "repaid", "1": "default"} if target == "outcome" else {}
    german = GERMAN if target == "outcome" else {k: v for k, v in GERMAN.items() if k != "class_words"}
    return replace(found, class_words=words).translate("de", german)


def visit(page: Page, address: str, query: str) -> None:
    page.goto(address + query)
    page.wait_for_load_state()
    if page.locator("#more").count():
        page.locator("#proof-head").wait_for(timeout=60_000)


def drive(browser: Browser, address: str, folder: Path) -> None:
    """Go through what a visitor does, and take a picture of each."""
    for screen, size in SCREENS.items():
        for code in ("en", "de"):
            page = browser.new_page(viewport=size, locale=code)  # type: ignore[arg-type]

            def keep(name: str, screen: str = screen, code: str = code, page: Page = page) -> None:
                wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                page.screenshot(path=folder / f"{name}-{screen}-{code}.png", full_page=True)
                print(f"{name}-{screen}-{code}", "" if wide else "IS WIDER THAN THE SCREEN")

            said = "" if code == "en" else "&language=de"
            visit(page, address, f"?model=loans&row=0{said}")
            keep("class")
            page.locator("a.button[data-move]").first.click()
            page.locator("#moved .flipped").wait_for()
            page.locator("details.own > summary").click()
            page.locator("#rest > summary").click()
            page.locator(".limits > summary").first.click()
            keep("tried")
            visit(page, address, f"?model=loans&row=2{said}")
            keep("missing")
            page.locator("main a.button").click()
            page.locator("#proof-head").wait_for(timeout=60_000)
            keep("filled")
            visit(page, address, f"?model=loans&row=3{said}")
            keep("misfit")
            visit(page, address, f"?model=loans&row=1&k=1&freeze=amount&freeze=years{said}")
            keep("miss")
            visit(page, address, f"?model=rates&row=0{said}")
            keep("number")
            page.locator("#aim").select_option("within")
            page.locator("#aim-number").fill("1")
            page.locator("#aim-upper").fill("4")
            page.locator("#aim-upper").press("Tab")
            page.wait_for_url("**against=within*")
            page.locator("#proof-head").wait_for(timeout=60_000)
            keep("within")
            visit(page, address, f"?model=loans&row=x&k=0{said}")
            keep("errors")
            page.close()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="page-"))
    folder.mkdir(parents=True, exist_ok=True)
    frame = loans()
    own_table(frame).to_csv(folder / "mine.csv", index=False)
    with (
        serving("serve", *served(frame, folder), "--rows", str(folder / "mine.csv")) as (_, address),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        drive(browser, address, folder)
        browser.close()
    print(f"pictures in {folder}")


if __name__ == "__main__":
    main()
